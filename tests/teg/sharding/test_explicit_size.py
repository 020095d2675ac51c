"""Tests of the estimated sizes of explicit graphs: near the written ones, and without writing equal copies twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.teg.document import loads
from tapestry.teg.sharding import explicit_size as subject
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.explicit_document import explicit_document
from tapestry.teg.sharding.explicit_parts import GraphPart
from tapestry.teg.sharding.explicit_size import explicit_size
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.nodes import TooManyNodes
from tests.teg.sharding.programs import MESHES, random_placements, random_program
from tests.teg.sharding.test_explicit_document import expanded, layered


@pytest.mark.parametrize(
    "part", [GraphPart(), GraphPart((1, 5), blocks=("product*",)), GraphPart(blocks=("product*", "relu*"))]
)
def test_the_estimate_is_near_what_is_written(part: GraphPart) -> None:
    explicit = expanded(layered(2, 16))
    text = "".join(explicit_document(explicit, part))
    blocks = loads(text).blocks
    size = explicit_size(explicit, part)
    # Sources and sinks at the border of a part are not counted.
    border = [b for b in blocks if b.operator == "source" or b.site.endswith(".sent")]
    if part.is_whole:
        border = []
    assert size.nodes == len(blocks) - len(border)
    if part.is_whole:
        assert 0.9 * len(text) < size.size_bytes < 1.1 * len(text)


def test_equal_copies_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    original = subject.write_copy

    def counted(writer: object, name: str, *arguments: object) -> object:
        written.append(name)
        return original(writer, name, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(subject, "write_copy", counted)
    counts = []
    for layers in (3, 6):
        written.clear()
        explicit_size(expanded(layered(layers)), GraphPart())
        counts.append(len(written))
    assert counts[0] == counts[1] < sum(len(slot.issued) for slot in expanded(layered(6)).slots) // 2


def test_a_large_copy_is_bounded_without_writing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    explicit = expanded(layered(2, 16))
    exact = explicit_size(explicit, GraphPart())
    monkeypatch.setattr(subject, "COPY_NODES", 3)
    bound = explicit_size(explicit, GraphPart())
    assert exact.nodes < bound.nodes < 3 * exact.nodes
    assert exact.size_bytes < bound.size_bytes < 4 * exact.size_bytes


def test_what_is_never_written_is_not_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "NODE_LIMIT", 100)
    with pytest.raises(TooManyNodes) as refusal:
        explicit_size(expanded(layered(4)), GraphPart((0,)))
    assert refusal.value.nodes > refusal.value.limit == 100


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.sampled_from(MESHES))
@settings(max_examples=20)
def test_estimates_of_random_plans_are_near(seed: int, mesh_shape: MeshShape) -> None:
    rng = np.random.default_rng(seed)
    graph = random_program(rng)
    explicit = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    text = "".join(explicit_document(explicit))
    size = explicit_size(explicit, GraphPart())
    nodes = len(loads(text).blocks)
    assert 0.7 * nodes <= size.nodes <= 1.4 * nodes
    assert 0.7 * len(text) <= size.size_bytes <= 1.4 * len(text)
