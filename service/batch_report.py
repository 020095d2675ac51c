"""The report of a batch: best plans per entry and objective, frontiers per size, bounds and gaps, what was learned.

Everything in it is read from the store. Imported by the command line and by the API.
"""

from __future__ import annotations

import csv
import html
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tapestry.service.batches import BatchEntry
from tapestry.service.store import StoredRun
from tapestry.teg.html_table import html_table

OF_AN_ENTRY = ("model", "mesh", "seed", "run", "status", "problem", "stopped", "evaluations")
OF_A_PLAN = (
    *("model", "mesh", "seed", "run", "plan", "devices"),
    *("micro_batches", "stages", "schedule", "recomputed_blocks", "offloaded_bytes"),
)
OF_A_RULE = ("rule", "runs", "applied", "improved")
LONGEST = 2**63 - 1
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;max-width:80rem}table{border-collapse:collapse;"
    "margin:1rem 0 2rem}caption{text-align:left;font-weight:600}td,th{padding:.2rem .8rem;text-align:left;"
    "border-bottom:1px solid #ccc;font-variant-numeric:tabular-nums}"
)


@dataclass(frozen=True)
class EntryResult:
    """The outcome of an entry: `status` is that of its run, or `failed` with a `problem`, or `pending`.

    `reused` is true where a stored run had answered the same request before.
    """

    entry: BatchEntry
    status: str
    run: StoredRun | None = None
    problem: str = ""
    reused: bool = False

    def document(self) -> dict[str, Any]:
        """Convert to JSON; `best` has the least value of every objective, and the plan that has it."""
        entry, run = self.entry, self.run
        return {
            "model": entry.model,
            "mesh": entry.mesh,
            "dimensions": dict(entry.dimensions),
            "seed": entry.options.seed,
            "run": None if run is None else run.summary.id,
            "status": self.status,
            "reused": self.reused,
            "problem": self.problem or None,
            "stopped": None if run is None else run.summary.stopped,
            "evaluations": 0 if run is None else run.summary.evaluations,
            "plans": 0 if run is None else len(run.frontier),
            "best": {} if run is None else best_of(run),
            "bounds": {} if run is None else {name: dict(bound) for name, bound in run.bounds.items()},
        }


def best_of(run: StoredRun) -> dict[str, dict[str, Any]]:
    """Return for each objective of a run its least value and the plan on the frontier that has it."""
    best = {}
    for name in run.summary.options.objectives if run.frontier else ():
        plan = min(run.frontier, key=lambda plan: (plan.cost[name], plan.id))
        best[name] = {"value": plan.cost[name], "plan": plan.public_id}
    return best


def entry_rows(results: Sequence[EntryResult]) -> list[dict[str, Any]]:
    """Return a row per entry and objective: best plan, bound and gap; one row where there is no plan."""
    rows = []
    for result in results:
        document = result.document()
        own = {name: document[name] for name in OF_AN_ENTRY}
        own |= {f"dim_{name}": size for name, size in result.entry.dimensions.items()}
        for objective, best in (document["best"] or {"": {}}).items():
            bound = document["bounds"].get(objective, {})
            found = {"objective": objective, "best": best.get("value"), "plan": best.get("plan")}
            rows.append({**own, **found, "bound": bound.get("bound"), "gap": bound.get("gap")})
    return rows


def frontier_rows(results: Sequence[EntryResult]) -> list[dict[str, Any]]:
    """Return a row per plan of every frontier, with its entry and all objectives of the run."""
    return [
        {
            "model": result.entry.model,
            "mesh": result.entry.mesh,
            "seed": result.entry.options.seed,
            **{f"dim_{name}": size for name, size in result.entry.dimensions.items()},
            "run": result.run.summary.id,
            "plan": plan.public_id,
            "devices": plan.devices or "all",
            "micro_batches": plan.micro_batches,
            "stages": 1 if plan.stages is None else plan.stages["count"],
            "schedule": "" if plan.stages is None else plan.stages["schedule"],
            "recomputed_blocks": 0 if plan.recompute is None else plan.recompute["blocks"],
            "offloaded_bytes": 0 if plan.offload is None else plan.offload["bytes"],
            **{name: plan.cost[name] for name in result.run.summary.options.objectives},
        }
        for result in results
        if result.run is not None
        for plan in result.run.frontier
    ]


def rule_rows(results: Sequence[EntryResult]) -> list[dict[str, Any]]:
    """Return a row per rule: how often it was applied in all runs of the batch, and how often that was better."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for run in {result.run.summary.id: result.run for result in results if result.run is not None}.values():
        for rule, counts in run.rules.items():
            for k, count in enumerate((1, *counts)):
                sums[rule][k] += count
    ordered = sorted(sums.items(), key=lambda item: (-item[1][2], item[0]))
    return [dict(zip(OF_A_RULE, (rule, *counts), strict=True)) for rule, counts in ordered]


def prepare_folder(folder: Path) -> None:
    """Make the folder of a report, and remove tables of an earlier one that a new one may not have.

    Raises:
        OSError: it cannot be made, or not written into.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder):
        pass
    for earlier in folder.glob("*.parquet"):
        if earlier.stem in ("entries", "frontiers", "rules"):
            earlier.unlink()


def write_report(folder: Path, title: str, results: Sequence[EntryResult]) -> dict[str, str]:
    """Write the report as a page, as CSV, and as Parquet where pyarrow is installed; return the files by their kind.

    Raises:
        OSError: the folder or a file cannot be written.
    """
    prepare_folder(folder)
    tables = {
        "entries": entry_rows(results),
        "frontiers": frontier_rows(results),
        "rules": rule_rows(results),
    }
    heads = {"entries": OF_AN_ENTRY, "frontiers": OF_A_PLAN, "rules": OF_A_RULE}
    files = {}
    for name, rows in tables.items():
        files[f"{name}.csv"] = str(folder / f"{name}.csv")
        _write_csv(folder / f"{name}.csv", rows, heads[name])
        if rows and find_spec("pyarrow") is not None:
            files[f"{name}.parquet"] = str(folder / f"{name}.parquet")
            _write_parquet(folder / f"{name}.parquet", rows)
    files["html"] = str(folder / "report.html")
    (folder / "report.html").write_text(_page(title, tables), encoding="utf-8")
    return files


def _columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]], head: Sequence[str]) -> None:
    """Write rows; a table without any has the columns of `head`."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _columns(rows) or head)
        writer.writeheader()
        writer.writerows(rows)


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {name: [_stored(row.get(name)) for row in rows] for name in _columns(rows)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def _stored(value: Any) -> Any:
    """Return a value as a column stores it: whole numbers of more than 63 bits as floats."""
    is_long = isinstance(value, int) and not -LONGEST <= value <= LONGEST
    return float(value) if is_long else value


def _page(title: str, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    captions = {
        "entries": "Best plan per entry and objective; the gap is the share by which a better one may exist",
        "frontiers": "All plans of the frontiers",
        "rules": "Rules in all runs together",
    }
    body = []
    for name, rows in tables.items():
        head = _columns(rows)
        cells = [[_text(row.get(column)) for column in head] for row in rows]
        body.append(html_table(captions[name], head, cells))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{html.escape(title)}</h1>{''.join(body)}</body></html>\n"
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
