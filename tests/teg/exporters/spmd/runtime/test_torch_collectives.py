"""Tests of what ranks of an exported PyTorch program send: bytes in a row, of tensors with any strides."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
packed = pytest.importorskip("tapestry.teg.exporters.spmd.runtime.torch_collectives").packed
TABLE = torch.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    "tensor",
    [TABLE, TABLE.t(), TABLE[:, 1], TABLE[1], TABLE[0:1, 2], TABLE[:1, 1:2].t(), TABLE[2, 3]],
)
def test_a_tensor_is_packed_in_row_major_order(tensor: Any) -> None:
    row = packed(tensor)
    assert row.dtype == torch.uint8
    assert row.view(torch.float32).tolist() == tensor.flatten().tolist()


def test_one_element_of_many_equal_ones_is_packed() -> None:
    assert packed(torch.ones(1).expand(3)[2:3]).view(torch.float32).tolist() == [1.0]


@pytest.mark.parametrize("place", [TABLE, TABLE[1], TABLE[:1, 1:2].t()])
def test_what_arrives_in_a_run_of_memory_arrives_in_the_tensor(place: Any) -> None:
    own = place.clone(memory_format=torch.preserve_format)
    packed(own).zero_()
    assert not own.any()
