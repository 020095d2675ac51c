"""Tests of the conversion of values to rows and back."""

from dataclasses import replace

from tapestry.hardware import load_mesh
from tapestry.service.store import mesh_of, mesh_to_document


def test_a_stored_mesh_opens_although_no_file_could_bring_its_figures() -> None:
    mesh = load_mesh("dgx-h100")
    stored = replace(mesh, axes=(replace(mesh.axes[0], latency_s=4.0, efficiency=80.0),))
    assert mesh_of(mesh_to_document(stored)) == stored
