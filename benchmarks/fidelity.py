"""Fidelity of predicted seconds: every row of files of published measurements, predicted through the product.

    python -m benchmarks.fidelity FILE.json ... [--leave-out source] [--json OUT]

A file is `{"entries": [{id, group, kind, device_id, inputs, predict, predictable, quality}]}`. A row becomes a
program, placements and a mesh of the catalog (`benchmarks/measurements/`), and the device simulator times the plan.
The predictor is given `inputs`, quantity and unit, never the value. Only rows that are predictable and of quality
"ok" count. Those without a prediction are listed with the reason. Training iterations, which are predicted by the
compiled cost model (`benchmarks/measurements/training_step.py` states the defaults), have totals of their own:
`iterations_mean_error`, beside the error of each table's best constant, and `ranking_tau` of alternatives.
Errors are relative to the measured value; `bias` is the mean logarithm of predicted over measured, and `inside_90` the
share of measured values inside the 90 % interval that the residuals of their classes give. `in_sample` says whether
the figures may have been fitted to these very rows, as the catalog's are to the published ones.

`--leave-out source` predicts the rows of every source with figures that are fitted to those of all others.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import shorten
from typing import Any

from benchmarks.collective_fit import DRAWN
from benchmarks.held_out import predict_held_out
from benchmarks.measurements import Measurement, Prediction, predict
from benchmarks.measurements.command_line import read_command_line
from benchmarks.measurements.scores import (
    TRAINING,
    left_out,
    sources_of,
    tables_of,
    totals_of,
    training_scores,
    unpredicted,
)
from benchmarks.setting import write

IN_SAMPLE = (
    "the catalog's figures were fitted to published rows, so errors of these are of rows that the figures know; each "
    f"point of a collective table is drawn by {DRAWN:.0%} of its distance from a smooth curve towards its row; errors "
    "in folds: python -m benchmarks.fit FILE ... and python -m benchmarks.collective_fit FILE ...; "
    "without the rows of a source: --leave-out source"
)
HELD_OUT = (
    "kernels and collectives are fitted without the rows of the source that is predicted; "
    "peaks, rates and the figures of axes are the catalog's"
)
COLUMNS = ("rows", "predicted", "mean_error", "median_error", "p90_error", "bias", "inside_90")


def show_progress(done: int, count: int) -> None:
    """Show on a terminal how many rows are done."""
    if sys.stderr.isatty() and (done % 20 == 0 or done == count):
        print(f"\r{done} of {count} rows", end="\n" if done == count else "", file=sys.stderr, flush=True)


def fidelity(
    rows: Sequence[Measurement],
    predictor: Callable[[Sequence[Measurement]], Iterable[Prediction]] = predict,
    on_progress: Callable[[int, int], None] = lambda done, count: None,
) -> dict[str, Any]:
    """Predict all rows that count and return their scores, as the JSON file has them."""
    counted = [row for row in rows if row.counts]
    found: list[Prediction] = []
    for prediction in predictor(counted):
        found.append(prediction)
        on_progress(len(found), len(counted))
    scored = [p for p in found if p.row.question.kind != TRAINING]
    training = [p for p in found if p.row.question.kind == TRAINING]
    is_held_out = predictor is predict_held_out
    return {
        "in_sample": not is_held_out,
        "note": HELD_OUT if is_held_out else IN_SAMPLE,
        **totals_of(scored),
        "tables": tables_of(scored),
        "sources": sources_of(scored),
        **training_scores(training),
        "unpredicted": unpredicted(found),
        "left_out": left_out(rows),
    }


def lines_of(report: dict[str, Any]) -> list[str]:
    """Write a report as lines of text."""
    head = ("table", "family", *COLUMNS)
    body = [head, *((t["name"], t["family"], *(t[c] for c in COLUMNS)) for t in report["tables"])]
    body += [
        (t["name"], f"training, constant {t['constant_error']}", *(t[c] for c in COLUMNS))
        for t in report["training_tables"]
    ]
    texts = [["-" if value is None else str(value) for value in line] for line in body]
    widths = [max(len(line[k]) for line in texts) for k in range(len(head))]
    lines = ["  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip() for line in texts]
    reasons = Counter(entry["reason"] for entry in report["unpredicted"])
    lines += ["", *map(_source_line, report["sources"])]
    lines += ["", *(f"not predicted: {count} rows: {reason}" for reason, count in reasons.most_common())]
    lines += [f"left out: {count} rows: {reason}" for reason, count in report["left_out"].items()]
    totals = {key: value for key, value in report.items() if not isinstance(value, (list, dict))}
    return [*lines, "", *(f"{name}: {'-' if value is None else value}" for name, value in totals.items())]


def _source_line(scores: Mapping[str, Any]) -> str:
    name = shorten(scores["name"], 60, placeholder="...")
    return (
        f"{name}: {scores['rows']} rows, mean error {scores['mean_error']}, median {scores['median_error']}"
    )


def main() -> None:
    arguments, rows = read_command_line(
        __doc__,
        "write all scores here, with the rows that are not predicted",
        leave_out_help="fit the figures again without the rows of a source, and predict these; for all in turn",
    )
    report = fidelity(rows, predict_held_out if arguments.leave_out else predict, show_progress)
    print("\n".join(lines_of(report)))
    files = [path.name for path in arguments.files]
    write(arguments.json, {"files": files, "leave_out": arguments.leave_out, **report})


if __name__ == "__main__":
    main()
