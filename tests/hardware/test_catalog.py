"""Tests that every device and mesh of the catalog keeps the promises that the cost model relies on."""

import pickle
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tapestry.hardware import (
    CatalogError,
    Device,
    Mesh,
    MeshAxis,
    MissingFigureError,
    device_from_dict,
    device_names,
    load_device,
    load_mesh,
    mesh_from_dict,
    mesh_names,
    node_names,
)
from tapestry.hardware.mesh_text import mesh_text
from tapestry.hardware.timing import seconds, step_ticks
from tests.teg.test_graph_card import is_inert

FIGURES = (int, float, Mapping)
OWN_MESH = """
name = "mine"
device = "a100-80"
[[axes]]
name = "gpu"
size = 4
topology = "switch"
bandwidth_bytes_per_s = 1e11
latency_s = 1e-6
"""


def unsourced(value: Device | MeshAxis) -> list[str]:
    """Return the fields that hold figures which differ from the field's default and have no source."""
    return [
        field.name
        for field in fields(value)
        if field.name not in ("sources", "kernels")
        and isinstance(figure := getattr(value, field.name), FIGURES)
        and figure != field.default
        and not value.sources.get(field.name, "").strip()
    ]


@pytest.mark.parametrize("name", device_names())
def test_every_figure_of_a_device_has_a_source(name: str) -> None:
    device = load_device(name)
    assert unsourced(device) == []
    assert device.sources["tiles"]
    own = {f"kernels.{key}" for key, figures in device.kernels.items() if not figures.origin}
    assert {key for key in device.sources if key.startswith("kernels.")} == own
    assert set(device.sources) - own <= {field.name for field in fields(device)}


@pytest.mark.parametrize("name", device_names())
def test_a_device_computes_and_prices_every_precision_it_names(name: str) -> None:
    device = load_device(name)
    assert device.name == name
    assert device.peak_flops_per_s
    assert device.layouts
    for dtype in ("float32", "bfloat16", "float16", *device.peak_flops_per_s, *device.compute_dtype_default):
        assert device.contraction_flops_per_s(dtype) > 0
        assert device.flop_joules(dtype) > 0
    for objective_figure in (
        "price_usd_per_hour",
        "idle_power_w",
        "joules_per_memory_byte",
        "joules_per_link_byte",
    ):
        assert device.require(objective_figure) > 0
    for share in (device.contraction_efficiency, device.memory_efficiency, device.vector_efficiency):
        assert 0 < share <= 1


@pytest.mark.parametrize("name", device_names())
def test_a_device_busy_with_arithmetic_and_memory_stays_below_its_tdp(name: str) -> None:
    device = load_device(name)
    assert device.joules_per_flop is not None
    for dtype, peak in device.peak_flops_per_s.items():
        drawn_w = (
            device.require("idle_power_w")
            + device.joules_per_flop[dtype] * peak
            + device.require("joules_per_memory_byte") * device.memory_bytes_per_s
        )
        assert drawn_w == pytest.approx(0.95 * device.require("tdp_w"), rel=1e-3)


def test_no_two_devices_share_a_name() -> None:
    devices = [load_device(name) for name in device_names()]
    names = [alias for device in devices for alias in (device.name, *device.aliases)]
    assert sorted(names) == sorted(set(names))


# Precisions from wide to narrow. A device is no slower in a later one; integers and block formats are apart.
NARROWING = ("fp64", "fp32", "tf32", "bf16", "fp8", "fp4")
# The most that one core of a device of 2025 computes in one second, flop/s, by precision: B300's bf16 per
# multiprocessor is 15e12, and each halving of a precision doubles it. TPUs and CPUs have other cores.
MOST_PER_CORE = {
    "fp64": 1e12,
    "fp32": 1e12,
    "tf32": 1e13,
    "fp16": 2e13,
    "bf16": 2e13,
    "fp8": 4e13,
    "fp4": 8e13,
}


