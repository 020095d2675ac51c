"""Fit of the catalog's constants of links to published collectives, and scores of the catalog against them.

    python -m benchmarks.timing_fit --data published.json --json FILE

`--data` is a list of measurements `{"entries": [{group, kind, device_id, inputs, predict, predictable, quality}]}`.
Only rows that are predictable and of quality "ok" count, and of each only `inputs` and the measured value. The
scores are in-sample: the same rows served to fit. The
constants found go by hand into `hardware/meshes`, with the groups as their source.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tapestry.hardware import MeshAxis, load_mesh
from tapestry.hardware.timing import seconds, step_ticks

MESHES = {"a100-sxm4-80gb": "dgx-a100", "h100-sxm5-80gb": "dgx-h100", "h200-sxm-141gb": "dgx-h200"}
LOUDBOX = {"line": "n300", "ring": "t3000-ring"}  # rows of "wormhole-n300" are of chips of one LoudBox
CLOUD_FLOOR_BYTES = 16 * 2**20  # below it the Azure rows measure the virtual machine, not the switch

Row = Mapping[str, Any]
Constants = dict[str, float]


@dataclass(frozen=True)
class TimingCase:
    """A measured time of a collective, and the inputs of its predictor: operation, members and bytes received."""

    group: str
    device: str
    measured_s: float
    moved_bytes: float
    members: int
    operation: str
    mesh: str  # whose last axis it runs on

    def step_s(self, axis: MeshAxis) -> float:
        return float(seconds(step_ticks(axis, self.operation, self.members, self.moved_bytes)))


def step_case(row: Row, reported: Row, value: float, quantity: str) -> TimingCase | None:
    """Build the case of a collective inside one node; None for other collectives.

    The node has NVSwitch, or is a LoudBox whose rings and lines are meshes of their own.
    """
    members = int(reported["ranks"])
    mesh = MESHES.get(row["device_id"]) or LOUDBOX[reported["topology"]]
    inside = reported.get("nodes", 1) == 1 and reported.get("ranks_per_node", members) == members
    if members > 8 or not inside or "node" in str(reported.get("placement", "")).replace("one node", ""):
        return None
    operation = "fetch" if reported["op"] == "send_recv" else str(reported["op"])
    share = {"all_reduce": 2 * (members - 1) / members, "fetch": 1.0}.get(operation, (members - 1) / members)
    if operation == "all_reduce" and reported.get("algo") == "ring (NVLS off)":
        return None  # the same machine with its switch reduction turned off
    received = share * float(reported["bytes"])
    time_s = value if quantity == "time" else received / value
    return TimingCase(str(row["group"]), str(row["device_id"]), time_s, received, members, operation, mesh)


def read_cases(path: Path) -> list[TimingCase]:
    cases, known = [], {*MESHES, "wormhole-n300"}
    for row in json.loads(path.read_text(encoding="utf-8"))["entries"]:
        if not row.get("predictable") or row.get("quality") != "ok" or row.get("device_id") not in known:
            continue
        if row["kind"] == "collective":
            predict = row["predict"]
            cases.append(step_case(row, row["inputs"], float(predict["value"]), predict["quantity"]))
    return [case for case in cases if case is not None]


def descend(
    loss: Callable[[Constants], float], grids: Mapping[str, np.ndarray], start: Constants
) -> Constants:
    """Minimize the loss by coordinate descent: each constant in turn over its grid, until nothing improves."""
    best, best_loss = dict(start), loss(start)
    improved = True
    while improved:
        improved = False
        for name, grid in grids.items():
            for value in grid:
                trial = {**best, name: float(value)}
                if (trial_loss := loss(trial)) < best_loss - 1e-12:
                    best, best_loss, improved = trial, trial_loss, True
    return best


def mean_log_error(cases: list[TimingCase], predict: Callable[[TimingCase], float]) -> float:
    return float(np.mean([abs(np.log(predict(case) / case.measured_s)) for case in cases]))


def fit_axis(name: str, cases: list[TimingCase]) -> Constants:
    axis = load_mesh(name).axes[-1]
    mine = [
        case
        for case in cases
        if case.mesh == name and not ("azure" in case.group and case.moved_bytes < CLOUD_FLOOR_BYTES)
    ]
    grids = {
        "latency_s": np.arange(2, 41) / 2 * 1e-6,
        "efficiency": np.arange(60, 101) / 100,
        "ramp_s": np.arange(0, 61, 1) * 1e-6,
        "small_message_bytes_per_s": np.array([5, 8, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100]) * 1e9,
    }
    if axis.small_message_bytes_per_s is None:  # one protocol only
        grids = {"latency_s": np.arange(2, 81) / 10 * 1e-6, "efficiency": np.arange(40, 101) / 100}
    if axis.all_reduce_efficiency is not None:
        grids["all_reduce_efficiency"] = np.arange(80, 111) / 100
    if len(mine) < 10:  # large messages only
        grids = {key: grids[key] for key in grids if "efficiency" in key}

    def loss(constants: Constants) -> float:
        trial = replace(axis, **constants)
        return mean_log_error(mine, lambda case: case.step_s(trial))

    return descend(loss, grids, {key: float(getattr(axis, key)) for key in grids})


def score(cases: list[TimingCase]) -> list[dict[str, object]]:
    """Compute the errors of the catalog in its present state, per device, kind and group."""
    axes = {name: load_mesh(name).axes[-1] for name in (*MESHES.values(), *LOUDBOX.values())}
    groups: dict[tuple[str, str, str], list[float]] = {}
    for case in cases:
        predicted_s = case.step_s(axes[case.mesh])
        for group in (case.group, "all"):
            kind = "send_recv" if case.operation == "fetch" else "collective"
            groups.setdefault((case.device, kind, group), []).append(abs(predicted_s / case.measured_s - 1))
    return [
        {
            "device": device,
            "kind": kind,
            "group": group,
            "rows": len(errors),
            "mean_error": round(float(np.mean(errors)), 4),
            "median_error": round(float(np.median(errors)), 4),
        }
        for (device, kind, group), errors in sorted(groups.items())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the measurements")
    parser.add_argument("--json", type=Path, help="write scores and fitted constants here")
    arguments = parser.parse_args()
    if not arguments.data.is_file():
        parser.error(f"no measurements at {arguments.data}")
    cases = read_cases(arguments.data)
    scores = score(cases)
    for line in scores:
        print(
            "{device:16} {kind:16} {group:36} {rows:4d} rows  mean {mean_error:.3f}  median {median_error:.3f}".format(
                **line
            )
        )
    fitted = {name: fit_axis(name, cases) for name in (*MESHES.values(), *LOUDBOX.values())}
    for name, constants in fitted.items():
        print(name, ", ".join(f"{key} = {value:.3g}" for key, value in constants.items()))
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"scores": scores, "fitted": fitted}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
