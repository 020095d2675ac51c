"""Tasks of the pool that draw programs and rules. Results are gzipped JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.optimizer import canonicalize
from tapestry.rewrites import Move, Provenance, RuleError, StaleMove
from tapestry.service.api.packing import gzipped_json
from tapestry.service.api.tasks import store_at
from tapestry.service.drawings import drawing_document
from tapestry.service.explaining import moves_of
from tapestry.service.program_changes import changes_document
from tapestry.service.rule_drawings import rule_drawing
from tapestry.service.store import StoreAddress
from tapestry.teg.graph import Graph


class DrawnChanges(NamedTuple):
    """A program before and after its moves; or the reason why these cannot be replayed."""

    content: bytes = b""
    refusal: str = ""


def draw_graph(graph_id: str, address: StoreAddress) -> bytes:
    """Convert a stored program to the columns of its drawing."""
    return gzipped_json(drawing_document(store_at(address).graphs.load(graph_id)))


def draw_plan(key: int, address: StoreAddress) -> bytes:
    """Convert the program that a plan shards to the columns of its drawing."""
    return gzipped_json(drawing_document(store_at(address).plans.load(key).graph))


def draw_changes_of_graph(
    source_id: str, moves: Sequence[Mapping[str, Any]], graph_id: str, address: StoreAddress
) -> DrawnChanges:
    """Compare a stored program with the one from which these moves made it."""
    store = store_at(address)
    return _changes(store.graphs.load(source_id), moves_of(moves), store.graphs.load(graph_id))


def draw_changes_of_plan(plan_id: str, address: StoreAddress) -> DrawnChanges:
    """Compare the program that a plan shards with the one that its run searched."""
    store = store_at(address)
    plan = store.plans.get(plan_id)
    given = canonicalize(store.graphs.load(store.runs.request(plan.run_id).graph_id))
    return _changes(given, moves_of(plan.moves))


def draw_rule(name: str) -> bytes | None:
    """Draw a rule before and after its move; None if there is no such structural rule."""
    document = rule_drawing(name)
    return None if document is None else gzipped_json(document)


def _changes(given: Graph, moves: Sequence[Move], result: Graph | None = None) -> DrawnChanges:
    try:
        reported = Provenance(given, moves)
    except (StaleMove, RuleError) as error:
        return DrawnChanges(refusal=" ".join(str(error).split()))
    return DrawnChanges(gzipped_json(changes_document(given, result or reported.graph, reported)))
