"""Tests of shardings as columns: they hold the very parts and counts of the plan, and words that follow from it."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer.analysis.plan_traffic import plan_traffic
from tapestry.service.api.shardings import EXAMPLE
from tapestry.service.plan_shardings import NONE, sharding_document
from tapestry.service.sharding_words import words_of
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.expand import ExplicitGraph
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.optimizer.analysis.shared_plans import CASES
from tests.service.programs import two_layers
from tests.teg.sharding.looped import training


def parts_of(document: dict[str, Any], number: int) -> np.ndarray:
    """Return the box of each device in a sharding, `(devices, rank, 2)`, as a page puts it together."""
    ranges = [document["ranges"][k] for k in document["shardings"][number]["ranges"]]
    if not ranges:
        return np.zeros((0, 0, 2), dtype=np.int64)
    return np.stack([np.array(r["bounds"])[r["of_device"]] for r in ranges], axis=1)


def check_device_bytes(found: dict[str, Any]) -> None:
    """Compare what tensors take of a device with the ranges of every device, multiplied one by one."""
    tensors = found["tensors"]
    for dtype, number, most in zip(
        tensors["dtype"], tensors["sharding"], tensors["device_bytes"], strict=True
    ):
        ranges = [found["ranges"][k] for k in found["shardings"][number]["ranges"]]
        devices = len(ranges[0]["of_device"]) if ranges else 1
        elements = []
        for device in range(devices):
            bounds = [each["bounds"][each["of_device"][device]] for each in ranges]
            elements.append(math.prod(end - start for start, end in bounds))
        assert most == max(elements) * item_bytes(dtype)


def check_parts(document: dict[str, Any], program: ExplicitGraph) -> None:
    """Compare the parts of all tensors and reads with those of the expanded program."""
    tensors, reads = document["tensors"], document["reads"]
    made = {}
    for key in (*program.sources, *(key for slot in program.slots for key in slot.step.outputs)):
        made.setdefault(program.buffers[key].tensor, program.buffers[key])
    assert tensors["name"] == list(made)
    for k, buffer in enumerate(made.values()):
        if buffer.shape:
            assert (parts_of(document, tensors["sharding"][k]) == buffer.boxes).all()
    steps = {s.step.site: s.step for s in reversed(program.slots) if s.step.round == 0}
    for block, position, number in zip(reads["block"], reads["position"], reads["sharding"], strict=True):
        read = steps[document["blocks"]["site"][block]].reads[position]
        if read.part.shape[1]:
            assert (parts_of(document, number) == read.part).all()


@pytest.mark.parametrize("name", CASES)
def test_columns_have_the_parts_and_add_up_to_the_counts(name: str) -> None:
    case = CASES[name]()
    traffic = plan_traffic(case.graph, case.placements, case.mesh)
    found = sharding_document(case.placements, case.mesh, traffic)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    check_parts(found, traffic.program)

    moved, exchanges = found["redistributions"], found["exchanges"]
    total = found["totals"]["traffic_bytes"]
    assert sum(moved["bytes"]) == sum(exchanges["bytes"]) == total == traffic.execution.traffic_bytes
    by_number = np.bincount(exchanges["redistribution"], exchanges["bytes"], len(moved["bytes"]))
    assert by_number.tolist() == moved["bytes"]
    assert np.array(found["matrix"]["bytes"] or [[0]]).sum() == total
    assert sum(found["matrix"]["times"]) == sum(moved["times"])
    assert sum(found["matrix"]["seconds"]) == pytest.approx(sum(moved["seconds"]))
    received = [axis["received_bytes"] for axis in found["mesh"]["axes"]]
    assert np.sum(received) == total
    if found["mesh"]["links"] is not None:
        assert sum(found["mesh"]["links"]["bytes"]) == total
    check_device_bytes(found)
    assert sum(found["blocks"]["flops"]) == found["totals"]["compute_flops"]
    energy_j = [each.energy_pj * 1e-12 for each in traffic.blocks.values()]
    assert sum(found["blocks"]["energy_j"]) == pytest.approx(sum(energy_j))

    reads = found["reads"]
    served = {number for number in reads["redistribution"] if number != NONE}
    assert served == set(range(len(moved["bytes"])))
    for k, (reader, position) in enumerate(zip(moved["reader"], moved["position"], strict=True)):
        row = list(zip(reads["block"], reads["position"], strict=True)).index((reader, position))
        assert reads["redistribution"][row] == k and reads["tensor"][row] == moved["tensor"][k]
    for name_of_table in ("blocks", "reads", "tensors", "redistributions", "exchanges"):
        assert len({len(column) for column in found[name_of_table].values()}) == 1


def relu() -> Graph:
    b = GraphBuilder("relu")
    x = b.source("x", (8, 16), "float32")
    (y,) = b.apply(
        "cell", (x,), site="y", expr=("relu", ("input", 0)), labels=(("m", "n"),),
        dims=(("m", 8), ("n", 16)), dtype="float32",
    )  # fmt: skip
    b.sink(y, site="out")
    return b.build()


def test_the_example_of_the_reference_has_the_members_of_a_document() -> None:
    mesh = load_mesh("dgx-h100").part((("gpu", 2),))
    split = Placement(parse_strategy("(gpu.0, -)"))
    placements = Placements({"x": split, "y": split})
    found = sharding_document(placements, mesh, plan_traffic(relu(), placements, mesh))
    assert set(EXAMPLE) == {*found, "plan", "words"}
    for table, columns in EXAMPLE.items():
        if table in ("blocks", "reads", "tensors", "redistributions", "exchanges"):
            counted = {name: column for name, column in columns.items() if name != "seconds"}
            assert counted == {name: found[table][name] for name in counted}, table
            assert set(columns) == set(found[table])
    for name in ("signatures", "strategies", "shardings", "ranges", "operators"):
        assert found[name] == EXAMPLE[name], name
    assert found["mesh"]["links"] == EXAMPLE["mesh"]["links"]


def words(graph: Graph, placements: Placements, **fastest: float) -> dict[str, str]:
    mesh = load_mesh("2x-dgx-h100")
    traffic = plan_traffic(graph, with_boundary(graph, placements), mesh)
    cost = {"time_s": 2.0, "peak_memory_bytes": 69.0, "traffic_bytes": 5.0}
    found = words_of(placements, mesh.axis_sizes, traffic, cost, fastest or None)
    assert all(each["text"].endswith(".") for each in found["sentences"])
    return {each["topic"]: each["text"] for each in found["sentences"]} | {"headline": found["headline"]}


def test_words_name_what_is_split_over_which_axis_and_compare_with_the_fastest() -> None:
    both, gpus = "node.0", "gpu.0*gpu.1*gpu.2"
    placed = {
        "x": f"({both}, -)", "up": f"(-, {gpus})", "down": f"({gpus}, -)", "hidden": f"({both}, {gpus}, -)",
        "active": f"({both}, {gpus})", "y": f"({both}, -, {gpus})", "result": f"({both}, -)",
    }  # fmt: skip
    placements = Placements({site: Placement(parse_strategy(text)) for site, text in placed.items()})
    found = words(two_layers(), placements, time_s=1.0, peak_memory_bytes=100.0, traffic_bytes=5.0)
    assert found["headline"] == (
        "batch over node, features and terms of sums over gpu; weights stay split; 31 % less memory than the fastest"
    )
    assert found["Devices"] == "All 16 devices work, 2 node × 8 gpu."
    assert found["Weights"] == "100 % of their bytes are split over gpu."
    assert found["Sums"].startswith("Partial results are all-reduced over gpu in 1 copy (")
    assert "31 % less memory on the fullest device, 2 times the time and as much traffic" in found["Compared"]


@pytest.mark.parametrize("name", [*CASES, "two steps of sums"])
def test_the_bytes_of_the_sentences_add_up_to_the_traffic(name: str) -> None:
    if name in CASES:
        case = CASES[name]()
        graph, placements, mesh = case.graph, case.placements, case.mesh
    else:  # reduce-scattered in the nodes, and all-reduced between them
        terms, split = (
            parse_strategy("(-, -, node.0*gpu.0*gpu.1*gpu.2)"),
            parse_strategy("(gpu.0*gpu.1*gpu.2, -)"),
        )
        graph, mesh = two_layers(), load_mesh("2x-dgx-h100")
        placements = Placements({"y": Placement(terms), "result": Placement(split)})
    traffic = plan_traffic(graph, placements, mesh)
    found = words_of(placements, mesh.axis_sizes, traffic, {}, {})["sentences"]
    texts = {each["topic"]: each["text"] for each in found}
    stated = re.findall(r"cop(?:y|ies) \(([\d.e+]+) ([KMGT]?i?B)\)", " ".join(texts.values()))
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    total = sum(float(number) * units[unit] for number, unit in stated)
    assert total == pytest.approx(traffic.execution.traffic_bytes, rel=2e-3)
    if name not in CASES:
        assert re.fullmatch(
            r"Partial results are reduce-scattered over gpu and all-reduced over node in 1 copy \(.*\)\.",
            texts["Sums"],
        )


def test_words_say_how_many_of_the_weights_are_split() -> None:
    placements = Placements({"w1": Placement(parse_strategy("(-, gpu.0)"))})
    found = words(training(96, "float32", state=True), placements)
    share = "67 % of the weights"
    assert found["Weights"].startswith("67 % of their bytes are split over gpu; 1 copy (")
    assert "gathers them before they are read" in found["Weights"]
    assert f"{share} gathered before use" in found["headline"]


def test_words_name_the_role_of_what_is_moved() -> None:
    split = Placement(parse_strategy("(-, gpu.0)"))
    placements = Placements(dict.fromkeys(("new.w1", "new.w2", "active"), split))
    found = words(training(96, "float32", state=True), placements)
    assert "2 copies (" in found["Weights"] and found["Weights"].endswith("gather their new values.")
    assert found["Other moves"].endswith("changes the sharding of activations.")


@pytest.mark.parametrize(
    ("memory", "headline", "sentence"),
    [
        (100.0, "31 % less memory than the fastest", "31 % less memory on the fullest device"),
        (69.0, "as much memory as the fastest", "as much memory on the fullest device"),
        (69.2, "about as much memory as the fastest", "about as much memory on the fullest device"),
        (60.0, "15 % more memory than the fastest", "15 % more memory on the fullest device"),
        (34.5, "2 times the memory of the fastest", "2 times the memory on the fullest device"),
        (69e3, "0.1 % of the memory of the fastest", "0.1 % of the memory on the fullest device"),
        (0.0, "more memory than the fastest", "more memory on the fullest device"),
    ],
)
def test_words_compare_with_the_fastest(memory: float, headline: str, sentence: str) -> None:
    found = words(two_layers(), Placements({}), time_s=1.0, peak_memory_bytes=memory, traffic_bytes=5.0)
    assert found["headline"].endswith(f"; {headline}")
    compared = f"Beside the fastest plan of the run: {sentence}, 2 times the time and as much traffic."
    assert found["Compared"] == compared


def test_words_say_that_weights_are_gathered_and_that_devices_are_idle() -> None:
    split = Placement(parse_strategy("(gpu.0*gpu.1, -)"))
    placements = Placements({"up": split, "down": split}, devices="node:1,gpu:4")
    found = words(two_layers(), placements)
    assert found["headline"] == (
        "every device computes everything; weights gathered before use; the fastest plan of its run"
    )
    assert found["Devices"] == "4 of 16 devices work, 1 node × 4 gpu."
    assert "2 copies (384 KiB) gather them before they are read" in found["Weights"]
