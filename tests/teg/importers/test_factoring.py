"""Tests of factors: reshapes that share factors vanish, others stay blocks, and values never change."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tapestry.teg.importers import from_onnx
from tapestry.teg.importers.factoring import DimClass
from tapestry.teg.importers.lowering.movement import Span, box
from tapestry.teg.validate import validate
from tests.teg.importers.models import check_against_reference, model_of


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_a_class_takes_cuts_that_divide_each_other() -> None:
    dims = DimClass(2304)
    assert dims.add(768)
    assert dims.add(64)
    assert not dims.accepts(96)
    assert dims.factors == (3, 12, 64)


def test_whole_dimensions_are_never_cut() -> None:
    dims = DimClass(12, whole=True)
    assert not dims.accepts(4)
    assert dims.factors == (12,)


@pytest.mark.parametrize(
    ("factors", "start", "stride", "size", "expected"),
    [
        ((3, 12, 64), 768, 1, 768, [Span(1, 1, 1), Span(0, 1, 12), Span(0, 1, 64)]),
        ((3, 4), 4, 1, 8, [Span(1, 1, 2), Span(0, 1, 4)]),
        ((3, 4), 5, 1, 2, [Span(1, 1, 1), Span(1, 1, 2)]),
        ((3, 4), 2, 1, 4, None),
        ((6, 2), 1, 2, 6, [Span(0, 1, 6), Span(1, 1, 1)]),
        ((6, 2), 0, 4, 3, [Span(0, 2, 3), Span(0, 1, 1)]),
        ((12,), 11, -1, 12, [Span(11, -1, 12)]),
    ],
)
def test_parts_of_a_dimension_as_boxes_of_factors(
    factors: tuple[int, ...], start: int, stride: int, size: int, expected: list[Span] | None
) -> None:
    assert box(factors, start, stride, size) == expected


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 30),
    st.integers(-5, 5).filter(bool),
    st.integers(1, 30),
)
def test_a_box_holds_exactly_the_coordinates(factors: list[int], start: int, stride: int, size: int) -> None:
    total = math.prod(factors)
    wanted = [start + stride * k for k in range(size)]
    if not all(0 <= w < total for w in wanted):
        return
    found = box(factors, start, stride if size > 1 else 1, size)
    if found is not None:
        array = np.arange(total).reshape(factors)
        for axis, span in enumerate(found):
            array = array.take([span.start + span.stride * k for k in range(span.size)], axis)
        assert array.reshape(-1).tolist() == wanted


def test_heads_are_split_and_joined_without_a_reshape(rng: np.random.Generator) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Reshape", ["h", "heads"], ["s"]),
        helper.make_node("Transpose", ["s"], ["t"], perm=[0, 2, 1, 3]),
        helper.make_node("MatMul", ["t", "m"], ["u"]),
        helper.make_node("Transpose", ["u"], ["v"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["v", "joined"], ["y"]),
    ]
    x, w, m = (rng.standard_normal(s).astype(np.float32) for s in ((2, 5, 7), (7, 12), (3, 4, 4)))
    shapes = {"heads": ints(2, 5, 3, 4), "joined": ints(2, 5, 12)}
    graph = check_against_reference(
        model_of(nodes, {"x": x, "w": w, "m": m}, ["y"], shapes), {"x": x, "w": w, "m": m}
    )
    assert [b.operator for b in graph.blocks if b.operator not in ("source", "sink")] == ["contract"] * 2
    assert graph.tensors["w"].shape == (7, 3, 4)
    assert graph.by_site["y"].definition["logical_shape"] == (2, 5, 12)


def test_shared_key_heads_are_a_broadcast(rng: np.random.Generator) -> None:
    nodes = [
        helper.make_node("Unsqueeze", ["k", "two"], ["u"]),
        helper.make_node("Expand", ["u", "wide"], ["e"]),
        helper.make_node("Reshape", ["e", "heads"], ["r"]),
        helper.make_node("MatMul", ["q", "r"], ["y"]),
    ]
    q, k = (rng.standard_normal(s).astype(np.float32) for s in ((1, 8, 5, 4), (1, 2, 4, 6)))
    shapes = {"two": ints(2), "wide": ints(1, 2, 4, 4, 6), "heads": ints(1, 8, 4, 6)}
    graph = check_against_reference(model_of(nodes, {"q": q, "k": k}, ["y"], shapes), {"q": q, "k": k})
    assert graph.tensors["q"].shape == (2, 4, 5, 4)
    assert graph.tensors["k"].shape == (2, 4, 6)
    assert Counter(b.operator for b in graph.blocks)["view"] == 0


def test_without_common_factors_the_reshape_stays(rng: np.random.Generator) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Reshape", ["b", "second"], ["y"]),
    ]
    x = rng.standard_normal((4, 6)).astype(np.float32)
    graph = check_against_reference(
        model_of(nodes, {"x": x}, ["y"], {"first": ints(3, 8), "second": ints(2, 12)}), {"x": x}
    )
    assert Counter(b.operator for b in graph.blocks)["reshape"] >= 1
    (middle,) = [b for b in graph.blocks if b.operator == "reshape" and b.definition["shape"] == (3, 8)]
    assert middle.signature is not None and middle.signature.dims == ()


def test_equal_parts_put_together_again_are_a_broadcast_or_a_view(rng: np.random.Generator) -> None:
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["twice"], axis=1),
        helper.make_node("Mul", ["twice", "z"], ["y"]),
    ]
    x, z = (rng.standard_normal(s).astype(np.float32) for s in ((3, 4), (3, 8)))
    graph = check_against_reference(model_of(nodes, {"x": x, "z": z}, ["y"]), {"x": x, "z": z})
    assert [b.operator for b in graph.blocks] == ["source", "source", "cell", "sink"]


MOVES = ("reshape", "transpose", "slice", "concat", "relu", "expand", "reduce", "split", "matmul")


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[object], tuple[int, ...], dict[str, np.ndarray]]:
    """Draw a random chain of moving and computing nodes from `x`, with their constants."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    start, nodes, constants, name = shape, [], {}, "x"
    for k in range(draw(st.integers(1, 6))):
        kind, out = draw(st.sampled_from(MOVES)), f"t{k}"
        if kind == "reshape":
            shape = draw(st.sampled_from(_shapes(math.prod(shape))))
            constants[f"c{k}"] = ints(*shape)
            nodes.append(helper.make_node("Reshape", [name, f"c{k}"], [out]))
        elif kind == "transpose":
            order = draw(st.permutations(range(len(shape))))
            shape = tuple(shape[d] for d in order)
            nodes.append(helper.make_node("Transpose", [name], [out], perm=order))
        elif kind == "slice":
            axis = draw(st.integers(0, len(shape) - 1))
            first = draw(st.integers(0, shape[axis] - 1))
            last = draw(st.integers(first + 1, shape[axis]))
            step = draw(st.sampled_from([1, 2]))
            for what, value in (("s", first), ("e", last), ("a", axis), ("p", step)):
                constants[f"{what}{k}"] = ints(value)
            nodes.append(helper.make_node("Slice", [name, f"s{k}", f"e{k}", f"a{k}", f"p{k}"], [out]))
            shape = (*shape[:axis], len(range(first, last, step)), *shape[axis + 1 :])
        elif kind == "concat":
            axis = draw(st.integers(0, len(shape) - 1))
            nodes += [
                helper.make_node("Neg", [name], [f"n{k}"]),
                helper.make_node("Concat", [name, f"n{k}"], [out], axis=axis),
            ]
            shape = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
        elif kind == "expand":
            shape = (3, *shape)
            constants[f"c{k}"] = ints(*shape)
            nodes.append(helper.make_node("Expand", [name, f"c{k}"], [out]))
        elif kind == "reduce":
            axis, keep = draw(st.integers(0, len(shape) - 1)), draw(st.integers(0, 1))
            constants[f"c{k}"] = ints(axis)
            nodes.append(helper.make_node("ReduceMean", [name, f"c{k}"], [out], keepdims=keep))
            shape = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])
        elif kind == "split":
            axis = draw(st.integers(0, len(shape) - 1))
            half = shape[axis] // 2
            if half == 0:
                continue
            constants[f"c{k}"] = ints(half, shape[axis] - half)
            nodes.append(helper.make_node("Split", [name, f"c{k}"], [out, f"o{k}"], axis=axis))
            shape = (*shape[:axis], half, *shape[axis + 1 :])
        elif kind == "matmul":
            if not shape:
                continue
            constants[f"c{k}"] = np.arange(shape[-1] * 4, dtype=np.float32).reshape(shape[-1], 4) / 16
            nodes.append(helper.make_node("MatMul", [name, f"c{k}"], [out]))
            shape = (*shape[:-1], 4)
        else:
            nodes.append(helper.make_node("Relu", [name], [out]))
        name = out
        if not shape or math.prod(shape) > 5000:
            break
    nodes.append(helper.make_node("Identity", [name], ["y"]))
    return nodes, start, constants


def _shapes(size: int) -> list[tuple[int, ...]]:
    """Return ways to write `size` as up to three factors."""
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    pairs = [(d, size // d) for d in divisors]
    return [(size,), *pairs, *((a, d, b // d) for a, b in pairs for d in divisors if b % d == 0)]


@given(chains())
def test_any_chain_of_moves_keeps_its_values(
    chain: tuple[list[object], tuple[int, ...], dict[str, np.ndarray]],
) -> None:
    nodes, shape, constants = chain
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    graph = check_against_reference(model_of(nodes, {"x": x}, ["y"], constants), {"x": x})
    assert validate(graph) == []


def test_factoring_is_the_same_whoever_comes_first() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "b"], ["r"]),
        helper.make_node("Reshape", ["x", "a"], ["s"]),
        helper.make_node("Relu", ["r"], ["y"]),
        helper.make_node("Relu", ["s"], ["z"]),
    ]
    graph = from_onnx(model_of(nodes, {"x": [24]}, ["y", "z"], {"a": ints(2, 12), "b": ints(6, 4)}))
    assert graph.tensors["x"].shape == (2, 3, 4)
