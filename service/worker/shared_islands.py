"""Islands of one run on several workers: epochs that wait for a process are shared with idle ones by the database.

The worker that has the run stays the only one that decides: epochs are pure functions, so it makes no difference to the
frontier who runs them. It takes back what nobody has taken as soon as a process of its own is free, and runs again
what another worker has taken and does not answer in time. Without idle workers, nothing is written to the database.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from tapestry.optimizer import ProcessIslands
from tapestry.optimizer.run.epoch_bytes import (
    EpochError,
    answer_bytes,
    epoch_bytes,
    parse_answer,
    parse_epoch,
)
from tapestry.optimizer.run.release import own_release
from tapestry.optimizer.run.variant_arrays import token_of
from tapestry.optimizer.run.workers import Epoch, EpochAnswer, run
from tapestry.service.store import Job, SharedEpoch, Store, StoreError, UnknownId

log = logging.getLogger("tapestry.worker")

T = TypeVar("T")
POLL_S = 0.02  # between looks at what other workers have done, while there is something of theirs
LOOK_S = 1.0  # between looks at which workers are idle, and whether jobs wait
ALIVE_S = 5.0  # a worker without a heartbeat for so long is not counted on
PATIENCE_S = 2.0  # for an answer, and so many times the longest epoch
PATIENCE = 4.0
STAY_S = 1.0  # that a helper looks for a next epoch, which follow each other in rounds
HELPFUL = ("idle", "helping")  # statuses of workers that may take epochs


def release_text() -> str:
    """Return the release that an epoch's workers must have, as one word."""
    return "/".join(own_release())


@dataclass(eq=False)
class _Task:
    """An epoch that waits, and its future; `number` and `shared_at` once it is shared."""

    epoch: Epoch
    future: Future[Any]
    number: int = -1
    shared_at: float = 0.0

    def is_late(self, now: float, patience_s: float) -> bool:
        """Return whether the answer to a shared epoch is overdue."""
        return now - self.shared_at > patience_s


class SharedIslands(Executor):
    """An executor for one run: the processes of this worker, and epochs by idle workers beside them.

    Everything else than epochs runs in this worker's processes, which `shutdown` leaves open. `helped` counts epochs
    that others ran, by the name of the worker.
    """

    def __init__(self, store: Store, job: Job, pool: ProcessIslands) -> None:
        self._store, self._job, self._pool = store, job, pool
        self._changed = threading.Condition()
        self._waiting: deque[_Task] = deque()
        self._shared: dict[int, _Task] = {}
        self._running = self._number = 0
        self._longest_s = 0.0
        self._stored: set[str] = set()
        self._is_closed = False
        self.helped: dict[str, int] = {}
        self._thread = threading.Thread(target=self._share, name="sharing", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a task, in a process of this worker if one is free; else an epoch may be taken by another worker."""
        if fn is not run or kwargs or len(args) != 1:
            return self._pool.submit(fn, *args, **kwargs)
        task = _Task(args[0], Future())
        with self._changed:
            if self._is_closed:
                raise RuntimeError("this run takes no more epochs")
            self._waiting.append(task)
            self._start()
            self._changed.notify_all()
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop sharing epochs; what waits is cancelled."""
        with self._changed:
            self._is_closed = True
            for task in (*self._waiting, *self._shared.values()):
                task.future.cancel()
            self._waiting.clear()
            self._changed.notify_all()
        if wait:
            self._thread.join()

    def _start(self) -> None:
        """Run epochs that wait, as far as processes are free."""
        while self._waiting and self._running < self._pool.count:
            task = self._waiting.popleft()
            if not task.future.cancelled():
                self._run(task)

    def _run(self, task: _Task) -> None:
        self._running += 1
        began = time.monotonic()

        def finish(inner: Future[Any]) -> None:
            with self._changed:
                self._running -= 1
                self._longest_s = max(self._longest_s, time.monotonic() - began)
                self._start()
                self._changed.notify_all()
            _pass_on(inner, task.future)

        self._pool.submit(run, task.epoch).add_done_callback(finish)

    def _share(self) -> None:
        """Share what waits while there are idle workers, and collect their answers, until the run is over."""
        helpers, looked_at = False, -LOOK_S
        while True:
            with self._changed:
                is_needed = bool(self._waiting or self._shared)
                self._changed.wait_for(lambda: self._is_closed, POLL_S) if is_needed else self._changed.wait()
                if self._is_closed:
                    return
            try:
                if time.monotonic() - looked_at >= LOOK_S:
                    helpers, looked_at = self._has_helpers(), time.monotonic()
                self._collect()
                if helpers:
                    self._publish()
                self._take_back()
            except (StoreError, OSError) as error:
                log.warning("run %s: cannot share its islands: %s", self._job.subject, error)
                self._take_all_back()
                time.sleep(LOOK_S)

    def _has_helpers(self) -> bool:
        alive = self._store.workers.alive(ALIVE_S)
        return any(one.name != self._job.owner and one.status in HELPFUL for one in alive)

    def _publish(self) -> None:
        """Publish the epochs that wait, the last ones first: those in front are next for this worker's processes."""
        while True:
            with self._changed:
                if not self._waiting:
                    return
                task = self._waiting.pop()
                self._number += 1
                task.number, task.shared_at = self._number, time.monotonic()
                self._shared[task.number] = task
            variant = task.epoch.variant
            if variant.token not in self._stored:
                self._store.epochs.put_variant(self._job, variant.token, Path(variant.path).read_bytes())
                self._stored.add(variant.token)
            content = epoch_bytes(task.epoch)
            if not self._store.epochs.share(self._job, release_text(), task.number, variant.token, content):
                return  # the run is another worker's; the heartbeat ends this attempt

    def _collect(self) -> None:
        """Take the answers of other workers; an epoch that one of them could not run is run here."""
        if not self._shared:
            return
        for found in self._store.epochs.answers(self._job):
            with self._changed:
                task = self._shared.pop(found.number, None)
            if task is None:
                continue
            try:
                if found.answer is None:
                    raise EpochError(found.fault or "no answer")
                answer = parse_answer(found.answer)
            except EpochError as error:
                log.warning("run %s: worker %s: %s", self._job.subject, found.worker, error)
                self._return(task)
                continue
            self.helped[found.worker] = self.helped.get(found.worker, 0) + 1
            if task.future.set_running_or_notify_cancel():
                task.future.set_result(answer)

    def _take_back(self) -> None:
        """Take back what nobody took while a process here is free, and what was taken and is not answered in time.

        An epoch that is not in the database any more, nor answered, runs here too.
        """
        now = time.monotonic()
        patience_s = max(PATIENCE_S, PATIENCE * self._longest_s)
        if not self._shared or not (
            self._is_free or any(t.is_late(now, patience_s) for t in self._shared.values())
        ):
            return
        unanswered = self._store.epochs.unanswered(self._job)
        for number, task in sorted(self._shared.items()):
            is_late = task.is_late(now, patience_s)
            is_open = self._is_free and number in unanswered and unanswered[number] is None
            is_mine = (is_late or is_open) and self._store.epochs.withdraw(self._job, number, taken=is_late)
            if is_mine or (is_late and number not in unanswered):
                with self._changed:
                    self._shared.pop(number, None)
                self._return(task)

    @property
    def _is_free(self) -> bool:
        return not self._waiting and self._running < self._pool.count

    def _take_all_back(self) -> None:
        """Run all epochs here: the database cannot be reached. Who took one answers for nobody."""
        with self._changed:
            tasks, self._shared = list(self._shared.values()), {}
        for task in tasks:
            self._return(task)

    def _return(self, task: _Task) -> None:
        with self._changed:
            self._waiting.appendleft(task)
            self._start()


def _pass_on(inner: Future[Any], outer: Future[Any]) -> None:
    if inner.cancelled():
        outer.cancel()
    if outer.set_running_or_notify_cancel():
        if (error := inner.exception()) is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result())


