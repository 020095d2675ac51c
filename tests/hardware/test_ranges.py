"""Tests of plausible figures: wrong units are refused with a hint, and all faults of a file are reported at once."""

from __future__ import annotations

import pickle
import tomllib
from pathlib import Path

import pytest

from tapestry.hardware import (
    CatalogError,
    device_from_dict,
    load_device,
    load_file,
    load_mesh,
    mesh_from_dict,
)
from tapestry.hardware.device_files import device_to_dict
from tapestry.hardware.ranges import RANGES
from tapestry.teg.faults import joined

AXIS = {"name": "gpu", "size": 4, "topology": "switch", "bandwidth_bytes_per_s": 1e11, "latency_s": 1e-6}


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ({"efficiency": 80}, "efficiency: expected a share above 0 and at most 1, not 80; 80 % is 0.8"),
        ({"latency_s": 4}, "latency_s: expected a number from 0 to 1 s, not 4; 4 us is 4e-06"),
        (
            {"bandwidth_bytes_per_s": 400},
            "bandwidth_bytes_per_s: expected a number from 100000 to 1e+15 bytes/s, not 400; "
            "400 GB/s is 4e+11",
        ),
        (
            {"efficiency": 1.3},
            "efficiency: expected a share above 0 and at most 1, not 1.3; if that was measured, the rate is stated "
            "too low: write bandwidth_bytes_per_s (of a device: peak_flops_per_s) 1.3 times as high, and 1 here",
        ),
        (
            {"all_reduce_efficiency": 2.2},
            "all_reduce_efficiency: expected a share above 0 and at most 2, not 2.2; if that was measured, the rate "
            "is stated too low: write bandwidth_bytes_per_s 1.1 times as high, and 2 here",
        ),
        ({"efficiency": 1e9}, "efficiency: expected a share above 0 and at most 1, not 1e+09"),
        ({"latency_s": 10**400}, "latency_s: expected a number from 0 to 1 s, not inf"),
    ],
)
def test_a_figure_in_another_unit_is_refused(figure: dict[str, float], message: str) -> None:
    with pytest.raises(CatalogError) as caught:
        mesh_from_dict({"name": "m", "device": "v100", "axes": [AXIS | figure]})
    (fault,) = caught.value.faults
    assert fault.startswith(f"mesh: axes[0]: {message}")


def test_a_stored_mesh_opens_whatever_its_figures() -> None:
    content = {"name": "m", "device": "v100", "axes": [AXIS | {"latency_s": 4.0}]}
    assert mesh_from_dict(content, plausible=False).axes[0].latency_s == 4.0


def test_all_faults_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'device = "h10"\n[[axes]]\nname = "gpu"\nsize = 0\ntopology = "swich"\nlatency_s = 4\neficiency = 1\n'
    )
    with pytest.raises(CatalogError) as caught:
        load_mesh(file)
    reported = [fault.removeprefix(f"{file}: ").partition(";")[0] for fault in caught.value.faults]
    assert reported == [
        "name: missing",
        "device: there is no device 'h10'",
        "axes[0]: size: expected a whole number above zero, not 0",
        "axes[0]: topology: expected one of switch, fully_connected, ring, torus, line, tree, not 'swich'",
        "axes[0]: bandwidth_bytes_per_s: missing",
        "axes[0]: latency_s: expected a number from 0 to 1 s, not 4",
        "axes[0]: eficiency: unknown key",
    ]
    assert str(caught.value) == joined(caught.value.faults)
    assert pickle.loads(pickle.dumps(caught.value)).faults == caught.value.faults


def test_a_broken_table_is_one_fault() -> None:
    with pytest.raises(CatalogError) as caught:
        mesh_from_dict({"name": "m", "device": 3, "axes": [None]})
    assert caught.value.faults == (
        "mesh: device: expected a table, not 3",
        "mesh: axes[0]: expected a table, not None",
    )


@pytest.mark.parametrize("name", RANGES)
def test_a_range_has_room_and_names_its_unit(name: str) -> None:
    found = RANGES[name]
    assert 0 <= found.least < found.most
    units = {
        "_s": "s",
        "_bytes": "bytes",
        "_per_s": "/s",
        "_w": "W",
        "efficiency": "share",
        "_per_hour": "/h",
    }
    for ending, unit in units.items():
        if name.endswith(ending) and not (ending == "_s" and name.endswith("_per_s")):
            assert found.unit.endswith(unit)


