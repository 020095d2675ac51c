"""Tests of the pauses before processes are started again."""

from __future__ import annotations

from tapestry.service.restarting import RestartPause


def test_pauses_grow_while_processes_die_young_and_begin_anew() -> None:
    pause = RestartPause()
    assert [pause.after(1.0) for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert [pause.after(61.0), pause.after(1.0)] == [0.5, 1.0]
