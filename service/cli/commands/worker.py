"""`tapestry worker`: carry out jobs from the database until requested to end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from argparse import Namespace
from types import FrameType

from tapestry.optimizer.run.cluster_worker import serve_cluster
from tapestry.optimizer.run.tls import ClusterError, Tls
from tapestry.service.cli.cluster import on_cluster, tls_of
from tapestry.service.cli.errors import FAILED, OK, CommandError
from tapestry.service.cli.searching import islands_of, open_store
from tapestry.service.cli.telemetry import begin_telemetry
from tapestry.service.telemetry.tracing import stop_tracing
from tapestry.service.temporary import temporary_folder
from tapestry.service.worker import Cluster, WorkerSettings, new_name, work

NICENESS = 5

log = logging.getLogger("tapestry.worker")


def run(arguments: Namespace) -> int:
    """Work until SIGTERM or Ctrl-C; the current job goes back to the queue with everything found so far."""
    begin_telemetry(arguments, "tapestry-worker")
    tls = tls_of(arguments)
    if arguments.cluster is not None:
        if arguments.search_on is not None:
            raise CommandError("a worker of a cluster has none to search on: give --cluster or --search-on")
        return _work_for_cluster(arguments, tls)
    store = open_store(arguments.database_url)
    draining = threading.Event()

    def drain(_: int, __: FrameType | None) -> None:
        if draining.is_set():  # asked twice: at once, and the lease runs out
            os._exit(OK)
        draining.set()

    signal.signal(signal.SIGTERM, drain)
    # A terminal's Ctrl-C reaches parent and child alike; the parent decides when the child ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN if arguments.embedded else drain)
    if arguments.embedded:
        os.nice(NICENESS)  # the API answers first
        threading.Thread(target=_drain_with_parent, args=(draining,), name="parent", daemon=True).start()
    try:
        with temporary_folder(), on_cluster(arguments, log.warning) as cluster:
            cores = max(1, islands_of(None) // arguments.runs)
            settings = WorkerSettings(
                name=arguments.name or new_name(),
                islands=arguments.islands or (cores if cluster is None else cluster.size),
                runs=arguments.runs,
                memory_bytes=arguments.memory,
                alone=arguments.alone,
                cluster=None if arguments.search_on is None else Cluster(arguments.search_on, tls),
            )
            work(store, settings, draining)
    finally:
        store.close()
        stop_tracing()
    return OK


def _work_for_cluster(arguments: Namespace, tls: Tls | None) -> int:
    """Work for searches on a cluster until SIGTERM or Ctrl-C; what runs then is run again by other workers."""
    if arguments.database_url is not None:
        raise CommandError("a worker works for a cluster or a database: give --cluster or --database-url")
    processes, address = islands_of(arguments.islands), arguments.cluster

    def report() -> None:
        log.info("worker for the cluster at %s: %d processes", address, processes)

    try:
        is_requested = serve_cluster(address, processes, tls=tls, name=arguments.name or "", on_start=report)
    except ClusterError as error:
        raise CommandError(str(error)) from error
    if not is_requested:
        raise CommandError(
            f"the Dask scheduler at {address} has ended, or cannot be reached any more", FAILED
        )
    log.info("worker for the cluster at %s has ended", address)
    return OK


def _drain_with_parent(draining: threading.Event) -> None:
    """Set `draining` when standard input ends: its other end is held by the parent alone."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    draining.set()
