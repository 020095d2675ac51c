"""Tests of ranges pulled back: tight for every selector, and enough for every program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tapestry
from tapestry.teg.builder import GraphBuilder, define
from tapestry.teg.evaluate import evaluate, random_inputs, run_block
from tapestry.teg.graph import Graph, TensorType
from tapestry.teg.operators import catalog
from tapestry.teg.operators.testing import random_values as operands_of
from tapestry.teg.pullback import pull_back, pull_back_block
from tapestry.teg.zspace import ZRange
from tests.cases import examples
from tests.contracts.generators import GENERATORS
from tests.teg.sharding.programs import random_program

SELECTORS = ("view", "concat", "interleave", "pad", "dilate", "reshape")


def part_of(draw, shape) -> ZRange:
    ends = [draw(st.integers(1, n)) for n in shape]
    return ZRange(tuple(draw(st.integers(0, e - 1)) for e in ends), tuple(ends))


def inside(box: ZRange) -> tuple[slice, ...]:
    return tuple(map(slice, box.start, box.end))


@pytest.mark.parametrize("operator", SELECTORS)
@settings(max_examples=examples(80))
@given(data=st.data())
def test_a_selectors_ranges_are_the_boxes_around_what_it_selects(operator, data):
    drawn = GENERATORS[operator](data.draw)
    kinds = [TensorType(t.shape, "int64") for t in drawn.inputs]
    attrs = tuple((k, -1 if k == "value" else v) for k, v in drawn.attributes)
    definition, (whole,) = define(operator, attrs, kinds)
    numbers = np.cumsum([1, *(int(np.prod(t.shape)) for t in kinds)])
    arrays = [
        np.arange(a, a + int(np.prod(t.shape))).reshape(t.shape) for a, t in zip(numbers, kinds, strict=False)
    ]
    box = part_of(data.draw, whole.shape)

    found = pull_back_block(definition, kinds, box)

    seen = run_block(definition, None, arrays, (whole,))[0][inside(box)]
    for k, (array, read) in enumerate(zip(arrays, found, strict=True)):
        own = seen[(seen >= numbers[k]) & (seen < numbers[k + 1])] - numbers[k]
        if not own.size:
            assert read.is_empty
            continue
        places = np.unravel_index(own, array.shape)
        tight = ZRange(tuple(int(p.min()) for p in places), tuple(int(p.max()) + 1 for p in places))
        exact = (
            operator != "reshape" or whole.shape == tuple(box.shape) or sum(n > 1 for n in whole.shape) <= 1
        )
        assert read == tight if exact else read.contains(tight)


@pytest.mark.parametrize("operator", GENERATORS)
@settings(max_examples=examples(15))
@given(data=st.data(), seed=st.integers(0, 99))
def test_nothing_else_of_the_inputs_matters(operator, data, seed):
    """Check that the part of the result stays the same when everything outside of the ranges is changed."""
    drawn, rng = GENERATORS[operator](data.draw), np.random.default_rng(seed)
    definition, outputs = define(operator, drawn.attributes, drawn.inputs)
    arrays, others = (operands_of(catalog()[operator], drawn, rng) for _ in range(2))
    box = part_of(data.draw, outputs[0].shape)

    for array, other, read in zip(
        arrays, others, pull_back_block(definition, drawn.inputs, box), strict=True
    ):
        other[inside(read)] = array[inside(read)]

    first, second = (run_block(definition, None, a, outputs)[0][inside(box)] for a in (arrays, others))
    np.testing.assert_allclose(second, first, rtol=1e-6, atol=1e-6)


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_whole_programs(seed, data):
    rng = np.random.default_rng(seed)
    graph = random_program(rng)
    values, others = random_inputs(graph, rng), random_inputs(graph, rng)
    sink = graph.sinks[data.draw(st.integers(0, len(graph.sinks) - 1))]
    box = part_of(data.draw, graph.tensors[sink.inputs[0]].shape)

    needed = pull_back(graph, sink.site, box)

    for site, value in values.items():
        for read in needed.get(graph.by_site[site].outputs[0], ()):
            others[site][inside(read)] = value[inside(read)]
    first, second = (evaluate(graph, v)[sink.site][inside(box)] for v in (values, others))
    np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-5)


def test_a_chain_of_selectors_is_one_map():
    """Check ranges written by hand: every other column backwards, repeated, padded around and joined with itself."""
    with tapestry.program() as p:
        x = p.input("x", 4, 10)
        y = x[:, ::-2].repeat(1, 2).pad({1: (3, 0)})
        p.output("y", p.concat([y, x], 1))

    source = p.graph.sources[0].outputs[0]
    at = {k: pull_back(p.graph, "y", ZRange((1, k), (2, k + 1))).get(source, ()) for k in (0, 3, 7, 9, 13)}

    assert at == {
        0: (),
        3: (ZRange((1, 9), (2, 10)),),
        7: (ZRange((1, 1), (2, 2)),),
        9: (ZRange((1, 7), (2, 8)),),
        13: (ZRange((1, 0), (2, 1)),),
    }


def test_what_cannot_be_pulled_back_says_so():
    b = GraphBuilder("small")
    b.sink(b.source("x", (4,), "float32"), site="y")
    graph: Graph = b.build()

    with pytest.raises(ValueError, match="no tensor or sink 'z'"):
        pull_back(graph, "z")
    with pytest.raises(ValueError, match="is no part of 'x'"):
        pull_back(graph, "y", ZRange((0,), (5,)))
    assert pull_back(graph, "y", ZRange((2,), (2,))) == {}