@pytest.mark.parametrize("name", device_names())
def test_narrower_precisions_are_no_slower_and_caches_no_slower_than_memory(name: str) -> None:
    device = load_device(name)
    peaks = [device.peak_flops_per_s[dtype] for dtype in NARROWING if dtype in device.peak_flops_per_s]
    assert peaks == sorted(peaks)
    if "fp32" in device.peak_flops_per_s:
        assert device.contraction_flops_per_s("fp16") >= device.peak_flops_per_s["fp32"]
        assert device.peak_flops_per_s["fp32"] >= device.vector_flops_per_s * 0.99
    if device.cache_bytes_per_s is not None and device.cache_bytes is not None:
        assert device.memory_bytes_per_s < device.cache_bytes_per_s < 10 * device.memory_bytes_per_s
        assert device.cache_bytes < device.memory_bytes / 100


@pytest.mark.parametrize(
    "name", [name for name in device_names() if load_device(name).vendor in ("NVIDIA", "AMD")]
)
def test_the_figures_of_a_gpu_are_plausible(name: str) -> None:
    device = load_device(name)
    for dtype, most in MOST_PER_CORE.items():
        assert device.peak_flops_per_s.get(dtype, 0.0) <= most * device.cores
    assert 3e9 < device.memory_bytes_per_s / device.cores < 1e11
    assert 4e9 < device.memory_bytes < 3e11
    assert 0.005 < device.memory_bytes / device.memory_bytes_per_s < 0.1  # seconds to read it all


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("A100", "a100-sxm4-80gb"),
        ("H20", "h20"),
        ("AMD Instinct MI210", "mi210"),
    ],
)
def test_measurements_name_devices_as_their_drivers_do(spelled: str, name: str) -> None:
    assert load_device(spelled).name == name


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"cache_bytes": 100}, "cache_bytes: expected together with cache_bytes_per_s"),
        ({"cache_bytes_per_s": 1e10}, "cache_bytes: expected together with cache_bytes_per_s"),
        ({"fresh_bytes": 10**4}, "fresh_bytes: expected together with fresh_bytes_per_s"),
        ({"fresh_bytes_per_s": 1e9}, "fresh_bytes: expected together with fresh_bytes_per_s"),
        (
            {"cache_bytes": 10**4, "cache_bytes_per_s": 1e8},
            "cache_bytes_per_s: expected at least memory_bytes_per_s",
        ),
        ({"context_bytes": 10**12}, "context_bytes: expected at most memory_bytes"),
        ({"peak_flops_per_s": {"fp63": 1e9}}, "peak_flops_per_s: fp63: unknown precision; did you mean fp64"),
        ({"compute_dtype_default": {"bf61": "fp32"}}, "compute_dtype_default: bf61: unknown precision"),
    ],
)
def test_figures_that_contradict_others_are_refused(figures: dict[str, object], message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        device_from_dict(OWN_DEVICE | figures)


@pytest.mark.parametrize("name", mesh_names())
def test_every_figure_of_a_mesh_has_a_source(name: str) -> None:
    mesh = load_mesh(name)
    assert mesh.name == name
    assert mesh.device == load_device(mesh.device.name)
    for axis in (*mesh.axes, *((mesh.network,) if mesh.network else ())):
        assert [name for name in unsourced(axis) if (axis, name) != (mesh.network, "size")] == []
        assert axis.sources["topology"]


@pytest.mark.parametrize(
    ("name", "sizes", "count"),
    [
        ("dgx-a100", (("gpu", 8),), 8),
        ("dgx-h100", (("gpu", 8),), 8),
        ("dgx-h200", (("gpu", 8),), 8),
        ("2x-dgx-h100", (("node", 2), ("gpu", 8)), 16),
        ("128x-aws-p5", (("node", 128), ("gpu", 8)), 1024),
        ("1x-dgx-a100", (("node", 1), ("gpu", 8)), 8),
        ("hgx-a100-4", (("gpu", 4),), 4),
        ("p3-16xlarge", (("gpu", 8),), 8),
        ("tpu-v5e-4x4", (("x", 4), ("y", 4)), 16),
        ("cpu-node", (("socket", 2),), 2),
        ("n300", (("chip", 2),), 2),
        ("t3000", (("y", 2), ("x", 4)), 8),
        ("t3000-ring", (("ring", 8),), 8),
        ("galaxy-4x8", (("x", 4), ("y", 8)), 32),
        ("p150-x4", (("x", 4),), 4),
        ("blackhole-galaxy-4x8", (("x", 4), ("y", 8)), 32),
        ("tpu-v4-2x2x2", (("x", 2), ("y", 2), ("z", 2)), 8),
        ("tpu-v4-4x4x4", (("x", 4), ("y", 4), ("z", 4)), 64),
        ("tpu-v5e-16x16", (("x", 16), ("y", 16)), 256),
        ("tpu-v5p-2x2x1", (("x", 2), ("y", 2)), 4),
        ("tpu-v5p-4x4x4", (("x", 4), ("y", 4), ("z", 4)), 64),
        ("tpu-v6e-2x4", (("x", 2), ("y", 4)), 8),
        ("tpu-v6e-16x16", (("x", 16), ("y", 16)), 256),
    ],
)
def test_meshes_have_these_axes_slowest_first(
    name: str, sizes: tuple[tuple[str, int], ...], count: int
) -> None:
    mesh = load_mesh(name)
    assert mesh.axis_sizes == sizes
    assert mesh.device_count == count


@pytest.mark.parametrize(
    ("name", "topologies"),
    [
        ("tpu-v4-4x4x4", {"torus"}),  # only a whole cube has the optical switches that close its axes
        ("tpu-v4-2x2x2", {"line"}),
        ("tpu-v5p-4x4x4", {"torus"}),
        ("tpu-v5e-4x4", {"line"}),  # only axes of 16 close
        ("tpu-v5e-16x16", {"torus"}),
        ("tpu-v6e-16x16", {"torus"}),
        ("tpu-v6e-2x4", {"line"}),
        ("galaxy-4x8", {"torus"}),
        ("t3000", {"line"}),
    ],
)
def test_only_these_slices_close_their_axes(name: str, topologies: set[str]) -> None:
    assert {axis.topology for axis in load_mesh(name).axes} == topologies


@pytest.mark.parametrize(
    ("name", "layouts", "peak_dtype", "peak_flops_per_s", "memory_bytes"),
    [
        ("tpu-v4", ("xla_tiled",), "bf16", 275e12, 32 * 2**30),
        ("tpu-v5p", ("xla_tiled",), "int8", 918e12, 95 * 2**30),
        ("tpu-v6e", ("xla_tiled",), "bf16", 918e12, 32 * 10**9),
        ("n150", ("tt_tile", "row_major"), "bf16", 74e12, 12 * 10**9),
        ("n300", ("tt_tile", "row_major"), "bf16", 131e12 / 2, 12 * 10**9),  # one of the board's two chips
        ("galaxy-chip", ("tt_tile", "row_major"), "bfp8", 80 * 2.048e12, 12 * 10**9),
        ("p150", ("tt_tile", "row_major"), "bfp8", 664e12, 32 * 10**9),
    ],
)
def test_what_the_vendors_say(
    name: str, layouts: tuple[str, ...], peak_dtype: str, peak_flops_per_s: float, memory_bytes: int
) -> None:
    device = load_device(name)
    assert device.layouts == layouts
    assert device.peak_flops_per_s[peak_dtype] == peak_flops_per_s
    assert device.memory_bytes == memory_bytes


def test_fp32_contracts_as_the_matrix_unit_can() -> None:
    assert load_device("tpu-v4").contraction_dtype("float32") == "bf16"
    assert load_device("n150").contraction_dtype("float32") == "tf32"
    assert load_device("p150").contraction_dtype("float8_e4m3fn") == "bfp8"
    with pytest.raises(MissingFigureError, match="no peak for contractions in 'float64'"):
        load_device("galaxy-chip").contraction_dtype("float64")


@pytest.mark.parametrize("name", mesh_names())
def test_a_mesh_travels_to_another_process_and_is_a_dictionary_key(name: str) -> None:
    mesh = load_mesh(name)
    again: Mesh = pickle.loads(pickle.dumps(mesh))
    assert again == mesh
    assert len({mesh, again}) == 1


def test_names_and_aliases_mean_the_same_device() -> None:
    assert load_device("a100-80") is load_device("a100-sxm4-80gb")
    assert load_device("h200").memory_bytes == 141_000_000_000


@pytest.mark.parametrize(
    ("ask", "near"), [(lambda: load_mesh("dgx-h10"), "dgx-h100"), (lambda: load_device("tpu-v5"), "tpu-v5e")]
)
def test_an_unknown_name_lists_near_ones(ask: object, near: str) -> None:
    with pytest.raises(CatalogError, match=f"did you mean .*{near}"):
        ask()  # type: ignore[operator]


def test_a_missing_figure_refuses_the_objective_by_name() -> None:
    plain = {key: value for key, value in OWN_DEVICE.items() if key != "price_usd_per_hour"}
    mesh = mesh_from_dict({"name": "m", "device": plain, "axes": [AXIS]})
    with pytest.raises(MissingFigureError, match="'mine' has no price_usd_per_hour"):
        mesh.device.require("price_usd_per_hour")
    with pytest.raises(MissingFigureError, match=r"no peak for contractions in 'fp8'.*fp32"):
        mesh.device.contraction_dtype("fp8")


AXIS = {"name": "a", "size": 2, "topology": "ring", "bandwidth_bytes_per_s": 1e9, "latency_s": 0}
OWN_DEVICE: dict[str, object] = {
    "name": "mine",
    "vendor": "me",
    "layouts": ["row_major"],
    "memory_bytes": 1000,
    "memory_bytes_per_s": 1e9,
    "vector_flops_per_s": 1e9,
    "cores": 1,
    "launch_overhead_s": 0,
    "peak_flops_per_s": {"float32": 1e9},
    "tiles": [{"m": 1, "n": 1, "k": 1}],
}


def test_a_users_own_file_is_read_by_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN_MESH)
    mesh = load_mesh(file)
    assert mesh == load_mesh(str(file))
    assert mesh.axis_sizes == (("gpu", 4),)
    assert mesh.device is load_device("a100-sxm4-80gb")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size = 4", "size = 0", r"axes\[0\]: size: expected a whole number above zero, not 0"),
        ("size = 4", 'size = "4"', r"size: expected a whole number above zero, not '4'"),
        ("size = 4", "", "size: missing; expected a whole number"),
        ("latency_s", "latncy_s", "latncy_s: unknown key; did you mean latency_s, which is missing"),
        ('"switch"', '"star"', "topology: expected one of switch, .* not 'star'"),
        ("latency_s = 1e-6", "latency_s = nan", "latency_s: expected a number from 0 to 1 s, not nan"),
        (
            "latency_s = 1e-6",
            "latency_s = 1e-6\neficiency = 0.5",
            "eficiency: unknown key; did you mean efficiency",
        ),
        ('"a100-80"', '"a100-8"', "did you mean a100-80"),
        (
            "latency_s = 1e-6",
            "latency_s = 1e-6\nsmall_message_bytes_per_s = 1e13",
            "small_message_bytes_per_s: expected at most bandwidth_bytes_per_s",
        ),
        ("[[axes]]", "[[axes]", "not TOML"),
    ],
)
def test_a_wrong_file_says_where_and_what(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN_MESH.replace(old, new))
    with pytest.raises(CatalogError, match=message) as caught:
        load_mesh(file)
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="cannot read it: No such file"):
        load_mesh(tmp_path / "nowhere.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CatalogError, match="not UTF-8"):
        load_mesh(tmp_path / "bytes.toml")


@pytest.mark.parametrize(
    "content", [None, [], "dgx", {"name": "m"}, {"name": "m", "device": 3, "axes": [AXIS]}]
)
def test_an_inline_object_of_the_wrong_form_is_refused(content: object) -> None:
    with pytest.raises(CatalogError, match=r"^mesh"):
        mesh_from_dict(content)


def test_two_axes_of_one_name_are_refused() -> None:
    with pytest.raises(CatalogError, match="different names"):
        mesh_from_dict({"name": "m", "device": "v100", "axes": [AXIS, AXIS]})


def test_a_device_stores_rows_unless_it_says_otherwise() -> None:
    plain = {key: value for key, value in OWN_DEVICE.items() if key != "layouts"}
    assert device_from_dict(plain).layouts == ("row_major",)
    with pytest.raises(CatalogError, match="layouts: unknown native layout 'tiled'; known are row_major"):
        device_from_dict(OWN_DEVICE | {"layouts": ["tiled"]})


def test_a_notebook_shows_the_figures_the_devices_and_the_axes_of_a_mesh() -> None:
    shown = is_inert(replace(load_mesh("tpu-v5p-4x4x4"), name="<b>")._repr_html_())
    assert {"Mesh <b>", "64 devices tpu-v5p", "102 GB", "2.765 TB/s", "459 Tflop/s bf16"} <= {
        part for text in shown.texts for part in (text, *text.split(", "))
    }
    rows = shown.texts[shown.texts.index("latency") + 1 :]
    assert rows == [text for axis in "xyz" for text in (axis, "4", "torus", "90 GB/s", "1.000 µs")]
    assert shown.tags.count("rect") == 64 + 16 + 4 + 1  # devices, and boxes of lines, of planes and of all


@pytest.mark.parametrize("nodes", [64, 4096])
def test_of_a_large_mesh_a_part_is_drawn(nodes: int) -> None:
    shown = load_mesh(f"{nodes}x-dgx-h100")._repr_html_()
    assert f"node: {nodes:,}, 8 drawn" in is_inert(shown).texts
    assert len(shown) < 14_000


def test_a_mesh_of_different_nodes_says_which_devices_it_has() -> None:
    node = load_mesh("dgx-h100")
    other = replace(node, device=replace(node.device, name="slow", vector_flops_per_s=1e12))
    assert node.network is not None
    shown = Mesh.of_nodes("mixed", [node, other], node.network)._repr_html_()
    assert (
        f"Nodes differ: {node.device.name}, slow. Figures are those of the slowest." in is_inert(shown).texts
    )


@pytest.mark.parametrize("name", node_names())
def test_any_number_of_nodes_is_a_mesh_over_the_network_of_one(name: str) -> None:
    node, three = load_mesh(name), load_mesh(f"3x-{name}")
    assert node.network is not None
    assert [replace(axis, inner=None) for axis in three.axes] == [
        replace(axis, inner=None) for axis in (replace(node.network, size=3), *node.axes)
    ]
    assert (three.name, three.device, three.device_count) == (
        f"3x-{name}",
        node.device,
        3 * node.device_count,
    )


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("0x-dgx-h100", "expected from 1 to 125000 nodes, not 0"),
        ("-2x-dgx-h100", "expected from 1 to 125000 nodes, not -2"),
        ("125001x-dgx-h100", "expected from 1 to 125000 nodes, not 125001"),
        ("2x-n300", "mesh 'n300' states no network between nodes; those that do are "),
        ("2x-t4-x8", "write a table [network] with topology, bandwidth_bytes_per_s (one device's share"),
        ("2x-t4-x8", "and latency_s into it, and name the mesh 2x-my-node.toml"),
        ("2x-nowhere/node.toml", "nowhere/node.toml: cannot read it"),
        ("2x-dgx-h10", "there is no mesh 'dgx-h10'; did you mean dgx-h100"),
        ("2x-2x-dgx-h100", "there is no mesh '2x-dgx-h100'"),
    ],
)
def test_names_that_make_no_mesh_are_refused_with_what_to_do_instead(name: str, fault: str) -> None:
    with pytest.raises(CatalogError) as caught:
        load_mesh(name)
    assert fault in str(caught.value)


