"""Tests of the command line as a whole: help, catalogs, documentation, and exit."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tapestry.costmodel.objectives import NAMES, OBJECTIVES
from tapestry.hardware import device_from_dict, device_names, load_device, mesh_from_dict, mesh_names
from tapestry.rewrites import PLACEMENT, RULES
from tapestry.service.cli import entry
from tapestry.service.cli.entry import MODULES
from tapestry.service.cli.parser import build_parser
from tests.service.conftest import Run, complaint

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return every command, those of two words under both."""
    return {
        f"{name} {action}".strip(): parser
        for name, command in choices(build_parser()).items()
        for action, parser in (choices(command) or {"": command}).items()
    }


def choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def documented_options(command: str) -> set[str]:
    section = re.search(rf"^## tapestry {command}$(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    assert section, f"docs/cli.md has no section on {command}"
    first_cells = re.findall(r"^\| ((?:[^|\\]|\\.)+) \|", section.group(1), re.M)
    names = [name for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)]
    return {name.split()[0].replace("\\|", "|") for name in names} - {
        "auto",
        "dry",
        "execute",
        "none",
        "--verify`",
    }


def test_every_command_of_the_parser_has_a_module() -> None:
    assert {name.partition(" ")[0] for name in commands()} == set(MODULES)


@pytest.mark.parametrize("command", commands())
def test_the_page_names_exactly_the_options(command: str) -> None:
    own: set[str] = set()
    for action in commands()[command]._actions:
        if "--help" not in action.option_strings and action.help != argparse.SUPPRESS:
            own |= set(action.option_strings) or {str(action.metavar)}
    assert documented_options(command) == own


@pytest.mark.parametrize("command", commands())
def test_help(tapestry: Run, command: str) -> None:
    answer = tapestry(*command.split(), "--help")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"usage: tapestry {command}")


def test_help_lists_the_commands(tapestry: Run) -> None:
    answer = tapestry("--help")
    assert answer.code == 0
    assert all(re.search(rf"^ +{command}\b", answer.out, re.MULTILINE) for command in MODULES)


@pytest.mark.parametrize("argv", [(), ("optimize",), ("devices", "--jsno"), ("optimize", "x.onnx")])
def test_a_wrong_command_is_one_line(tapestry: Run, argv: tuple[str, ...]) -> None:
    assert "--help" in complaint(tapestry(*argv))


@pytest.mark.parametrize(
    ("argv", "reported"),
    [
        (["optimze"], "there is no command 'optimze'; did you mean optimize? See tapestry --help"),
        (["mesh", "chekc"], "there is no action 'chekc'; did you mean check? See tapestry mesh --help"),
        (["rules", "--jsno"], "there is no option --jsno; did you mean --json? See tapestry rules --help"),
        (["rules", "all"], "there is an argument too many: 'all'; see tapestry rules --help"),
        (
            ["optimize", "x", "--mesh", "y", "--devices", "al"],
            "argument --devices: expected one of any, all, not 'al'; did you mean all?",
        ),
        (["completion", "fsh"], "there is no shell 'fsh'; did you mean fish or zsh? See"),
        (["frobnicate"], "there is no command 'frobnicate'; known are demo, optimize, tune, "),
    ],
)
def test_a_misspelled_word_is_reported_with_near_ones(tapestry: Run, argv: list[str], reported: str) -> None:
    assert complaint(tapestry(*argv)).startswith(reported)


def test_all_faults_of_a_command_come_at_once(tapestry: Run) -> None:
    words = "optimize absent.onnx --mesh dgx-h10 --seconds -1 --objectives tme_s --rules nope --devices al --budgt 3"
    message = complaint(tapestry(*words.split()))
    for fault in (
        "there is no file 'absent.onnx'",
        "there is no mesh 'dgx-h10'; did you mean dgx-h100",
        "argument --seconds: expected a number above 0, not -1",
        "argument --objectives: there is no objective 'tme_s'; did you mean time_s?",
        "argument --rules: there is no rule 'nope'",
        "argument --devices: expected one of any, all, not 'al'; did you mean all?",
        "there is no option --budgt",
    ):
        assert message.count(fault) == 1
    assert "?;" not in message and "'3'" not in message


