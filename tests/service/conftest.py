"""Fixtures that run the command line in this process: arguments in; exit code, standard output and error out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tapestry.service.cli import main
from tapestry.teg.document import save
from tests.service.programs import two_layers


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Answer]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder of its own for each test."""
    folder = tmp_path / "home"
    monkeypatch.setenv("TAPESTRY_HOME", str(folder))
    monkeypatch.delenv("TAPESTRY_DATABASE_URL", raising=False)
    monkeypatch.delenv("TAPESTRY_TRACEBACK", raising=False)
    return folder


@pytest.fixture
def tapestry(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*argv: object) -> Answer:
        code = main([str(argument) for argument in argv])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """Save a small program as a TEG document and return its path."""
    path = tmp_path / "two_layers.json"
    save(two_layers(), path)
    return path


def complaint(answer: Answer, code: int = 2) -> str:
    """Return the one line that a failed command prints; check that it prints nothing else."""
    assert (answer.code, answer.out) == (code, "")
    lines = answer.err.splitlines()
    assert len(lines) == 1, answer.err
    assert lines[0].startswith("tapestry: ")
    assert "Traceback" not in lines[0]
    return lines[0].removeprefix("tapestry: ")
