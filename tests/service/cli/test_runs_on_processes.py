"""Tests of plans on real processes at the command line, beside the same runs on the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tapestry.hardware.processes import ProcessError
from tapestry.service.cli.commands import measured
from tapestry.teg.document import save
from tests.service.cli.test_search_and_show import optimize
from tests.service.conftest import Run, complaint
from tests.teg.sharding.test_external_graphs import paper

EIGHT = ("--mesh", "dgx-h100", "--processes", "8")


@pytest.mark.slow
def test_a_lost_process_costs_what_a_lost_device_does(tapestry: Run, document: Path) -> None:
    pytest.importorskip("torch")
    frontier = optimize(tapestry, document, "--json").json["frontier"]
    plan = next(p["id"] for p in frontier if p["cost"]["traffic_bytes"] and p["devices"] == "all")
    answer = tapestry("simulate", plan, "--processes", 8, "--fail", "gpu:3@0.4", "--json")
    assert answer.code == 0, answer.err
    found, simulated = answer.json["processes"], answer.json["disturbed"]["recovery"]
    assert found["values"]["ok"] is True and found["differences"] == []
    times = ("at_s", "recovery_s")
    assert {k: v for k, v in found["recovery"].items() if k not in times} == {
        k: v for k, v in simulated.items() if k not in times
    }
    assert [d for d, s in enumerate(found["busy_s_by_device"]) if s is None] == [3]
    calm = tapestry("simulate", plan, "--processes", 8)
    assert calm.code == 0, calm.err
    assert "on 8 processes: " in calm.out and "blocks and bytes as simulated: yes" in calm.out
    assert "the processes' outputs equal the unsharded reference: yes" in calm.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--processes", "9"), "mesh 'dgx-h100' has 8; give --processes 8"),
        (("--processes", "8", "--dry"), "leave --dry out"),
        (("--processes", "8", "--steps", "2"), "leave --steps out"),
        (("--processes", "8", "--fail", "gpu:8@0.4"), "must be axis:coordinate@moment"),
        (("--processes", "8", "--slow", "gpu:2"), "must be axis:coordinate=factor"),
        (("--processes", "0"), "--processes"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_options_that_do_not_fit_are_refused(
    tapestry: Run, document: Path, options: tuple[str, ...], message: str
) -> None:
    pytest.importorskip("torch")
    answer = tapestry("simulate", document, "--mesh", "dgx-h100", *options)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err


def test_without_torch_the_message_says_what_to_install(
    tapestry: Run, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str, device: str) -> None:
        raise ValueError(f"{name} is not installed; run `pip install 'tapestry[{name}]'`")

    monkeypatch.setattr(measured, "arrays_named", absent)
    assert "pip install 'tapestry[torch]'" in complaint(tapestry("simulate", document, *EIGHT))


def test_a_program_that_is_sharded_already_is_refused(tapestry: Run, tmp_path: Path) -> None:
    save(paper(concat=False), tmp_path / "sharded.json")
    answer = tapestry("simulate", str(tmp_path / "sharded.json"), *EIGHT)
    assert "--processes: give the program that this one shards" in complaint(answer)


def test_after_a_process_that_ended_unexpectedly_nothing_is_written(
    tapestry: Run, document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")

    def fail(*_: Any, **__: Any) -> None:
        raise ProcessError("the process of device 2 (gpu:2), at slot 1, ended unexpectedly (SIGKILL)")

    monkeypatch.setattr(measured, "run_on_processes", fail)
    outputs = tmp_path / "outputs.npz"
    answer = tapestry("simulate", document, *EIGHT, "--outputs", outputs)
    assert "--processes: the process of device 2" in complaint(answer)
    assert not outputs.exists()