def test_a_missing_argument_is_reported_with_the_other_faults(tapestry: Run) -> None:
    message = complaint(tapestry("optimize", "--objectives", "tme_s", "--seed", "x"))
    assert "arguments are required: GRAPH, --mesh" in message
    assert (
        "argument --seed: expected a whole number" in message and "there is no objective 'tme_s'" in message
    )
    assert "there is no mesh" not in message


def test_the_version_is_an_option_too(tapestry: Run) -> None:
    answer = tapestry("--version")
    assert (answer.code, answer.out) == (0, f"tapestry {tapestry('version', '--json').json['tapestry']}\n")


def test_devices_can_be_read_back(tapestry: Run) -> None:
    listed = tapestry("devices", "--json").json["devices"]
    assert [device_from_dict(device) for device in listed] == [load_device(name) for name in device_names()]
    shown = tapestry("devices").out
    assert all(name in shown for name in device_names())


def test_meshes_can_be_read_back(tapestry: Run) -> None:
    listed = tapestry("meshes", "--json").json["meshes"]
    assert [mesh_from_dict(mesh).name for mesh in listed] == list(mesh_names())
    shown = tapestry("meshes").out
    assert all(name in shown for name in mesh_names())
    assert "Any number N of nodes" in shown


def test_rules(tapestry: Run) -> None:
    listed = {rule["name"] for rule in tapestry("rules", "--json").json["rules"]}
    assert {rule.name for rule in (*RULES, *PLACEMENT)} <= listed
    shown = tapestry("rules").out
    assert all(name in shown for name in listed)


def test_objectives(tapestry: Run) -> None:
    listed = tapestry("objectives", "--json").json["objectives"]
    assert [o["name"] for o in listed] == list(NAMES)
    assert [o["expression"] for o in listed] == [o.expression for o in OBJECTIVES]
    shown = tapestry("objectives").out
    assert all(name in shown for name in NAMES)


def test_version(tapestry: Run) -> None:
    assert {"python", "tapestry", "numpy"} <= set(tapestry("version", "--json").json)
    assert "tapestry" in tapestry("version").out


def test_a_fault_of_ours_is_one_line_too(tapestry: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(entry.MODULES, "version", "tapestry.service.cli.commands.nonesuch")
    message = complaint(tapestry("version"), code=70)
    assert "please report" in message and "TAPESTRY_TRACEBACK=1" in message
    monkeypatch.setenv("TAPESTRY_TRACEBACK", "1")
    with pytest.raises(ModuleNotFoundError):
        tapestry("version")


def test_a_reader_that_leaves_is_no_fault(home: Path) -> None:
    command = f"{sys.executable} -m tapestry.service.cli rules --json | head -c 1"
    answer = subprocess.run(command, shell=True, cwd=PAGE.parents[1], capture_output=True, text=True)
    assert (answer.stdout, answer.stderr) == ("{", "")


@pytest.mark.parametrize("command", ["objectives", "rules"])
def test_no_command_is_loaded_before_it_is_chosen(command: str) -> None:
    program = (
        f"import sys, tapestry.service.cli; tapestry.service.cli.main([{command!r}]); "
        "print(sorted({'sqlalchemy', 'rich', 'onnx', 'fastapi'} & set(sys.modules)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=PAGE.parents[1], capture_output=True, text=True
    )
    assert answer.stdout.splitlines()[-1] == "[]", answer.stderr


def test_programs_of_pytorch_are_read_by_their_ending(tapestry: Run) -> None:
    path = PAGE.parents[1] / "tests" / "data" / "graphs" / "pt2json" / "mlp_784_4x4096_10_b1024.json.gz"
    reported = tapestry("import", path, "--json").json
    assert reported["name"] == "mlp_784_4x4096_10_b1024"
    assert [s["role"] for s in reported["sources"]] == ["parameter"] * 10 + ["activation"]


def test_the_time_of_a_command_begins_with_its_process() -> None:
    code = "import time; time.sleep(0.3); from tapestry.service.cli.entry import seconds_since_start as s; print(s())"
    began_s = time.perf_counter()
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 0.3 <= float(printed) <= time.perf_counter() - began_s + 0.02
