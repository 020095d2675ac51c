"""Fit of the catalog's efficiency constants to published measurements, and scores of the catalog against them.

    python -m benchmarks.timing_fit --data published.json --json FILE

`--data` is a list of measurements `{"entries": [{group, kind, device_id, inputs, predict, predictable, quality}]}`.
Only rows that are predictable and of quality "ok" count, and of each only `inputs` and the measured value. The
scores are in-sample: the same rows served to fit. The
constants found go by hand into `hardware/devices` and `hardware/meshes`, with the groups as their source.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tapestry.hardware import Device, MeshAxis, load_device, load_mesh
from tapestry.hardware.timing import block_ticks, seconds, step_ticks

DEVICES = ("a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "wormhole-n150", "blackhole-p150")
MESHES = {"a100-sxm4-80gb": "dgx-a100", "h100-sxm5-80gb": "dgx-h100", "h200-sxm-141gb": "dgx-h200"}
LOUDBOX = {"line": "n300", "ring": "t3000-ring"}  # rows of "wormhole-n300" are of chips of one LoudBox
ITEM_BYTES = {"fp16": 2, "bf16": 2, "fp8": 1, "fp32": 4, "bfp8": 1088 / 1024, "bfp4": 576 / 1024}
FIDELITY_OF_PEAK = {"bf16": "HiFi4", "bfp8": "HiFi2", "bfp4": "LoFi"}  # at which Tenstorrent states its peaks
DISPATCH_S = (
    140e-6  # untraced Tenstorrent rows contain 90 to 140 us of the host's dispatch; shorter ones are it
)
EAGER_HOST_S = (
    25e-6  # rows of eager PyTorch (llmcompass_*) contain the host's launch; fitted on them, used here only
)
CLOUD_FLOOR_BYTES = 16 * 2**20  # below it the Azure rows measure the virtual machine, not the switch

Row = Mapping[str, Any]
Constants = dict[str, float]


@dataclass(frozen=True)
class TimingCase:
    """A measured time and the inputs of its predictor: a block (flops, bytes, sizes) or a step (members, bytes)."""

    group: str
    kind: str
    device: str
    measured_s: float
    host_s: float
    dtype: str = "fp16"
    sizes: tuple[int, int, int] | None = None
    moved_bytes: float = 0.0
    members: int = 0
    operation: str = ""
    mesh: str = ""  # whose last axis a collective runs on

    def block_s(self, device: Device) -> float:
        m, n, k = self.sizes or (0, 0, 0)
        sizes = {"m": m, "n": n, "k": k} if self.sizes else {}
        kind = "contraction" if self.sizes else "vector"
        time = block_ticks(device, kind, 2.0 * m * n * k, self.moved_bytes, self.dtype, **sizes)
        return float(seconds(time)) + self.host_s

    def step_s(self, axis: MeshAxis) -> float:
        return float(seconds(step_ticks(axis, self.operation, self.members, self.moved_bytes)))


def block_case(row: Row, reported: Row, value: float, quantity: str) -> TimingCase | None:
    host_s = EAGER_HOST_S if str(row["group"]).startswith("llmcompass") else 0.0
    common = {
        "group": str(row["group"]),
        "kind": str(row["kind"]),
        "device": str(row["device_id"]),
        "host_s": host_s,
    }
    if row["kind"] == "gemm":
        fidelity = reported.get("math_fidelity")
        if fidelity is not None and (fidelity != FIDELITY_OF_PEAK[reported["dtype"]] or value < DISPATCH_S):
            return None
        m, n, k = (int(reported[key]) for key in "MNK")
        item = ITEM_BYTES[reported["dtype"]]
        moved = item * (m * k + k * n + m * n)
        time_s = value if quantity == "time" else 2 * m * n * k / value
        return TimingCase(
            **common, measured_s=time_s, dtype=reported["dtype"], sizes=(m, n, k), moved_bytes=moved
        )
    if row["kind"] == "memory_bound_op":
        if "operator" in reported:
            width = (
                reported["ffn"] / reported["tensor_parallel"]
                if reported["operator"] == "mlp_act"
                else reported["hidden"]
            )
            elements, tensors = reported["num_tokens"] * width, 2 if "norm" in reported["operator"] else 3
        else:
            elements, tensors = reported.get("elements") or reported["M"] * reported["N"], 2
        time_s = value if quantity == "time" else elements / value
        return TimingCase(
            **common, measured_s=time_s, moved_bytes=ITEM_BYTES[reported["dtype"]] * elements * tensors
        )
    return None


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
    common = {
        "group": str(row["group"]),
        "kind": "collective",
        "device": str(row["device_id"]),
        "host_s": 0.0,
    }
    return TimingCase(
        **common, measured_s=time_s, members=members, operation=operation, moved_bytes=received, mesh=mesh
    )


def read_cases(path: Path) -> list[TimingCase]:
    cases, known = [], {*DEVICES, "wormhole-n300"}
    for row in json.loads(path.read_text(encoding="utf-8"))["entries"]:
        if not row.get("predictable") or row.get("quality") != "ok" or row.get("device_id") not in known:
            continue
        build = step_case if row["kind"] == "collective" else block_case
        predict = row["predict"]
        cases.append(build(row, row["inputs"], float(predict["value"]), predict["quantity"]))
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


def fit_device(name: str, cases: list[TimingCase]) -> Constants:
    mine = [case for case in cases if case.device == name and case.kind in {"gemm", "memory_bound_op"}]
    device = load_device(name)
    grids = {
        "contraction_efficiency": np.arange(50, 101) / 100,
        "memory_efficiency": np.arange(50, 101, 2) / 100,
        "vector_efficiency": np.arange(30, 101, 2) / 100,
        "launch_overhead_s": np.arange(1, 13) / 2 * 1e-6,
        "contraction_overhead_s": np.arange(0, 13) / 2 * 1e-6,
    }
    if all(case.sizes for case in mine):  # nothing that distinguishes memory from launches
        grids = {"contraction_efficiency": grids["contraction_efficiency"]}
    start = {key: float(getattr(device, key)) for key in grids}

    def loss(constants: Constants) -> float:
        trial = replace(device, **constants)
        return mean_log_error(mine, lambda case: case.block_s(trial))

    return descend(loss, grids, start)


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
        collective = case.kind == "collective"
        predicted_s = case.step_s(axes[case.mesh]) if collective else case.block_s(load_device(case.device))
        for group in (case.group, "all"):
            kind = "send_recv" if case.operation == "fetch" else case.kind
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
    fitted = {name: fit_device(name, cases) for name in DEVICES}
    fitted |= {name: fit_axis(name, cases) for name in (*MESHES.values(), *LOUDBOX.values())}
    for name, constants in fitted.items():
        print(name, ", ".join(f"{key} = {value:.3g}" for key, value in constants.items()))
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"scores": scores, "fitted": fitted}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
