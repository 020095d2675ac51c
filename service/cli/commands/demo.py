"""`tapestry demo`: GPT-2 small on eight H100 through the service's own API, from an ONNX file to checked plans."""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tapestry.client import (
    Client,
    EventRecord,
    PlanRecord,
    RunFailedError,
    RunRecord,
    ServiceError,
    UnreachableError,
)
from tapestry.costmodel.known_objectives import objective_called
from tapestry.optimizer import Progress
from tapestry.optimizer.archive.representatives import representative_plans
from tapestry.service.cli.errors import FAILED, INTERNAL, OK, WRONG, CommandError
from tapestry.service.cli.frontier import print_frontier
from tapestry.service.cli.output import paint, print_json, print_table, verdict
from tapestry.service.cli.progress import Reporter, reporter
from tapestry.service.cli.searching import exit_interrupted
from tapestry.service.correlation import largest_rank_correlation
from tapestry.service.examples import DEMO_EXECUTION_SECONDS, DEMO_MODEL, example_model
from tapestry.service.logs import start_logging
from tapestry.service.serving import ServiceServer, ServingError
from tapestry.service.settings import ServiceSettings, SettingsError, service_settings
from tapestry.teg.brief import counted
from tapestry.teg.importers.files import GraphFileError
from tapestry.teg.readable import quantity

MESH = "dgx-h100"
OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j")
FEWEST_PLANS = 8
LOG_LEVEL = "error"
LARGEST_CORRELATION = 0.95


@dataclass(frozen=True)
class DemoOutcome:
    """The run when it has ended, its frontier, and whether Ctrl-C ended it."""

    run: RunRecord
    plans: tuple[PlanRecord, ...]
    is_interrupted: bool

    @property
    def representative(self) -> dict[str, PlanRecord]:
        """The most representative plans, by their roles."""
        objectives = [objective_called(name) for name in OBJECTIVES]
        return representative_plans(self.plans, objectives) if self.plans else {}


@dataclass(frozen=True)
class Claim:
    """A claim that the demo checks: its text, the figures, and whether it holds."""

    text: str
    figures: str
    holds: bool


def run(arguments: Namespace) -> int:
    """Start the service, post the model and a run, follow it, print the results; then keep serving, on a terminal."""
    start_logging(LOG_LEVEL)
    stays = not (arguments.once or arguments.json) and sys.stdin.isatty() and sys.stdout.isatty()
    settings = _settings(arguments)
    with ExitStack() as stack:
        server = stack.enter_context(_listening(settings, arguments.islands, arguments.port is None))
        stack.enter_context(server.in_background())
        client = stack.enter_context(_client(server.address, settings.api_key))
        try:
            outcome = _search(client, arguments)
            code = _report(client, outcome, arguments.json)
        except ServiceError as error:
            raise CommandError(str(error), _code_of(error)) from error
        if not arguments.json:
            print(f"\nThe run's page: {server.address}/runs/{outcome.run.id}", flush=True)
        if stays and not outcome.is_interrupted:
            print("Serving until Ctrl-C.", flush=True)
            _wait_for_interrupt()
    return code


def _client(address: str, api_key: str | None) -> Client:
    try:
        return Client(address, api_key=api_key)
    except ImportError as error:
        raise CommandError(str(error)) from error


def _code_of(error: ServiceError) -> int:
    """Return the exit code for an error of the client."""
    if isinstance(error, RunFailedError):
        return FAILED
    return INTERNAL if isinstance(error, UnreachableError) else WRONG


def _settings(arguments: Namespace) -> ServiceSettings:
    try:
        return service_settings(
            os.environ, database_url=arguments.database_url, host=None, port=arguments.port
        )
    except SettingsError as error:
        raise CommandError(str(error)) from error


