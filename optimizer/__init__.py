"""How we search: plans, fronts, islands, moves and budgets."""

from optimizer.constraints import Constraint, parse_constraint
from optimizer.optimize import optimize
from optimizer.plan import Budget, Plan, Progress, Result, Shortfall
from optimizer.report import knee
from optimizer.verification import Verification, verify_plan
from optimizer.workers import ProcessIslands

__all__ = [
    "Budget",
    "Constraint",
    "Plan",
    "ProcessIslands",
    "Progress",
    "Result",
    "Shortfall",
    "Verification",
    "knee",
    "optimize",
    "parse_constraint",
    "verify_plan",
]
