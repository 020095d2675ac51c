"""Tasks of the pool that convert programs to the columns of their drawings. Results are gzipped JSON."""

from __future__ import annotations

import gzip
import json

from tapestry.service.api.tasks import GZIP_LEVEL, store_at
from tapestry.service.drawings import drawing_document
from tapestry.service.store import StoreAddress
from tapestry.teg.graph import Graph


def draw_graph(graph_id: str, address: StoreAddress) -> bytes:
    """Convert a stored program."""
    return _packed(store_at(address).graphs.load(graph_id))


def draw_plan(key: int, address: StoreAddress) -> bytes:
    """Convert the program that a plan shards."""
    return _packed(store_at(address).plans.load(key).graph)


def _packed(graph: Graph) -> bytes:
    document = json.dumps(drawing_document(graph), separators=(",", ":"), allow_nan=False)
    return gzip.compress(document.encode(), GZIP_LEVEL, mtime=0)