def test_nodes_of_a_file_are_counted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network = '\n[network]\ntopology = "switch"\nbandwidth_bytes_per_s = 1.25e9\nlatency_s = 2e-5\n'
    (tmp_path / "my-node.toml").write_text(mesh_text(load_mesh("t4-x8")) + network)
    assert load_mesh("3x-my-node.toml").axis_sizes == (("node", 3), ("gpu", 8))
    (tmp_path / "3x-my-node.toml").write_text(mesh_text(load_mesh("t4-x8")))
    assert load_mesh("3x-my-node.toml").axis_sizes == (("gpu", 8),)  # a file of that name


def test_a_network_is_an_axis_without_name_and_size() -> None:
    links = {"topology": "switch", "bandwidth_bytes_per_s": 1e10, "latency_s": 1e-6}
    content = {"name": "mine", "device": "a100-80", "axes": [{"name": "gpu", "size": 4, **links}]}
    mesh = mesh_from_dict({**content, "network": links})
    assert mesh.by_count(5).axis_sizes == (("node", 5), ("gpu", 4))
    with pytest.raises(CatalogError) as caught:
        mesh_from_dict({**content, "network": {**links, "size": 2, "bandwidth_bytes_per_s": -1.0}})
    assert [fault.split(": ")[2] for fault in caught.value.faults] == ["bandwidth_bytes_per_s", "size"]
    with pytest.raises(ValueError, match="states no network"):
        mesh_from_dict(content).by_count(2)


