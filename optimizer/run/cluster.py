"""A Dask cluster for the islands: an executor whose tasks run on other machines, and survive the loss of workers.

Tasks are pure functions, so one whose worker is lost runs again on another, with the same result. The client of the
cluster lives in a thread of its own, which has an event loop.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from platform import python_version
from typing import Any, TypeVar

from tapestry.optimizer.run.release import DIGEST_DIGITS, own_release, short_version, sources_digest
from tapestry.optimizer.run.tls import NOT_INSTALLED, ClusterError, Tls
from tapestry.optimizer.run.workers import WorkersLost

log = logging.getLogger("tapestry.cluster")

T = TypeVar("T")
ATTEMPTS = 3
POLL_S, CONNECT_S, FIRST_WORKER_S, PATIENCE_S, REQUEST_S = 0.25, 10.0, 60.0, 60.0, 10.0
ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]]+):([0-9]{1,5})")


@dataclass(frozen=True)
class RefusedTask:
    """The answer of a worker of another release, which computes nothing: its address, and what differs."""

    worker: str
    differences: tuple[str, ...]


@dataclass(eq=False)
class _Task:
    """A task that has no result yet."""

    outer: Future[Any]
    call: tuple[Any, ...]
    keywords: dict[str, Any]
    carried: asyncio.Task[None] | None = field(default=None, repr=False)


def carry_out(
    release: tuple[str, ...], fn: Callable[..., T], /, *args: Any, **kwargs: Any
) -> T | RefusedTask:
    """Run a task on a worker, unless the worker is of another release than who asks for it."""
    from distributed import get_worker

    if release != own_release():
        return RefusedTask(
            get_worker().address, tuple(type(own_release())(*release).differences(own_release()))
        )
    return fn(*args, **kwargs)


class ClusterIslands(Executor):
    """An executor over the workers of a Dask cluster, each a process with one thread: `tapestry worker --cluster`.

    Tasks must be pure functions: the tasks of a lost worker are run again by others. Where no worker is left, tasks
    wait for new ones for `patience_s` seconds; then they fail with `WorkersLost`. `on_change` gets a line of text for
    the user whenever workers are missed, refused or back; it is called from another thread.

    Raises:
        ClusterError: the address or the TLS files are wrong, there is no scheduler within `connect_s` seconds or no
            worker within `first_worker_s`, or a worker has another release; the package `distributed` is missing.
    """

    def __init__(
        self,
        address: str,
        *,
        tls: Tls | None = None,
        connect_s: float = CONNECT_S,
        first_worker_s: float = FIRST_WORKER_S,
        patience_s: float = PATIENCE_S,
        on_change: Callable[[str], None] | None = None,
    ) -> None:
        check_address(address, tls)
        self.address, self.patience_s = address, patience_s
        self._security = None if tls is None else tls.security()
        self._on_change = on_change or (lambda text: None)
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._pending: set[_Task] = set()
        self._refused: dict[str, str] = {}
        self._is_closed = self._is_closing = False
        self._release = own_release()
        self._missed_since: float | None = None
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _, context: log.debug("cluster: %s", context.get("message")))
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster", daemon=True)
        self._thread.start()
        try:
            self.size = self._wait_for(self._connect(connect_s, first_worker_s))
        except BaseException:
            self._end()
            raise
        self._watching = asyncio.run_coroutine_threadsafe(self._watch(), self._loop)

    def _wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _open(self, connect_s: float) -> Any:
        """Open a client of the scheduler."""
        try:
            from distributed import Client
        except ImportError as error:
            raise ClusterError(NOT_INSTALLED) from error
        try:
            options = {"timeout": connect_s, "asynchronous": True, "set_as_default": False}
            client = Client(self.address, security=self._security, **options)
            return await asyncio.wait_for(client, connect_s + 1)
        except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
            reason = str(error) or type(error).__name__
            raise ClusterError(
                f"no Dask scheduler answered at {self.address} within {connect_s:g} s ({reason}); start one there "
                "with `dask scheduler`, or give its address to --cluster"
            ) from error

    async def _connect(self, connect_s: float, first_worker_s: float) -> int:
        """Connect to the scheduler, wait for a first worker, and check all; return the number of workers."""
        self._client = await self._open(connect_s)
        workers = await self._workers() or await self._first_workers(first_worker_s)
        await self._check_releases()
        return len(workers)

    async def _first_workers(self, first_worker_s: float) -> list[str]:
        """Wait for workers, which may have been started just before; return the addresses of the first ones."""
        end_s = time.monotonic() + first_worker_s
        self._on_change(
            f"no worker of the cluster at {self.address} is there yet; waiting up to {first_worker_s:g} s for the "
            "first"
        )
        while not (workers := await self._workers()):
            if time.monotonic() > end_s:
                raise ClusterError(
                    f"the cluster at {self.address} has no worker; start some with `tapestry worker --cluster "
                    f"{self.address}`"
                )
            await asyncio.sleep(POLL_S)
        return workers

    async def _check_releases(self) -> None:
        """Check that all workers have our release, by functions that any Python can look up by name."""
        ours = self._release._asdict()
        ours.pop("sources")
        found: dict[str, list[str]] = {}
        for name, here in ours.items():
            call = (python_version,) if name == "python" else (version, name)
            answers = await asyncio.wait_for(self._client.run(*call, on_error="return"), REQUEST_S)
            for worker, answer in answers.items():
                there = f"no {name}" if isinstance(answer, BaseException) else str(answer)
                there = there if name == "tapestry" else short_version(there)
                if there != here:
                    found.setdefault(worker, []).append(f"{name} {there}, here {here}")
        if not found:
            answers = await asyncio.wait_for(self._client.run(sources_digest, on_error="return"), REQUEST_S)
            for worker, answer in answers.items():
                there = str(answer)[:DIGEST_DIGITS]
                if there != self._release.sources:
                    found[worker] = self._release.differences(self._release._replace(sources=there))
        if found:
            lines = [f"{worker}: {', '.join(differ)}" for worker, differ in sorted(found.items())]
            raise ClusterError(
                "workers of the cluster have another release; install the same one on all machines: "
                + "; ".join(lines)
            )

    async def _workers(self) -> list[str]:
        """Return the addresses of the workers that may be asked; none where the scheduler does not answer."""
        if self._client is None or self._client.status != "running":
            return []
        try:
            request = self._client.scheduler.identity(n_workers=-1)
            known = (await asyncio.wait_for(request, REQUEST_S))["workers"]
        except (OSError, TimeoutError, AttributeError):
            return []
        return sorted(worker for worker in known if worker not in self._refused)

    async def _watch(self) -> None:
        """Watch whether there are workers; without any, the tasks fail after a while."""
        while not self._is_closed:
            await asyncio.sleep(POLL_S)
            if not self._pending or await self._workers():
                if self.is_stalled:
                    self._on_change("workers are back")
                self._missed_since = None
                continue
            now_s = time.monotonic()
            if self._missed_since is None:
                self._missed_since = now_s
                self._on_change(
                    f"no worker of the cluster at {self.address} is there; waiting up to {self.patience_s:g} s for "
                    "workers"
                )
            if self._is_closing or now_s - self._missed_since > self.patience_s:
                self._give_up()
                self._missed_since = None
            elif self._client.status == "closed":  # its own attempts to find the scheduler again have ended
                with suppress(ClusterError):
                    self._client = await self._open(CONNECT_S)

    @property
    def is_stalled(self) -> bool:
        """True while there are tasks, but no worker that could run them."""
        return self._missed_since is not None

    def _give_up(self) -> None:
        refused = "".join(f"; refused {worker}: {why}" for worker, why in sorted(self._refused.items()))
        with self._lock:
            pending = list(self._pending)
        lost = f"the workers of the cluster at {self.address} were lost, and none came within {self.patience_s:g} s"
        for task in pending:
            self._settle(task, error=WorkersLost(lost + refused))

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a task on a worker, like `concurrent.futures.Executor.submit`; a running task may be cancelled too.

        Raises:
            RuntimeError: the executor was shut down.
        """
        outer: Future[T] = Future()
        task = _Task(outer, (fn, *args), kwargs)
        with self._lock:
            if self._is_closing:
                raise RuntimeError("this cluster was shut down and takes no more tasks")
            self._pending.add(task)
        outer.add_done_callback(lambda future: self._forget(task) if future.cancelled() else None)
        self._loop.call_soon_threadsafe(self._begin, task)
        return outer

    def _begin(self, task: _Task) -> None:
        if task in self._pending:
            task.carried = self._loop.create_task(self._carry(task))

    async def _carry(self, task: _Task) -> None:
        """See a task through: again where its worker was lost or refused, until there is a result or an error."""
        from distributed import KilledWorker

        attempt = 1
        while True:
            try:
                answer = await self._ask(task)
            except KilledWorker as error:
                attempt += 1
                if attempt > ATTEMPTS:
                    self._settle(task, error=error)
                    return
            except CancelledError:  # of the cluster's own accord: the scheduler was lost, or forgot the task
                await asyncio.sleep(POLL_S)
            except Exception as error:
                self._settle(task, error=error)
                return
            else:
                if not isinstance(answer, RefusedTask):
                    self._settle(task, answer)
                    return
                self._refuse(answer)

    async def _ask(self, task: _Task) -> Any:
        """Await the answer of a worker; only those that are not refused are asked, once any is."""
        while not (workers := await self._workers() if self._refused or self._is_away else ["any"]):
            await asyncio.sleep(POLL_S)
        fn, *args = task.call
        inner = self._client.submit(
            *(carry_out, tuple(self._release), fn, *args),
            **task.keywords,
            pure=False,
            workers=None if workers == ["any"] else workers,
        )
        try:
            return await inner
        finally:
            if inner.status == "pending":
                with suppress(Exception):
                    await inner.cancel()

    @property
    def _is_away(self) -> bool:
        return bool(self._client.status != "running")

    def _refuse(self, answer: RefusedTask) -> None:
        if answer.worker not in self._refused:
            self._refused[answer.worker] = ", ".join(answer.differences)
            self._on_change(f"worker {answer.worker} is left out: {self._refused[answer.worker]}")

    def _settle(self, task: _Task, answer: Any = None, error: BaseException | None = None) -> None:
        if not self._forget(task) or not task.outer.set_running_or_notify_cancel():
            return
        if error is not None:
            task.outer.set_exception(error)
        else:
            task.outer.set_result(answer)

    def _forget(self, task: _Task) -> bool:
        """Take a task from the pending ones, and end what is done for it; return False where it was not pending."""
        with self._settled:
            if task not in self._pending:
                return False
            self._pending.discard(task)
            self._settled.notify_all()
        if task.carried is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(task.carried.cancel)
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect from the cluster, whose workers stay; with `wait`, after the tasks that are not cancelled."""
        with self._lock:
            if self._is_closing:
                return
            self._is_closing = True
            pending = list(self._pending)
        if cancel_futures or not wait:
            for task in pending:
                task.outer.cancel()
        with self._settled:
            self._settled.wait_for(lambda: not self._pending)
            self._is_closed = True
        self._end()

    def _end(self) -> None:
        """Close the client and end its thread, within seconds whatever the cluster does."""

        async def close() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            if self._client is not None:
                with suppress(Exception):
                    await asyncio.wait_for(self._client.close(), POLL_S * 8)
            for task in others:
                task.cancel()
            await asyncio.sleep(0)

        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(close(), self._loop).result(CONNECT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONNECT_S)
        if not self._thread.is_alive():
            self._loop.close()


def check_address(address: str, tls: Tls | None) -> None:
    """Check the address of a scheduler.

    Raises:
        ClusterError: it has another form, or it and the TLS files do not fit each other.
    """
    found = ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[3]) < 65536:
        raise ClusterError(
            f"{address!r} is no address of a cluster; write one like tcp://host:8786 or tls://host:8786"
        )
    if (found[1] == "tls") != (tls is not None):
        raise ClusterError(
            f"{address} needs a CA, a certificate and a key: give --tls-ca, --tls-cert and --tls-key"
            if tls is None
            else f"{address} is not encrypted, and the TLS files would not be used; write tls://{address[6:]}"
        )
