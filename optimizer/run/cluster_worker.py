"""Workers of a Dask cluster on this machine: processes of one thread each, which have the search's loops loaded.

A process that ends is replaced. Dask loads this module into each process too, and calls `dask_setup`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from tapestry.hardware import load_mesh
from tapestry.optimizer.run.cluster import CONNECT_S, check_address
from tapestry.optimizer.run.plan import Budget
from tapestry.optimizer.run.search import search
from tapestry.optimizer.run.tls import NOT_INSTALLED, ClusterError, Tls
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.teg.programs import Program

CLOSING_S = 5.0


def load_loops() -> None:
    """Load the compiled loops of the search, or compile them where this machine has not yet, by a tiny search."""
    program = Program("small")
    x, w = program.input("x", (4, 4)), program.parameter("w", (4, 4))
    program.output("y", (x @ w).relu())
    mesh = load_mesh("dgx-h100").part((("gpu", 2),))
    search(program.graph, mesh, budget=Budget(evaluations=100), islands=1, executor=InlineExecutor())


def dask_setup(worker: Any) -> None:
    """Prepare a worker process when it starts: leave Ctrl-C to its owner, and load the loops."""
    with suppress(ValueError):  # not in the main thread: there are no handlers to set
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    load_loops()


def serve_cluster(
    address: str,
    processes: int,
    *,
    tls: Tls | None = None,
    name: str = "",
    connect_s: float = CONNECT_S,
    on_start: Callable[[], None] = lambda: None,
) -> bool:
    """Run worker processes until SIGTERM or Ctrl-C; return False where they ended because the scheduler did.

    Their running tasks are run again elsewhere. `on_start` is called once all have started.

    Raises:
        ClusterError: the address or the TLS files are wrong, there is no scheduler within `connect_s` seconds, or the
            package `distributed` is missing.
    """
    check_address(address, tls)
    security = None if tls is None else tls.security()
    load_loops()  # once for all processes, where nothing is compiled yet
    return asyncio.run(_serve(address, processes, security, name, connect_s, on_start))


async def _serve(
    address: str, processes: int, security: Any, name: str, connect_s: float, on_start: Callable[[], None]
) -> bool:
    try:
        from distributed import Nanny, rpc
    except ImportError as error:
        raise ClusterError(NOT_INSTALLED) from error
    ending = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    connection = None if security is None else security.get_connection_args("worker")
    try:
        async with rpc(address, connection_args=connection) as scheduler:
            await asyncio.wait_for(scheduler.identity(n_workers=0), connect_s)
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ClusterError(
            f"no Dask scheduler answered at {address} within {connect_s:g} s ({reason}); start one there with "
            "`dask scheduler`, or give its address to --cluster"
        ) from error
    options = {"nthreads": 1, "memory_limit": 0, "security": security, "preload": [__name__]}
    options |= {"silence_logs": logging.WARNING, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    nannies = [Nanny(address, **options, name=f"{name}-{k}" if name else None) for k in range(processes)]
    try:
        await asyncio.gather(*nannies)
        on_start()
        return await _first(ending.wait(), asyncio.gather(*(nanny.finished() for nanny in nannies))) == 0
    finally:
        with suppress(OSError, TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(nanny.close() for nanny in nannies)), CLOSING_S)


async def _first(*awaited: Awaitable[Any]) -> int:
    """Return which of several awaitables is done first; the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in awaited]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    return min(k for k, task in enumerate(tasks) if task in done)
