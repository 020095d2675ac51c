"""Tests of relations between figures: what no machine has is refused with a reason, and what devices have is not."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tapestry.hardware import CatalogError, device_from_dict, load_mesh, mesh_from_dict
from tapestry.hardware.mesh import MeshAxis
from tapestry.hardware.relations import misspelled

H100 = tomllib.loads((Path("hardware/devices") / "h100-sxm5-80gb.toml").read_text())
AXIS = {"name": "gpu", "size": 4, "topology": "switch", "bandwidth_bytes_per_s": 1e11, "latency_s": 1e-6}
NODE = {"topology": "switch", "bandwidth_bytes_per_s": 5e10, "latency_s": 1e-5}


def faults(read: Any, content: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(CatalogError) as caught:
        read(content)
    return caught.value.faults


def with_peaks(**peaks: float) -> dict[str, Any]:
    return {**H100, "peak_flops_per_s": {**H100["peak_flops_per_s"], **peaks}}


@pytest.mark.parametrize(
    ("name", "peak", "expected"),
    [
        ("fp8", 2e11, "fp8: expected at least 9.894e+14 flop/s, that of fp16, not 2e+11"),
        ("fp16", 5e13, "fp16: expected at least 4.947e+14 flop/s, that of tf32, not 5e+13"),
        ("tf32", 5e13, "tf32: expected at least 6.69e+13 flop/s, that of fp32, not 5e+13"),
    ],
)
def test_narrower_precisions_are_no_slower(name: str, peak: float, expected: str) -> None:
    content = with_peaks(**{name: peak})
    (fault,) = faults(device_from_dict, content)
    assert fault.startswith(f"device: peak_flops_per_s: {expected}")
    assert fault.endswith(f'write compute_dtype_default.{name} = "{name}" too')
    known = {**content["compute_dtype_default"], name: name}
    assert device_from_dict({**content, "compute_dtype_default": known}).peak_flops_per_s[name] == peak
    assert device_from_dict(content, plausible=False).peak_flops_per_s[name] == peak


def test_peaks_of_data_sheets_round_and_bf16_may_be_half_of_fp16() -> None:
    assert device_from_dict(with_peaks(fp8=9.5e14))
    assert device_from_dict(with_peaks(bf16=4.95e14))


@pytest.mark.parametrize(
    "key, value, known", [("vendor", "Nvidia", "NVIDIA"), ("architecture", "Hoper", "Hopper")]
)
def test_a_name_that_is_almost_one_of_the_catalog_is_refused(key: str, value: str, known: str) -> None:
    (fault,) = faults(device_from_dict, {**H100, key: value})
    assert fault.startswith(f"device: {key}: expected {known}, as the catalog writes it")
    assert fault.endswith(f"not {value!r}; did you mean {known}?")


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("Hopepr", "Hopper", True),
        ("Hoppers", "Hopper", True),
        ("cdna-3", "CDNA 3", True),
        ("CDNA 5", "CDNA 4", False),
        ("CDNA", "CDNA 4", False),
        ("AuthenticAMD", "AMD", False),
        ("Arm", "AMD", False),
        ("Rubin", "Turing", False),
        ("Hopper", "Hopper", False),
        ("", "AMD", False),
    ],
)
def test_names_of_their_own_are_no_misspellings(name: str, known: str, found: bool) -> None:
    assert misspelled(name, [known]) == (known if found else "")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("launch_overhead_s", 0.005),
        ("kernels", {"softmax": {"overhead_s": 0.9}}),
        ("kernels", {"sort": {"error": 2.9}}),
    ],
)
def test_times_and_errors_that_no_kernel_has_are_refused(key: str, value: object) -> None:
    own = {name: figure for name, figure in H100.items() if name not in ("kernels", "sources")}
    (fault,) = faults(device_from_dict, {**own, key: value})
    assert "expected a number from 0 to " in fault


def test_a_device_receives_over_all_of_its_links() -> None:
    rates = [
        MeshAxis("a", 4, topology, 1.0, 0.0).device_rate()
        for topology in ("switch", "fully_connected", "ring", "torus", "line", "tree")
    ]
    assert rates == [1, 3, 1, 2, 2, 1]


def test_an_outer_axis_is_no_faster_than_the_one_inside_it() -> None:
    content = {"name": "m", "device": "h100", "axes": [AXIS], "network": NODE}
    assert mesh_from_dict(content).network
    (fault,) = faults(mesh_from_dict, {**content, "network": {**NODE, "bandwidth_bytes_per_s": 9e12}})
    assert fault.startswith(
        "mesh: network: bandwidth_bytes_per_s: expected at most 1e+11, since axes stand slowest"
    )
    outer = {**AXIS, "name": "node", "topology": "torus"}
    (fault,) = faults(mesh_from_dict, {"name": "m", "device": "h100", "axes": [outer, AXIS]})
    assert fault.startswith("mesh: axes[0]: bandwidth_bytes_per_s: expected at most 5e+10, since axes")
    alone = {**AXIS, "size": 1}  # has no links
    assert mesh_from_dict({**content, "axes": [alone], "network": {**NODE, "bandwidth_bytes_per_s": 9e12}})


def test_groups_have_no_more_devices_than_there_are_inside() -> None:
    measured = {
        "kind": "all_reduce",
        "members": 2,
        "bytes": [1024],
        "seconds": [1e-4],
        "error": 0.1,
        "source": "x",
    }
    content = {"name": "m", "device": "h100", "axes": [AXIS]}
    tables = [{**NODE, "collectives": [{**measured, "inside": inside}]} for inside in (4, 8)]
    assert mesh_from_dict({**content, "network": tables[0]}).network
    (fault,) = faults(mesh_from_dict, {**content, "network": tables[1]})
    assert fault.endswith(
        "network: collectives: expected inside of at most 4, the devices of faster axes, not 8"
    )


def test_without_reductions_in_a_switch_no_figure_of_them_counts(tmp_path: Path) -> None:
    text = (Path("hardware/meshes") / "dgx-h100.toml").read_text()
    (file := tmp_path / "rings.toml").write_text(
        text.replace("size = 8\n", "size = 8\nin_switch = false\n", 1)
    )
    (known,), (axis,) = load_mesh("dgx-h100").axes, load_mesh(file).axes
    assert (known.in_switch, axis.in_switch, axis.all_reduce_efficiency) == (True, False, None)
    assert axis.collectives == tuple(t for t in known.collectives if t.algorithm != "in_switch")
    part = load_mesh(file).part((("gpu", 4),)).axes[0]
    assert part.whole == axis
    (fault,) = faults(mesh_from_dict, {"name": "m", "device": "h100", "axes": [{**AXIS, "in_switch": "no"}]})
    assert fault == "mesh: axes[0]: in_switch: expected true or false, not 'no'"
