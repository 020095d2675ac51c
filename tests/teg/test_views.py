"""Tests that chains of views are one view of their root, for any equivalent numpy spelling."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg.arrays import NUMPY
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.operators.selectors import (
    broadcast,
    permuted,
    reversed_along,
    selected,
    sliced,
    squeezed,
    unsqueezed,
    view_attributes,
)
from tapestry.teg.signature import Row, projection
from tapestry.teg.views import ViewDim, ViewMap, apply_view, identity, pull_back, root_of
from tapestry.teg.zspace import ZRange


class Chain(NamedTuple):
    """A root, the steps taken from it, their composition, and numpy's result."""

    root: np.ndarray
    steps: tuple[ViewMap, ...]
    view: ViewMap
    expected: np.ndarray


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))
    root = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    steps, view, expected = [], identity(shape), root
    for _ in range(draw(st.integers(0, 6))):
        choice = draw(st.sampled_from([permute, cut, pick, flip, drop, insert, spread]))
        step, expected = choice(draw, expected)
        steps.append(step)
        view = view.then(step)
    return Chain(root, tuple(steps), view, expected)


Step = tuple[ViewMap, np.ndarray]


def permute(draw: st.DrawFn, x: np.ndarray) -> Step:
    order = draw(st.permutations(range(x.ndim)))
    return permuted(x.shape, order), x.transpose(order)


def cut(draw: st.DrawFn, x: np.ndarray) -> Step:
    ranges = []
    for n in x.shape:
        low = draw(st.integers(0, n))
        high = draw(st.integers(low, n))
        step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        ranges.append(range(low, high, step) if step > 0 else range(high - 1, low - 1, step))
    taken = x[np.ix_(*[np.array(r, dtype=int) for r in ranges])]
    starts, ends, strides = ([getattr(r, part) for r in ranges] for part in ("start", "stop", "step"))
    return sliced(x.shape, starts, ends, strides), taken


def pick(draw: st.DrawFn, x: np.ndarray) -> Step:
    axes = [k for k, n in enumerate(x.shape) if n]
    if not axes:
        return identity(x.shape), x
    axis = draw(st.sampled_from(axes))
    position = draw(st.integers(0, x.shape[axis] - 1))
    return selected(x.shape, axis, position), x.take(position, axis)


def flip(draw: st.DrawFn, x: np.ndarray) -> Step:
    axes = draw(st.sets(st.integers(0, x.ndim - 1))) if x.ndim else set()
    return reversed_along(x.shape, sorted(axes)), np.flip(x, tuple(axes))


def drop(_: st.DrawFn, x: np.ndarray) -> Step:
    axes = [k for k, n in enumerate(x.shape) if n == 1]
    return squeezed(x.shape, axes), x.squeeze()


def insert(draw: st.DrawFn, x: np.ndarray) -> Step:
    axis = draw(st.integers(0, x.ndim))
    return unsqueezed(x.shape, [axis]), np.expand_dims(x, axis)


def spread(draw: st.DrawFn, x: np.ndarray) -> Step:
    wanted = [draw(st.integers(0, 3)) if n == 1 else n for n in x.shape]
    wanted = [draw(st.integers(1, 3)), *wanted] if x.ndim < 5 else wanted
    return broadcast(x.shape, wanted), np.broadcast_to(x, wanted)


def whole(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(0, n) for n in shape]


@given(chains())
def test_a_chain_of_views_is_one_view(chain: Chain) -> None:
    found = apply_view(NUMPY, chain.view, chain.root, (0,) * chain.root.ndim, whole(chain.view.shape))
    assert chain.view.shape == chain.expected.shape
    np.testing.assert_array_equal(found, chain.expected)


@given(chains())
def test_composition_is_associative(chain: Chain) -> None:
    last_first = identity(chain.expected.shape)
    for step in reversed(chain.steps):
        last_first = step.then(last_first)
    assert last_first == chain.view


@given(chains(), st.data())
def test_a_part_of_a_view_needs_only_its_box_of_the_root(chain: Chain, data: st.DataObject) -> None:
    # Given a part of the view that is not empty,
    wanted = []
    for n in chain.view.shape:
        low = data.draw(st.integers(0, max(n - 1, 0)))
        wanted.append((low, data.draw(st.integers(min(low + 1, n), n))))
    # when only the pulled-back box of the root is at hand,
    rows = pull_back(chain.view, [Row(k, 1, 0, 1) for k in range(len(wanted))])
    index = ZRange(tuple(a for a, _ in wanted), tuple(b for _, b in wanted))
    box = projection([Row(*row[:4]) for row in rows], len(wanted)).project(index)
    part = chain.root[tuple(slice(a, b) for a, b in zip(box.start, box.end, strict=True))]
    # then it is enough.
    found = apply_view(NUMPY, chain.view, part, box.start, wanted)
    expected = chain.expected[tuple(slice(a, b) for a, b in wanted)]
    np.testing.assert_array_equal(found, expected)
    if not index.is_empty:
        assert part.shape == box.shape


@given(chains(), st.data())
def test_rows_over_a_view_pull_back_to_exactly_the_root_coordinates_read(
    chain: Chain, data: st.DataObject
) -> None:
    # Given rows over the view, windows that stick out included, and a range of three index dimensions,
    rows = [
        Row(dim, data.draw(st.integers(-3, 3).filter(bool)) if dim >= 0 else 0, offset, extent)
        for _ in chain.view.shape
        for dim in [data.draw(st.integers(-1, 2))]
        for offset, extent in [data.draw(st.tuples(st.integers(-3, 4), st.integers(0, 4)))]
    ]
    start = data.draw(st.tuples(*[st.integers(0, 3)] * 3))
    index = ZRange(start, tuple(s + data.draw(st.integers(1, 3)) for s in start))
    # when they are pulled back, then each root dimension has the bounds of what the box, clipped to the view, reads.
    box = projection(rows, 3).project(index).intersection(ZRange.of_shape(chain.view.shape))
    for d, row in zip(chain.view.dims, pull_back(chain.view, rows), strict=True):
        reached = projection([Row(*row[:4])], 3).project(index)
        low, high = max(reached.start[0], row.low), min(reached.end[0], row.high)
        if d.dim < 0:
            assert (low, high) == (d.offset, d.offset + 1)
            continue
        read = [d.stride * v + d.offset for v in range(box.start[d.dim], box.end[d.dim])]
        assert (low, high) == (min(read), max(read) + 1) if read else low >= high


def test_an_inseparable_row_reads_all_that_the_view_lets_through() -> None:
    view = ViewMap((ViewDim(0, 2, 1), ViewDim(-1, 0, 4)), (3,))
    assert [tuple(r) for r in pull_back(view, [None])] == [(-1, 0, 1, 5, 1, 6), (-1, 0, 4, 1, 4, 5)]


def test_the_root_of_a_tensor_is_found_through_its_views() -> None:
    b = GraphBuilder("views")
    x = b.source("x", (4, 6), "float32")
    turned = permuted((4, 6), (1, 0))
    (y,) = b.apply("view", (x,), site="y", **dict(view_attributes(turned)))
    (z,) = b.apply("view", (y,), site="z", **dict(view_attributes(sliced((6, 4), (1, 3), (6, -1), (2, -1)))))
    b.sink(z)
    graph = b.build()
    assert root_of(graph, "z") == ("x", ViewMap((ViewDim(1, -1, 3), ViewDim(0, 2, 1)), (3, 4)))
    assert root_of(graph, "x") == ("x", identity((4, 6)))
