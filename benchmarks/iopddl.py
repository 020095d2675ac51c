"""Sharding problems of the ASPLOS / EuroSys 2025 contest on intra-operator parallelism, by the exact solver.

    python -m benchmarks.iopddl FILE... --seconds 60 [--seed 0] [--json OUT]

Each file, JSON or gzipped JSON as the contest published it, asks for one strategy per node, of least cost, such that at
every time the usages of live nodes keep a limit (Moffitt and Fegade, The ASPLOS 2025 / EuroSys 2025 contest on
intra-operator parallelism for distributed deep learning, 2025). `--seconds` is the time per file, reading included.
Cost and feasibility are what a plain evaluation of the choice gives, apart from the solver; `bound` is proven.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.setting import write
from tapestry.optimizer.exact.capped import Capped, NoChoice
from tapestry.optimizer.exact.limited import Outcome, minimize

FORBIDDEN = 10**17  # costs from here on; the contest writes about 10**18
WRITING_S = 0.02  # of the time per file, kept for evaluating the choice


class BadInstance(ValueError):
    """A finding that a file is no instance of the contest; it names the file and the key."""


def evaluate(problem: dict[str, Any], choice: Sequence[int]) -> tuple[int, bool]:
    """Return the cost of one strategy per node, and whether it keeps the limit at every time."""
    nodes, edges = problem["nodes"], problem["edges"]
    cost = sum(costs[s] for costs, s in zip(nodes["costs"], choice, strict=True))
    for members, costs in zip(edges["nodes"], edges["costs"], strict=True):
        at = 0
        for node in members:
            at = at * len(nodes["costs"][node]) + choice[node]
        cost += costs[at]
    changes: Counter[int] = Counter()
    for (first, last), usages, s in zip(nodes["intervals"], nodes["usages"], choice, strict=True):
        if first < last:
            changes[first] += usages[s]
            changes[last] -= usages[s]
    load = peak = 0
    for time in sorted(changes):
        load += changes[time]
        peak = max(peak, load)
    return cost, peak <= problem["usage_limit"]


def read(path: Path) -> dict[str, Any]:
    """Read and check the `problem` of a file.

    Raises:
        BadInstance: the file cannot be read, or breaks the format.
    """
    try:
        data = path.read_bytes()
        document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except OSError as error:
        raise BadInstance(f"{path}: cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise BadInstance(f"{path}: damaged or truncated gzip data: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadInstance(f"{path}: no valid JSON: {error}") from error
    try:
        problem = _member(document, "problem", dict, "")
        _check_nodes(_member(problem, "nodes", dict, "problem."))
        _check_edges(_member(problem, "edges", dict, "problem."), problem["nodes"])
        if not _is_whole(problem.get("usage_limit")) or problem["usage_limit"] < 0:
            raise BadInstance("problem.usage_limit: expected a whole number, not negative")
    except BadInstance as error:
        raise BadInstance(f"{path}: {error}") from None
    return problem


def _member(owner: Any, key: str, kind: type, prefix: str) -> Any:
    if not isinstance(owner, dict) or key not in owner:
        raise BadInstance(f"{prefix}{key}: missing")
    if not isinstance(owner[key], kind):
        raise BadInstance(f"{prefix}{key}: expected {'an object' if kind is dict else 'a list'}")
    return owner[key]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_nodes(nodes: dict[str, Any]) -> None:
    intervals, costs, usages = (
        _member(nodes, k, list, "problem.nodes.") for k in ("intervals", "costs", "usages")
    )
    for key, values in (("intervals", intervals), ("usages", usages)):
        if len(values) != len(costs):
            raise BadInstance(f"problem.nodes.{key}: {len(values)} entries for {len(costs)} nodes in costs")
    for i, interval in enumerate(intervals):
        if not isinstance(interval, list) or len(interval) != 2 or not all(map(_is_whole, interval)):
            raise BadInstance(f"problem.nodes.intervals[{i}]: expected [first, last), two whole numbers")
    for i, (cost, usage) in enumerate(zip(costs, usages, strict=True)):
        count = len(_numbers(cost, f"problem.nodes.costs[{i}]"))
        if not count:
            raise BadInstance(f"problem.nodes.costs[{i}]: no strategy")
        taken = _numbers(usage, f"problem.nodes.usages[{i}]")
        if len(taken) != count:
            raise BadInstance(f"problem.nodes.usages[{i}]: {len(taken)} usages for {count} strategies")
        if taken.min() < 0:
            raise BadInstance(f"problem.nodes.usages[{i}]: a usage is negative")


def _check_edges(edges: dict[str, Any], nodes: dict[str, Any]) -> None:
    members, costs = (_member(edges, k, list, "problem.edges.") for k in ("nodes", "costs"))
    if len(members) != len(costs):
        raise BadInstance(f"problem.edges.costs: {len(costs)} entries for {len(members)} edges in nodes")
    count = len(nodes["costs"])
    for e, (pair, cost) in enumerate(zip(members, costs, strict=True)):
        if not isinstance(pair, list) or len(pair) not in (1, 2) or not all(map(_is_whole, pair)):
            raise BadInstance(f"problem.edges.nodes[{e}]: expected one or two nodes")
        if min(pair) < 0 or max(pair) >= count:
            raise BadInstance(f"problem.edges.nodes[{e}]: {pair} is not within the {count} nodes")
        size = math.prod(len(nodes["costs"][i]) for i in pair)
        found = len(_numbers(cost, f"problem.edges.costs[{e}]"))
        if found != size:
            raise BadInstance(f"problem.edges.costs[{e}]: {found} costs for {size} pairs of strategies")


def _numbers(values: Any, name: str) -> np.ndarray:
    try:
        found = np.array(values if isinstance(values, list) else None)
    except ValueError:
        found = np.array(None)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise BadInstance(f"{name}: expected a list of whole numbers below 2**63")
    return found


def capped(problem: dict[str, Any]) -> Capped:
    """Return an instance as the solver takes it."""
    nodes, edges = problem["nodes"], problem["edges"]
    costs = [_costs(c) for c in nodes["costs"]]
    tables: dict[tuple[int, int], np.ndarray] = {}
    for members, values in zip(edges["nodes"], edges["costs"], strict=True):
        i, j = members[0], members[-1]
        if len(members) == 1:
            costs[i] = costs[i] + _costs(values)
            continue
        table = _costs(values).reshape(len(costs[i]), len(costs[j]))
        if i == j:
            costs[i] = costs[i] + np.diagonal(table)
            continue
        if i > j:
            i, j, table = j, i, table.T
        tables[i, j] = tables[i, j] + table if (i, j) in tables else table
    usages = [np.array(u, np.float64) for u in nodes["usages"]]
    spans = np.array(nodes["intervals"], np.int64).reshape(-1, 2)
    return Capped(costs, usages, spans, tables, problem["usage_limit"])


def _costs(values: list[int]) -> np.ndarray:
    found = np.array(values, np.float64)
    return np.where(found >= FORBIDDEN, np.inf, found)


def measure(path: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Solve a file within so many seconds; return its row.

    Raises:
        BadInstance: the file is no instance, or no choice is feasible.
    """
    begun, spent = monotonic(), process_time()
    problem = read(path)
    try:
        outcome = minimize(
            capped(problem), begun + seconds * (1 - WRITING_S), rng=np.random.default_rng(seed)
        )
    except NoChoice as error:
        raise BadInstance(f"{path}: problem: no feasible choice: {error}") from None
    return row_of(problem, path, outcome) | {"cpu_s": round(process_time() - spent, 2)}


