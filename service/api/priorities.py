"""The right to have runs go before those of others."""

from __future__ import annotations

from fastapi import Request

from tapestry.service.api.problems import Problem
from tapestry.service.api.users import is_operator, user_of
from tapestry.service.scheduling import USUAL


def check_priority(request: Request, priority: int) -> None:
    """Check that whoever sends a request may have runs of this priority: above the usual one, the operator.

    Raises:
        Problem: 403, the key is of somebody else.
    """
    if priority > USUAL and not is_operator(user_of(request.scope)):
        message = (
            f"priorities above {USUAL} go before the runs of all tenants, and need a key of the default tenant with "
            "the scope 'admin'; give other runs a lower one"
        )
        raise Problem(403, "insufficient_scope", message)
