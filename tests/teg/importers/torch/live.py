"""Checks of live programs against torch's own results: exported, imported, evaluated, compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_torch
from tapestry.teg.importers.torch.live import to_numpy
from tapestry.teg.validate import validate
from tests.teg.importers.models import run

if os.environ.get("CI"):
    import torch
else:
    torch = pytest.importorskip("torch")

TOLERANCE = 1e-4


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield all tensors of a nested result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def assert_close(found: np.ndarray, wanted: np.ndarray, where: str) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), where
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), wanted.astype(wide)
    assert np.array_equal(np.isnan(a), np.isnan(b)), where
    difference = np.abs(np.nan_to_num(a) - np.nan_to_num(b)).max(initial=0)
    assert difference <= TOLERANCE * np.abs(np.nan_to_num(b)).max(initial=0), (
        f"{where} differs by {difference}"
    )


class Calls(torch.nn.Module):  # type: ignore[misc]
    """A function of tensors as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def check(model: Any, *arguments: Any) -> Graph:
    """Check that a module's or function's graph is valid and gives torch's results, carried state aside; return it."""
    module = model if isinstance(model, torch.nn.Module) else Calls(model)
    exported = torch.export.export(module, arguments)
    graph = from_torch(exported)
    assert validate(graph) == []
    names = [s.arg.name for s in exported.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    feeds = {n: to_numpy(a) for n, a in zip(names, tensors_in(list(arguments)), strict=True)}
    found = run(graph, feeds)
    seen = [s.site for s in graph.sinks if s.definition.get("carries") is None]
    wanted = list(tensors_in(exported.module()(*arguments)))
    assert len(seen) == len(wanted)
    for site, tensor in zip(seen, wanted, strict=True):
        assert_close(found[site], to_numpy(tensor.detach()), site)
    return graph


def check_joint(function: Any, *arguments: Any) -> Graph:
    """Check the gradients of a function's weighted results, traced into one graph of core operators; return it."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def loss(*given: Any) -> Any:
        results = [r for r in tensors_in(function(*given)) if r.is_floating_point()]
        return sum((r * torch.linspace(0.5, 1.5, r.numel()).reshape(r.shape)).sum() for r in results)

    moving = tuple(k for k, a in enumerate(arguments) if a.is_floating_point())
    module = make_fx(torch.func.functionalize(torch.func.grad(loss, moving)))(*arguments)
    graph = from_torch(module)
    assert validate(graph) == []
    names = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    found = run(graph, {n: to_numpy(a) for n, a in zip(names, arguments, strict=True)})
    for sink, tensor in zip(graph.sinks, module(*arguments), strict=True):
        assert_close(found[sink.site], to_numpy(tensor), sink.site)
    return graph
