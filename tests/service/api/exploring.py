"""Exploration of a service by requests that are made from its OpenAPI document: all phases of schemathesis, all checks.

A request of the described form that is refused means that the document says too much, but for what no schema can say.
`BEYOND_SCHEMAS` lists that, with reasons.

    python -m tests.service.api.exploring http://127.0.0.1:8000 --examples 40
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import schemathesis
from schemathesis import engine
from schemathesis.config import SchemathesisConfig
from schemathesis.engine.events import NonFatalError, ScenarioFinished
from schemathesis.schemas import BaseSchema

PHASES = ("examples", "coverage", "fuzzing", "stateful")
CHAINS, MOST_SERIES = 50, 100
# An answer that ends only when its run does: nothing waits for the end of a run that a request has just begun.
ENDLESS = "/v1/runs/{run_id}/events"
# Lists of a thousand different documents of meshes take minutes to generate, and no coverage phase is without one.
LONG_LISTS = "POST /v1/batches"


class BeyondSchemas(NamedTuple):
    """A fault in requests of the described form: of which operations, at which place, in which words, and why."""

    operation: str
    pointer: str
    detail: str
    reason: str


FILE = "a file is not described by a schema"
STORED = "what there is is stored, and not in a document"
PROGRAM = "depends on the program"
MESH = "depends on the mesh"
PLUGINS = "plug-ins bring rules"
LAYOUT = "layouts have notations, and sizes of their own"
TOGETHER = "depends on other members"
FORMS = (
    "expected a name",
    "expected printable",
    "expected an? (object|list|integer|number|text|bool)",
    "an object here has",
)
REFUSED = ("400", "401", "403", "404", "405", "406", "409", "415", "422", "428", "429", "5xx")
RUN = "POST /v1/(runs|batches)"
GRAPH = "POST /v1/graphs"
LAYOUTS = "POST /v1/layouts/.*"
EXECUTIONS = "POST .*/executions"
BEYOND_SCHEMAS = tuple(
    BeyondSchemas(*each)
    for each in (
        (".*", "#header/Idempotency-Key", "the Idempotency-Key .* was used before ", STORED),
        (RUN, "/graph_id", "there is no graph ", STORED),
        (RUN, "/start_from", "there is no run |run .* (has no plans|is of|is not one run)", STORED),
        (RUN, "/prior", "there is no |.* of another release", STORED),
        (RUN, "/mesh(/.*)?", "there is no (mesh|device) |mesh: ", MESH),
        (RUN, "/mesh/.*", "expected at most 1000 members, and 8 levels", "a schema cannot count levels"),
        (RUN, "/compute_dtype", "device .* has no peak for ", MESH),
        (RUN, "/(stages|(data|tensor)_parallel)", ".* equal parts |the axes .* cannot be divided ", MESH),
        (RUN, "/(stages|(data|tensor)_parallel)", "blocks cannot be pinned ", TOGETHER),
        (RUN, "/(stages|micro_batches|data_parallel)", ".*; possible are |.* micro-batch", PROGRAM),
        (
            RUN,
            "/objectives/[0-9]+",
            "there is no objective |expression |objective .* grows with no ",
            PROGRAM,
        ),
        (RUN, "/objectives/[0-9]+", "device .* has no ", MESH),
        (RUN, "/objectives/[0-9]+", ".* is there twice", "expressions may be written in several ways"),
        (RUN, "/constraints/[0-9]+", "(constraint )?['\"].*(: |bounds nothing)", PROGRAM),
        (
            RUN,
            "/worth/.*",
            "there is no objective |expression |objective |.* no objective of this run",
            PROGRAM,
        ),
        (
            RUN,
            "/worth/.*",
            "expected money |expected an amount |.* is in ",
            "units are those of the objective",
        ),
        (RUN, "/pins/.*", "spec |there is no block |a view ", PROGRAM),
        (RUN, "/gap", "nothing is proven about ", TOGETHER),
        (RUN, "/rules/[0-9]+", "there is no rule ", PLUGINS),
        ("GET /v1/plans/.*/alternatives", "#query/follow", ".* is no objective of the run", STORED),
        ("GET /v1/plans/.*/alternatives", "#query/block", "the plan has no block ", PROGRAM),
        ("POST /v1/batches", "", "these are .* runs; at most ", "the product of three lists is limited"),
        # All but the form: what says which type was expected, and which members there are.
        (GRAPH, ".*", f"(?!.*; ({'|'.join(FORMS)}))", "parts of a program refer to each other"),
        (GRAPH, ".*", "float .*written without point", "to a schema, 2.0 is a whole number"),
        ("POST /v1/graphs/import", "/file", "", FILE),
        ("(GET|POST) /v1/graphs/import", "/data", "external data is for |.* sent twice", FILE),
        ("GET .*/rewrites", "#query/rules(/[0-9]+)?", "there is no rule |nothing is left ", PLUGINS),
        ("POST .*/rewrites", "/rules(/[0-9]+)?", "there is no rule |nothing is left ", PLUGINS),
        ("POST .*/rewrites", "/moves/[0-9]+", ".* ?at ", PROGRAM),
        ("POST .*/precisions/.*", "", "program .* wider than ", PROGRAM),
        (LAYOUTS, "/text", "at character |expected an element type ", LAYOUT),
        (LAYOUTS, "/(at|offset|dtype)", "coordinates |offset |.* element type|.*layout", LAYOUT),
        ("PUT /v1/tensors/.*", "", "the body ", FILE),
        (EXECUTIONS, "/(inputs|weights)", "the file of ", FILE),
        (EXECUTIONS, "/(tensors|save)/.*", "there is no |.* is no name of a stored tensor", PROGRAM),
        (EXECUTIONS, "/values", "nothing is computed, ", TOGETHER),
        ("POST .*/export", "/file", "", FILE),
        ("GET .*/export", "", ".* is exported whole; ", TOGETHER),
        ("GET .*/(export|graph)", "#query/(device|layer|block)", "there is no |no block ", PROGRAM),
    )
)


@dataclass
class Exploration:
    """The requests that were sent, by phase and by status, the operations that succeeded, and what was found wrong."""

    sent: Counter[str] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    succeeded: set[str] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)

    def __or__(self, other: Exploration) -> Exploration:
        return Exploration(
            self.sent + other.sent,
            self.answered + other.answered,
            self.succeeded | other.succeeded,
            self.failures | other.failures,
        )

    def __str__(self) -> str:
        phases = ", ".join(f"{self.sent[phase]:,} {phase}" for phase in PHASES)
        return f"{self.sent.total():,} requests ({phases}): {dict(sorted(self.answered.items()))}"


def explore(
    address: str,
    *,
    examples: int,
    seed: int = 0,
    phases: Sequence[str] = PHASES,
    uncovered: Sequence[str] = (LONG_LISTS,),
) -> Exploration:
    """Send requests of all phases to the operations of a service: so many examples, and so many chains of requests.

    The coverage phase leaves `uncovered` operations out.
    """
    found = Exploration()
    for event in engine.from_schema(described(address, examples, seed, phases, uncovered)).execute():
        if isinstance(event, NonFatalError):
            found.failures[str(event.label)] = str(event.value)
        if isinstance(event, ScenarioFinished):
            note(event, found)
    return found


def explore_chains(address: str, *, requests: int, seed: int = 0) -> Exploration:
    """Send at least so many requests in chains, each with what the answer before it names.

    Hypothesis ends a series of chains where answers differ from those to the same requests before, as those of a
    service do: then the next series begins.
    """
    found = Exploration()
    for k in range(MOST_SERIES):
        if found.sent.total() >= requests:
            break
        found |= explore(address, examples=CHAINS, seed=seed + k, phases=("stateful",))
    return found


def described(
    address: str, examples: int, seed: int, phases: Sequence[str], uncovered: Sequence[str]
) -> BaseSchema:
    """Load the document of a service, with all checks."""
    config = SchemathesisConfig.from_dict(
        {
            "seed": seed,
            "suppress-health-check": ["all"],
            "continue-on-failure": True,
            "request-timeout": 60,
            "generation": {
                "max-examples": examples,
                "no-shrink": True,
                "database": "none",
            },
            "phases": {phase: {"enabled": phase in phases} for phase in PHASES},
            # A body that is too large is refused before its form is looked at.
            "checks": {"negative_data_rejection": {"expected-statuses": [*REFUSED, "413"]}},
            "operations": [
                {"include-path": ENDLESS, "phases": {"stateful": {"enabled": False}}},
                *({"include-name": name, "phases": {"coverage": {"enabled": False}}} for name in uncovered),
            ],
        }
    )
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json", config=config)

    @schema.hook
    def filter_failure(_: Any, failure: Any, case: schemathesis.Case, response: Any) -> bool:
        is_refusal = type(failure).__name__ == "RejectedPositiveData"
        return not (
            is_refusal
            and response.status_code == 422
            and is_beyond_schemas(case.operation.label, response.json())
        )

    return schema


def is_beyond_schemas(operation: str, problem: dict[str, Any]) -> bool:
    """Return whether no schema can say any of the faults in a problem document."""
    faults = problem.get("errors") or [{"pointer": "", "detail": problem["detail"]}]
    known = [each for each in BEYOND_SCHEMAS if re.fullmatch(each.operation, operation)]
    return all(
        any(
            re.fullmatch(each.pointer, fault["pointer"], re.DOTALL)
            and re.match(each.detail, fault["detail"], re.DOTALL)
            for each in known
        )
        for fault in faults
    )


def note(event: ScenarioFinished, found: Exploration) -> None:
    """Add what was sent, answered and found wrong in a scenario."""
    recorder = event.recorder
    for name, node in recorder.cases.items():
        found.sent[
            event.phase.name_in_config if hasattr(event.phase, "name_in_config") else str(event.phase.value)
        ] += 1
        interaction = recorder.interactions.get(name)
        if interaction is not None and interaction.response is not None:
            status = interaction.response.status_code
            found.answered[status] += 1
            if status < 300:
                found.succeeded.add(node.value.operation.label)
    for title, failure in failures_of(recorder):
        found.failures.setdefault(title, failure)


def failures_of(recorder: Any) -> Iterator[tuple[str, str]]:
    """Yield the failures of a scenario: operation and check, and what was sent and answered."""
    for name, checks in recorder.checks.items():
        case, interaction = recorder.cases[name].value, recorder.interactions.get(name)
        content = (
            None if interaction is None or interaction.response is None else interaction.response.content
        )
        for check in checks:
            if check.failure_info is not None:
                failure = check.failure_info.failure
                parts = (failure.message, case.as_curl_command()[:2000], repr((content or b"")[:1000]))
                yield f"{case.operation.label}: {check.name}", "\n".join(parts)


def main() -> None:
    """Explore the service at an address, and report what was sent and found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--examples", type=int, default=40)
    parser.add_argument("--chained", type=int, default=1000, help="requests in chains")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--phases", nargs="+", default=PHASES, choices=PHASES)
    given = parser.parse_args()
    singles = [phase for phase in given.phases if phase != "stateful"]
    found = explore(given.address, examples=given.examples, seed=given.seed, phases=singles)
    if "stateful" in given.phases:
        found |= explore_chains(given.address, requests=given.chained, seed=given.seed)
    print(found)
    print(f"{len(found.succeeded)} operations succeeded; {len(found.failures)} findings")
    for title, text in found.failures.items():
        print(f"--- {title}\n{text}")


if __name__ == "__main__":
    main()
