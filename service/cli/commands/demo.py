"""`tapestry demo`: GPT-2 small on eight H100, from an ONNX file to plans that were executed and checked."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from optimizer import Budget, Plan
from service.checking import telling_plans
from service.cli.errors import FAILED, OK, CommandError
from service.cli.frontier import print_frontier
from service.cli.output import paint, print_json, print_table, quantity, verdict
from service.cli.parser import DEFAULT_SECONDS
from service.cli.progress import reporter
from service.cli.searching import (
    Outcome,
    Request,
    exit_interrupted,
    islands_of,
    open_store,
    read_graph,
    read_mesh,
    search_and_check,
    store_outcome,
)
from service.correlation import largest_rank_correlation
from service.examples import DEMO_MODEL, example_model
from service.graphs import GraphFileError, summarise
from service.presentation import result_document
from teg.graph import Graph

MESH = "dgx-h100"
OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j")
FEWEST_PLANS = 8
LARGEST_CORRELATION = 0.95


@dataclass(frozen=True)
class Claim:
    """Something that the demo shows: what, the figures, and whether it holds."""

    text: str
    figures: str
    holds: bool


def run(arguments: Namespace) -> int:
    """Import, search, check, store, print; fails if a claim does not hold."""
    store = open_store(arguments.database_url)
    try:
        graph = _graph()
        if not arguments.json:
            summary = summarise(graph)
            print(
                f"{graph.name}: {summary.blocks} blocks, {summary.parameters:,} parameters, "
                f"{quantity(summary.flops, 'flop')}; on {MESH}",
                flush=True,
            )
        request = Request(
            graph=graph,
            mesh=read_mesh(MESH),
            objectives=OBJECTIVES,
            budget=Budget(arguments.seconds or DEFAULT_SECONDS),
            seed=arguments.seed,
            islands=islands_of(arguments.islands),
            verify="auto",
        )
        with reporter(arguments.quiet) as reported:
            outcome = search_and_check(request, reported)
        run_id = store_outcome(store, outcome)
    finally:
        store.close()
    claims = _claims(outcome, run_id)
    if arguments.json:
        document = {"run": run_id, **result_document(outcome.result, outcome.checked)}
        print_json({**document, "claims": [vars(claim) for claim in claims]})
    else:
        _print(outcome, claims, run_id)
    if outcome.is_interrupted:
        return exit_interrupted()
    for claim in claims:
        if not claim.holds:
            print(f"tapestry: this does not hold: {claim.text} ({claim.figures})", file=sys.stderr)
    return OK if all(claim.holds for claim in claims) else FAILED


def _graph() -> Graph:
    try:
        return read_graph(str(example_model(DEMO_MODEL)), ())
    except GraphFileError as error:
        raise CommandError(str(error)) from error


def _claims(outcome: Outcome, run_id: str | None) -> list[Claim]:
    result, verified = outcome.result, outcome.checked.verified
    plans = len(result.frontier)
    names = [objective.name for objective in result.objectives]
    correlation, (one, other) = largest_rank_correlation([plan.cost for plan in result.frontier], names)
    proven = sum(v["sharding"]["ok"] for v in verified.values())
    equal = {
        what: sum(v[what]["predicted"] == v[what]["counted"] for v in verified.values())
        for what in ("memory", "traffic")
    }
    telling = {plan.id for plan in telling_plans(result.frontier, result.objectives).values()}
    right = sum(verified[p]["values"]["ok"] for p in telling if p in verified)
    return [
        Claim(f"at least {FEWEST_PLANS} plans", f"{plans} plans", plans >= FEWEST_PLANS),
        Claim(
            f"{len(names)} objectives, no two of which are one in disguise",
            f"largest rank correlation {correlation:.2f} ({one}, {other})",
            len(names) >= 4 and correlation < LARGEST_CORRELATION,
        ),
        Claim("every sharding is proven", f"{proven} of {plans} plans", proven == plans),
        Claim(
            "predicted peak memory equals the simulator's count, to the byte",
            f"{equal['memory']} of {plans} plans",
            equal["memory"] == plans,
        ),
        Claim(
            "predicted traffic equals the simulator's count, to the byte",
            f"{equal['traffic']} of {plans} plans",
            equal["traffic"] == plans,
        ),
        Claim(
            "executed on 8 simulated devices, outputs equal the unsharded reference",
            f"{right} of {len(telling)} plans, within 1e-4 of the largest value",
            right == len(telling),
        ),
        Claim("all of it is stored", f"run {run_id}", run_id is not None),
    ]


def _print(outcome: Outcome, claims: list[Claim], run_id: str | None) -> None:
    result = outcome.result
    telling = telling_plans(result.frontier, result.objectives)
    marks: dict[str, list[str]] = {}
    for mark, plan in telling.items():
        marks.setdefault(plan.id, []).append(mark)
    document = result_document(result, outcome.checked)
    print(f"\nThe Pareto frontier: {len(result.frontier)} plans, none of which is beaten by another\n")
    print_frontier(document["frontier"], document["objectives"], marks)
    print(
        f"\n{result.evaluations:,} plans evaluated in {result.seconds:.1f} s; "
        f"seed {result.seed}, {result.islands} islands\n"
    )
    rows = [row for mark, plan in telling.items() if (row := _executed(mark, plan, outcome)) is not None]
    if rows:
        headers = ("executed", "plan", "", "predicted", "counted", "", "error of outputs")
        print_table(headers, [line for row in rows for line in row], right=(3, 4))
        print()
    width = max(len(claim.text) for claim in claims)
    for claim in claims:
        print(
            f"{verdict(claim.holds, ' ok ', 'FAIL')}  {claim.text.ljust(width)}  {paint(claim.figures, 'dim')}"
        )
    print(f"\n`tapestry show {run_id}` shows the run, `tapestry show PLAN` how a plan is made.")


def _executed(mark: str, plan: Plan, outcome: Outcome) -> list[tuple[str, ...]] | None:
    record = outcome.checked.executions.get(plan.id)
    if record is None:
        return None
    lines: list[tuple[str, ...]] = []
    errors: dict[str, Any] = record.verified["values"]["max_error"]
    said = ", ".join(f"{sink} {error:.1e}" for sink, error in errors.items() if error is not None)
    for name, title in (("peak_memory_bytes", "peak memory B"), ("traffic_bytes", "traffic B")):
        pair = record.counts[name]
        first = not lines
        lines.append(
            (
                mark if first else "",
                plan.id if first else "",
                title,
                f"{pair['predicted']:,}",
                f"{pair['counted']:,}",
                verdict(pair["predicted"] == pair["counted"], "equal", "DIFFERENT"),
                said if first else "",
            )
        )
    return lines
