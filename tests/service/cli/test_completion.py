"""Tests of completion: the scripts, run by the shells themselves where they are installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tapestry.hardware import mesh_names
from tapestry.service.cli.parser import COMMANDS
from tests.service.conftest import Run

CASES = [
    (["opti"], ["optimize"]),
    ([""], sorted(command.name for command in COMMANDS)),
    (["mesh", ""], ["check", "new", "schema", "show"]),
    (["mesh", "new", "--fro"], ["--from"]),
    (["optimize", "model.onnx", "--mesh", "dgx"], ["dgx-a100", "dgx-b200", "dgx-h100", "dgx-h200"]),
    (["optimize", "--mesh", ""], sorted(mesh_names())),
    (["optimize", "--verify", "e"], ["execute"]),
    (["completion", "fi"], ["fish"]),
]


def bash(script: Path, words: list[str]) -> list[str]:
    line = " ".join(f"'{word}'" for word in ["tapestry", *words])
    offered = 'printf "%s\\n" "${COMPREPLY[@]}"'
    return out(
        "bash", "-c", f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _tapestry; {offered}"
    ).splitlines()


def fish(script: Path, words: list[str]) -> list[str]:
    lines = out(
        "fish", "-c", f"source {script}; complete --do-complete 'tapestry {' '.join(words)}'"
    ).splitlines()
    return [line.partition("\t")[0] for line in lines]


def out(*command: str) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stderr == ""
    return answer.stdout


@pytest.mark.parametrize("shell", [bash, fish])
@pytest.mark.parametrize(("words", "expected"), CASES)
def test_a_shell_completes_what_fits(
    tapestry: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shell: object,
    words: list[str],
    expected: list[str],
) -> None:
    name = shell.__name__  # type: ignore[attr-defined]
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")  # shells offer files too
    script = tmp_path / "script"
    script.write_text(tapestry("completion", name).out)
    offered = shell(script, words)  # type: ignore[operator]
    assert (
        sorted(found for found in offered if found.startswith("-") == words[-1].startswith("-")) == expected
    )


def test_zsh_reads_its_script(tapestry: Run, tmp_path: Path) -> None:
    script = tmp_path / "_tapestry"
    script.write_text(tapestry("completion", "zsh").out)
    assert script.read_text().startswith("#compdef tapestry\n")
    assert "'--mesh|" not in script.read_text()
    assert f"'optimize|--mesh') offered=('{mesh_names()[0]}' '{mesh_names()[1]}' " in script.read_text()
    if shutil.which("zsh"):
        assert out("zsh", "-n", str(script)) == ""
        assert out(
            "zsh", "-fc", f"autoload -U compinit; compinit -u -D; source {script}; print $_comps[tapestry]"
        ) == ("_tapestry\n")
