"""A plan's program for PyTorch, as it was recorded for all ranks, read back in: what they compute, and their outputs.

What ranks compute and send is taken from the records alone; of the plan, which parts they have of inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.evaluate import evaluate
from tapestry.teg.exporters.spmd.imported_module import ImportedModule, refuse_module
from tapestry.teg.exporters.spmd.stacks import Stack, given_parts, sink_stacks, source_stacks
from tapestry.teg.importers.torch.ranks.joining import input_name, join, output_name
from tapestry.teg.importers.torch_import import import_listing
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.sharding.expand import ExplicitGraph


class RecordedProgram(ImportedModule):
    """A recorded module of a plan, with a source and a sink for each rank's part."""

    def outputs(self, inputs: Mapping[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
        """Compute the part of each output that every rank has, from whole values of the plan's sources."""
        tensors = {source.site: source.outputs[0] for source in self.graph.sources}
        sources = source_stacks(self.explicit)
        # The values of constants are the module's own.
        types = {site: self.graph.tensors[t].dtype for site, t in tensors.items() if t not in self.graph.data}
        given = {
            name: part.astype(numpy_dtype(types[name]), copy=False)
            for site, parts in given_parts(self.explicit, inputs).items()
            for rank, part in zip(sources[site].devices, parts, strict=True)
            if (name := input_name(site, rank)) in types
        }
        found = unpack_outputs(self.graph, evaluate(self.graph, pack_inputs(self.graph, given)))
        return {
            site: [
                found.get(output_name(site, rank), np.zeros(box[:, 1] - box[:, 0]))
                for rank, box in zip(stack.devices, stack.boxes, strict=True)
            ]
            for site, stack in sink_stacks(self.explicit).items()
        }


def read_recorded(explicit: ExplicitGraph, ranks: Sequence[Mapping[str, Any]]) -> RecordedProgram:
    """Import what was recorded of a plan's program, rank by rank.

    Raises:
        ImportFailure: ranks do not meet, operators are unsupported, or parts are not those of the plan.
    """
    refuse_module(list(_faults(explicit, ranks)))
    return RecordedProgram(explicit, import_listing(join(ranks, "the module")))


def _faults(explicit: ExplicitGraph, ranks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield where the parts that ranks have are not those of the plan."""
    sources, results = source_stacks(explicit), sink_stacks(explicit)
    graph = explicit.abstract
    for rank, own in enumerate(ranks):
        parts = own["parts"]
        for site, part in {**parts["SOURCES"], **parts["CONSTANTS"]}.items():
            if site not in sources:
                yield f"the plan has no source {site!r}"
                continue
            (tensor,) = graph.by_site[site].outputs
            planned = graph.tensors[tensor].dtype, _box(sources[site], rank)
            if (part["dtype"], part["box"]) != planned:
                yield f"source {site!r} is {_shown(part['dtype'], part['box'])} on rank {rank}, not {_shown(*planned)}"
        for site, stack in results.items():
            box, planned_box = parts["OUTPUTS"].get(site, {}).get("box"), _box(stack, rank)
            if planned_box and box != planned_box:
                held = "is missing" if box is None else f"is {_shown('', box)}"
                yield f"output {site!r} {held} on rank {rank}, not {_shown('', planned_box)}"
            elif planned_box and site not in own["outputs"]:
                yield f"output {site!r} is not computed on rank {rank}"


def _box(stack: Stack, rank: int) -> list[list[int]]:
    """Return the box that a rank has of a tensor; empty for one of another stage."""
    return stack.boxes[rank - stack.devices.start].tolist() if rank in stack.devices else []


def _shown(dtype: str, box: Sequence[Sequence[int]]) -> str:
    return f"{dtype}[{', '.join(f'{a}:{b}' for a, b in box)}]"