def test_every_kind_of_fault_of_a_device_is_listed_with_key_and_what_is_expected(tmp_path: Path) -> None:
    text = (Path("hardware/devices") / "v100-sxm2-16gb.toml").read_text()
    for before, after in (
        ("tdp_w =", "tdpw ="),
        ("cores = 80", "cores = -80"),
        ("idle_power_w =", 'idle_power_w = "60 mW" #'),
        ("[sources]", '[sources]\nmemory_byte = "a data sheet"'),
    ):
        assert before in text
        text = text.replace(before, after, 1)
    (file := tmp_path / "device.toml").write_text(text)
    with pytest.raises(CatalogError) as caught:
        load_file(str(file))
    reported = [fault.removeprefix(f"{file}: ") for fault in caught.value.faults]
    assert [fault.split("; did you mean")[0] for fault in reported] == [
        "cores: expected a whole number from 1 to 1e+07, not -80",
        "idle_power_w: expected a number from 0 to 1e+06 W, not '60 mW'; write 0.06, without quotes",
        "sources: memory_byte: source of an unknown key",
        "tdpw: unknown key",
    ]


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ({"latency_s": "4 us"}, "not '4 us'; write 4e-06, without quotes"),
        ({"bandwidth_bytes_per_s": "400 Gb/s"}, "not '400 Gb/s'; write 5e+10, without quotes"),
        ({"latency_s": "4 fortnights"}, "unknown unit 'fortnights' (known are s, ms, us, µs, ns)"),
        ({"efficiency": "80 %"}, "write 0.8, without quotes"),
    ],
)
def test_a_figure_with_a_unit_is_refused_with_the_number_to_write(
    figure: dict[str, str], message: str
) -> None:
    with pytest.raises(CatalogError, match="expected") as caught:
        mesh_from_dict({"name": "m", "device": "v100", "axes": [AXIS | figure]})
    assert message in str(caught.value)


DEVICE = (Path("hardware/devices") / "v100-sxm2-16gb.toml").read_text()


def only_fault(file: Path, text: str) -> str:
    """Check a file with a text that has one fault, and return it."""
    file.write_text(text)
    with pytest.raises(CatalogError) as caught:
        load_file(str(file))
    (fault,) = caught.value.faults
    return fault.removeprefix(f"{file}: ")


@pytest.mark.parametrize(
    ("misspelled", "meant", "expected"),
    [
        ("vender", "vendor", "a text"),
        ("nam", "name", "a text"),
        ("memory_byte", "memory_bytes", "a whole number from 1000 to 1e+15 bytes"),
        ("peak_flop_per_s", "peak_flops_per_s", "a table"),
    ],
)
def test_a_misspelled_key_of_a_device_file_is_its_one_fault(
    tmp_path: Path, misspelled: str, meant: str, expected: str
) -> None:
    figures, head, sources = DEVICE.partition("[sources]\n")
    for begin, end in (("\n", " ="), ("\n[", "]")):
        figures = figures.replace(f"{begin}{meant}{end}", f"{begin}{misspelled}{end}", 1)
    fault = only_fault(tmp_path / "device.toml", f"{figures}{head}{sources}")
    missing = f"did you mean {meant}, which is missing? expected {expected}"
    assert fault == f"{misspelled}: unknown key; {missing}"


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        (
            "tdp_w =",
            "tpd_w =",
            "tpd_w: unknown key; did you mean tdp_w? expected a number from 0.001 to 1e+06 W",
        ),
        (
            'vendor = "NVIDIA"',
            'vendor = "NVIDIA"\nlunch = "eager"',
            "launch? expected one of captured, eager, unfused",
        ),
        (
            "fp16 = 1.25e+14",
            "fq16 = 1.25e+14",
            "? expected a number from 1e+06 to 1e+19 flop/s",
        ),
        (
            'int16 = "vector"',
            'imt16 = "vector"',
            "did you mean int16 or uint16 or int64? expected 'vector' or a key of peak",
        ),
        (
            "[sources]",
            "[kernels.softmacks]\n[sources]",
            "softmax? expected a class, or a class with .fp16 or .fp32",
        ),
        (
            "[sources]",
            '[kernels."softmax.fp8"]\n[sources]',
            "expected a class, or a class with .fp16 or .fp32, not",
        ),
        (
            "[sources]",
            "[kernels.softmax]\noverhead = 1\n[sources]",
            "overlaps? overhead_s: expected a number from 0 to 0.001 s; overlaps: expected true or false",
        ),
    ],
)
def test_an_unknown_name_comes_with_what_the_near_one_expects(
    tmp_path: Path, before: str, after: str, fault: str
) -> None:
    assert before in DEVICE
    (file := tmp_path / "device.toml").write_text(DEVICE.replace(before, after, 1))
    with pytest.raises(CatalogError) as caught:
        load_file(str(file))
    assert any(fault in each for each in caught.value.faults), caught.value.faults


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e400", "1e300", "1e-300"])
@pytest.mark.parametrize(
    ("before", "key"),
    [
        ("tdp_w = 300.0", "tdp_w"),
        ("memory_bytes_per_s = 9e+11", "memory_bytes_per_s"),
        ("fp32 = 1.57e+13", "peak_flops_per_s: fp32"),
        ("cores = 80", "cores"),
        ("launch_overhead_s = 1.5e-06", "launch_overhead_s"),
    ],
)
def test_a_figure_without_bounds_is_listed_with_all_other_faults(
    tmp_path: Path, before: str, key: str, value: str
) -> None:
    """Given a device that inherits kernels by its figures, one of them has no ratio to those of others."""
    assert before in DEVICE
    text = DEVICE.replace(before, f"{before.partition(' = ')[0]} = {value}", 1)
    (file := tmp_path / "device.toml").write_text(text.replace('vendor = "NVIDIA"', "vendor = 3", 1))
    with pytest.raises(CatalogError) as caught:
        load_file(str(file))
    assert caught.value.faults[0] == f"{file}: vendor: expected a text, not 3"
    small = value == "1e-300" and key == "launch_overhead_s"
    assert small or any(fault.startswith(f"{file}: {key}: expected ") for fault in caught.value.faults[1:])


