from itertools import product

import numpy as np
import pytest

from tapestry.teg.builder import define
from tapestry.teg.evaluate import input_boxes, run_block
from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import kernel_sizes
from tapestry.teg.operators.windows import WindowGeometry, read_extent
from tapestry.teg.zspace import ZRange


def apply(operator, attrs, *inputs, index=None):
    definition, outputs = define(operator, attrs, [TensorType(a.shape, a.dtype.name) for a in inputs])
    return run_block(definition, index, inputs, outputs)[0]


def taps(position, kernel, strides, dilations, lows):
    """Yield each tap of the window at an output position, with the input coordinate (padding included)."""
    for tap in product(*map(range, kernel)):
        yield (
            tap,
            tuple(
                p * s + t * d - low
                for p, s, t, d, low in zip(position, strides, tap, dilations, lows, strict=True)
            ),
        )


def inside(where, sizes):
    return all(0 <= at < n for at, n in zip(where, sizes, strict=True))


def naive_conv(x, w, strides, lows, dilations, groups, counts):
    """Compute the sum of ONNX Conv, point by point."""
    result = np.zeros((x.shape[0], w.shape[0], *counts))
    per_group_in, per_group_out = w.shape[1], w.shape[0] // groups
    for n, o, *position in product(*map(range, result.shape)):
        for tap, where in taps(position, w.shape[2:], strides, dilations, lows):
            if inside(where, x.shape[2:]):
                first = o // per_group_out * per_group_in
                channels = x[(n, slice(first, first + per_group_in), *where)]
                result[(n, o, *position)] += channels @ w[(o, slice(None), *tap)]
    return result


