"""Tests of meshes whose nodes differ: names, files, what stands for all nodes, and parts."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean

import jsonschema
import numpy as np
import pytest

from tapestry.hardware import CatalogError, Device, load_file, load_mesh, mesh_from_dict, mesh_schema
from tapestry.hardware.mesh_text import mesh_text
from tapestry.hardware.slowest import LEAST, MEAN, MOST, slowest_device
from tapestry.hardware.stage_meshes import meshes_of_stages
from tapestry.hardware.timing import block_ticks
from tapestry.service.store import mesh_of, mesh_to_document
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.stages import StageLayout

A100, H100 = load_mesh("dgx-a100"), load_mesh("dgx-h100")
MIXED = load_mesh("2x-dgx-h100+dgx-a100")


def test_a_name_joins_nodes_in_its_order() -> None:
    assert MIXED.axis_sizes == (("node", 3), ("gpu", 8)) and MIXED.device_count == 24
    assert [node.name for node in MIXED.nodes] == ["dgx-h100", "dgx-h100", "dgx-a100"]
    assert [node.device.name for node in MIXED.nodes] == [H100.device.name] * 2 + [A100.device.name]
    networks = [mesh.network for mesh in (A100, H100) if mesh.network is not None]
    assert MIXED.axes[0].bandwidth_bytes_per_s == min(axis.bandwidth_bytes_per_s for axis in networks)


def test_equal_nodes_are_a_mesh_by_count() -> None:
    joined, counted = load_mesh("dgx-h100+dgx-h100"), load_mesh("2x-dgx-h100")
    assert not joined.nodes
    assert (joined.device, joined.axes) == (counted.device, counted.axes)


def test_what_stands_for_all_devices_is_no_better_than_any() -> None:
    device = MIXED.device
    for name in ("memory_bytes", "memory_bytes_per_s", "vector_flops_per_s", "cores", "host_bytes_per_s"):
        assert getattr(device, name) == min(getattr(mesh.device, name) for mesh in (A100, H100)), name
    for name in MOST:
        known = [getattr(mesh.device, name) for mesh in (A100, H100)]
        assert getattr(device, name) == (None if None in known else max(known)), name
    for dtype in ("fp32", "bf16", "fp8"):
        rates = [mesh.device.contraction_flops_per_s(dtype) for mesh in (A100, H100)]
        assert device.contraction_flops_per_s(dtype) == min(rates)
    assert device.missing_energy_figure is None


def test_energy_and_price_are_means_over_all_devices() -> None:
    kinds = [H100.device, H100.device, A100.device]
    assert MIXED.device.idle_power_w == fmean(kind.require("idle_power_w") for kind in kinds)
    assert MIXED.device.flop_joules("bf16") == fmean(kind.flop_joules("bf16") for kind in kinds)


def test_every_figure_of_a_device_is_accounted_for() -> None:
    merged = {"name", "vendor", "aliases", "kinds", "peak_flops_per_s", "joules_per_flop"}
    # Blocks take as long as on the slowest kind, so these only describe.
    of_one = {"tiles", "kernels", "compute_dtype_default", "fresh_bytes", "architecture", "sources"}
    equal = {"layouts", "launch", "quantile"}
    assert {field.name for field in fields(Device)} == {*LEAST, *MOST, *MEAN, *merged, *of_one, *equal}


def test_unknown_figures_stay_unknown() -> None:
    without = replace(A100.device, price_usd_per_hour=None, cache_bytes=None)
    found = slowest_device([without, H100.device])
    assert found.price_usd_per_hour is None and found.cache_bytes is None


def test_parts_have_the_devices_that_lie_there() -> None:
    one = MIXED.part((("node", 1), ("gpu", 4)), 2)
    assert one.device == A100.device and not one.nodes
    two = MIXED.part((("node", 2), ("gpu", 8)))
    assert two.device == H100.device and not two.nodes
    assert [node.device.name for node in MIXED.part((("node", 2), ("gpu", 8)), 1).nodes] == [
        H100.device.name,
        A100.device.name,
    ]


def test_stages_have_meshes_of_their_own() -> None:
    shape = MeshShape(MIXED.axis_sizes)
    meshes = meshes_of_stages(MIXED, StageLayout(shape, shape.part("node:1,gpu:4"), 6))
    assert [meshes.of(k).device.name for k in range(6)] == [H100.device.name] * 4 + [A100.device.name] * 2
    assert meshes.between(0, 3) is meshes.of(0) and meshes.between(3, 4) is meshes.common
    assert meshes.common.device == MIXED.device


def test_launch_and_quantile_reach_all_nodes() -> None:
    assert {node.device.launch for node in MIXED.launched("eager").nodes} == {"eager"}
    late = MIXED.at_quantile(0.9)
    assert {node.device.quantile for node in late.nodes} == {0.9} and late.axes[0].quantile == 0.9


FILE = """
name = "both"
nodes = ["dgx-h100", "2x-dgx-a100"]

