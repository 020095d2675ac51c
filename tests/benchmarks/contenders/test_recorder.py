"""Tests of records by CPU seconds: what recording takes does not count, and a contender ends in time."""

import numpy as np
import pytest

from benchmarks.contenders.recorder import FrontRecorder, TimeSpent


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def slow(self, values: list[list[float]], takes_s: float) -> np.ndarray:
        self.now_s += takes_s
        return np.array(values)


def test_a_record_is_the_front_without_the_time_that_it_takes() -> None:
    clock = Clock()
    recorder = FrontRecorder(10.0, clock)
    clock.now_s = 1.0
    recorder.add(lambda: clock.slow([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], 5.0), evaluations=3)
    assert recorder.spent_s == 1.0
    ((cpu_s, evaluations, front),) = recorder.records
    assert (cpu_s, evaluations, front.tolist()) == (1.0, 3, [[1.0, 2.0], [2.0, 1.0]])


def test_a_checkpoint_has_the_last_front_before_it() -> None:
    clock = Clock()
    recorder = FrontRecorder(10.0, clock)
    for at_s, value in ((0.5, 3.0), (2.0, 2.0)):
        clock.now_s = at_s
        recorder.add(lambda value=value: np.array([[value]]), evaluations=1)
    early, middle, late = recorder.checkpoints([0.1, 1.0, 10.0])
    assert len(early.front) == 0
    assert (middle.cpu_s, middle.front.tolist(), late.front.tolist()) == (1.0, [[3.0]], [[2.0]])


def test_a_moment_later_nothing_is_recorded_unless_it_is_the_last() -> None:
    clock = Clock()
    recorder = FrontRecorder(10.0, clock)
    for is_last in (False, False, True):
        recorder.add(lambda: np.ones((1, 1)), 1, is_last)
    assert len(recorder.records) == 2


def test_a_contender_ends_when_its_time_is_spent() -> None:
    clock = Clock()
    recorder = FrontRecorder(1.0, clock)
    clock.now_s = 1.0
    with pytest.raises(TimeSpent):
        recorder.add(lambda: np.ones((1, 1)), 1)
    assert recorder.is_over and not recorder.records