def test_a_full_connection_has_a_link_for_each_pair() -> None:
    """Given 7 links to 7 others, an all-gather uses all of them and a transfer from one peer a single one."""
    (axis,) = load_mesh("mi300x-8").axes
    rate = axis.bandwidth_bytes_per_s * axis.efficiency
    gathered, fetched = (
        float(seconds(step_ticks(replace(axis, small_message_bytes_per_s=None), kind, 8, 7 * 10**9)))
        for kind in ("all_gather", "fetch")
    )
    assert gathered == pytest.approx(10**9 / rate, rel=1e-2)
    assert fetched == pytest.approx(7 * 10**9 / rate, rel=1e-2)


MEASURED = {
    "kind": "all_gather",
    "members": 2,
    "bytes": [1024, 4096],
    "seconds": [1e-5, 2e-5],
    "error": 0.1,
    "source": "x",
}


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"kind": "all_gathr"}, "kind: expected one of all_reduce, all_gather"),
        ({"members": 1}, "members: expected at least 2, not 1"),
        ({"kind": "send_recv", "members": 64}, "members: expected 2, the sender and the receiver, not 64"),
        (
            {"bytes": [1024, 2**26], "seconds": [1e-9, 1e-9]},
            "seconds[0]: expected a number from 1e-07 to 100000 s",
        ),
        (
            {"bytes": [1024, 2**26], "seconds": [1e-5, 2e-5]},
            "seconds[1]: expected at least 0.0336 s, what the links take for 6.71089e+07 bytes of all_gather among 2, "
            "not 2e-05; leave out what was measured on faster links, or correct bandwidth_bytes_per_s",
        ),
        ({"error": 2.9}, "error: expected a number from 0 to 1.5, not 2.9"),
        ({"bytes": [4096, 1024]}, "bytes[1]: expected at least 4096, the number before it, not 1024"),
        ({"seconds": [2e-5, 1e-5]}, "seconds[1]: expected at least 2e-05, the number before it, not 1e-05"),
        ({"seconds": [1e-5]}, "seconds: expected as many as bytes, 2, not 1"),
        ({"seconds": [10.0, 20e6]}, "seconds[1]: expected a number from 1e-07 to 100000 s, not 2e+07"),
        ({"bytes": ["1 KB", 4096]}, "bytes[0]: expected a number from 1 to 1e+15 bytes, not '1 KB'"),
        (
            {"algorithm": "rings"},
            "algorithm: expected one of any, ring, tree, in_switch, not 'rings'; did you mean ring?",
        ),
    ],
)
def test_faulty_measurements_are_refused_with_the_place(changed: dict[str, object], fault: str) -> None:
    content = {"name": "m", "device": "v100", "axes": [{**AXIS, "collectives": [MEASURED | changed]}]}
    with pytest.raises(CatalogError) as raised:
        mesh_from_dict(content)
    assert any(f"axes[0]: collectives[0]: {fault}" in text for text in raised.value.faults), (
        raised.value.faults
    )


def test_a_like_mesh_lends_its_measurements_except_for_what_is_measured_here() -> None:
    donor = load_mesh("dgx-h100").axes[-1].collectives
    own = {**MEASURED, "kind": "all_reduce", "members": 8, "algorithm": "in_switch"}
    axis = {
        **AXIS,
        "size": 8,
        "bandwidth_bytes_per_s": 4.5e11,
        "collectives": [own],
        "collectives_from": "dgx-h100",
    }
    (found,) = mesh_from_dict({"name": "m", "device": "h100", "axes": [axis]}).axes
    assert found.collectives[0].seconds == (1e-5, 2e-5)
    assert [t for t in donor if t in found.collectives] == [t for t in donor if t.algorithm != "in_switch"]
    with pytest.raises(
        CatalogError, match=r"collectives_from: expected at least 0\.00013.*; leave out what was"
    ):
        mesh_from_dict({"name": "m", "device": "h100", "axes": [{**axis, "bandwidth_bytes_per_s": 1e9}]})
    with pytest.raises(CatalogError, match="expected a mesh that comes with Tapestry, not 'dgx-h1'"):
        mesh_from_dict({"name": "m", "device": "h100", "axes": [{**axis, "collectives_from": "dgx-h1"}]})
