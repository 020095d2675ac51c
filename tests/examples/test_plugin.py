"""Tests that the plug-in of `examples/plugin` works installed, a duplicate or broken one not; the service stays up."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tapestry.teg.document import save
from tests.examples.plugin_session import RULES, layer
from tests.service.processes import Service

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "examples" / "plugin"

# A plug-in in which everything is wrong that can be, beside the same names as the good one's.
BROKEN_ENTRY_POINTS = """
[tapestry.rules]
ends = broken_exit:RULES
twin = tapestry_swiglu.rules:RULES
example = broken_parts:RULES
[tapestry.operators]
infer = broken_parts:OPERATORS
[tapestry.devices]
figures = broken_devices
[tapestry.meshes]
missing = broken_nowhere
[tapestry.objectives]
forms = broken_objectives:OBJECTIVES
"""
BROKEN_PARTS = """
from dataclasses import replace
from tapestry_swiglu.operator import SWIGLU
from tapestry_swiglu.rules import EXPAND_SWIGLU

def infer(attributes, inputs):
    raise RuntimeError("no idea")

OPERATORS = (replace(SWIGLU, name="broken_infer", infer=infer),)
RULES = (replace(EXPAND_SWIGLU, name="broken_example", example=lambda size: None),)
"""

BROKEN_OBJECTIVES = """
from tapestry.costmodel.objective import Objective

OBJECTIVES = (
    Objective("time_s", "s", "ours", "time_ticks"),
    Objective("broken_expression", "", "names nothing", "time_ticks * speed"),
)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the plug-in installed from a copy of its source."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, folder / "source")
    install = ["install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--no-compile"]
    command = [sys.executable, "-m", "pip", *install, "--disable-pip-version-check"]
    command += ["--target", str(folder / "site"), str(folder / "source")]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a plug-in that breaks in several ways, installed as pip would."""
    folder = tmp_path_factory.mktemp("broken")
    info = folder / "broken_friend-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-friend\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text(BROKEN_ENTRY_POINTS)
    (folder / "broken_exit.py").write_text("import sys\nsys.exit('bye')\n")
    (folder / "broken_parts.py").write_text(BROKEN_PARTS)
    (folder / "broken_objectives.py").write_text(BROKEN_OBJECTIVES)
    devices = folder / "broken_devices"
    devices.mkdir()
    (devices / "__init__.py").write_text("")
    (devices / "half.toml").write_text('name = "half"\n')
    return folder


def environment(*folders: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*folders, ROOT)))}


def tapestry(*arguments: str, folders: tuple[Path, ...]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tapestry.service.cli", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment(*folders), capture_output=True, text=True, timeout=600
    )


def listed(answer: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Index the plug-ins of a JSON answer by distribution, group and entry point."""
    found = json.loads(answer.stdout)["plugins"]
    return {f"{p['distribution']} {p['group'].removeprefix('tapestry.')} {p['name']}": p for p in found}


@pytest.mark.slow
def test_an_installed_plug_in_adds_what_it_says_and_keeps_every_promise(site: Path) -> None:
    answer = tapestry("plugins", "--check", "--json", folders=(site,))

    assert (answer.returncode, answer.stderr) == (0, "")
    found = listed(answer)
    assert {name: p["members"] for name, p in found.items()} == {
        "tapestry-swiglu operators swiglu": ["swiglu"],
        "tapestry-swiglu rules swiglu": ["find_swiglu", "expand_swiglu"],
        "tapestry-swiglu devices swiglu": ["mi325x"],
        "tapestry-swiglu meshes swiglu": ["mi325x-platform"],
        "tapestry-swiglu objectives swiglu": ["energy_delay_js"],
    }
    assert not any(p["faults"] for p in found.values())
    assert {(p["version"], p["group"].partition(".")[0]) for p in found.values()} == {("0.1.0", "tapestry")}


@pytest.mark.slow
def test_a_search_takes_the_plug_ins_rule_and_its_plan_executes(site: Path) -> None:
    script = ROOT / "tests" / "examples" / "plugin_session.py"
    answer = subprocess.run(
        [sys.executable, str(script)], env=environment(site), capture_output=True, text=True, timeout=600
    )

    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert report["devices"] == 8
    assert report["applied"][1] >= 1
    assert report["operators"] and all(
        found == ["contract", "sink", "source", "swiglu"] for found in report["operators"]
    )
    assert not any(report["issues"])
    assert max(report["errors"]) < 1e-5
    assert report["versions"] == {"plugin:tapestry-swiglu": "0.1.0"}


