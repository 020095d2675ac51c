"""Verification of a module that was made of a plan: read back in, its outputs are those of the user's program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.analysis.verification import TOLERANCE, relative_errors
from tapestry.optimizer.run.plan import Plan
from tapestry.teg.brief import shown
from tapestry.teg.double import coarsest_rounding, in_double, widened
from tapestry.teg.evaluate import evaluate
from tapestry.teg.exporters.spmd.imported_module import ImportedModule
from tapestry.teg.exporters.spmd.lowered import read_lowered
from tapestry.teg.exporters.spmd.recorded import read_recorded
from tapestry.teg.exporters.spmd.stacks import sink_stacks
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape

# In double precision outputs differ by what the texts of numbers leave out: so many roundings of the coarsest type.
ROUNDINGS, CLOSE = 8, 1e-9


@dataclass(frozen=True)
class ModuleVerification:
    """The outcome: how many devices and blocks the module has, and `max|a-b| / max|b|` of each output.

    The part of every device is compared, replicas included. `double` says whether all was computed in double
    precision; then errors up to `tolerance` come from numbers that a text states in the program's own precision.
    """

    devices: int
    blocks: int
    max_error: Mapping[str, float]
    tolerance: float
    double: bool

    def __repr__(self) -> str:
        return shown("ModuleVerification", ("ok" if self.ok else "FAILED", f"{self.devices} devices"))

    @property
    def ok(self) -> bool:
        """True if every output is the program's on all devices."""
        return not self.failures

    @property
    def failures(self) -> tuple[str, ...]:
        """The outputs that are not the program's, one line each."""
        return tuple(
            f"output {site!r} differs by {error:.3g} of its largest value"
            for site, error in self.max_error.items()
            if not error <= self.tolerance
        )

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON document of the command line."""
        errors = {site: error if np.isfinite(error) else None for site, error in self.max_error.items()}
        return {
            "ok": self.ok,
            "devices": self.devices,
            "blocks": self.blocks,
            "max_error": errors,
            "tolerance": self.tolerance,
            "double": self.double,
        }


def rank_count(plan: Plan, mesh: Mesh) -> int:
    """Count the ranks that a plan's program runs on: one for each device that the plan uses."""
    stages, used = plan.placements.stages, MeshShape(mesh.axis_sizes).part(plan.placements.devices)
    return used.device_count * (1 if stages is None else stages.count)


def verify_lowered(
    plan: Plan, mesh: Mesh, module: str | bytes | Path, program: Graph, inputs: Mapping[str, np.ndarray]
) -> ModuleVerification:
    """Read a module that JAX has lowered back in, and compare what its devices compute with the unsharded program.

    `inputs` are whole values by source of `program`, the canonical form of what the plan is for. Both sides compute in
    double precision, unless blocks read the bits of floats.

    Raises:
        ImportFailure: this is no StableHLO module, it has unsupported operations, or other inputs or outputs than the
            plan's program.
    """
    explicit = expand(plan.graph, plan.placements, MeshShape(mesh.axis_sizes))
    return _compared(explicit, read_lowered(explicit, module), program, inputs)


def verify_recorded(
    plan: Plan,
    mesh: Mesh,
    ranks: Sequence[Mapping[str, Any]],
    program: Graph,
    inputs: Mapping[str, np.ndarray],
) -> ModuleVerification:
    """Compare what the recorded ranks of a PyTorch module compute with the unsharded program, as `verify_lowered` does.

    `ranks` are the records of `record`.

    Raises:
        ImportFailure: ranks do not meet, operators are unsupported, or parts are not those of the plan.
    """
    explicit = expand(plan.graph, plan.placements, MeshShape(mesh.axis_sizes))
    return _compared(explicit, read_recorded(explicit, ranks), program, inputs)


def _compared(
    explicit: ExplicitGraph,
    module: ImportedModule,
    program: Graph,
    inputs: Mapping[str, np.ndarray],
) -> ModuleVerification:
    blocks, tolerance = len(module.graph.blocks), TOLERANCE
    try:
        module, reference, double = module.in_double(), in_double(program), True
        tolerance = max(CLOSE, ROUNDINGS * coarsest_rounding(program))
    except ValueError:
        reference, double = program, False
    whole = evaluate(reference, {k: widened(v) for k, v in inputs.items()} if double else inputs)
    found = module.outputs(inputs)
    wanted = {site: stack.parts_of(whole[site]) for site, stack in sink_stacks(explicit).items()}
    flat = [
        {site: np.concatenate([part.reshape(-1) for part in parts]) for site, parts in side.items()}
        for side in (found, wanted)
    ]
    count = explicit.device_count
    return ModuleVerification(count, blocks, relative_errors(*flat), tolerance, double)
