"""Tests of TMA descriptors: Hopper's limits, descriptors of layouts, and copies that tile a tensor."""

import numpy as np
import pytest

from tapestry.hardware.layouts.cute.composed import Swizzle
from tapestry.hardware.layouts.cute.text import parse_strided
from tapestry.hardware.layouts.cute.tma import (
    TmaDescriptor,
    descriptor_of,
    element_type,
    swizzle_mode,
    swizzle_mode_of,
)
from tapestry.hardware.layouts.cute.tma_copies import TmaCopy, copies, copy_at, load, store
from tapestry.hardware.layouts.layout import LayoutError

HALF = element_type("half_t")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"sizes": (1,) * 6, "strides_bytes": (16,) * 5, "box": (8,) * 6},
            "expected 1 to 5 dimensions, not 6",
        ),
        ({"sizes": (), "strides_bytes": (), "box": ()}, "expected 1 to 5 dimensions, not 0"),
        ({"box": (8,)}, "expected 2 entries of box, not 1"),
        ({"box": (264, 4)}, r"box\[0\]: expected 1 to 256, not 264"),
        ({"box": (8, 0)}, r"box\[1\]: expected 1 to 256, not 0"),
        ({"box": (4, 4)}, r"box\[0\]: expected a multiple of 16 bytes, not 4 elements of 8 bytes"),
        (
            {"box": (128, 4), "swizzle": swizzle_mode("128B")},
            "at most 128 bytes with the swizzle 128B, not 256",
        ),
        ({"strides_bytes": (264,)}, r"strides_bytes\[0\]: expected a multiple of 16 below 2\^40, not 264"),
        ({"strides_bytes": (1 << 40,)}, "expected a multiple of 16 below"),
        ({"sizes": ((1 << 32) + 1, 4)}, r"sizes\[0\]: expected 1 to 4294967296"),
        ({"base_address": 8}, "the address 0x8 must be 16B-aligned"),
        ({"element_strides": (1, 9)}, r"element_strides\[1\]: expected 1 to 8, not 9"),
        ({"interleave": "16B"}, "expected 3 dimensions or more with the interleave 16B"),
        ({"element": element_type("int32"), "fill": "nan"}, "a fill with NaN needs a floating-point element"),
    ],
)
def test_every_limit_of_hopper_is_named(change: dict, message: str) -> None:
    good = {"element": HALF, "sizes": (128, 64), "strides_bytes": (256,), "box": (64, 8)}
    assert TmaDescriptor(**good).box_bytes == 64 * 8 * 2
    with pytest.raises(LayoutError, match=message):
        TmaDescriptor(**{**good, **change})


def test_the_limits_themselves_are_allowed() -> None:
    sizes, strides = (1 << 32, 1, 1, 1, 1), ((1 << 40) - 16,) * 4
    found = TmaDescriptor(element_type("u8"), sizes, strides, (256,) * 5, (1, 8, 8, 8, 8))
    assert found.loaded == (256, 32, 32, 32, 32)


def test_all_broken_limits_are_reported_together() -> None:
    with pytest.raises(LayoutError, match=r"0x1 .*; box\[0\].*; strides_bytes\[0\]"):
        TmaDescriptor(HALF, (128, 64), (250,), (512, 8), base_address=1)


def test_a_row_major_layout_gives_reversed_coordinates() -> None:
    descriptor, tensor = descriptor_of(parse_strided("(128,64):(64,_1)"), "f16", (8, 64), "128B")
    assert (descriptor.sizes, descriptor.strides_bytes, descriptor.box) == ((64, 128), (128,), (64, 8))
    assert str(tensor) == "ArithTuple(_0,_0) o (128,64):(_1@1,_1@0)"
    assert str(descriptor.shared_layout) == "Sw<3,3,3> o _0 o (_64,_8):(_1,_64)"


def test_hierarchical_modes_are_dimensions_and_unit_extents_are_none() -> None:
    layout = parse_strided("((128,4),(64,1)):((64,8192),(1,7))")
    descriptor, tensor = descriptor_of(layout, "bf16", (8, 1, 64, 1))
    assert (descriptor.sizes, descriptor.strides_bytes) == ((64, 128, 4), (128, 16384))
    assert str(tensor.layout) == "((128,4),(64,1)):((_1@1,_1@2),(_1@0,_0))"
    with pytest.raises(LayoutError, match="Majorness of smem doesn't match"):
        descriptor_of(parse_strided("(4,4):(2,8)"), "f16", (4, 4))


def test_copies_cover_the_tensor_and_clip_at_its_end() -> None:
    descriptor = TmaDescriptor(HALF, (20, 3), (48,), (16, 2))
    assert list(copies(descriptor)) == [
        TmaCopy((0, 0), (16, 2), 64, 64),
        TmaCopy((16, 0), (4, 2), 16, 64),
        TmaCopy((0, 2), (16, 1), 32, 64),
        TmaCopy((16, 2), (4, 1), 8, 64),
    ]
    assert sum(copy.global_bytes for copy in copies(descriptor)) == 20 * 3 * 2
    assert copy_at(descriptor, (-8, 5)).inside == (8, 0)


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_what_is_loaded_box_by_box_is_stored_box_by_box(swizzle: str) -> None:
    rng = np.random.default_rng(7)
    memory = rng.integers(1, 1000, 3 * 10 * 24).astype(np.float32)
    descriptor = TmaDescriptor(
        element_type("f32"), (20, 10, 3), (96, 960), (8, 4, 2), swizzle=swizzle_mode(swizzle)
    )
    copied = np.zeros_like(memory)
    for copy in copies(descriptor):
        store(descriptor, load(descriptor, memory, copy.coordinate), copied, copy.coordinate)
    tensor = memory.reshape(3, 10, 24)[:, :, :20]
    assert np.array_equal(copied.reshape(3, 10, 24)[:, :, :20], tensor)
    assert not copied.reshape(3, 10, 24)[:, :, 20:].any()


def test_outside_the_tensor_a_load_fills_and_steps_skip() -> None:
    memory = np.arange(1, 33, dtype=np.float32)
    filled = TmaDescriptor(element_type("f32"), (8, 4), (32,), (4, 2), fill="nan")
    box = load(filled, memory, (6, 3))
    assert box[:2].tolist() == [31, 32] and np.isnan(box[2:]).all()
    stepped = TmaDescriptor(element_type("f32"), (8, 4), (32,), (4, 4), (1, 2))
    assert load(stepped, memory, (0, 0)).tolist() == [1, 2, 3, 4, 17, 18, 19, 20]


def test_swizzles_of_bytes_have_their_modes() -> None:
    assert [swizzle_mode_of(Swizzle(b, 4, 3)).name for b in range(4)] == ["none", "32B", "64B", "128B"]
    with pytest.raises(LayoutError, match="Unsupported layout swizzle"):
        swizzle_mode_of(Swizzle(3, 3, 3))
    with pytest.raises(LayoutError, match="expected an element type"):
        element_type("int4")
