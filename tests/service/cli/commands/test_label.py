"""Tests of `tapestry label` and `tapestry runs`: runs get tags and notes, and are found by them."""

from __future__ import annotations

from pathlib import Path

from tapestry.service.store import Store
from tests.service.conftest import Run, complaint
from tests.service.programs import finished_run, two_layers


def test_runs_are_labeled_found_and_sorted(tapestry: Run, home: Path) -> None:
    store = Store(f"sqlite:///{home / 'tapestry.db'}")
    runs = [store.runs.save_finished(finished_run(two_layers(name))) for name in ("b", "a")]
    labeled = tapestry("label", *runs, "--tag", "x y", "--tag", "z", "--notes", "as before", "--json").json
    assert labeled["runs"] == [{"run": run, "tags": ["x y", "z"], "notes": "as before"} for run in runs]
    assert tapestry("label", runs[0], "--untag", "z", "--notes", "").out == f"{runs[0]}: x y\n"
    assert [line.action for line in store.audit.page()] == ["label run"] * 3
    found = tapestry("runs", "--json", "--sort", "program").json["runs"]
    assert [(run["run"], run["tags"], run["notes"]) for run in found] == [
        (runs[1], ["x y", "z"], "as before"),
        (runs[0], ["x y"], ""),
    ]
    assert found[0]["best"] == {"time_s": 1e-3, "peak_memory_bytes": 2**19}
    assert runs[1] in tapestry("runs", "BEFORE").out
    assert tapestry("runs", "--tag", "z", "--sort=-time").out.count("dgx-h100") == 1
    assert tapestry("runs", "nothing").out == "there is no such run\n"
    store.close()


def test_labels_that_cannot_be_are_refused(tapestry: Run, home: Path) -> None:
    store = Store(f"sqlite:///{home / 'tapestry.db'}")
    run = store.runs.save_finished(finished_run(two_layers()))
    assert "say what to change" in complaint(tapestry("label", run))
    assert "no comma" in complaint(tapestry("label", run, "--tag", "a,b"))
    assert "no comma" in complaint(tapestry("label", run, "--tag", "a\n"))
    assert "at most 20 tags" in complaint(tapestry("label", run, *(f"--tag=t{k}" for k in range(21))))
    assert "there is no run" in complaint(tapestry("label", "0" * 12, "--tag", "a"))
    assert store.runs.get(run).tags == ()
    store.close()
