"""A plan's program for JAX, as JAX has lowered it, read back in: the programs of all devices, and their outputs.

What devices compute and send is taken from the StableHLO module alone; of the plan, which parts they have of inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.evaluate import evaluate
from tapestry.teg.exporters.spmd.imported_module import ImportedModule, refuse_module
from tapestry.teg.exporters.spmd.stacks import given_parts, sink_stacks, source_stacks
from tapestry.teg.graph import TensorType
from tapestry.teg.importers import from_stablehlo
from tapestry.teg.importers.stablehlo.naming import plain
from tapestry.teg.interface import input_faults, pack_inputs, unpack_outputs
from tapestry.teg.sharding.expand import ExplicitGraph

HINT = "write it with `python plan.py --lower FILE`, where plan.py is this plan's export for JAX"


class LoweredProgram(ImportedModule):
    """A module of a plan as JAX has lowered it, with rows, one for each device, as inputs and outputs."""

    def outputs(self, inputs: Mapping[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
        """Compute the part of each output that every device has, from whole values of the plan's sources."""
        types = {source.site: self.graph.tensors[source.outputs[0]].dtype for source in self.graph.sources}
        rows = {
            name: _filled(parts).astype(numpy_dtype(types[name]), copy=False)
            for site, parts in given_parts(self.explicit, inputs).items()
            if (name := input_name(site)) in types
        }
        found = unpack_outputs(self.graph, evaluate(self.graph, pack_inputs(self.graph, rows)))
        return {
            site: [
                row[tuple(slice(b - a) for a, b in box)] for row, box in zip(rows, stack.boxes, strict=True)
            ]
            for site, stack in sink_stacks(self.explicit).items()
            for rows in [found[output_name(site)]]
        }


def read_lowered(explicit: ExplicitGraph, module: str | bytes | Path) -> LoweredProgram:
    """Import the module that JAX has made of a plan's program.

    Raises:
        ImportFailure: this is no StableHLO module, it has unsupported operations, or other inputs or outputs than the
            plan's program.
    """
    graph = from_stablehlo(module)
    kinds, by_site = explicit.abstract.tensors, explicit.abstract.by_site
    given = {
        input_name(site): TensorType(_room(stack.boxes), kinds[by_site[site].outputs[0]].dtype)
        for site, stack in source_stacks(explicit).items()
    }
    faults = list(input_faults(graph, given).values())
    for site, stack in sink_stacks(explicit).items():
        sink = graph.by_site.get(output_name(site))
        if sink is None:
            faults.append(f"there is no output {output_name(site)!r}")
            continue
        shape = sink.definition.get("logical_shape", graph.input_types(sink)[0].shape)
        if shape != _room(stack.boxes):
            faults.append(f"output {sink.site!r} must have shape {_room(stack.boxes)}, not {shape}")
    refuse_module(faults, HINT)
    return LoweredProgram(explicit, graph)


def input_name(site: str) -> str:
    """Return the name that the import gives to a source of the exported step: JAX writes its key as `repr`."""
    return plain(f"w[{site!r}]")


def output_name(site: str) -> str:
    """Return the name that the import gives to an output of the exported step."""
    return plain(f"result[{site!r}]")


def _room(boxes: np.ndarray) -> tuple[int, ...]:
    """Return the shape of the rows in which the parts of all devices stand."""
    return (len(boxes), *map(int, (boxes[:, :, 1] - boxes[:, :, 0]).max(axis=0)))


def _filled(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Put parts into rows, filled up with zeros to the largest one."""
    room = np.max([part.shape for part in parts], axis=0)
    rows = np.zeros((len(parts), *map(int, room)), parts[0].dtype)
    for row, part in zip(rows, parts, strict=True):
        row[tuple(map(slice, part.shape))] = part
    return rows
