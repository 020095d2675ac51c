"""Tasks of the pool that draw programs and rules. Results are gzipped JSON."""

from __future__ import annotations

from tapestry.service.api.packing import gzipped_json
from tapestry.service.api.tasks import store_at
from tapestry.service.drawings import drawing_document
from tapestry.service.rule_drawings import rule_drawing
from tapestry.service.store import StoreAddress


def draw_graph(graph_id: str, address: StoreAddress) -> bytes:
    """Convert a stored program to the columns of its drawing."""
    return gzipped_json(drawing_document(store_at(address).graphs.load(graph_id)))


def draw_plan(key: int, address: StoreAddress) -> bytes:
    """Convert the program that a plan shards to the columns of its drawing."""
    return gzipped_json(drawing_document(store_at(address).plans.load(key).graph))


def draw_rule(name: str) -> bytes | None:
    """Draw a rule before and after its move; None if there is no such structural rule."""
    document = rule_drawing(name)
    return None if document is None else gzipped_json(document)