[network]
topology = "switch"
bandwidth_bytes_per_s = 1.25e10
latency_s = 1e-5
"""


def test_a_file_lists_nodes(tmp_path: Path) -> None:
    file = tmp_path / "both.toml"
    file.write_text(FILE)
    mesh = load_mesh(file)
    assert mesh.axis_sizes == (("node", 3), ("gpu", 8))
    assert mesh.axes[0].bandwidth_bytes_per_s == 1.25e10
    assert [node.name for node in mesh.nodes] == ["dgx-h100", "dgx-a100", "dgx-a100"]


def test_a_stored_mesh_is_read_back() -> None:
    document = mesh_to_document(MIXED)
    assert mesh_of(document) == MIXED
    jsonschema.validate(document, mesh_schema())
    jsonschema.validate(mesh_to_document(H100), mesh_schema())


AXIS = {
    "name": "gpu",
    "size": 8,
    "topology": "switch",
    "bandwidth_bytes_per_s": 3e11,
    "latency_s": 5e-6,
}
NODE = {"name": "mine", "device": "a100-sxm4-80gb", "axes": [AXIS]}
FAST = {"topology": "switch", "bandwidth_bytes_per_s": 5e12, "latency_s": 1e-5}


def test_nodes_may_be_tables_with_a_count() -> None:
    network = {"topology": "switch", "bandwidth_bytes_per_s": 1e10, "latency_s": 1e-5}
    mesh = mesh_from_dict({"name": "a", "nodes": ["dgx-h100", {**NODE, "count": 3}], "network": network})
    assert [node.name for node in mesh.nodes] == ["dgx-h100", "mine", "mine", "mine"]


def test_nodes_of_a_mesh_of_nodes_stay_what_they_are(tmp_path: Path) -> None:
    file = tmp_path / "mixed.toml"
    file.write_text(mesh_text(MIXED))
    kinds = [node.device.name for node in MIXED.nodes]
    for mesh in (
        load_mesh(f"{file}+dgx-a100"),
        mesh_from_dict({"name": "a", "nodes": ["2x-dgx-h100+dgx-a100", "dgx-a100"]}),
    ):
        assert [node.device.name for node in mesh.nodes] == [*kinds, A100.device.name]
    assert [node.device.name for node in load_mesh(f"2x-{file}").nodes] == kinds * 2


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boards, racks = tmp_path / "boards", tmp_path / "racks"
    for folder in (boards, racks, tmp_path / "elsewhere"):
        folder.mkdir()
    (boards / "mine.toml").write_text(Path("hardware/devices/a100-sxm4-80gb.toml").read_text())
    (boards / "node.toml").write_text(mesh_text(A100).replace('"a100-sxm4-80gb"', '"mine.toml"', 1))
    network = '[network]\ntopology = "switch"\nbandwidth_bytes_per_s = 1e10\nlatency_s = 1e-5\n'
    (racks / "rack.toml").write_text(f'name = "rack"\nnodes = ["../boards/node.toml", "dgx-h100"]\n{network}')
    monkeypatch.chdir(tmp_path / "elsewhere")
    expected = load_mesh("dgx-a100")
    assert load_mesh("../boards/node.toml") == load_file("../boards/node.toml") == expected
    devices = [expected.device, H100.device]
    assert [node.device for node in load_mesh(racks / "rack.toml").nodes] == devices
    assert [node.device for node in load_mesh("2x-../racks/rack.toml").nodes] == devices * 2
    (tmp_path / "elsewhere" / "mine.toml").write_text("")
    assert load_mesh("../boards/node.toml") == expected
    (boards / "mine.toml").unlink()
    with pytest.raises(CatalogError, match=r"mine\.toml: cannot read it: No such file"):
        load_mesh("../boards/node.toml")


def test_a_file_that_lists_itself_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "self.toml"
    file.write_text(f'name = "self"\nnodes = ["dgx-h100", "{file}"]\n')
    with pytest.raises(CatalogError, match="a node of this mesh is the mesh itself"):
        load_mesh(file)


def test_a_sign_in_a_path_joins_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "c++"
    folder.mkdir()
    (folder / "node.toml").write_text(mesh_text(H100))
    assert load_mesh(f"2x-{folder / 'node.toml'}").device_count == 16
    assert load_mesh(f"{folder / 'node.toml'}").device == H100.device
    with pytest.raises(CatalogError, match=r"absent\.toml: cannot read it"):
        load_mesh(f"{folder / 'absent.toml'}")


def test_too_many_nodes_are_refused_before_they_are_made() -> None:
    with pytest.raises(CatalogError, match="at most 1000000 devices in all"):
        load_mesh("100000x-dgx-h100+100000x-dgx-a100")
    document = mesh_to_document(load_mesh("500x-dgx-h100+500x-dgx-a100"))
    assert [node["count"] for node in document["nodes"]] == [500, 500]


def test_links_of_another_topology_are_compared_by_what_a_device_receives() -> None:
    amd = load_mesh("mi300x-8")
    axis = load_mesh("dgx-a100+mi300x-8").axes[1]
    assert axis.topology == "switch" and axis.bandwidth_bytes_per_s == A100.axes[0].bandwidth_bytes_per_s
    assert amd.axes[0].bandwidth_bytes_per_s < axis.bandwidth_bytes_per_s < amd.axes[0].device_rate()


@pytest.mark.parametrize(
    "names", [("dgx-a100", "hgx-h20"), ("dgx-b200", "mi300x-8"), ("dgx-h100", "dgx-a100")]
)
def test_a_block_takes_as_long_as_on_the_device_that_takes_longest(names: tuple[str, str]) -> None:
    kinds = [load_mesh(name).device for name in names]
    both = load_mesh("+".join(names)).device
    size = np.logspace(3, 9, 25).astype(np.int64)
    for device in (both, both.launched("eager"), both.at_quantile(0.9)):
        own = [replace(kind, launch=device.launch, quantile=device.quantile) for kind in kinds]
        for kind in ("vector", "move"):
            slowest = np.maximum(*(block_ticks(each, kind, size, size, "bfloat16") for each in own))
            assert block_ticks(device, kind, size, size, "bfloat16").tolist() == slowest.tolist()
        slowest = np.maximum(*(block_ticks(each, "contraction", 64 * size, size, "float32") for each in own))
        assert block_ticks(device, "contraction", 64 * size, size, "float32").tolist() == slowest.tolist()


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        ({"nodes": []}, "nodes", "a list that is not empty"),
        ({"nodes": ["dgx-h100", "dgx-b10"]}, "nodes[1]", "dgx-b200"),
        ({"nodes": ["dgx-h100", "hgx-a100-4"]}, "nodes", "the same names and sizes"),
        ({"nodes": ["dgx-h100", "cpu-node"], "network": None}, "network", "has none of its own"),
        ({"nodes": ["dgx-h100"], "axes": []}, "axes", "unknown key"),
        ({"nodes": ["dgx-h100", {"name": "mine"}]}, "nodes[1]: axes", "missing"),
        ({"nodes": ["dgx-h100", 7]}, "nodes[1]", "expected the name of a mesh, or a table, not 7"),
        ({"nodes": ["dgx-h100", "dgx-a100"], "network": FAST}, "network: bandwidth_bytes_per_s", "at most"),
        ({"nodes": [{**NODE, "axes": [{**AXIS, "name": "node"}]}]}, "nodes", "has an axis 'node'"),
        ({"nodes": [{**NODE, "count": 10**7}]}, "nodes[0]: count", "at most 1000000"),
        ({"nodes": ["dgx-h100", {**NODE, "count": 10**6}]}, "nodes", "at most 1000000 devices"),
    ],
)
def test_faults_name_their_place(change: dict[str, object], place: str, message: str) -> None:
    network = {"topology": "switch", "bandwidth_bytes_per_s": 1e10, "latency_s": 1e-5}
    content = {"name": "both", "network": network, **change}
    content = {name: value for name, value in content.items() if value is not None}
    with pytest.raises(CatalogError) as caught:
        mesh_from_dict(content)
    assert any(fault.startswith(f"mesh: {place}:") and message in fault for fault in caught.value.faults)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dgx-h100+gb200-nvl72", "the same names and sizes"),
        ("dgx-h100+cpu-node", "states no network"),
        ("dgx-h100+dgx-a10", "dgx-a100"),
        ("dgx-h100+0x-dgx-a100", "at least|from 1"),
        ("dgx-h100+", "there is no mesh ''"),
    ],
)
def test_names_that_join_nothing_are_refused(name: str, message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        load_mesh(name)
