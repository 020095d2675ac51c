"""The search: plans, fronts, islands, moves and budgets."""

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.optimizer: imported as optimizer, its classes would exist twice")


from tapestry.costmodel.objective import Objective
from tapestry.optimizer.analysis.explanation import Explanation, StaleHistory, explain
from tapestry.optimizer.analysis.verification import Verification, verify_plan
from tapestry.optimizer.archive.constraints import Constraint, parse_constraint
from tapestry.optimizer.archive.publishing import publish
from tapestry.optimizer.archive.report import knee
from tapestry.optimizer.run.canonicalization import canonicalize
from tapestry.optimizer.run.checkpoint import Checkpoint, CheckpointError, StaleCheckpoint
from tapestry.optimizer.run.optimize import optimize
from tapestry.optimizer.run.plan import Budget, Plan, Progress, Result, Shortfall
from tapestry.optimizer.run.processes import ProcessIslands
from tapestry.optimizer.run.snapshot import Snapshot

__all__ = [
    "Budget",
    "Checkpoint",
    "CheckpointError",
    "Constraint",
    "Explanation",
    "Objective",
    "Plan",
    "ProcessIslands",
    "Progress",
    "Result",
    "Shortfall",
    "Snapshot",
    "StaleCheckpoint",
    "StaleHistory",
    "Verification",
    "canonicalize",
    "explain",
    "knee",
    "optimize",
    "parse_constraint",
    "publish",
    "verify_plan",
]
