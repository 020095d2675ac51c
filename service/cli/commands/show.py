"""`tapestry show`: the stored results, from the list of runs down to the moves of a plan."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tapestry.costmodel.device_memory import device_memory_terms
from tapestry.costmodel.version import cost_model_note
from tapestry.optimizer.archive.origin import ORIGINS, PlanOrigin
from tapestry.service.checking import failures_of
from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.frontier import (
    bound_lines,
    checks_of,
    ending_line,
    lead_lines,
    lead_text,
    memory_text,
    print_frontier,
    time_lines,
    unit_of,
)
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.progress import place_text
from tapestry.service.cli.references import find_run_or_plan
from tapestry.service.cli.searching import open_store
from tapestry.service.leads import lead_among, time_of
from tapestry.service.lifecycle import is_ended
from tapestry.service.presentation import (
    measurement_document,
    queue_document,
    run_document,
    stored_plan_document,
    title_of,
)
from tapestry.service.provenance import plug_ins_of
from tapestry.service.recosting import model_notes
from tapestry.service.store import ALIVE_S, Store, StoredPlan, StoredRun, StoreError, mesh_of
from tapestry.service.tensor_moves import loading_document
from tapestry.service.verdicts import UNTRUSTED, verdict_counts_text, verdict_of
from tapestry.teg.brief import counted
from tapestry.teg.readable import quantity

NEWEST = 20
PLACES_SHOWN = 4


def run(arguments: Namespace) -> int:
    """Show the newest runs, one run, or one plan."""
    store = open_store(arguments.database_url)
    try:
        if arguments.reference is None:
            _runs(store, arguments.json)
        else:
            found = find_run_or_plan(store, arguments.reference)
            if isinstance(found, StoredRun):
                _run(found, _place(store, found), arguments.json)
            else:
                _plan(store, found, arguments.json)
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    return OK


def _runs(store: Store, as_json: bool) -> None:
    runs = store.runs.page(NEWEST)
    if as_json:
        print_json(
            {
                "runs": [
                    {
                        "run": r.id,
                        "created_at": r.created_at.isoformat(),
                        "graph": r.graph_name,
                        "mesh": r.mesh_name,
                        "objectives": list(r.options.objectives),
                        "status": r.status,
                        "evaluations": r.evaluations,
                        "seconds": r.seconds,
                    }
                    for r in runs
                ]
            }
        )
    elif not runs:
        print("nothing is stored yet; `tapestry optimize` and `tapestry demo` store what they find")
    else:
        rows = [
            (
                r.id,
                f"{r.created_at.astimezone():%Y-%m-%d %H:%M:%S}",
                r.status,
                r.graph_name,
                r.mesh_name,
                f"{r.evaluations:,}",
                f"{r.seconds:.1f}",
            )
            for r in runs
        ]
        print_table(("run", "when", "status", "graph", "mesh", "evaluations", "seconds"), rows, right=(5, 6))


def _place(store: Store, found: StoredRun) -> dict[str, Any] | None:
    """Return the place of a run that waits, as the API shows it; None for one that does not."""
    if found.summary.status != "queued":
        return None
    workers = len(store.workers.alive(ALIVE_S))
    return queue_document(store.waiting.place(found.summary.id, store.tenant, datetime.now(UTC), workers))


def _run(found: StoredRun, place: Mapping[str, Any] | None, as_json: bool) -> None:
    document = {**run_document(found), "queue": place}
    if as_json:
        print_json(document)
        return
    summary = found.summary
    stands = summary.stopped if is_ended(summary.status) else summary.phase
    print(f"run {summary.id}: {summary.graph_name} on {summary.mesh_name}, {summary.status} ({stands})")
    if place is not None:
        print(f"it waits: {place_text(place, datetime.now(UTC))}")
    print(f"{summary.evaluations:,} plans evaluated in {summary.seconds:.1f} s; asked for:")
    print_table(("option", "value"), [(title.lower(), text) for title, text in summary.options.described()])
    if took_part := plug_ins_of(found.versions):
        print(f"plug-ins: {', '.join(took_part)}")
    if summary.problem is not None:
        print(f"{summary.problem['title']}: {summary.problem['detail']}")
    for refusal in found.refused:
        print(f"rule {refusal['rule']!r} was left out: {refusal['reason']}; {refusal['hint']}")
    print()
    print_frontier(document["frontier"], document["objectives"], {}, document["robust"])
    for line in (*lead_lines(document["frontier"]), *bound_lines(document["bounds"])):
        print(line)
    for note in model_notes({summary.id: found.frontier}):
        print(f"{note}: do not compare their figures with those of other runs")
    if (line := ending_line(summary.stopped, document["expected"])) and is_ended(summary.status):
        print(line)
    print(verdict_counts_text(document["checks"], document["unchecked_because"]))


def _plan(store: Store, plan: StoredPlan, as_json: bool) -> None:
    executions = store.executions.of_plan(plan.key)
    loading = _loading(store, plan)
    memory = device_memory_terms(plan.cost, mesh_of(store.runs.request(plan.run_id).mesh).device)
    shown = stored_plan_document(plan)
    document = {
        "run": plan.run_id,
        **shown,
        "lead": lead_among(shown, [stored_plan_document(each) for each in store.runs.frontier(plan.run_id)]),
        "loading": loading,
        "memory": memory,
        "executions": [
            {
                "id": e.id,
                "status": e.status,
                "backend": e.backend,
                "seed": e.seed,
                "created_at": e.created_at.isoformat(),
                "counts": e.counts,
                "verified": e.verified,
            }
            for e in executions
        ],
        "measurements": list(map(measurement_document, store.measurements.of_plan(plan.key))),
    }
    if as_json:
        print_json(document)
        return
    print(f"plan {plan.id} of run {plan.run_id}: {'feasible' if plan.feasible else 'infeasible'}\n")
    costs = [(title_of(name), quantity(value, unit_of(name))) for name, value in plan.cost.items()]
    print_table(("cost", ""), costs, right=(1,))
    if estimate := time_of(plan.time, plan.verified):
        print("\n".join(time_lines(estimate)))
    if document["lead"]:
        print(lead_text(document))
    for each in document["measurements"]:
        change = each["seconds"] / plan.cost["time_s"] - 1
        when = each["created_at"][:16].replace("T", " ")
        print(
            f"measured {quantity(each['seconds'], 's')} ({change:+.1%}) on {each['measured_on']}, {when} UTC"
        )
    if memory:
        print(f"the fullest device holds {memory_text(memory)}")
    if loading is not None:
        paid = f"{quantity(loading['time_s'], 's')}, {quantity(loading['traffic_bytes'], 'B')} of traffic"
        print(f"once, before the first step, inputs are loaded: {paid}")
    if note := cost_model_note(plan.cost_model):
        print(note)
    if plan.origin is not None:
        origin = PlanOrigin.from_json(plan.origin)
        print(f"origin: {origin} ({ORIGINS[origin.kind]})")
    print(f"\nverified: {checks_of(plan.verified)}; executed {counted(len(executions), 'time')}")
    for line in failures_of(plan.id, plan.verified) if plan.verified else ():
        print(line)
    if verdict_of(plan.verified) == UNTRUSTED and plan.verified:
        description = "suspected, because a plan with them computes other values"
        print(f"rules of this plan that are {description}: {', '.join(plan.verified['suspects'])}")
    print()
    print_table(("rule", "choice", "places"), [_move(move) for move in plan.moves])


def _loading(store: Store, plan: StoredPlan) -> dict[str, Any] | None:
    try:
        return loading_document(store, plan)
    except ValueError as error:
        raise CommandError(str(error)) from error


def _move(move: Mapping[str, Any]) -> tuple[str, str, str]:
    place = move["place"]
    places = [place] if isinstance(place, str) else list(place)
    more = f" and {len(places) - PLACES_SHOWN} more" if len(places) > PLACES_SHOWN else ""
    return move["rule"], move["choice"], ", ".join(places[:PLACES_SHOWN]) + more
