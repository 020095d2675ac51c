"""Progress on standard error: a bar on a terminal, a line now and then elsewhere, nothing with `--quiet`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tapestry.optimizer import Progress

SECONDS_BETWEEN_LINES = 5.0


def execution_text(number: int, total: int, seconds: float) -> str:
    """Return what is executed, and for how long by the estimate: `executing plan 2 of 3, about 40 s`."""
    what = f"plan {number} of {total}" if number else "the program itself"
    return f"executing {what}, about {max(1, round(seconds))} s"


def place_text(place: Mapping[str, Any], now: datetime) -> str:
    """Return a place in the queue in words: `number 3, expected to begin in 2 min (1 min to 5 min)`.

    `place` is as the API shows it.
    """
    if place["expected_start"] is None:
        return f"number {place['position']}, and no worker is there"
    moments = (place[name] for name in ("expected_start", "earliest_start", "latest_start"))
    expected, earliest, latest = (_wait_text(datetime.fromisoformat(moment) - now) for moment in moments)
    doubt = "a guess, " if place["guess"] else ""
    return f"number {place['position']}, expected to begin in {expected} ({doubt}{earliest} to {latest})"


def _wait_text(wait: timedelta) -> str:
    seconds = max(wait.total_seconds(), 0.0)
    for least, unit in ((5400.0, 3600.0), (90.0, 60.0)):
        if seconds >= least:
            return f"{seconds / unit:.0f} {'h' if unit == 3600.0 else 'min'}"
    return f"{seconds:.0f} s"


class Reporter(Protocol):
    """A receiver of the progress of a search and its verification."""

    def searching(self, progress: Progress) -> None:
        """Report the progress of the search."""

    def checking(self, done: int, total: int) -> None:
        """Report that `done` of `total` plans of the frontier have been checked."""

    def executing(self, number: int, total: int, seconds: float) -> None:
        """Report that plan `number` of `total` is executed, 0 for the program itself, and for how long."""

    def explaining(self, done: int, total: int) -> None:
        """Report that the costs of `done` of `total` programs of a history have been computed."""

    def measuring(self, fraction: float, name: str) -> None:
        """Report which share of the measurements is done, and what is measured."""

    def note(self, text: str) -> None:
        """Report a message to the user."""


class Silent:
    """A reporter that prints nothing."""

    def searching(self, progress: Progress) -> None:
        pass

    def checking(self, done: int, total: int) -> None:
        pass

    def executing(self, number: int, total: int, seconds: float) -> None:
        pass

    def explaining(self, done: int, total: int) -> None:
        pass

    def measuring(self, fraction: float, name: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class Lines:
    """A reporter that prints a line when a phase begins or ends, and every few seconds in between."""

    def __init__(self) -> None:
        self._phase = ""
        self._last_s = 0.0

    def searching(self, progress: Progress) -> None:
        if self._is_due(progress.phase, progress.fraction >= 1.0):
            self.note(
                f"{progress.phase}: {progress.fraction:4.0%}  {progress.evaluations:,} plans evaluated, "
                f"{progress.front} on the frontier"
                if progress.phase == "searching"
                else f"{progress.phase} the search space"
            )

    def checking(self, done: int, total: int) -> None:
        if self._is_due("verifying", done == total):
            self.note(f"verifying: {done} of {total} plans")

    def executing(self, number: int, total: int, seconds: float) -> None:
        self.note(execution_text(number, total, seconds))

    def explaining(self, done: int, total: int) -> None:
        if self._is_due("explaining", done == total):
            self.note(f"explaining: {done} of {total} programs costed")

    def measuring(self, fraction: float, name: str) -> None:
        if self._is_due("measuring", fraction >= 1.0):
            self.note(f"measuring: {fraction:4.0%}  {name}")

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def _is_due(self, phase: str, is_end: bool) -> bool:
        now_s = time.monotonic()
        due = phase != self._phase or is_end or now_s - self._last_s >= SECONDS_BETWEEN_LINES
        if due:
            self._phase, self._last_s = phase, now_s
        return due


class Bar:
    """A reporter with a bar on the terminal, one per phase."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._tasks: dict[str, Any] = {}

    def searching(self, progress: Progress) -> None:
        if progress.phase == "searching":
            message = f"{progress.evaluations:,} plans, {progress.front} on the frontier"
            self._update(progress.phase, progress.fraction, message)
        else:
            self._update(progress.phase, None, "")

    def checking(self, done: int, total: int) -> None:
        self._update("verifying", done / total if total else 1.0, f"{done} of {total} plans")

    def executing(self, number: int, total: int, seconds: float) -> None:
        self._update("executing", max(number - 1, 0) / total, execution_text(number, total, seconds))

    def explaining(self, done: int, total: int) -> None:
        self._update("explaining", done / total, f"{done} of {total} programs")

    def measuring(self, fraction: float, name: str) -> None:
        self._update("measuring", fraction, name)

    def note(self, text: str) -> None:
        self._bars.console.print(text, highlight=False)

    def _update(self, phase: str, fraction: float | None, message: str) -> None:
        """Update the phase's bar; a phase that begins ends those before it. No fraction: the duration is unknown."""
        if phase not in self._tasks:
            for earlier in self._tasks.values():
                self._bars.update(earlier, total=1.0, completed=1.0)
                self._bars.stop_task(earlier)
            self._tasks[phase] = self._bars.add_task(
                phase, total=None if fraction is None else 1.0, message=""
            )
        self._bars.update(self._tasks[phase], completed=fraction or 0.0, message=message)


@contextmanager
def reporter(is_quiet: bool) -> Iterator[Reporter]:
    """Yield the reporter that fits the target of standard error."""
    if is_quiet:
        yield Silent()
    elif not sys.stderr.isatty():
        yield Lines()
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=40),
            TimeElapsedColumn(),
            TextColumn("{task.fields[message]}"),
        )
        with Progress(*columns, console=Console(stderr=True)) as bars:
            yield Bar(bars)