def test_a_number_of_thousands_of_digits_is_refused(tmp_path: Path) -> None:
    assert "not TOML" in only_fault(tmp_path / "device.toml", f"cores = 1{'0' * 5000}")
    text = DEVICE.replace("cores = 80", f"cores = 0x1{'0' * 5000}", 1)
    assert "not a number too long to write" in only_fault(tmp_path / "device.toml", text)


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        ("tdp_w = 300.0", "tdp_w = 0", "tdp_w"),
        ("tdp_w = 300.0", "tdp_w = 1e-6", "tdp_w"),
        ("memory_bytes_per_s = 9e+11", "memory_bytes_per_s = 1e30", "memory_bytes_per_s"),
        ("memory_bytes = 16_000_000_000", "memory_bytes = -1", "memory_bytes"),
        ("cores = 80", "cores = 0", "cores"),
    ],
)
def test_a_wrong_figure_is_the_one_fault_whatever_is_compared_with_it(
    tmp_path: Path, before: str, after: str, key: str
) -> None:
    assert before in DEVICE
    text = DEVICE.replace(before, after, 1)
    assert only_fault(tmp_path / "device.toml", text).startswith(f"{key}: expected")


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("size = 4", "size = 0", "axes[0]: size: expected a whole number above zero, not 0"),
        ("[[axes]]", "[[axis]]", "axis: unknown key; did you mean axes, which is missing? expected a list"),
    ],
)
def test_axes_that_are_faulty_are_not_multiplied_out(
    tmp_path: Path, before: str, after: str, fault: str
) -> None:
    axis = 'name = "gpu"\nsize = 4\ntopology = "switch"\nbandwidth_bytes_per_s = 1e11\nlatency_s = 1e-6\n'
    text = f'name = "m"\ndevice = "v100"\ndevice_count = 4\n[[axes]]\n{axis}'
    (good := tmp_path / "good.toml").write_text(text)
    assert load_file(str(good)).name == "m"
    assert only_fault(tmp_path / "mesh.toml", text.replace(before, after)) == fault


def test_axes_that_do_not_multiply_out_are_refused() -> None:
    content = {"name": "m", "device": "v100", "axes": [AXIS, AXIS | {"name": "node", "size": 3}]}
    assert mesh_from_dict({**content, "device_count": 12}).device_count == 12
    with pytest.raises(CatalogError) as caught:
        mesh_from_dict({**content, "device_count": 16})
    assert str(caught.value) == "mesh: device_count: expected the product of the axes, 4 x 3 = 12, not 16"


def test_a_device_that_idles_above_its_power_is_refused() -> None:
    text = (Path("hardware/devices") / "v100-sxm2-16gb.toml").read_text()
    content = tomllib.loads(text) | {"idle_power_w": 301.0}
    with pytest.raises(CatalogError, match="idle_power_w: expected at most tdp_w, 300 W, not 301"):
        device_from_dict(content)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("80 GB", "not '80 GB'; write 80000000000, without quotes"),
        ("80 furlongs", "not '80 furlongs'; unknown unit 'furlongs'"),
        (8e10, "not 80000000000.0; write 80000000000"),
        (80, "not 80; 80 GB is 8e+10"),
        (True, "not True"),
    ],
)
def test_a_whole_number_is_expected_in_its_range_with_what_to_write(value: object, expected: str) -> None:
    content = {**device_to_dict(load_device("h100")), "memory_bytes": value}
    with pytest.raises(CatalogError) as caught:
        device_from_dict(content)
    fault = caught.value.faults[0]
    start = "device: memory_bytes: expected a whole number from 1000 to 1e+15 bytes, "
    assert fault.startswith(start + expected)


def test_the_name_of_an_axis_can_be_written_in_a_spec() -> None:
    for name in ("gpu", "gpu_0", "x-y"):
        mesh_from_dict({"name": "m", "device": "h100", "axes": [{**AXIS, "name": name}]})
    for name in ("g pu", "0", "a.b", "a*b", "gpu\0"):
        with pytest.raises(CatalogError, match=r"axes\[0\]: name: expected a letter"):
            mesh_from_dict({"name": "m", "device": "h100", "axes": [{**AXIS, "name": name}]})


def test_a_mesh_to_take_tables_from_is_named_with_near_ones() -> None:
    with pytest.raises(CatalogError, match=r"not 'dgx-h10'; did you mean dgx-h100"):
        mesh_from_dict({"name": "m", "device": "h100", "axes": [{**AXIS, "collectives_from": "dgx-h10"}]})
