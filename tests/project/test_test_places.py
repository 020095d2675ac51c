"""Tests that a test lies where its module lies: `tests/<package>/<path>/test_<module>.py`.

The folders of `ABOUT_THE_WHOLE` are about more than one module. A test about a subject that is no module, such as
`test_worked_cases.py`, lies in the folder of the package that it tests.
"""

from __future__ import annotations

from pathlib import Path

from tests.project.source import ROOT

ABOUT_THE_WHOLE = {"contracts", "docs", "end_to_end", "project", "soak", "vectors"}
TESTS = [
    path.relative_to(ROOT / "tests")
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
    if path.relative_to(ROOT / "tests").parts[0] not in ABOUT_THE_WHOLE
]


def subject_of(test: Path) -> str:
    return test.stem.removeprefix("test_")


def subpackages(folder: Path) -> set[str]:
    """Return the names of the packages directly in a folder of the program."""
    return {path.parent.name for path in folder.glob("*/__init__.py")}


def modules_named(folder: Path, name: str) -> list[Path]:
    """Return the modules of this name in the folders below a folder of the program."""
    return [path for path in folder.rglob(f"{name}.py") if path.parent != folder]


def test_tests_are_found() -> None:
    assert len(TESTS) > 200 and Path("optimizer/run/test_plan.py") in TESTS


def test_every_folder_of_tests_mirrors_a_folder_of_the_program() -> None:
    assert sorted({str(t.parent) for t in TESTS if not (ROOT / t.parent).is_dir()}) == []


def test_a_test_of_a_module_lies_in_the_folder_of_its_module() -> None:
    wrong = {
        str(test): [str(path.relative_to(ROOT)) for path in found]
        for test in TESTS
        if not (ROOT / test.parent / f"{subject_of(test)}.py").exists()
        and (found := modules_named(ROOT / test.parent, subject_of(test)))
    }
    assert wrong == {}


def test_no_test_names_a_subpackage_instead_of_being_in_its_folder() -> None:
    wrong = [
        str(test)
        for test in TESTS
        if any(subject_of(test).startswith(f"{name}_") for name in subpackages(ROOT / test.parent))
    ]
    assert wrong == []
