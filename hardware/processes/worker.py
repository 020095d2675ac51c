"""A process of the pool: it does the share of one device in the programs that the supervisor orders it to run."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import MutableSequence
from contextlib import suppress
from multiprocessing.connection import Connection

from tapestry.hardware.processes.group import ConnectionLost
from tapestry.hardware.processes.orders import Failed, Report, Resume, Start, Stop, Stopped
from tapestry.hardware.processes.rank import RankRun
from tapestry.teg.arrays import arrays_named
from tapestry.teg.child_processes import follow_owner


def serve(process: int, progress: MutableSequence[int], pipe: Connection) -> None:
    """Run programs until the supervisor ends or closes the pipe; every report goes through it."""
    follow_owner()
    _stay_on_this_host()
    with suppress(EOFError, OSError):
        while True:
            order: Start = pipe.recv()
            try:
                _run(order, process, progress, pipe)
            except (EOFError, OSError):
                raise
            except Exception as error:
                message = "".join(traceback.format_exception_only(error)).strip()
                pipe.send(Failed(" ".join(message.split()), traceback.format_exc()))


def _run(start: Start, process: int, progress: MutableSequence[int], pipe: Connection) -> None:
    """Run a program, as often as processes are lost from where the supervisor says, until it says that all is done."""
    order: Stop | Resume | None = None
    run = RankRun(start, process, progress, pipe, arrays_named("torch", "cpu"))
    while True:
        report: Report
        try:
            if isinstance(order, Resume):
                pipe.send(run.resume(order))
            report = run.proceed(order.slot if isinstance(order, Resume) else 0)
        except ConnectionLost as error:
            report = Stopped(str(error))
        if isinstance(report, Stopped):
            run.group.close()
        pipe.send(report)
        while isinstance(order := pipe.recv(), Stop):
            pass
        if order is None:
            return run.group.close()


def _stay_on_this_host() -> None:
    """Let the processes speak to each other on the loopback interface, each with one thread."""
    import torch

    torch.set_num_threads(1)
    loopback = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    if loopback:
        os.environ["GLOO_SOCKET_IFNAME"] = loopback[0]
