"""Tests of predictions of published rows: what is posed, what answers, and what is said of the rest."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fidelity import fidelity, lines_of
from benchmarks.held_out import predict_held_out
from benchmarks.measurements import (
    DamagedRowsError,
    Measurement,
    Prediction,
    Question,
    Systems,
    answer,
    predict,
    read_rows,
)
from benchmarks.measurements.prediction import workload_of
from tapestry.hardware import load_device, load_mesh
from tapestry.hardware.collective_tables import CollectiveTable
from tapestry.hardware.simulator import Execution, simulate
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape

ROWS = Path("tests/data/measurements/rows.json")
A100 = "a100-sxm4-80gb"
PRODUCT = {"dtype": "fp16", "M": 4096, "N": 4096, "K": 4096}
MIB = 2**20


def question(kind: str, inputs: Mapping[str, Any], device: str = A100, quantity: str = "time") -> Question:
    return Question(kind, device, inputs, quantity, "s" if quantity == "time" else "1/s")


def elementwise(op: str, dtype: str = "fp32") -> Question:
    return question("memory_bound_op", {"op": op, "dtype": dtype, "M": 8192, "N": 8192})


def dry(posed: Question) -> Execution:
    work = workload_of(posed, Systems.of_catalog())
    program = expand(work.graph, work.placements, MeshShape(work.mesh.axis_sizes))
    return simulate(program, work.mesh, dry=True, capacity_check=False)


def predicted(posed: Question, systems: Systems) -> float:
    return answer(posed, systems).value


def answers(rows: list[Measurement], systems: Systems | None = None) -> list[float | None]:
    return [p.value for p in predict(rows, systems)]


def test_every_row_of_a_known_kind_is_predicted() -> None:
    rows = read_rows([ROWS])
    found = list(predict(rows))
    assert [p.reason for p in found if p.value is None] == []
    assert all(p.value is not None and 0 < p.value < 1e16 for p in found)


def test_measured_values_are_not_read() -> None:
    rows = read_rows([ROWS])
    assert answers([replace(row, value=1.0) for row in rows]) == answers(rows)


def test_the_figures_of_a_device_decide() -> None:
    slow = replace(load_device(A100), memory_bytes_per_s=load_device(A100).memory_bytes_per_s / 4)
    kernel, other = (
        elementwise("relu"),
        question("memory_bound_op", elementwise("relu").inputs, "h100-sxm5-80gb"),
    )
    known, changed = Systems.of_catalog(), Systems.of_catalog(devices=[slow])
    assert predicted(kernel, changed) > 3 * predicted(kernel, known)
    assert predicted(other, changed) == predicted(other, known)


def test_the_links_of_a_mesh_decide() -> None:
    mesh = load_mesh("dgx-a100")
    (axis,) = mesh.axes
    plain = replace(
        mesh, axes=(replace(axis, collectives=()),)
    )  # without measurements, which say what links do
    rate = axis.bandwidth_bytes_per_s / 4
    slow = replace(plain, axes=(replace(plain.axes[0], bandwidth_bytes_per_s=rate),))
    gathered = question("collective", {"op": "all_gather", "ranks": 8, "bytes": 256 * MIB})
    known, changed = Systems.of_catalog(meshes=[plain]), Systems.of_catalog(meshes=[slow])
    assert predicted(gathered, changed) > 3 * predicted(gathered, known)
    assert predicted(elementwise("relu"), changed) == predicted(elementwise("relu"), known)


@pytest.mark.parametrize(
    ("operation", "ranks", "received"),
    [  # of 8 MiB, by the definitions of nccl-tests; in send_recv and broadcast one device has the data
        ("all_gather", 4, [6 * MIB] * 4),
        ("reduce_scatter", 4, [6 * MIB] * 4),
        ("all_reduce", 4, [12 * MIB] * 4),
        ("all_to_all", 4, [6 * MIB] * 4),
        ("broadcast", 4, [0] + [8 * MIB] * 3),
        ("send_recv", 2, [0, 8 * MIB]),
        ("send_recv", 4, [0, 0, 8 * MIB, 8 * MIB]),
    ],
)
def test_a_collective_moves_the_bytes_that_it_is_named_for(
    operation: str, ranks: int, received: list[int]
) -> None:
    run = dry(question("collective", {"op": operation, "ranks": ranks, "bytes": 8 * MIB}))
    assert run.received_bytes.tolist() == received
    assert len(run.staging_bytes) == 1  # one copy: what is reduced is partial where it is made


@pytest.mark.parametrize(("nodes", "inside"), [(1, 1), (2, 8)])
def test_a_broadcast_takes_what_a_mesh_measured(nodes: int, inside: int) -> None:
    # Given tables of broadcasts, in a node and over two of them, and none of all-gathers.
    times, sizes = (3e-4, 5e-3, 7e-2), (1 * MIB, 32 * MIB, 1024 * MIB)
    mesh = load_mesh("dgx-a100")
    assert mesh.network is not None
    members = 2 if nodes > 1 else 8
    table = CollectiveTable("broadcast", members, sizes, times, 0.07, "made up", inside)
    (axis,) = mesh.axes
    if nodes > 1:
        mesh = replace(mesh, network=replace(mesh.network, collectives=(table,)))
    else:
        mesh = replace(mesh, axes=(replace(axis, collectives=(*axis.collectives, table)),))
    for size, time_s in zip(sizes, times, strict=True):
        inputs = {"op": "broadcast", "ranks": 8 * nodes, "nodes": nodes, "bytes": size}
        found = answer(question("collective", inputs), Systems.of_catalog(meshes=[mesh]))
        assert found.value == pytest.approx(time_s, rel=1e-6)
        assert found.sigma == pytest.approx(0.07) or nodes > 1  # the gather inside has another table's


@pytest.mark.parametrize(
    ("posed", "moved"),
    [
        (elementwise("relu"), 2 * 4 * 2**26),
        (elementwise("relu", "fp16"), 2 * 2 * 2**26),
        (elementwise("add"), 3 * 4 * 2**26),
        (elementwise("addu"), 2 * 4 * 2**26),
        (elementwise("softmax"), 2 * 4 * 2**26),
        (question("gemm", PRODUCT), 3 * 2 * 2**24),
        (question("gemm", {**PRODUCT, "batch": 3}), 9 * 2 * 2**24),
        (question("memory_bandwidth", {"kernel": "triad"}, quantity="achieved_bandwidth"), 3 * 8 * 2**25),
        (question("memory_bandwidth", {"kernel": "dot"}, quantity="achieved_bandwidth"), 2 * 8 * 2**25 + 8),
    ],
)
def test_a_kernel_reads_and_writes_its_tensors_once(posed: Question, moved: int) -> None:
    assert dry(posed).accessed_bytes.tolist() == [moved]


@pytest.mark.parametrize(
    ("quantity", "amount"),
    [("throughput_elements_per_s", 2**26), ("achieved_bandwidth", None)],
)
def test_a_rate_is_an_amount_over_the_predicted_time(quantity: str, amount: float | None) -> None:
    posed = elementwise("gelu")
    rows = [row_of(replace(posed, quantity=quantity, unit="1/s")), row_of(posed)]
    rate, time_s = predict(rows)
    if amount is None:
        assert rate.reason == "unknown quantity 'achieved_bandwidth' in 1/s"
    else:
        assert rate.value == amount / (time_s.value or 0)


def test_ranks_are_placed_as_they_are_stated() -> None:
    systems = Systems.of_catalog()
    reduced = {"op": "all_reduce", "ranks": 16, "bytes": 64 * MIB}
    one, two = (
        workload_of(question("collective", inputs, "h100-sxm5-80gb"), systems)
        for inputs in ({**reduced, "ranks": 4}, {**reduced, "nodes": 2})
    )
    assert (one.mesh.axis_sizes, two.mesh.axis_sizes) == ((("gpu", 4),), (("node", 2), ("gpu", 8)))


def row_of(posed: Question, predictable: bool = True, quality: str = "ok") -> Measurement:
    return Measurement("r", "g", posed, 1e-3, predictable, quality)


@pytest.mark.parametrize(
    ("posed", "reason"),
    [
        (elementwise("frobnicate"), "unknown operation 'frobnicate'"),
        (elementwise("relu", "fp7"), "unknown dtype 'fp7'"),
        (question("gemm", PRODUCT, "abacus-1"), "unknown device 'abacus-1'"),
        (question("gemm", {"dtype": "fp16", "M": 8, "N": 8}), "inputs state no K"),
        (question("gemm", {**PRODUCT, "K": 0.5}), "K: expected a whole number above zero, not 0.5"),
        (question("gemm", {**PRODUCT, "math_fidelity": "HiFi9"}), "unknown math fidelity 'HiFi9'"),
        (
            question("collective", {"op": "all_reduce", "ranks": 64, "bytes": 8, "nodes": 1}),
            "no node with 64",
        ),
        (question("collective", {"op": "gossip", "ranks": 8, "bytes": 8}), "unknown collective 'gossip'"),
        (
            question("collective", {"op": "all_reduce", "ranks": 1, "bytes": 8}),
            "nothing is computed or moved",
        ),
        (question("gemm", {**PRODUCT, "dtype": "fp64"}, "wormhole-n150"), "has no peak for contractions in"),
        (question("seance", {}), "rows of kind 'seance' have no program"),
        (question("gemm", {**PRODUCT, "math_fidelity": ["HiFi4"]}), "unknown math fidelity ['HiFi4']"),
        (question("gemm", {**PRODUCT, "M": 10**18}), "fits no memory"),
        (replace(question("gemm", PRODUCT), launch="rocket"), "unknown launch 'rocket'"),
        (
            replace(question("gemm", PRODUCT), quantity="achieved_flops", unit="TFLOP/s"),
            "unknown quantity 'achieved_flops' in TFLOP/s",
        ),
    ],
)
def test_a_row_without_a_prediction_is_listed_with_the_reason(posed: Question, reason: str) -> None:
    report = fidelity([row_of(posed)])
    (entry,) = report["unpredicted"]
    assert reason in entry["reason"] and report["predicted_share"] == 0.0
    assert [(t["rows"], t["predicted"], t["mean_error"]) for t in report["tables"]] == [(1, 0, None)]


def test_rows_that_do_not_count_are_left_out_and_training_iterations_stand_apart() -> None:
    rows = [
        row_of(elementwise("relu")),
        row_of(elementwise("relu"), quality="noisy"),
        row_of(elementwise("relu"), predictable=False),
        row_of(question("training_iteration", {"gpus": 8})),
    ]
    report = fidelity(rows)
    assert (report["rows"], report["predicted"], report["predicted_share"]) == (1, 1, 1.0)
    assert report["left_out"] == {"quality noisy": 1, "not predictable": 1}
    assert report["training_iterations"]["rows"] == 1 and len(report["unpredicted"]) == 1


def test_errors_are_relative_to_what_was_measured() -> None:
    posed = elementwise("relu")
    time_s = predicted(posed, Systems.of_catalog())
    report = fidelity([replace(row_of(posed), value=time_s * factor) for factor in (1.0, 2.0, 0.8)])
    (table,) = report["tables"]
    assert (table["mean_error"], table["median_error"]) == (0.25, 0.25)  # of 0, 0.5 and 0.25
    assert table["family"] == "memory_bound" and report["memory_bound_mean_error"] == 0.25
    assert Prediction(row_of(posed), 2e-3).error == 1.0


DAMAGED = [
    ({"id": 3}, "id: expected a text, not 3"),
    (
        {"predict": {"quantity": "time", "unit": "s", "value": -1}},
        "predict.value: expected a number above zero",
    ),
    ({"predictable": "yes"}, "predictable: expected true or false, not 'yes'"),
    (
        {"inputs": {"op": "all_gather", "ranks": 1_000_000, "bytes": 8}},
        "inputs.ranks: expected from 1 to 4096 devices, not 1000000; correct it, or state `predictable` as false",
    ),
    (
        {"inputs": {"operator": "AllReduce_MHA", "tensor_parallel": 1e300}},
        "inputs.tensor_parallel: expected from 1 to 4096 devices, not 1e+300",
    ),
]


@pytest.mark.parametrize(("changed", "fault"), DAMAGED)
def test_damaged_rows_are_refused_with_file_row_and_key(
    tmp_path: Path, changed: dict[str, Any], fault: str
) -> None:
    entries = json.loads(ROWS.read_text())["entries"]
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"entries": [entries[0], entries[1] | changed]}))
    with pytest.raises(DamagedRowsError) as caught:
        read_rows([file])
    (only,) = caught.value.faults
    assert only.startswith(f"{file}: row 1") and fault in only


def test_rows_of_too_many_devices_are_read_where_they_are_left_out(tmp_path: Path) -> None:
    (entry, *_) = json.loads(ROWS.read_text())["entries"]
    inputs = {"op": "all_gather", "ranks": 1_000_000, "bytes": 8}
    left_out = {**entry, "inputs": inputs, "predictable": False}
    (file := tmp_path / "rows.json").write_text(json.dumps({"entries": [left_out]}))
    assert fidelity(read_rows([file]))["left_out"] == {"not predictable": 1}


def test_as_many_devices_as_a_row_may_have_are_predicted(tmp_path: Path) -> None:
    (entry, *_) = json.loads(ROWS.read_text())["entries"]
    inputs = {"op": "all_reduce", "ranks": 4096, "nodes": 512, "bytes": 2**20}
    row = {**entry, "kind": "collective", "device_id": "h100-sxm5-80gb", "inputs": inputs}
    row["predict"] = {"quantity": "time", "unit": "s", "value": 1e-3}
    (file := tmp_path / "rows.json").write_text(json.dumps({"entries": [row]}))
    assert fidelity(read_rows([file]))["unpredicted"] == []


def test_all_faults_of_all_files_are_listed(tmp_path: Path) -> None:
    (torn := tmp_path / "torn.json").write_text('{"entries": [')
    (other := tmp_path / "other.json").write_text('{"rows": []}')
    with pytest.raises(DamagedRowsError) as caught:
        read_rows([torn, other, tmp_path / "gone.json"])
    assert [fault.split(": ")[1] for fault in caught.value.faults] == [
        "not JSON",
        "entries",
        "cannot read it",
    ]


@pytest.mark.slow
def test_the_command_prints_tables_and_writes_them_as_json(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "benchmarks.fidelity", str(ROWS), "--json", str(out)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(out.read_text())
    assert report["predicted_share"] == 1.0 and "collectives_mean_error" in run.stdout
    assert {"name", "family", "rows", "predicted", "mean_error", "median_error", "bias", "inside_90"} <= set(
        report["tables"][0]
    )


@pytest.mark.parametrize(
    ("device", "inputs", "mesh", "axes"),
    [
        ("wormhole-n300", {"ranks": 2, "topology": "line"}, "n300", [("line", 2)]),
        ("wormhole-n300", {"ranks": 8, "topology": "ring"}, "t3000-ring", [("torus", 8)]),
        ("wormhole-n300", {"ranks": 8, "topology": "line"}, "t3000-ring", [("line", 8)]),
        ("blackhole-p150", {"ranks": 8, "topology": "ring"}, "blackhole-galaxy-4x8", [("torus", 8)]),
        ("blackhole-p150", {"ranks": 2, "topology": "line"}, "p150-x4", [("line", 2)]),
        ("tpu-v5e", {"ranks": 16, "topology": "2D torus 4x4"}, "tpu-v5e-4x4", [("line", 4), ("line", 4)]),
        ("h100-sxm5-80gb", {"ranks": 16, "nodes": 2, "network": "EFAv2"}, "2x-aws-p5", [("switch", 2), ("switch", 8)]),
        ("h100-sxm5-80gb", {"ranks": 8, "ranks_per_node": 4}, "2x-dgx-h100", [("switch", 2), ("switch", 4)]),
        (A100, {"ranks": 4}, "dgx-a100", [("switch", 4)]),
        (A100, {"ranks": 4, "topology": "fully connected, 4 GPUs"}, "hgx-a100-4", [("fully_connected", 4)]),
        (A100, {"ranks": 16, "placement": "16 GPUs/2 nodes"}, "2x-dgx-a100", [("switch", 2), ("switch", 8)]),
    ],
)  # fmt: skip
def test_a_mesh_is_chosen_by_what_is_stated(
    device: str, inputs: dict[str, Any], mesh: str, axes: list[tuple[str, int]]
) -> None:
    posed = question("collective", {"op": "all_gather", "bytes": 4096, **inputs}, device)
    found = workload_of(posed, Systems.of_catalog()).mesh
    assert (found.name, [(axis.topology, axis.size) for axis in found.axes]) == (mesh, axes)


def test_a_stated_rate_of_the_network_counts() -> None:
    slow, fast = (
        question("collective", {"op": "send_recv", "ranks": 2, "nodes": 2, "bytes": 2**30, "network": text})
        for text in ("RoCE 8x25 Gb/s", "RoCE 8x400 Gb/s")
    )
    systems = Systems.of_catalog()
    assert predicted(slow, systems) > 4 * predicted(fast, systems)


def test_a_device_is_found_by_the_longest_name_in_a_text() -> None:
    systems = Systems.of_catalog()
    for text, name in (("4x A100-SXM4-80GB, NVLink", A100), ("A100 80GB PCIe pairs", "a100-pcie-80gb")):
        posed = replace(question("gemm", {**PRODUCT, "device": text}), device_id=None)
        assert systems.device(posed).name == name


def test_measured_values_are_inside_the_interval_by_their_classes_error() -> None:
    posed = elementwise("relu")
    value, sigma = answer(posed, Systems.of_catalog())
    report = fidelity([replace(row_of(posed), value=value * exp(x * sigma)) for x in (0, 1.6, -1.6, 1.7)])
    assert sigma > 0 and report["inside_90"] == report["tables"][0]["inside_90"] == 0.75


def test_a_causal_mask_halves_the_work_that_is_counted() -> None:
    inputs = {"batch": 1, "seq_len": 4096, "head_dim": 128, "kernel": "FlashAttention-2 forward"}
    whole, causal = (
        workload_of(question("attention", {**inputs, "causal": masked}), Systems.of_catalog()).amounts
        for masked in (False, True)
    )
    assert whole["achieved_flops"] == 2 * causal["achieved_flops"] == 4 * 16 * 4096**2 * 128


@pytest.mark.parametrize(
    ("recompute", "runs", "reductions"), [("baseline_no_recompute", 3, 4), ("full_recompute", 4, 6)]
)
def test_a_training_layer_does_the_work_of_its_products_and_reductions(
    recompute: str, runs: int, reductions: int
) -> None:
    """Given 24 b s h^2 (1 + s / 6h) operations forward and twice as many backward (arXiv:2104.04473, appendix)."""
    hidden, length, batch, shared = 1024, 512, 2, 8
    inputs = {
        "hidden": hidden,
        "heads": 16,
        "seq_len": length,
        "microbatch": batch,
        "tensor_parallel": shared,
    }
    run = dry(question("layer_time", {**inputs, "recompute": recompute}))
    products = runs * 24 * batch * length * hidden**2 * (1 + length / (6 * hidden)) / shared
    assert products < run.flops.max() < 1.05 * products
    assert len(run.staging_bytes) == reductions
    reduced_bytes = reductions * 2 * (shared - 1) / shared * 2 * batch * length * hidden
    assert run.received_bytes.tolist() == [reduced_bytes] * shared


def test_a_report_says_whether_its_figures_know_the_rows() -> None:
    rows = read_rows([ROWS])[:1]
    known, held_out = fidelity(rows), fidelity(rows, predict_held_out)
    assert (known["in_sample"], held_out["in_sample"]) == (True, False)
    assert "drawn by 90%" in known["note"] and "--leave-out source" in known["note"]
    lines = lines_of(known)
    assert "in_sample: True" in lines and f"note: {known['note']}" in lines
