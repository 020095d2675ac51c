"""The search: plans, fronts, islands, moves and budgets.

The names are loaded when they are first used: the options of a run (`optimizer.run.options`) are read by programs that
do not search, such as the command line when it starts.
"""

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.optimizer: imported as optimizer, its classes would exist twice")

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapestry.costmodel.objective import Objective
    from tapestry.optimizer.analysis.explanation import Explanation, StaleHistory, explain
    from tapestry.optimizer.analysis.verification import Verification, verify_plan
    from tapestry.optimizer.archive.constraints import Constraint, parse_constraint
    from tapestry.optimizer.archive.publishing import publish
    from tapestry.optimizer.archive.representatives import knee
    from tapestry.optimizer.run.canonicalization import canonicalize
    from tapestry.optimizer.run.checkpoint import Checkpoint, CheckpointError, StaleCheckpoint
    from tapestry.optimizer.run.cluster import ClusterIslands
    from tapestry.optimizer.run.options import RunOptions
    from tapestry.optimizer.run.plan import Budget, Plan, Progress, Result, Shortfall
    from tapestry.optimizer.run.processes import ProcessIslands
    from tapestry.optimizer.run.snapshot import Snapshot
    from tapestry.optimizer.run.tls import ClusterError, Tls

__all__ = [
    "Budget",
    "Checkpoint",
    "CheckpointError",
    "ClusterError",
    "ClusterIslands",
    "Constraint",
    "Explanation",
    "Objective",
    "Plan",
    "ProcessIslands",
    "Progress",
    "Result",
    "RunOptions",
    "Shortfall",
    "Snapshot",
    "StaleCheckpoint",
    "StaleHistory",
    "Tls",
    "Verification",
    "canonicalize",
    "explain",
    "knee",
    "parse_constraint",
    "publish",
    "verify_plan",
]

_HOMES = {
    "tapestry.costmodel.objectives": ("Objective",),
    "tapestry.optimizer.analysis.explanation": ("Explanation", "StaleHistory", "explain"),
    "tapestry.optimizer.analysis.verification": ("Verification", "verify_plan"),
    "tapestry.optimizer.archive.constraints": ("Constraint", "parse_constraint"),
    "tapestry.optimizer.archive.publishing": ("publish",),
    "tapestry.optimizer.archive.representatives": ("knee",),
    "tapestry.optimizer.run.canonicalization": ("canonicalize",),
    "tapestry.optimizer.run.checkpoint": ("Checkpoint", "CheckpointError", "StaleCheckpoint"),
    "tapestry.optimizer.run.cluster": ("ClusterIslands",),
    "tapestry.optimizer.run.options": ("RunOptions",),
    "tapestry.optimizer.run.plan": ("Budget", "Plan", "Progress", "Result", "Shortfall"),
    "tapestry.optimizer.run.processes": ("ProcessIslands",),
    "tapestry.optimizer.run.snapshot": ("Snapshot",),
    "tapestry.optimizer.run.tls": ("ClusterError", "Tls"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value
