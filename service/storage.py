"""The distance of a program stored in another precision from the given one, where computing both takes seconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapestry.optimizer.analysis.affordability import ExecutionTimer, execution_seconds
from tapestry.rewrites.storage_precision import storage_error
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.graph import Graph

LONGEST_S = 10.0  # for both programs


def storage_document(given: Graph, stored: Graph, dtype: str, seed: int = 0) -> dict[str, Any]:
    """Return the precision and by output the error against the given program, on values drawn by `seed`.

    `max_error` is max |a - b| / max |b|, null where it is infinite; of all outputs where computing takes too long.
    """
    if 2 * execution_seconds(ExecutionTimer(), given, ()) > LONGEST_S:
        return {"dtype": dtype, "max_error": None}
    with np.errstate(all="ignore"):
        errors = storage_error(given, stored, random_inputs(given, np.random.default_rng(seed)))
    return {
        "dtype": dtype,
        "max_error": {site: e if np.isfinite(e) else None for site, e in errors.items()},
    }


def storage_text(document: dict[str, Any]) -> str:
    """Format what `storage_document` says as a line."""
    stored, errors = f"parameters and activations are stored in {document['dtype']}", document["max_error"]
    if errors is None:
        return f"{stored}; computing the error against the given program would take too long"
    if None in errors.values():
        site = next(site for site, error in errors.items() if error is None)
        return f"{stored}; output {site} leaves its range, or is no number"
    worst = max(errors, key=lambda site: float(errors[site]), default="")
    return f"{stored}; against the given program, output {worst} is off by {errors[worst]:.2g} of its largest value"
