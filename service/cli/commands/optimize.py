"""`tapestry optimize`: search the frontier of a program on a mesh, verify it, store it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tapestry.costmodel.known_objectives import objective_called
from tapestry.costmodel.objective import Objective
from tapestry.hardware import Mesh
from tapestry.optimizer.archive.representatives import Identified, representative_plans
from tapestry.optimizer.requests import ReadRequest, read_request
from tapestry.optimizer.run.clock import Deadline
from tapestry.optimizer.run.learning import NO_PRIOR, Prior
from tapestry.optimizer.run.options import NO_SNAPSHOT, OPTIONS, RunOptions
from tapestry.service.checking import failures_of
from tapestry.service.cli.cluster import on_cluster, tls_of
from tapestry.service.cli.errors import FAILED, OK, CommandError
from tapestry.service.cli.frontier import bound_lines, ending_line, lead_lines, print_frontier
from tapestry.service.cli.options.searching import option_fault_line, options_of
from tapestry.service.cli.output import print_json
from tapestry.service.cli.progress import Reporter, reporter
from tapestry.service.cli.searching import (
    Request,
    SearchOutcome,
    answered_before,
    exit_interrupted,
    open_store,
    search_and_check,
    starting_from,
    store_outcome,
)
from tapestry.service.presentation import result_document, run_document
from tapestry.service.priors import prior_for
from tapestry.service.related import NOTHING
from tapestry.service.storage import storage_document, storage_text
from tapestry.service.store import Store, StoredRun, StoreError, mesh_to_document
from tapestry.service.verdicts import verdict_counts_text
from tapestry.teg.brief import counted
from tapestry.teg.faults import joined


def run(arguments: Namespace) -> int:
    """Search, verify, store and print a frontier."""
    tls_of(arguments)  # before anything takes time
    store = None if arguments.no_store and not arguments.start_from else open_store(arguments.database_url)
    try:
        found = _found(arguments)
        request = _request(arguments, found, store)
        known = None if _is_fresh(arguments) or store is None else answered_before(store, request)
        if known is not None:
            return _report_known(known, arguments.json)
        with reporter(arguments.quiet) as reported:
            outcome = _outcome(arguments, request, reported)
        run_id = None if store is None or arguments.no_store else store_outcome(store, outcome)
    finally:
        if store is not None:
            store.close()
    document = {
        "run": run_id,
        "reused": False,
        **result_document(outcome.result, outcome.checked, request.options),
    }
    if request.options.dtype is not None and found.given is not None:
        dtype, seed = request.options.dtype, request.options.seed
        document["stored"] = storage_document(found.given, request.graph, dtype, seed)
    if arguments.json:
        print_json(document)
    else:
        _print(outcome, document)
    for line in outcome.checked.failures:
        print(f"tapestry: {line}", file=sys.stderr)
    if outcome.is_interrupted:
        return exit_interrupted()
    return FAILED if outcome.checked.failures or (not arguments.no_store and run_id is None) else OK


def _outcome(arguments: Namespace, request: Request, reported: Reporter) -> SearchOutcome:
    """Search and check, on the cluster that was asked for, if any."""
    with on_cluster(arguments, reported.note) as cluster:
        return search_and_check(replace(request, cluster=cluster), reported)


def _is_fresh(arguments: Namespace) -> bool:
    return bool(arguments.fresh or arguments.no_store)


def _report_known(known: StoredRun, as_json: bool) -> int:
    """Print a stored run in place of a search that would be equal to it."""
    document = {**run_document(known), "reused": True}
    if as_json:
        print_json(document)
    else:
        summary = known.summary
        print(f"{summary.graph_name} on {summary.mesh_name}, plans on the frontier: {len(known.frontier)}")
        objectives = [objective_called(name) for name in summary.options.objectives]
        print_frontier(
            document["frontier"],
            document["objectives"],
            _marks(known.frontier, objectives),
            document["robust"],
        )
        for line in (*lead_lines(document["frontier"]), *bound_lines(document["bounds"])):
            print(line)
        print(ending_line(summary.stopped, document["expected"]))
        print(
            f"the same was asked for {summary.created_at.astimezone():%Y-%m-%d %H:%M:%S}: this is its run "
            f"{summary.id}, nothing was searched again (--fresh does); {verdict_counts_text(document['checks'])}"
        )
    failures = [line for p in known.frontier if p.verified for line in failures_of(p.id, p.verified)]
    for line in failures:
        print(f"tapestry: {line}", file=sys.stderr)
    return FAILED if failures else OK


def _marks(plans: Sequence[Identified], objectives: Sequence[Objective]) -> dict[str, list[str]]:
    """Return the roles of the most representative plans by plan id."""
    marks: dict[str, list[str]] = {}
    for mark, plan in representative_plans(plans, objectives).items():
        marks.setdefault(plan.id, []).append(mark)
    return marks


def further_faults(arguments: Namespace) -> tuple[str, ...]:
    """Return the faults of what a command line with faults of its own names: program, mesh, and options' meaning."""
    broken = {fault.destination for fault in arguments.faults}
    sound = [option for option in OPTIONS if option.name not in broken]
    missing = {f"/{name}" for name, value in _names(arguments).items() if value is None}
    found = _read(arguments, options_of(arguments, sound), [] if "dim" in broken else arguments.dim)
    return tuple(option_fault_line(fault) for fault in found.faults if fault.pointer not in missing)


