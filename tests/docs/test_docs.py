"""Tests that the documentation stays true: its Python runs, its device files load, its links and make targets exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tapestry.hardware import device_from_dict, mesh_from_dict

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TUTORIALS = ROOT / "docs" / "tutorials"  # followed line by line by `test_tutorials.py`
DOCUMENTS = sorted([*ROOT.glob("docs/**/*.md"), README, ROOT / "CONTRIBUTING.md"])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^ {8}.*$|`[^`\n]+`", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
INLINE_TARGET = re.compile(r"`make ([a-z-]+)`")
SHELL_TARGET = re.compile(r"^make ([a-z-]+)", re.MULTILINE)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# Pages whose Python searches for seconds.
SEARCHING = ("builder.md", "notebooks.md")

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)


def blocks(document: Path, language: str) -> list[str]:
    return [text for name, text in FENCE.findall(document.read_text()) if name == language]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(d, marks=[pytest.mark.slow] if d.name in SEARCHING else [])
        for d in DOCUMENTS
        if d != README and d.parent != TUTORIALS
    ],
    ids=name_of,
)
def test_python_blocks_run_in_order(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "\n".join(blocks(document, "python"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    exec(compile(source, str(document), "exec"), {"__name__": document.stem})


@pytest.mark.slow
def test_the_readmes_blocks_run_in_order_as_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("\n".join(blocks(README, "python")))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    answer = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    assert lines and all(len(line.split()) == 3 for line in lines)


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if d.parent != TUTORIALS], ids=name_of)
def test_device_and_mesh_files_load(document: Path) -> None:
    for text in blocks(document, "toml"):
        content = tomllib.loads(text)
        (mesh_from_dict if {"axes", "nodes"} & content.keys() else device_from_dict)(content)


@documents
def test_links_lead_somewhere(document: Path) -> None:
    links = [link for link in LINK.findall(CODE.sub("", document.read_text())) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


@documents
def test_make_targets_exist(document: Path) -> None:
    named = set(INLINE_TARGET.findall(document.read_text()))
    named |= set(SHELL_TARGET.findall("\n".join(blocks(document, "sh"))))
    assert named <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_outside(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    loads = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)=["'](https?:)?//""")
    assert [page.name for page in tmp_path.glob("*.html") if loads.search(page.read_text())] == []
