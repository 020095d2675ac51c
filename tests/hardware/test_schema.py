"""Tests of the published schema: it takes what the readers take, and refuses what they refuse."""

from __future__ import annotations

import tomllib
from copy import deepcopy
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tapestry.hardware import (
    CatalogError,
    device_from_dict,
    device_names,
    device_schema,
    mesh_from_dict,
    mesh_names,
    mesh_schema,
)

DEVICE = Draft202012Validator(device_schema())
MESH = Draft202012Validator(mesh_schema())


def content(folder: str, name: str) -> dict[str, Any]:
    file = files("tapestry.hardware").joinpath(folder, f"{name}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def test_the_schemas_are_schemas() -> None:
    Draft202012Validator.check_schema(device_schema())
    Draft202012Validator.check_schema(mesh_schema())


@pytest.mark.parametrize("name", device_names())
def test_the_schema_takes_every_device_of_the_catalog(name: str) -> None:
    assert [error.message for error in DEVICE.iter_errors(content("devices", name))] == []


@pytest.mark.parametrize("name", mesh_names())
def test_the_schema_takes_every_mesh_of_the_catalog(name: str) -> None:
    mesh = content("meshes", name)
    assert [error.message for error in MESH.iter_errors(mesh)] == []
    own = {**mesh, "device": content("devices", "h100-sxm5-80gb")}
    assert [error.message for error in MESH.iter_errors(own)] == []


CHANGES: list[tuple[str, Any]] = [
    ("bandwidth_bytes_per_s", -1.0),
    ("bandwidth_bytes_per_s", "450 GB/s"),
    ("latency_s", 7),
    ("topology", "swich"),
    ("size", 0),
    ("size", 2.5),
    ("eficiency", 0.8),
    ("efficiency", 0.0),
    ("ramp_s", -1e-6),
    ("sources", {"latency_s": 3}),
]


@pytest.mark.parametrize(("key", "value"), CHANGES)
def test_schema_and_reader_refuse_the_same_axis(key: str, value: Any) -> None:
    mesh = deepcopy(content("meshes", "dgx-h100"))
    mesh["axes"][0][key] = value
    assert list(MESH.iter_errors(mesh))
    with pytest.raises(CatalogError):
        mesh_from_dict(mesh)


@pytest.mark.parametrize(
    "key", ["name", "memory_bytes", "memory_bytes_per_s", "tiles", "cores", "launch_overhead_s"]
)
def test_schema_and_reader_refuse_a_device_that_lacks_a_figure(key: str) -> None:
    device = {k: v for k, v in content("devices", "a100-sxm4-80gb").items() if k != key}
    assert list(DEVICE.iter_errors(device))
    with pytest.raises(CatalogError) as caught:
        device_from_dict(device)
    assert any(fault.startswith(f"device: {key}: missing; expected ") for fault in caught.value.faults)
