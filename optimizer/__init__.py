"""The search: plans, fronts, islands, moves and budgets."""

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.optimizer: imported as optimizer, its classes would exist twice")


from tapestry.costmodel.objectives import Objective
from tapestry.optimizer.checkpoint import Checkpoint, CheckpointError, StaleCheckpoint
from tapestry.optimizer.constraints import Constraint, parse_constraint
from tapestry.optimizer.explanation import Explanation, StaleHistory, explain
from tapestry.optimizer.given import searched
from tapestry.optimizer.optimize import optimize
from tapestry.optimizer.plan import Budget, Plan, Progress, Result, Shortfall
from tapestry.optimizer.processes import ProcessIslands
from tapestry.optimizer.publishing import publish
from tapestry.optimizer.report import knee
from tapestry.optimizer.snapshot import Snapshot
from tapestry.optimizer.verification import Verification, verify_plan

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
    "explain",
    "knee",
    "optimize",
    "parse_constraint",
    "publish",
    "searched",
    "verify_plan",
]
