"""How we search: plans, fronts, islands, moves and budgets."""

from costmodel.objectives import Objective
from optimizer.checkpoint import Checkpoint, CheckpointError, StaleCheckpoint
from optimizer.constraints import Constraint, parse_constraint
from optimizer.explanation import Explanation, StaleHistory, explain
from optimizer.given import searched
from optimizer.optimize import optimize
from optimizer.plan import Budget, Plan, Progress, Result, Shortfall
from optimizer.processes import ProcessIslands
from optimizer.publishing import publish
from optimizer.report import knee
from optimizer.snapshot import Snapshot
from optimizer.verification import Verification, verify_plan

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