@pytest.mark.slow
def test_the_plug_ins_own_tests_pass_where_it_is_installed(site: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    answer = subprocess.run(
        [*command, "--rootdir", str(site), str(site.parent / "source" / "tests")],
        env=environment(site) | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert answer.returncode == 0, answer.stdout
    assert "4 passed" in answer.stdout


@pytest.mark.slow
def test_a_broken_plug_in_and_a_twin_are_reported_by_name_and_nothing_else_suffers(
    site: Path, broken: Path
) -> None:
    answer = tapestry("plugins", "--json", folders=(site, broken))

    assert answer.returncode == 0, answer.stderr
    found = listed(answer)
    message = {name: [f"{f['member']}: {f['message']}" for f in p["faults"]] for name, p in found.items()}
    assert message["broken-friend rules ends"] == [": it tried to end the process (exit 'bye')"]
    assert message["broken-friend operators infer"] == [
        "broken_infer: infer fails on examples[0]: RuntimeError: no idea"
    ]
    assert message["broken-friend rules example"][0].startswith("broken_example: its example fails: ")
    (half,) = message["broken-friend devices figures"]
    assert half.startswith(
        "half.toml: CatalogError: half.toml: vendor: missing; expected a text; half.toml: memory"
    )
    assert message["broken-friend objectives forms"] == [
        "broken_expression: its expression names 'speed', which is not known",
        "time_s: an objective 'time_s' comes with Tapestry, which keeps the name",
    ]
    assert message["broken-friend meshes missing"] == [
        ": ModuleNotFoundError: No module named 'broken_nowhere'"
    ]
    both = (
        "by broken-friend 0.3 (tapestry_swiglu.rules:RULES) and tapestry-swiglu 0.1.0 (tapestry_swiglu.rules"
    )
    for name in ("broken-friend rules twin", "tapestry-swiglu rules swiglu"):
        assert [both in fault for fault in message[name]] == [True, True], name
    assert found["tapestry-swiglu operators swiglu"]["members"] == ["swiglu"]
    checked = tapestry("plugins", "--check", folders=(site, broken))
    assert checked.returncode == 1
    assert "hint: uninstall all but one of them, or rename it" in checked.stdout


@pytest.mark.slow
def test_the_service_stands_and_reports_what_is_broken(
    site: Path, broken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", environment(site, broken)["PYTHONPATH"])

    with Service(f"sqlite:///{tmp_path / 'plugins.db'}", tmp_path / "log", "--no-worker") as service:
        assert service.get("/readyz")["status"] == "ok"
        faults = {p["name"]: len(p["faults"]) for p in service.get("/v1/plugins")["items"] if p["faults"]}
        devices = {device["name"] for device in service.get("/v1/devices")["items"]}
        request = {"graph_id": "0" * 32, "mesh": "mi325x-platform", "rules": ["find_swiglu", "fuse_cells"]}
        refused = service.http.post("/v1/runs", json=request)
        lines = [json.loads(line) for line in service.log.splitlines() if line.startswith("{")]

    assert faults == {
        "infer": 1,
        "ends": 1,
        "example": 1,
        "twin": 2,
        "swiglu": 2,
        "figures": 1,
        "missing": 1,
        "forms": 2,
    }
    assert "mi325x" in devices and "half" not in devices
    assert refused.status_code == 422
    (fault,) = [e for e in refused.json()["errors"] if e["pointer"] == "/rules/0"]
    assert "the name 'find_swiglu' is offered more than once" in fault["detail"]
    reported = [line for line in lines if line["logger"] == "tapestry.plugins"]
    detailed = [line["message"] for line in reported if line["level"] == "info"]
    assert len(detailed) == len(faults)
    assert all(
        re.match(r"plug-in (broken-friend 0\.3|tapestry-swiglu 0\.1\.0), tapestry\.", w) for w in detailed
    )
    warned = " ".join(line["message"] for line in reported if line["level"] == "warning")
    assert warned.count("broken-friend 0.3") == warned.count("tapestry-swiglu 0.1.0") == 1


@pytest.mark.slow
def test_what_a_plug_in_had_a_part_in_is_shown_without_it_and_refused_by_name(
    site: Path, tmp_path: Path
) -> None:
    program, home = tmp_path / "layer.json", ("--database-url", f"sqlite:///{tmp_path / 'runs.db'}")
    save(layer(), program)
    limits = ("--objectives", "time_s,peak_memory_bytes", "--evaluations", "20000", "--islands", "1")
    requested = ("optimize", str(program), "--mesh", "mi325x-platform", *limits, "--rules", ",".join(RULES))
    made = tapestry(*requested, "--quiet", "--verify", "none", "--json", *home, folders=(site,))
    assert made.returncode == 0, made.stderr
    run = json.loads(made.stdout)
    (plan, *_) = [p["id"] for p in run["frontier"] if "find_swiglu" in {m["rule"] for m in p["moves"]}]

    reported = tapestry("show", run["run"], *home, folders=())
    shown = tapestry("show", f"{run['run']}/{plan}", "--json", *home, folders=())
    executed = tapestry("simulate", "--plan", f"{run['run']}/{plan}", *home, folders=())
    again = tapestry(*requested, *home, folders=())
    elsewhere = tapestry(*requested[:3], "dgx-h100", *requested[4:], *home, folders=())

    assert "plug-ins: tapestry-swiglu 0.1.0" in reported.stdout.splitlines()
    assert "find_swiglu" in {move["rule"] for move in json.loads(shown.stdout)["moves"]}
    assert (executed.returncode, again.returncode, elsewhere.returncode) == (2, 2, 2)
    assert "the stored plan cannot be made again here: find_swiglu at " in executed.stderr
    assert "there is no rule 'find_swiglu'; `tapestry plugins` lists the plug-ins" in executed.stderr
    assert "there is no mesh 'mi325x-platform'" in again.stderr
    assert "there is no rule 'find_swiglu'; see `tapestry rules`, and `tapestry plugins`" in elsewhere.stderr


def test_the_example_imports_only_what_its_page_says_is_public() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    public = set(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE))
    sources = [*PLUGIN.rglob("*.py")]
    imported = {
        node.module
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    ours = {name for name in imported if name.partition(".")[0] == "tapestry"}
    assert ours and ours <= public
