"""Tests of plausible figures: wrong units are refused with a hint, and all faults of a file are reported at once."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tapestry.hardware import CatalogError, load_mesh, mesh_from_dict
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
