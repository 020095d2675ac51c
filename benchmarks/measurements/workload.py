"""Workloads: a program, its placements and a mesh, which the product times; and what a question lacks to become one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator import simulate
from tapestry.hardware.simulator.dry_run import DryRunBackend
from tapestry.hardware.simulator.execution import COMMUNICATION, COMPUTE
from tapestry.hardware.simulator.storage import ShardStorage
from tapestry.hardware.timing import TICKS_PER_S, block_class, copy_error
from tapestry.teg.faults import value_text
from tapestry.teg.graph import Block, Graph
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import part_amounts, work_dtype, work_of
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements

MAKESPAN = "makespan"
LARGEST_TENSOR = 2**50  # bytes, more than any mesh has
SCALED = re.compile(r"[kKMGTP]i?(b|B|flop|FLOP|elem)")  # units with a prefix, which rows do not use
__all__ = [
    "COMMUNICATION",
    "COMPUTE",
    "DTYPES",
    "MAKESPAN",
    "UnpredictedError",
    "Workload",
    "stated",
    "whole",
]

# Element types as measurements name them -> as graphs do.
DTYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "int8": "int8",
    # Block floats are no element types of graphs: their tensors are stored in one byte each.
    "bfp8": "float8_e4m3fn",
    "bfp4": "float4_e2m1fn",
}


class UnpredictedError(ValueError):
    """Error raised for a question without a prediction; the message is the reason."""


@dataclass(frozen=True)
class Workload:
    """A plan whose time answers a question: that of its blocks, that of its copies, or the makespan of both.

    `amounts` are what is divided by the time, by quantity: elements, operations or bytes. `compute_dtype` is the
    precision of contractions if it is not that of their inputs.
    """

    graph: Graph
    placements: Placements
    mesh: Mesh
    stream: str
    amounts: Mapping[str, float] = field(default_factory=dict)
    compute_dtype: str | None = None

    def time_s(self) -> float:
        """Compute the seconds by a dry run on the device simulator, whose clocks equal those of the cost model.

        Raises:
            UnpredictedError: it takes no time.
        """
        for name, tensor in self.graph.tensors.items():
            if tensor.type.size_bytes > LARGEST_TENSOR:
                raise UnpredictedError(f"tensor {name!r} of {tensor.type.size_bytes:g} B fits no memory")
        program = expand(self.graph, self.placements, MeshShape(self.mesh.axis_sizes))
        run = simulate(program, self.mesh, dry=True, capacity_check=False, compute_dtype=self.compute_dtype)
        if self.stream == MAKESPAN:
            ticks = run.makespan_ticks
        else:
            ticks = run.copy_ticks if self.stream == COMMUNICATION else int(run.compute_ticks.max())
        if not ticks:
            raise UnpredictedError("nothing is computed or moved that takes time")
        return ticks / TICKS_PER_S

    def error(self) -> float:
        """Return the standard deviation of the logarithm of measured over predicted, that of the block known least."""
        if self.stream != COMMUNICATION:  # copies of whole programs are known better than their blocks
            return max(
                self._block_error(block)
                for block in self.graph.blocks
                if block.operator not in ("source", "sink")
            )
        program = expand(self.graph, self.placements, MeshShape(self.mesh.axis_sizes))
        backend = DryRunBackend(program, ShardStorage(self.mesh.device))
        copies = [copy for slot in program.slots for copy in slot.issued]
        rounds = [exchange.round for copy in copies for exchange in backend.copy(copy).exchanges]
        return copy_error(self.mesh, rounds)

    def _block_error(self, block: Block) -> float:
        inputs, outputs = self.graph.input_types(block), self.graph.output_types(block)
        work = work_of(operator_named(block.operator), block.definition, inputs, outputs)
        dims = block.signature.dims if block.signature is not None else ()
        parts = part_amounts(work, [dim.name for dim in dims], np.array([dim.size for dim in dims]))
        return block_class(
            self.mesh.device,
            work.kind,
            work_dtype(inputs, outputs),
            kernel=work.kernel_class,
            compute_dtype=self.compute_dtype,
            parts=parts,
        ).error

    def value(self, quantity: str, unit: str) -> float:
        """Compute what was measured.

        Raises:
            UnpredictedError: the workload has no such quantity.
        """
        if unit == "s":
            return self.time_s()
        if quantity not in self.amounts or SCALED.match(unit):
            raise UnpredictedError(f"unknown quantity {quantity!r} in {unit}")
        return self.amounts[quantity] / self.time_s()


def stated(inputs: Mapping[str, Any], *keys: str) -> Any:
    """Return the first of these inputs that is stated.

    Raises:
        UnpredictedError: none is.
    """
    for key in keys:
        if inputs.get(key) is not None:
            return inputs[key]
    raise UnpredictedError(f"inputs state no {' or '.join(keys)}")


def whole(inputs: Mapping[str, Any], *keys: str) -> int:
    """Return the first of these inputs that is stated, a whole number above zero.

    Raises:
        UnpredictedError: none is, or it is something else.
    """
    value = stated(inputs, *keys)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 1 or value != int(value):
        raise UnpredictedError(f"{keys[0]}: expected a whole number above zero, not {value_text(value)}")
    return int(value)