@contextmanager
def _listening(settings: ServiceSettings, islands: int | None, any_port: bool) -> Iterator[ServiceServer]:
    """Open the service at its port, or at a free one when that is taken and no port was requested."""
    try:
        server = ServiceServer(settings, worker=True, islands=islands, log_level=LOG_LEVEL)
    except ServingError as error:
        if not any_port or "cannot listen" not in str(error):
            raise CommandError(str(error)) from error
        server = ServiceServer(settings.with_port(0), worker=True, islands=islands, log_level=LOG_LEVEL)
    with server:
        yield server


def _wait_for_interrupt() -> None:
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print()


def _search(client: Client, arguments: Namespace) -> DemoOutcome:
    try:
        graph = client.upload(example_model(DEMO_MODEL))
    except GraphFileError as error:
        raise CommandError(str(error)) from error
    if not arguments.json:
        summary = graph.summary or {}
        print(
            f"{graph.name}: {graph.blocks} blocks, {summary['parameters']:,} parameters, "
            f"{quantity(summary['flops'], 'flop')}; on {MESH}",
            flush=True,
        )
    limits = {name: getattr(arguments, name) for name in ("seconds", "evaluations", "seed")}
    submitted = client.submit(
        graph, MESH, objectives=OBJECTIVES, fresh=True, execution_seconds=DEMO_EXECUTION_SECONDS, **limits
    )
    is_interrupted = False
    with reporter(arguments.quiet) as reported:
        follower = Follower(reported)
        try:
            run_ = client.wait(submitted, follower.report)
        except KeyboardInterrupt:
            reported.note("stopping; the frontier found so far is kept (Ctrl-C again ends at once)")
            is_interrupted = True
            client.cancel(submitted)
            run_ = client.wait(submitted, follower.report)
    return DemoOutcome(run_, client.frontier(run_).plans, is_interrupted)


class Follower:
    """The progress of a run, reported while its events come."""

    def __init__(self, reported: Reporter) -> None:
        self._reported = reported
        self._shown, self._seen = 0, 0
        self._checked: set[str] = set()

    def report(self, event: EventRecord) -> None:
        """Report an event; those that were seen before are left out."""
        if event.number <= self._seen:
            return
        self._seen = event.number
        data = event.data
        if event.kind == "status" and data["phase"] in ("compiling", "seeding"):
            self._reported.searching(Progress(data["phase"], 0.0, 0, 0, 0.0))
        elif event.kind == "progress":
            counts = (data["seconds"], data["evaluations"], data["front"], data["hypervolume"])
            self._reported.searching(Progress("searching", *counts, fraction=data["fraction"]))
        elif event.kind == "frontier":
            self._shown = data["size"]
        elif event.kind == "executing":
            self._reported.executing(data["number"], data["count"], data["seconds"])
        elif event.kind == "verified" and data["plan"] not in self._checked:
            self._checked.add(data["plan"])
            self._reported.checking(len(self._checked), self._shown)


def _report(client: Client, outcome: DemoOutcome, as_json: bool) -> int:
    executions = {mark: _executions(client, plan) for mark, plan in outcome.representative.items()}
    claims = _claims(outcome) if outcome.plans else []
    if as_json:
        documents = [plan.document for plan in outcome.plans]
        print_json(
            {**outcome.run.document, "frontier": documents, "claims": [vars(claim) for claim in claims]}
        )
    else:
        _print(outcome, executions, claims)
    if outcome.is_interrupted:
        return exit_interrupted()
    for claim in claims:
        if not claim.holds:
            print(f"tapestry: this does not hold: {claim.text} ({claim.figures})", file=sys.stderr)
    return OK if claims and all(claim.holds for claim in claims) else FAILED


def _executions(client: Client, plan: PlanRecord) -> list[Mapping[str, Any]]:
    found = client.plan(plan).executions
    return [execution for execution in found if execution["status"] == "succeeded"]


