"""Verification of a plan's program as JAX has lowered it: read back in, its outputs are those of the user's program."""

from __future__ import annotations

from collections.abc import Mapping
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
from tapestry.teg.exporters.spmd.lowered import observed_parts, parts_of, read_lowered
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape

# In double precision outputs differ by what the texts of numbers leave out: so many roundings of the coarsest type.
ROUNDINGS, CLOSE = 8, 1e-9


@dataclass(frozen=True)
class LoweredVerification:
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
        return shown("LoweredVerification", ("ok" if self.ok else "FAILED", f"{self.devices} devices"))

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


def verify_lowered(
    plan: Plan, mesh: Mesh, module: str | bytes | Path, program: Graph, inputs: Mapping[str, np.ndarray]
) -> LoweredVerification:
    """Read a lowered module back in, run the programs of all its devices, and compare with the unsharded program.

    `inputs` are whole values by source of `program`, the canonical form of what the plan is for. Both sides compute in
    double precision, unless blocks read the bits of floats.

    Raises:
        ImportFailure: this is no StableHLO module, it has unsupported operations, or other inputs or outputs than the
            plan's program.
    """
    explicit = expand(plan.graph, plan.placements, MeshShape(mesh.axis_sizes))
    lowered = read_lowered(explicit, module)
    blocks, tolerance = len(lowered.graph.blocks), TOLERANCE
    try:
        lowered, reference, double = lowered.in_double(), in_double(program), True
        tolerance = max(CLOSE, ROUNDINGS * coarsest_rounding(program))
    except ValueError:
        reference, double = program, False
    whole = evaluate(reference, {k: widened(v) for k, v in inputs.items()} if double else inputs)
    found = lowered.outputs(inputs)
    wanted = {site: parts_of(whole[site], boxes) for site, boxes in observed_parts(explicit).items()}
    flat = [
        {site: np.concatenate([part.reshape(-1) for part in parts]) for site, parts in side.items()}
        for side in (found, wanted)
    ]
    count = explicit.mesh_shape.device_count
    return LoweredVerification(count, blocks, relative_errors(*flat), tolerance, double)