def row_of(problem: dict[str, Any], path: Path, outcome: Outcome) -> dict[str, Any]:
    """Evaluate what the solver found; `cost` is none where no choice within the limit was found in time."""
    bound = math.ceil(outcome.bound) if math.isfinite(outcome.bound) else None
    row = {
        "name": problem.get("name", path.name.split(".")[0]),
        "cost": None,
        "bound": bound,
        "feasible": False,
    }
    if outcome.labels is not None:
        cost, feasible = evaluate(problem, outcome.labels)
        row |= {"cost": cost, "feasible": feasible and cost < FORBIDDEN}
    proven = row["feasible"] and row["cost"] == bound
    return row | {"stopped": "bound met" if proven else "time"}


def table_of(rows: Sequence[dict[str, Any]]) -> Table:
    """Build a table of the instances: cost, bound, their ratio, and the time."""
    table = Table("instance", "cost", "bound", "cost / bound", "feasible", "CPU s", "stopped by")
    for row in rows:
        both = row["cost"] is not None and row["bound"]
        table.add_row(
            row["name"],
            "none found" if row["cost"] is None else str(row["cost"]),
            str(row["bound"]),
            f"{row['cost'] / row['bound']:.4f}" if both else "",
            "yes" if row["feasible"] else "no",
            f"{row['cpu_s']:.1f}",
            row["stopped"],
        )
    return table


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above zero")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Solve the files in turn; the rows so far are written after each of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.iopddl", description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="instances, JSON or gzipped JSON")
    parser.add_argument("--seconds", type=_seconds, required=True, help="time per file, reading included")
    parser.add_argument("--seed", type=int, default=0, help="of the local search (default 0)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures to this file")
    chosen = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    errors: list[str] = []
    interrupted = False
    for path in chosen.files:
        try:
            rows.append(measure(path, chosen.seconds, chosen.seed))
        except BadInstance as error:
            errors.append(str(error))
            print(f"error: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            interrupted = True
        complete = not errors and not interrupted and len(rows) == len(chosen.files)
        write(
            chosen.json,
            {"instances": rows, "seconds": chosen.seconds, "complete": complete, "errors": errors},
        )
        if interrupted:
            break
    Console().print(table_of(rows))
    return 130 if interrupted else 2 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
