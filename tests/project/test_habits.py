"""Tests of conventions that can be read off the text, and of a command line that starts at once."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.project.source import ROOT, modules

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
HEAVY = ("numba", "sqlalchemy", "onnx", "scipy", "deap", "moocore", "networkx", "fastapi", "torch", "jax")
# DEAP's operators draw from Python's `random`: it is seeded from the search's generator around their calls.
SEEDS_PYTHONS_RANDOM = {"tapestry.optimizer.placement.toolbox"}
GLOBAL_RANDOMNESS = {
    "seed",
    "rand",
    "randn",
    "randint",
    "random",
    "choice",
    "shuffle",
    "permutation",
    "normal",
}


def test_nothing_is_left_unfinished() -> None:
    wrong = [
        f"{module.relative_path}:{number}: {line.strip()}"
        for module in modules()
        for number, line in enumerate(module.text.splitlines(), start=1)
        if UNFINISHED.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_randomness_is_an_argument() -> None:
    wrong = [
        f"{module.relative_path}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports
        if found.target.partition(".")[0] == "random" and module.name not in SEEDS_PYTHONS_RANDOM
    ]
    wrong += [
        f"{module.relative_path}:{line} calls {name}"
        for module in modules()
        for name, line in module.contents.attributes
        if name.startswith(("np.random.", "numpy.random.")) and name.rpartition(".")[2] in GLOBAL_RANDOMNESS
    ]
    assert not wrong, "pass a numpy.random.Generator:\n" + "\n".join(wrong)


def test_every_folder_of_source_is_a_package() -> None:
    folders = {module.path.parent for module in modules()}
    missing = [
        folder.relative_to(ROOT).as_posix() for folder in folders if not (folder / "__init__.py").exists()
    ]
    assert not missing, f"without __init__.py: {sorted(missing)}"


def test_every_folder_of_tests_is_a_package() -> None:
    """Check for `__init__.py`: without it, test files of one name would hide each other."""
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [
        folder.relative_to(ROOT).as_posix() for folder in folders if not (folder / "__init__.py").exists()
    ] == []


def test_the_command_line_starts_without_the_heavy_libraries(root: Path) -> None:
    program = "import json, sys, tapestry.service.cli; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(json.loads(answer.stdout))
    assert not loaded.intersection(HEAVY)
