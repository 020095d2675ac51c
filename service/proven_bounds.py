"""The values that no plan of a run's structures is below, as JSON, for all who store and report them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapestry.optimizer.run.plan import LowerBound


def bound_documents(bounds: Mapping[str, LowerBound]) -> dict[str, dict[str, Any]]:
    """Convert the bounds of a result to JSON: `{"bound", "best", "gap", "scope"}` by objective."""
    return {name: bound.to_json() for name, bound in bounds.items()}
