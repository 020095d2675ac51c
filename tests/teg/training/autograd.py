"""Gradients by PyTorch: a program is computed on its tensors, and its autograd differentiates what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from tapestry.teg.arrays.torch_arrays import TorchArrays
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import Graph


class RecordedArrays(TorchArrays):
    """The operations of torch, which autograd records."""

    def computing(self) -> AbstractContextManager[Any]:
        return nullcontext()


def torch_gradients(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    seeds: Mapping[str, np.ndarray],
    wanted: Sequence[str],
) -> dict[str, np.ndarray]:
    """Return the gradients of `wanted` tensors, from those of some tensors of the program."""
    xp = RecordedArrays("cpu")
    values: dict[str, torch.Tensor] = {}
    for block in graph.blocks:
        if block.operator == "source":
            (site,) = block.outputs
            array = inputs[block.site] if block.site in inputs else graph.data[site]
            values[site] = xp.from_numpy(array).clone().requires_grad_(site in wanted)
        elif block.operator != "sink":
            arrays = [values[t] for t in block.inputs]
            made = run_block(block.definition, None, arrays, graph.output_types(block), xp)
            values.update(zip(block.outputs, made, strict=True))
    roots = [values[t] for t in seeds if values[t].requires_grad]
    given = [torch.from_numpy(np.array(g)) for t, g in seeds.items() if values[t].requires_grad]
    if not roots:
        return {}
    found = torch.autograd.grad(roots, [values[t] for t in wanted], given, allow_unused=True)
    return {t: g.resolve_conj().numpy() for t, g in zip(wanted, found, strict=True) if g is not None}