def _claims(outcome: DemoOutcome) -> list[Claim]:
    plans, representative = outcome.plans, outcome.representative
    count = len(plans)
    correlation, (one, other) = largest_rank_correlation([plan.cost for plan in plans], OBJECTIVES)
    checked = {plan.id: plan.verified or {} for plan in plans}
    proven = sum(verified.get("sharding", {}).get("ok", False) for verified in checked.values())
    distinct = {plan.id for plan in representative.values()}
    right = sum(checked[plan_id].get("values", {}).get("ok", False) for plan_id in distinct)

    def equal(what: str) -> int:
        pairs = [verified[what] for verified in checked.values() if what in verified]
        return sum(pair["predicted"] == pair["counted"] for pair in pairs)

    return [
        Claim(f"at least {FEWEST_PLANS} plans", f"{count} plans", count >= FEWEST_PLANS),
        Claim(
            f"{len(OBJECTIVES)} objectives, no two of which are one in disguise",
            f"largest rank correlation {correlation:.2f} ({one}, {other})",
            correlation < LARGEST_CORRELATION,
        ),
        Claim("every sharding is proven", f"{proven} of {count} plans", proven == count),
        Claim(
            "predicted peak memory equals the simulator's count, to the byte",
            f"{equal('memory')} of {count} plans",
            equal("memory") == count,
        ),
        Claim(
            "predicted traffic equals the simulator's count, to the byte",
            f"{equal('traffic')} of {count} plans",
            equal("traffic") == count,
        ),
        Claim(
            "executed on 8 simulated devices, outputs equal the unsharded reference",
            f"{right} of {len(distinct)} plans, within 1e-4 of the largest value",
            right == len(distinct),
        ),
        Claim("all of it is stored", f"run {outcome.run.id}", outcome.run.status == "succeeded"),
    ]


def _print(outcome: DemoOutcome, executions: dict[str, list[Mapping[str, Any]]], claims: list[Claim]) -> None:
    marks: dict[str, list[str]] = {}
    for mark, plan in outcome.representative.items():
        marks.setdefault(plan.plan, []).append(mark)
    print(f"\nThe Pareto frontier: {len(outcome.plans)} plans, none of which is beaten by another\n")
    if outcome.plans:
        documents = [{**plan.document, "id": plan.plan} for plan in outcome.plans]
        print_frontier(documents, OBJECTIVES, marks)
    run_ = outcome.run
    print(
        f"\n{run_.evaluations:,} plans evaluated in {run_.seconds:.1f} s; "
        f"seed {run_.options.seed}, {counted(run_.options.islands or 1, 'island')}\n"
    )
    rows = [
        row
        for mark, plan in outcome.representative.items()
        for row in _executed(mark, plan, executions[mark])
    ]
    if rows:
        headers = ("executed", "plan", "", "predicted", "counted", "", "error of outputs")
        print_table(headers, rows, right=(3, 4))
        print()
    width = max((len(claim.text) for claim in claims), default=0)
    for claim in claims:
        print(
            f"{verdict(claim.holds, ' ok ', 'FAIL')}  {claim.text.ljust(width)}  {paint(claim.figures, 'dim')}"
        )
    print(f"\n`tapestry show {run_.id}` shows the run, `tapestry show PLAN` how a plan is made.")


def _executed(mark: str, plan: PlanRecord, executions: list[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Format two lines about a plan that was run with numbers: peak memory and traffic; none if it was not."""
    if not executions:
        return []
    execution = executions[-1]
    errors = execution["verified"]["values"]["max_error"]
    errors_text = ", ".join(f"{sink} {error:.1e}" for sink, error in errors.items() if error is not None)
    lines: list[tuple[str, ...]] = []
    for name, title in (("peak_memory_bytes", "peak memory B"), ("traffic_bytes", "traffic B")):
        pair = execution["counts"][name]
        same = verdict(pair["predicted"] == pair["counted"], "equal", "DIFFERENT")
        figures = (title, f"{pair['predicted']:,}", f"{pair['counted']:,}", same)
        heads = ("", "") if lines else (mark, plan.plan)
        lines.append((*heads, *figures, "" if lines else errors_text))
    return lines
