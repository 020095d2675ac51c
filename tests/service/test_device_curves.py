"""Tests of documents of devices and meshes: figures with sources, and times within what the figures allow."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapestry.hardware import device_names, load_device, load_mesh, mesh_names
from tapestry.hardware.ranges import RANGES
from tapestry.service.device_curves import device_document
from tapestry.service.mesh_curves import mesh_document


def device_of(name: str) -> dict[str, Any]:
    """Return the document of a device that is there."""
    found = device_document(name)
    assert found is not None
    return found


def mesh_of(name: str) -> dict[str, Any]:
    """Return the document of a mesh that is there."""
    found = mesh_document(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", device_names())
def test_every_device_has_figures_with_units_and_rates_below_its_roofline(name: str) -> None:
    document, device = device_of(name), load_device(name)
    json.dumps(document, allow_nan=False)
    for figure in document["figures"]:
        key, _, part = figure["key"].partition(".")
        value = getattr(device, key)
        assert figure["value"] == (value[part] if part else value)
        assert figure["unit"] == RANGES[key].unit
        assert figure["source"] == device.sources.get(key, "")
        assert figure["group"]
    assert [each["precision"] for each in document["products"]] == list(device.peak_flops_per_s)
    for product in document["products"]:
        for n, spent, ideal in zip(document["sizes"], product["seconds"], product["ideal"], strict=True):
            assert ideal >= 2 * n**3 / device.peak_flops_per_s[product["precision"]]
            assert spent >= ideal * (1 - 1e-9)
        assert product["seconds"] == sorted(product["seconds"])
    assert document["streams"]["seconds"] == sorted(document["streams"]["seconds"])
    assert all(name in {load_mesh(mesh).device.name} for mesh in document["meshes"])


@pytest.mark.parametrize("name", [*mesh_names(), "2x-dgx-h100", "2x-dgx-h100+dgx-a100"])
def test_every_mesh_has_times_of_collectives_and_its_tables_as_points(name: str) -> None:
    document, mesh = mesh_of(name), load_mesh(name)
    json.dumps(document, allow_nan=False)
    assert (
        document["device_count"] == mesh.device_count == math.prod(each["size"] for each in document["axes"])
    )
    assert [each["name"] for each in document["axes"]] == [axis.name for axis in mesh.axes]
    for written, axis in zip(document["axes"], mesh.axes, strict=True):
        measured = {(t.kind, t.members, t.inside, t.algorithm): t for t in axis.collectives}
        for group in written["groups"]:
            assert all(spent > 0 for spent in (*group["seconds"], *group["computed"]))
            assert group["seconds"] == sorted(group["seconds"])
            for points in group["points"]:
                table = measured.pop((group["kind"], group["members"], group["inside"], points["algorithm"]))
                rows = dict.fromkeys(zip(table.bytes, table.seconds, strict=True))
                assert list(zip(points["bytes"], points["measured_s"], strict=True)) == list(rows)
                for k, spent in enumerate(points["measured_s"]):
                    assert points["error"][k] == pytest.approx(points["predicted_s"][k] / spent - 1)
                    assert points["computed_error"][k] == pytest.approx(points["computed_s"][k] / spent - 1)
        assert not measured, "a table of measurements has no curve"


def test_predictions_pass_through_the_measurements_of_a_switch() -> None:
    (axis,) = mesh_of("dgx-h100")["axes"]
    file = tomllib.loads(Path("hardware/meshes/dgx-h100.toml").read_text())
    (table,) = (each for each in file["axes"][0]["collectives"] if each["members"] == 8)
    (group,) = (each for each in axis["groups"] if each["members"] == 8 and each["points"])
    (points,) = group["points"]
    assert (group["kind"], points["algorithm"], points["source"]) == (
        "all_reduce",
        "in_switch",
        table["source"],
    )
    assert dict(zip(points["bytes"], points["measured_s"], strict=True)) == dict(
        zip(table["bytes"], table["seconds"], strict=True)
    )
    assert max(map(abs, points["error"])) < 1e-6
    assert max(map(abs, points["computed_error"])) > 0.5


def test_a_size_that_is_left_out_is_predicted_from_the_sizes_beside_it() -> None:
    (axis,) = mesh_of("t3000-ring")["axes"]
    (group,) = (each for each in axis["groups"] if each["kind"] == "all_gather")
    (points,) = group["points"]
    bare, measured, off = (np.array(points[key]) for key in ("computed_s", "measured_s", "left_out_error"))
    for k in range(
        1, len(measured) - 1
    ):  # on the line between its neighbors in logarithms, where none is bounded
        share = np.log(bare[k] / bare[k - 1]) / np.log(bare[k + 1] / bare[k - 1])
        expected = measured[k - 1] ** (1 - share) * measured[k + 1] ** share
        assert off[k] == pytest.approx(expected / measured[k] - 1, abs=1e-3)
    assert abs(off[-1]) == pytest.approx(abs(measured[-2] / bare[-2] * bare[-1] / measured[-1] - 1), abs=1e-3)


@pytest.mark.parametrize("name", mesh_names())
def test_errors_of_sizes_left_out_are_not_those_of_what_was_measured(name: str) -> None:
    document = mesh_of(name)
    for axis in document["axes"]:
        for points in (
            points for group in axis["groups"] for points in group["points"] if len(points["bytes"]) > 2
        ):
            assert np.median(np.abs(points["left_out_error"])) > 1e-4


def test_times_from_figures_alone_are_latency_and_bytes_over_bandwidth() -> None:
    (axis,) = mesh_of("dgx-h100")["axes"]
    (figures,) = tomllib.loads(Path("hardware/meshes/dgx-h100.toml").read_text())["axes"]
    (group,) = (each for each in axis["groups"] if (each["kind"], each["members"]) == ("all_reduce", 8))
    size = 2**34  # bytes, which each device receives 7/4 times
    rate = figures["bandwidth_bytes_per_s"] * figures["all_reduce_efficiency"]
    expected = 2 * figures["latency_s"] + 2 * figures["ramp_s"] + size * 7 / 4 / rate
    assert group["computed"][-1] == pytest.approx(expected, rel=1e-6)
    assert group["received_share"] == 7 / 4


def test_collectives_over_nodes_are_predicted_on_both_axes() -> None:
    network = mesh_of("aws-p5")["network"]
    (group,) = (each for each in network["groups"] if each["inside"] == 8)
    (points,) = group["points"]
    assert (group["kind"], group["members"], group["received_share"]) == ("all_reduce", 2, 2 * 15 / 16)
    assert max(map(abs, points["error"])) < 0.1


def test_mixed_nodes_are_counted_and_named() -> None:
    document = mesh_of("2x-dgx-h100+dgx-a100")
    assert document["nodes"] == [{"name": "dgx-h100", "count": 2}, {"name": "dgx-a100", "count": 1}]
    assert [each["name"] for each in document["devices"]] == ["h100-sxm5-80gb", "a100-sxm4-80gb"]


def test_unknown_names_have_no_document() -> None:
    assert device_document("h1000") is None
    assert mesh_document("0x-dgx-h100") is None
