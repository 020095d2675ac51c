"""Scores of predictions: errors by table and in total, and the rows without a prediction by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import log

import numpy as np

from benchmarks.measurements.prediction import Prediction
from benchmarks.measurements.rows import Measurement
from benchmarks.measurements.sources import source_of

TRAINING = "training_iteration"  # kind of rows that have a total of their own
# Kind of a row -> family of its table.
FAMILIES = {
    "gemm": "gemm",
    "memory_bound_op": "memory_bound",
    "attention": "attention",
    "memory_bandwidth": "memory_bandwidth",
    "operator": "layer_operators",
    "layer_time": "layer",
    "collective": "collectives",
    "link_bandwidth": "links",
    TRAINING: "training",
}
# Total -> the families whose rows it counts, each row alike.
TOTALS = {
    "operators_mean_error": (
        *("gemm", "memory_bound", "attention", "memory_bandwidth", "layer_operators", "layer"),
    ),
    "gemm_mean_error": ("gemm",),
    "memory_bound_mean_error": ("memory_bound",),
    "collectives_mean_error": ("collectives", "links"),
}
MODEL_INPUTS = ("model", "layers", "hidden", "heads", "gpus", "seq_len")  # the same of alternatives
ALIKE = 0.02  # a relative difference of times that shows nothing: runs of one program differ by as much
SIGMAS_90 = 1.6449  # half the width of the interval that holds 90 % of a normal distribution


def family_of(row: Measurement) -> str:
    """Return the family of a row's table; a kind of no family is one of its own."""
    return FAMILIES.get(row.question.kind, row.question.kind)


def errors_of(predictions: Sequence[Prediction]) -> dict[str, float | int | None]:
    """Compute the scores of predictions, rounded to four digits; None without any.

    Errors are relative to the measured value, in the quantity of the row. `bias` is the mean logarithm of predicted
    over measured. `inside_90` is the share of predicted rows whose measured value is inside the 90 % interval.
    """
    known = [p for p in predictions if p.value is not None]
    found: dict[str, float | int | None] = {"rows": len(predictions), "predicted": len(known)}
    errors = np.array([abs(p.error) for p in known])
    logs = [log(1 + p.error) for p in known]
    barred = [(abs(x), p.sigma) for x, p in zip(logs, known, strict=True) if p.sigma is not None]
    figures = {
        "mean_error": float(errors.mean()) if known else None,
        "median_error": float(np.median(errors)) if known else None,
        "p90_error": float(np.quantile(errors, 0.9)) if known else None,
        "bias": float(np.mean(logs)) if known else None,
        "inside_90": float(np.mean([x <= SIGMAS_90 * s for x, s in barred])) if barred else None,
    }
    return found | {name: None if value is None else round(value, 4) for name, value in figures.items()}


def log_scores(logs: Sequence[float] | np.ndarray) -> dict[str, float | int]:
    """Compute the scores of logarithms of predicted over measured values, (n,), rounded to four digits."""
    relative = np.abs(np.expm1(logs))
    figures = {"mean_error": np.mean(relative), "median_error": np.median(relative), "bias": np.mean(logs)}
    return {"rows": len(logs)} | {name: round(float(value), 4) for name, value in figures.items()}


def tables_of(predictions: Iterable[Prediction]) -> list[dict[str, object]]:
    """Score each table, in the order of its first row: a group, or the rows of one family in a mixed group."""
    tables: dict[tuple[str, str], list[Prediction]] = {}
    for p in predictions:
        tables.setdefault((p.row.group, family_of(p.row)), []).append(p)
    return [
        {"name": name, "family": family, **errors_of(members)} for (name, family), members in tables.items()
    ]


def training_scores(predictions: Sequence[Prediction]) -> dict[str, object]:
    """Score training iterations: in total, by table beside the best constant, and how alternatives are ranked.

    The constant of a table is the best that knows all its values. `ranking_tau` is Kendall's over pairs of rows of a
    table that run one model on as many devices in different ways: on several devices, and with measured values that
    are further apart than those of one way often are (`ALIKE`). A tie of predicted values counts half.
    """
    tables: dict[str, list[Prediction]] = {}
    for p in predictions:
        tables.setdefault(p.row.group, []).append(p)
    found: list[dict[str, object]] = [
        {"name": name, **errors_of(members), "constant_error": _constant_error(members)}
        for name, members in tables.items()
    ]
    agree = [_agrees(a, b) for members in tables.values() for a, b in combinations(members, 2)]
    ranked = [value for value in agree if value is not None]
    return {
        "iterations_mean_error": errors_of(predictions)["mean_error"],
        "ranking_tau": round(float(np.mean(ranked)), 4) if ranked else None,
        "ranked_pairs": len(ranked),
        "training_iterations": errors_of(predictions),
        "training_tables": found,
    }


def _constant_error(members: Sequence[Prediction]) -> float:
    """Return the mean relative error of the constant for which it is least: one of the values."""
    values = np.array([p.row.value for p in members])
    return round(float(min(np.abs(constant / values - 1).mean() for constant in values)), 4)


def _agrees(a: Prediction, b: Prediction) -> float | None:
    """Return 1 if two alternatives are ranked as they were measured, -1 if not; None if they are none."""
    first, second = a.row.question.inputs, b.row.question.inputs
    if a.value is None or b.value is None or any(first.get(key) != second.get(key) for key in MODEL_INPUTS):
        return None
    if first.get("gpus") == 1 or abs(a.row.value / b.row.value - 1) < ALIKE:
        return None
    return float(np.sign(a.value - b.value) * np.sign(a.row.value - b.row.value))


def sources_of(predictions: Iterable[Prediction]) -> list[dict[str, object]]:
    """Score the rows of each source, in the order of its first row."""
    sources: dict[str, list[Prediction]] = {}
    for p in predictions:
        sources.setdefault(source_of(p.row), []).append(p)
    return [{"name": name, **errors_of(members)} for name, members in sources.items()]


def totals_of(predictions: Sequence[Prediction]) -> dict[str, object]:
    """Score all rows together, by family, and count those that have a prediction."""
    totals: dict[str, object] = {
        name: errors_of([p for p in predictions if family_of(p.row) in families])["mean_error"]
        for name, families in TOTALS.items()
    }
    known = sum(p.value is not None for p in predictions)
    share = round(known / len(predictions), 4) if predictions else None
    inside = {"inside_90": errors_of(predictions)["inside_90"]}
    return {"rows": len(predictions), "predicted": known, "predicted_share": share} | totals | inside


def unpredicted(predictions: Iterable[Prediction]) -> list[dict[str, str]]:
    """List the rows without a prediction, each with its reason."""
    return [
        {"id": p.row.id, "table": p.row.group, "reason": p.reason} for p in predictions if p.value is None
    ]


def left_out(rows: Iterable[Measurement]) -> dict[str, int]:
    """Count the rows that are not scored, by what their file says of them."""
    reasons = Counter(
        "not predictable" if not row.predictable else f"quality {row.quality}"
        for row in rows
        if not row.counts
    )
    return dict(reasons)
