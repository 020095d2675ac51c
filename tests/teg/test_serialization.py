"""Tests of documents written as a stream: the same graph, in portions of bounded size, while blocks are made."""

from collections.abc import Iterator

import numpy as np
import pytest

from tapestry.teg import serialization
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.document import loads
from tapestry.teg.graph import Block, Graph, Tensor
from tapestry.teg.serialization import PORTION, stream_document
from tests.teg.documents import assert_same
from tests.teg.graphs import cell, small_program
from tests.teg.test_external_data import named_program


def nodes_of(graph: Graph) -> Iterator[tuple[Block, list[Tensor]]]:
    return ((b, [graph.tensors[t] for t in b.outputs]) for b in graph.blocks)


def chain_of(length: int) -> Graph:
    b = GraphBuilder("chain")
    x = b.source("x", (2,), "float32")
    for k in range(length):
        (x,) = cell(b, ("neg", ("input", 0)), x, site=f"layers.{k}.é")
    b.sink(x)
    return b.build()


@pytest.mark.parametrize("graph", [small_program(), named_program(), chain_of(40), GraphBuilder("").build()])
def test_the_stream_is_read_back_as_the_graph(graph: Graph) -> None:
    values = [*graph.data.items(), *graph.external.items()]
    text = "".join(stream_document(graph.name, nodes_of(graph), values))
    assert text.isascii()
    assert_same(loads(text), graph)


def test_large_values_are_written_in_pieces() -> None:
    value = np.arange(300_001, dtype=np.float32)
    b = GraphBuilder("large")
    b.sink(b.source("x", value.shape, "float32", "constant", value), site="y")
    graph = b.build()
    portions = list(stream_document(graph.name, nodes_of(graph), graph.data.items()))
    assert max(map(len, portions)) <= PORTION < len("".join(portions))
    assert_same(loads("".join(portions)), graph)


def test_blocks_are_taken_as_the_text_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialization, "PORTION", 1000)
    taken: list[str] = []

    def watched() -> Iterator[tuple[Block, list[Tensor]]]:
        for block, outputs in nodes_of(chain_of(100)):
            taken.append(block.site)
            yield block, outputs

    portions = stream_document("chain", watched(), ())
    assert taken == []
    counts = []
    for portion in portions:
        assert len(portion) <= 1000
        counts.append(len(taken))
    assert counts[0] < 12 and counts[4] < 60
    assert len(taken) == 102


def test_closing_the_stream_ends_the_work() -> None:
    is_ended = False

    def watched() -> Iterator[tuple[Block, list[Tensor]]]:
        nonlocal is_ended
        try:
            yield from nodes_of(chain_of(5000))
        finally:
            is_ended = True

    portions = stream_document("chain", watched(), ())
    next(portions)
    assert not is_ended
    portions.close()
    assert is_ended
