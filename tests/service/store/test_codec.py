"""Tests of the conversion of values to rows and back."""

import json
from dataclasses import replace

import pytest

from tapestry.hardware import device_names, load_device, load_mesh, mesh_names
from tapestry.hardware.mesh import Mesh
from tapestry.service.store import mesh_of, mesh_to_document


def test_a_stored_mesh_opens_although_no_file_could_bring_its_figures() -> None:
    mesh = load_mesh("dgx-h100")
    stored = replace(mesh, axes=(replace(mesh.axes[0], latency_s=4.0, efficiency=80.0),))
    assert mesh_of(mesh_to_document(stored)) == stored


def test_part_of_a_mesh_is_stored_as_a_mesh_of_its_own() -> None:
    part = load_mesh("dgx-h100").part((("gpu", 4),))
    (axis,) = mesh_of(mesh_to_document(part)).axes
    assert (axis.size, axis.part_of, axis.collectives) == (4, None, part.axes[0].collectives)


@pytest.mark.parametrize(
    "name", [*mesh_names(), "2x-aws-p5", "4x-coreweave-a100"]
)  # with groups over two axes
def test_a_stored_mesh_is_read_back_equal(name: str) -> None:
    mesh = load_mesh(name)
    again = mesh_of(json.loads(json.dumps(mesh_to_document(mesh))))
    assert again == mesh
    assert again.device.kernels == mesh.device.kernels


@pytest.mark.parametrize("name", device_names())
def test_a_stored_device_is_read_back_equal(name: str) -> None:
    device, mesh = load_device(name), load_mesh("dgx-h100")
    again = mesh_of(mesh_to_document(Mesh("one", device, mesh.axes))).device
    assert again == device
    assert (again.kernels, again.sources) == (device.kernels, device.sources)
