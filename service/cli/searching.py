"""The common parts of `optimize` and `demo`: search, check, store, print."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tapestry.hardware import CatalogError, Mesh, load_mesh
from tapestry.optimizer import ProcessIslands, Result, RunOptions
from tapestry.optimizer.run.clock import Deadline
from tapestry.optimizer.run.cluster import ClusterIslands
from tapestry.optimizer.run.learning import NO_PRIOR, Prior
from tapestry.optimizer.run.plan import WORKERS_LOST
from tapestry.optimizer.run.search import search
from tapestry.optimizer.run.workers import InlineExecutor, WorkersLost
from tapestry.rewrites.storage_precision import StoragePrecisionError, stored_in
from tapestry.service.checking import CheckResults
from tapestry.service.cli.errors import INTERNAL, INTERRUPTED, WRONG, CommandError
from tapestry.service.cli.interrupts import stop_on_interrupt
from tapestry.service.cli.progress import Reporter
from tapestry.service.frontier_checks import CheckTimer, check_frontier, checking_deadline
from tapestry.service.priors import prior_text
from tapestry.service.provenance import host, versions
from tapestry.service.refusals import refusal_documents
from tapestry.service.related import NOTHING, StartingPlans, starting_plans
from tapestry.service.settings import database_url
from tapestry.service.store import FinishedRun, RunRequest, Store, StoredRun, StoreError, mesh_to_document
from tapestry.service.store.codec import graph_values
from tapestry.teg.document import DocumentError, save
from tapestry.teg.graph import Graph
from tapestry.teg.importers.files import GraphFileError, read_program
from tapestry.teg.validate import InvalidGraphError, check

# The share of a deadline that loading and reading may have taken where processes are started.
STARTING_SHARE = 0.2


@dataclass(frozen=True)
class Request:
    """A requested search: the options as they were given, the plans to start from, and what earlier ones learned."""

    graph: Graph
    mesh: Mesh
    options: RunOptions
    starting: StartingPlans = NOTHING
    deadline: Deadline | None = None
    is_stored: bool = True
    prior: Prior = NO_PRIOR
    cluster: ClusterIslands | None = None

    @property
    def islands(self) -> int:
        """The number of islands: as given, else one per worker of the cluster or per core."""
        if self.options.islands is None and self.cluster is not None:
            return self.cluster.size
        return islands_of(self.options.islands)


@dataclass(frozen=True)
class SearchOutcome:
    """A finished search, and the results of the checks of its frontier."""

    request: Request
    result: Result
    checked: CheckResults
    created_at: datetime

    @property
    def is_interrupted(self) -> bool:
        return self.checked.is_interrupted or self.result.stopped in ("interrupted", "cancelled")


def open_store(url: str | None) -> Store:
    """Open the store at `url` or at its default place; before any work, so that a wrong URL wastes none."""
    try:
        return Store(database_url(os.environ, url))
    except StoreError as error:
        raise CommandError(str(error)) from error


def read_graph(
    path: str,
    dims: Sequence[tuple[str, int]],
    external_data: str | None = None,
    dtype: str | None = None,
) -> Graph:
    """Read the program in a file; with `dtype`, store it in that precision."""
    try:
        graph = read_program(path, dims=dict(dims), external_data=external_data)
    except GraphFileError as error:
        raise CommandError(str(error)) from error
    return graph if dtype is None else in_precision(graph, dtype)


def in_precision(graph: Graph, dtype: str) -> Graph:
    """Store parameters and activations of a program in a precision."""
    try:
        check(graph)
        return stored_in(graph, dtype)
    except (InvalidGraphError, StoragePrecisionError) as error:
        raise CommandError(str(error)) from error


def read_mesh(name_or_path: str) -> Mesh:
    """Load a mesh by name or file."""
    try:
        return load_mesh(name_or_path)
    except CatalogError as error:
        raise CommandError(str(error)) from error


def starting_from(store: Store, options: RunOptions, graph: Graph, mesh: Mesh) -> StartingPlans:
    """Load what a search starts from: frontiers of stored runs of the same program or of related ones."""
    try:
        return starting_plans(store, options, graph, mesh_to_document(mesh))
    except StoreError as error:
        raise CommandError(f"--start-from: {error}") from error


def search_and_check(request: Request, reporter: Reporter) -> SearchOutcome:
    """Search, then check every plan of the frontier; Ctrl-C ends either and keeps the results so far."""
    created_at = datetime.now(UTC)
    try:
        with _workers(request) as executor:
            helping = None if isinstance(executor, InlineExecutor) else executor
            processes = 1 if helping is None else request.islands
            timer = CheckTimer(
                request.graph, request.mesh, request.options, processes, is_stored=request.is_stored
            )
            result = _search(request, reporter, executor, timer)
            if not result.frontier:
                raise CommandError(*_nothing_found(result))
            checked = _checked(request, result, reporter, helping, timer)
    except BrokenProcessPool as error:
        raise CommandError(
            "a worker process ended abruptly, perhaps for lack of memory; try --islands 1", INTERNAL
        ) from error
    return SearchOutcome(request, result, checked, created_at)


def _checked(
    request: Request, result: Result, reporter: Reporter, helping: Executor | None, timer: CheckTimer
) -> CheckResults:
    """Check the frontier, with the help of processes; here alone where those of a cluster are lost."""
    helpers = [None] if helping is None or result.stopped == WORKERS_LOST else [helping, None]
    for executor in helpers:
        with suppress(WorkersLost):
            return check_frontier(
                result,
                request.options,
                executor=executor,
                deadline=checking_deadline(request.deadline, request.options, timer.storing_s),
                verifier=timer.verifier,
                on_plan=reporter.checking,
                on_execution=reporter.executing,
            )
    raise WorkersLost("the workers were lost while plans were checked")


def _search(request: Request, reporter: Reporter, executor: Executor | None, timer: CheckTimer) -> Result:
    def on_request() -> None:
        reporter.note("stopping; the frontier found so far is kept (Ctrl-C again ends at once)")

    with stop_on_interrupt(on_request) as should_stop:
        try:
            result = search(
                request.graph,
                request.mesh,
                options=replace(request.options, islands=request.islands),
                executor=executor,
                start_from=request.starting.plans,
                relatives=request.starting.relatives,
                on_progress=reporter.searching,
                should_stop=should_stop,
                deadline=checking_deadline(request.deadline, request.options, timer.storing_s),
                reserve=timer,
                prior=request.prior,
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
    warn_of(refusal_documents(result.refused))
    distinct = {plan.id: plan for plan in reversed(result.frontier)}
    return replace(result, frontier=tuple(reversed(distinct.values())))


def warn_of(refused: Sequence[Mapping[str, str]]) -> None:
    """Print on standard error the rules that misbehaved and were disabled, the reasons, and the remedies."""
    for reported in refused:
        print(
            f"tapestry: rule {reported['rule']!r} was left out: {reported['reason']}; {reported['hint']}",
            file=sys.stderr,
        )


def _nothing_found(result: Result) -> tuple[str, int]:
    """Return why there is no plan, and the exit code that says so."""
    if result.shortfall is not None:
        return str(result.shortfall), WRONG
    if result.stopped in ("cancelled", "interrupted"):
        return "interrupted before the first plan was found", INTERRUPTED
    return "no plan was found; give the search more time", WRONG


@contextmanager
def _workers(request: Request) -> Iterator[Executor | None]:
    """Open a pool of worker processes, where several islands have the time to start them.

    Yield the cluster, if there is one; None if there is one island; and an executor that computes here for a short
    deadline: the processes would load for as long as this one has, in which they keep it from its own work.
    """
    if request.cluster is not None:
        yield request.cluster
        return
    if request.islands == 1:
        yield None
        return
    limit, deadline = request.options.deadline_seconds, request.deadline
    if limit is not None and deadline is not None and limit - deadline.left_s > STARTING_SHARE * limit:
        yield InlineExecutor()
        return
    pool = ProcessIslands(request.islands)
    try:
        yield pool
    finally:
        pool.abandon()  # whatever it still does is wanted no more


def answered_before(store: Store, request: Request) -> StoredRun | None:
    """Return the stored run that has answered an equal request with the same versions; None if there is none."""
    graph_id = graph_values(request.graph)["id"]
    try:
        equal = RunRequest(graph_id, mesh_to_document(request.mesh), request.options)
        run_id = store.runs.equal_run(equal, versions())
        return None if run_id is None else store.runs.find(run_id)
    except StoreError as error:
        raise CommandError(str(error)) from error


def store_outcome(store: Store, outcome: SearchOutcome) -> str | None:
    """Store a run and return its id; if the database refuses it, report that and keep the result."""
    request = outcome.request
    finished = FinishedRun(
        result=outcome.result,
        options=request.options,
        created_at=outcome.created_at,
        versions=versions(),
        host=host(),
        verified=outcome.checked.verified,
        executions=outcome.checked.executions,
        prior=prior_text(request.prior),
        started_from=request.starting.text,
        ended_at=datetime.now(UTC),
    )
    try:
        return store.runs.save_finished(finished)
    except StoreError as error:
        print(f"tapestry: {error}", file=sys.stderr)
        return None


def islands_of(given: int | None) -> int:
    """Return the number of islands: `given`, else one per core."""
    return given if given is not None else os.cpu_count() or 1


def exit_interrupted() -> int:
    """Print again that the search was cut short; return its exit code."""
    print("tapestry: interrupted; the frontier found until then was kept", file=sys.stderr)
    return INTERRUPTED


def refuse_one_file(outputs: Mapping[str, str]) -> None:
    """Check that the files of several outputs, by option, are distinct.

    Raises:
        CommandError: two of them are one file.
    """
    known: dict[Path, str] = {}
    for option, path in outputs.items():
        other = known.setdefault(Path(path).resolve(), option)
        if other != option:
            raise CommandError(f"{other} and {option} both name {path!r}; give each a file of its own")


def write_graph(graph: Graph, path: str) -> None:
    """Write the program as a TEG document.

    Raises:
        CommandError: the file cannot be written.
    """
    if not Path(path).resolve().parent.is_dir():
        raise CommandError(f"cannot write {path!r}: there is no such folder")
    try:
        save(graph, path)
    except DocumentError as error:
        raise CommandError(f"cannot write {path!r}: {error.issues[0]}") from error
    except OSError as error:
        raise CommandError(f"cannot write {path!r}: {error.strerror or error}") from error
