"""Tests of the differences between two meshes: a line per table, and every figure."""

from __future__ import annotations

from dataclasses import replace

from tapestry.hardware import Mesh, load_mesh
from tapestry.service.mesh_differences import mesh_differences, same_figures
from tapestry.service.store import mesh_to_document

MESH = load_mesh("dgx-h100")


def lines(other: Mesh, *without: str) -> list[str]:
    first, second = (mesh_to_document(mesh) for mesh in (MESH, other))
    return [table.text() for table in mesh_differences(first, second, without)]


def test_equal_meshes_do_not_differ_whatever_their_sources() -> None:
    assert lines(MESH) == []
    assert lines(replace(MESH, device=replace(MESH.device, sources={}))) == []


def test_figures_of_different_nodes_are_apart() -> None:
    mixed = load_mesh("dgx-h100+dgx-a100")
    nodes = (mixed.nodes[0], replace(mixed.nodes[1], device=replace(mixed.nodes[1].device, cores=99)))
    first, second = (mesh_to_document(mesh) for mesh in (mixed, replace(mixed, nodes=nodes)))
    assert [table.text() for table in mesh_differences(first, second)] == ["node 1: device cores: 108 and 99"]


def test_a_figure_alone_is_named_with_both_values() -> None:
    assert lines(replace(MESH, device=replace(MESH.device, cores=99))) == ["device cores: 132 and 99"]
    assert lines(MESH.launched("eager")) == ["device launch: captured and eager"]
    assert lines(MESH.launched("eager"), "launch") == []


def test_a_table_of_many_figures_is_one_line_and_says_all_in_json() -> None:
    (axis,) = MESH.axes
    kinds = {table.kind for table in axis.collectives}
    slower = tuple(
        replace(table, seconds=(*(2 * s for s in table.seconds[:-1]), 4 * table.seconds[-1]))
        for table in axis.collectives
    )
    other = replace(MESH, axes=(replace(axis, collectives=slower),))

    found = mesh_differences(mesh_to_document(MESH), mesh_to_document(other))

    assert {table.table for table in found} == {f"axis gpu {kind}" for kind in kinds}
    assert sum(len(table.figures) for table in found) == sum(len(t.bytes) for t in axis.collectives)
    for table in found:
        assert f": {len(table.figures)} figures, by a factor of up to 4, of seconds for " in table.text()
        document = table.to_json()
        assert document["largest_ratio"] == 4 and len(document["figures"]) == len(table.figures)


def test_a_class_of_kernels_is_a_table_whatever_its_precisions() -> None:
    kernels = {
        k: replace(v, memory_efficiency=v.memory_efficiency / 2) for k, v in MESH.device.kernels.items()
    }
    found = mesh_differences(
        mesh_to_document(MESH), mesh_to_document(replace(MESH, device=replace(MESH.device, kernels=kernels)))
    )
    classes = {name.partition(".")[0] for name in MESH.device.kernels}
    assert {table.table for table in found} == {f"device.kernels.{name}" for name in classes}
    assert sum(len(table.figures) for table in found) == len(MESH.device.kernels)


def test_a_table_that_only_one_mesh_has_is_not_given_in_the_other() -> None:
    (axis,) = MESH.axes
    (first, *_) = axis.collectives
    other = replace(MESH, axes=(replace(axis, collectives=axis.collectives[1:]),))
    (found,) = mesh_differences(mesh_to_document(MESH), mesh_to_document(other))
    assert len(found.figures) == len(first.bytes) + 1
    assert "such as" in found.text() and found.largest.text().endswith("and not given")


def test_what_a_run_sets_of_a_mesh_leaves_its_figures_the_same() -> None:
    given = mesh_to_document(MESH)
    device = {**given["device"], "launch": "graph", "quantile": 0.9}
    assert same_figures(given, {**given, "device": device})
    assert not same_figures(given, {**given, "device": {**device, "cores": 1}})