def _names(arguments: Namespace) -> dict[str, str | None]:
    return {"program": arguments.graph, "mesh": arguments.mesh}


def _read(arguments: Namespace, options: RunOptions, dims: Sequence[tuple[str, int]]) -> ReadRequest:
    names = {name: value or "" for name, value in _names(arguments).items()}
    return read_request(
        **names,
        options=options,
        dims=dict(dims),
        external_data=arguments.external_data,
        pins_from=arguments.pins_from,
    )


def _found(arguments: Namespace) -> ReadRequest:
    found = _read(arguments, options_of(arguments), arguments.dim)
    if found.faults:
        raise CommandError(joined([option_fault_line(fault) for fault in found.faults]))
    return found


def _request(arguments: Namespace, found: ReadRequest, store: Store | None) -> Request:
    options = found.options
    assert found.graph is not None and found.mesh is not None
    starting = NOTHING if store is None else starting_from(store, options, found.graph, found.mesh)
    deadline = (
        None if options.deadline_seconds is None else Deadline(arguments.began_s + options.deadline_seconds)
    )
    return Request(
        *(found.graph, found.mesh, options, starting, deadline),
        is_stored=not arguments.no_store,
        prior=_prior(arguments, options, found.mesh, store),
    )


def _prior(arguments: Namespace, options: RunOptions, mesh: Mesh, store: Store | None) -> Prior:
    """Return what earlier runs have learned; a run that is not stored reads nothing of them."""
    if store is not None and not arguments.no_store:
        try:
            return prior_for(store, options, mesh_to_document(mesh))
        except StoreError as error:
            raise CommandError(f"--prior: {error}") from error
    if options.prior not in (None, NO_SNAPSHOT):
        raise CommandError(f"--no-store reads no prior; leave out --no-store or --prior {options.prior}")
    return NO_PRIOR


def _print(outcome: SearchOutcome, document: dict[str, Any]) -> None:
    result = outcome.result
    print(f"{result.graph.name} on {result.mesh.name}, plans on the frontier: {len(result.frontier)}")
    print_frontier(
        document["frontier"],
        document["objectives"],
        _marks(result.frontier, result.objectives),
        document["robust"],
    )
    for line in (*lead_lines(document["frontier"]), *bound_lines(document["bounds"])):
        print(line)
    print(
        f"{counted(result.evaluations, 'plan')} evaluated in {result.seconds:.1f} s (stopped: {result.stopped}), "
        f"seed {result.seed}, {counted(result.islands, 'island')}; "
        f"{verdict_counts_text(document['checks'], document['unchecked_because'])}"
    )
    print(ending_line(result.stopped, document["expected"]))
    if "stored" in document:
        print(storage_text(document["stored"]))
    if document["run"] is not None:
        print(f"stored as run {document['run']}; `tapestry show PLAN` shows a plan")
