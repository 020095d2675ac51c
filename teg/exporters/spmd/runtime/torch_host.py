"""Copies to the memory of the host and back: on a GPU on streams of their own, one each way, beside all else."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from tapestry.teg.exporters.spmd.runtime.torch_async import AsyncCollective, Steps


@AsyncCollective
def to_host(x: torch.Tensor) -> Steps:
    """Copy a part to the memory of the host."""
    result = torch.empty(x.shape, dtype=x.dtype, device="cpu", pin_memory=x.is_cuda)
    works = carried(x, result)
    yield works
    return result


@AsyncCollective
def to_device(x: torch.Tensor) -> Steps:
    """Copy a part from the memory of the host."""
    result = torch.empty(x.shape, dtype=x.dtype, device=torch.get_default_device())
    works = carried(x, result)
    yield works
    return result


def carried(x: torch.Tensor, result: torch.Tensor) -> list[Any]:
    """Begin to copy a part; return what to wait for before either is given up."""
    if not (x.is_cuda or result.is_cuda):
        result.copy_(x)
        return []
    stream = host_stream(result.is_cuda)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result.copy_(x, non_blocking=True)
    return [stream.record_event()]


@cache
def host_stream(comes: bool) -> Any:
    """Return the stream of copies that come from the host, or go there."""
    return torch.cuda.Stream()