class Helper:
    """The part of a worker that runs epochs of other workers' runs while no job waits for it.

    `on_run` gets the id of the run that it helps, and None when it has ended.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        pool: ProcessIslands,
        draining: threading.Event,
        on_run: Callable[[str | None], None],
    ) -> None:
        self._store, self._name, self._pool = store, name, pool
        self._draining, self._on_run = draining, on_run

    def help(self) -> None:
        """Run epochs that others share, until none comes for a while, a run waits, or the worker is to end.

        Raises:
            StoreError: the database does not answer.
        """
        first = self._store.epochs.take(self._name, release_text())
        if first is not None:
            self.help_from(first)

    def help_from(self, first: SharedEpoch) -> None:
        """Run an epoch that was taken, and then others, as `help` does."""
        with TemporaryDirectory(prefix="tapestry-epochs-") as folder:
            try:
                self._help(first, Path(folder))
            finally:
                self._on_run(None)

    def _help(self, first: SharedEpoch, folder: Path) -> None:
        running: dict[Future[Any], SharedEpoch] = {}
        taken: SharedEpoch | None = first
        last = looked_at = time.monotonic()
        is_wanted = False
        while True:
            while taken is not None:
                self._on_run(taken.run_id)
                future = self._begin(taken, folder)
                running |= {} if future is None else {future: taken}
                last = time.monotonic()
                taken = None if is_wanted or len(running) >= self._pool.count else self._take()
            for future in wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED).done:
                self._answer(running.pop(future), future)
                last = time.monotonic()
            if time.monotonic() - looked_at >= LOOK_S:
                looked_at = time.monotonic()
                is_wanted = is_wanted or self._store.jobs.waits("run")
            is_wanted = is_wanted or self._draining.is_set()
            if not running and (is_wanted or time.monotonic() - last >= STAY_S):
                return
            if not running:
                self._draining.wait(POLL_S)
            taken = None if is_wanted or len(running) >= self._pool.count else self._take()

    def _take(self) -> SharedEpoch | None:
        return self._store.epochs.take(self._name, release_text())

    def _begin(self, shared: SharedEpoch, folder: Path) -> Future[Any] | None:
        """Start an epoch in a process; an epoch that cannot be read is answered by the reason."""
        try:
            epoch = parse_epoch(shared.content, str(self._arrays(shared, folder)))
            if epoch.variant.token != shared.variant:
                raise EpochError(f"it is of variant {epoch.variant.token[:12]}, not {shared.variant[:12]}")
            return self._pool.submit(run, epoch)
        except UnknownId:  # the run has ended
            return None
        except EpochError as error:
            self._store.epochs.answer(shared, self._name, None, str(error))
            return None

    def _arrays(self, shared: SharedEpoch, folder: Path) -> Path:
        """Return the file with the arrays of an epoch's variant, which is written when the first one needs it."""
        path = folder / f"{shared.variant}.variant"
        if not path.exists():
            content = self._store.epochs.variant(shared.run_id, shared.variant)
            if token_of(content) != shared.variant:
                raise EpochError(f"the arrays of variant {shared.variant[:12]} are damaged")
            path.write_bytes(content)
        return path

    def _answer(self, shared: SharedEpoch, future: Future[Any]) -> None:
        error = future.exception()
        found = None if error is not None else future.result()
        if isinstance(found, EpochAnswer):
            self._store.epochs.answer(shared, self._name, answer_bytes(found))
        else:
            self._store.epochs.answer(shared, self._name, None, str(error or "its arrays are missing"))