@pytest.mark.parametrize(
    ("x", "w", "strides", "pads", "dilations", "groups"),
    [
        ((2, 3, 7, 6), (4, 3, 3, 2), (2, 1), (1, 0, 2, 1), (1, 2), 1),
        ((2, 4, 5, 5), (6, 4, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((2, 4, 5, 5), (6, 4, 1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
        ((1, 4, 6, 6), (6, 2, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
        ((1, 3, 5, 5), (3, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 3),
        ((2, 2, 9), (3, 2, 3), (3,), (4, 4), (2,), 1),
        ((1, 2, 4, 3, 4), (2, 2, 2, 3, 2), (1, 2, 1), (1, 1, 0, 0, 1, 1), (1, 1, 2), 1),
        # Negative padding, as ONNX allows, leaves out the border.
        ((1, 1, 6), (1, 1, 2), (1,), (-1, -2), (1,), 1),
    ],
)
def test_convolution_is_the_sum_over_taps_and_channels(x, w, strides, pads, dilations, groups, rng):
    values, kernel = rng.standard_normal(x), rng.standard_normal(w)
    attrs = attributes(strides=strides, pads=pads, dilations=dilations, groups=groups)

    got = apply("conv", attrs, values, kernel)

    lows = pads[: len(strides)]
    wanted = naive_conv(values, kernel, strides, lows, dilations, groups, got.shape[2:])
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("included", [False, True])
@pytest.mark.parametrize("kind", ["max", "average"])
@pytest.mark.parametrize(
    ("kernel", "strides", "pads", "dilations"),
    [
        ((3, 2), (2, 1), (1, 0, 1, 1), (1, 1)),
        ((2, 3), (1, 3), (1, 2, 0, 2), (2, 1)),
        ((7, 6), (1, 1), (0,) * 4, (1, 1)),
    ],
)
def test_pooling_takes_every_tap_of_a_window(kind, included, kernel, strides, pads, dilations, rng):
    x = rng.standard_normal((2, 3, 7, 6))
    attrs = attributes(
        kind=kind,
        kernel=kernel,
        strides=strides,
        pads=pads,
        dilations=dilations,
        count_include_pad=included,
        size=(7, 6),
    )

    got = apply("pool", attrs, x)

    padded = [n + low + high for n, low, high in zip((7, 6), pads[:2], pads[2:], strict=True)]
    for n, c, *position in product(*map(range, got.shape)):
        reached = [where for _, where in taps(position, kernel, strides, dilations, pads[:2])]
        seen = [x[(n, c, *where)] for where in reached if inside(where, (7, 6))]
        assert all(inside([a + low for a, low in zip(w, pads[:2], strict=True)], padded) for w in reached)
        wanted = max(seen) if kind == "max" else sum(seen) / (len(reached) if included else len(seen))
        np.testing.assert_allclose(got[(n, c, *position)], wanted, rtol=1e-12)


def test_a_shard_reads_its_rows_and_the_halo_clipped_to_the_tensor(rng):
    """Check the worked case of the design: 56 rows, 3 x 3 stride 2, output rows in chunks of 4."""
    attrs = attributes(strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1), groups=1)
    types = (TensorType((16, 128, 56, 56), "float32"), TensorType((128, 128, 3, 3), "float32"))
    definition, outputs = define("conv", attrs, types)

    assert outputs[0].shape == (16, 128, 28, 28)
    for device in range(7):
        index = ZRange((0, 0, 4 * device, 0, 0), (16, 128, 4 * device + 4, 28, 128))
        box = input_boxes(definition, index)[0]
        assert (box.start[2], box.end[2]) == (8 * device - 1, 8 * device + 8)
        assert (box.start[3], box.end[3]) == (-1, 56)


def test_a_window_that_lies_in_the_padding_altogether_reads_nothing(rng):
    x, w = rng.standard_normal((1, 1, 4)), rng.standard_normal((1, 1, 2))
    attrs = attributes(strides=(1,), pads=(3, 3), dilations=(1,), groups=1)

    for position in (0, 1, 7, 8):
        got = apply("conv", attrs, x, w, index=ZRange((0, 0, position, 0), (1, 1, position + 1, 1)))
        np.testing.assert_array_equal(got, [[[0.0]]])


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "low", "read"),
    [(56, 3, 2, 1, 1, 56), (8, 1, 2, 1, 0, 7), (9, 2, 2, 1, 0, 8), (10, 2, 3, 2, 1, 8), (4, 2, 1, 1, 3, 4)],
)
def test_read_extent_is_where_the_last_window_ends(size, kernel, stride, dilation, low, read):
    window = (kernel - 1) * dilation + 1
    out = (size + low - window) // stride + 1

    assert read_extent(size, kernel, stride, dilation, low, out) == read
    assert read_extent(size, kernel, stride, dilation, low, 0) == 0


def test_a_convolution_counts_its_taps_in_k():
    attrs = attributes(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=1)
    types = (TensorType((2, 8, 5, 5), "float32"), TensorType((4, 8, 3, 3), "float32"))
    definition, outputs = define("conv", attrs, types)

    work = operator_named("conv").work(definition, types, outputs)

    assert (work.kind, work.flops, work.k_factor) == ("contraction", 18.0, 9)
    assert work.roles == {"n": "m", "y0": "m", "y1": "m", "o": "n", "c": "k"}
    assert work.flops * definition.signature.index_range.size == 2 * (2 * 4 * 5 * 5) * (8 * 9)


def test_a_grouped_convolution_does_equal_work_in_fewer_steps():
    attrs = attributes(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=2)
    types = (TensorType((2, 8, 5, 5), "float32"), TensorType((6, 4, 3, 3), "float32"))
    definition, outputs = define("conv", attrs, types)

    work = operator_named("conv").work(definition, types, outputs)

    dims = definition.signature.dims
    sizes = kernel_sizes(work, [d.name for d in dims], np.array([d.size for d in dims]))
    assert [d.name for d in dims] == ["n", "g", "y0", "y1"]
    assert sizes == {"m": 2 * 5 * 5, "n": 3, "k": 4 * 9, "batch": 2}
    assert work.flops * definition.signature.index_range.size == 2 * (2 * 6 * 5 * 5) * (4 * 9)


@pytest.mark.parametrize(
    ("operator", "change", "message"),
    [
        ("conv", {"groups": 3}, "w must be \\(o, 4 / groups"),
        ("conv", {"strides": (0, 1)}, "'strides' must hold numbers of at least 1"),
        ("conv", {"pads": (0, 0)}, "'pads' must be a tuple of 4 integers"),
        ("conv", {"dilations": (9, 9)}, "no window fits"),
        ("pool", {"kind": "median"}, "'max' or 'average', not 'median'"),
        ("pool", {"kind": "average"}, "needs attribute 'size'"),
        ("pool", {"size": (5, 6)}, "must be the spatial size \\(5, 5\\)"),
    ],
)
def test_windows_say_what_is_wrong(operator, change, message):
    attrs = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
    own = {"groups": 1} if operator == "conv" else {"kind": "max", "kernel": (2, 2)}
    types = [TensorType((2, 4, 5, 5), "float32"), TensorType((6, 4, 3, 3), "float32")]

    with pytest.raises(ValueError, match=message):
        define(operator, attributes(**{**attrs, **own, **change}), types[: 2 if operator == "conv" else 1])


def test_margins_that_no_window_reads_are_cropped_and_padding_that_is_not_read_is_left_out() -> None:
    stated = WindowGeometry((3, 2), (2, 3), (1, 1), (1, 0), (4, 0), (3, 2))
    assert stated.beyond((6, 8)) == (0, 0) and stated.beyond((5, 4)) == (1, 1)
    assert stated.cropped((8, 8)) == ((6, 5), stated._replace(high=(0, 0)))
    assert stated.cropped((5, 4)) == ((5, 4), stated._replace(high=(1, 1)))
    assert stated.attributes == {"strides": (2, 3), "pads": (1, 0, 4, 0), "dilations": (1, 1)}
