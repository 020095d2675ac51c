"""Tests of the errors of predicted times: where they come from, and that they widen with what is unknown."""

from __future__ import annotations

from dataclasses import replace

from tapestry.hardware import load_device, load_mesh
from tapestry.hardware.kernels import UNKNOWN_ERROR, KernelFigures
from tapestry.hardware.timing import block_class, copy_error
from tapestry.teg.sharding.copies import Round

MESH = load_mesh("dgx-h100")


def test_a_block_has_the_error_of_its_class() -> None:
    device = load_device("h100-sxm5-80gb")
    own = replace(device, kernels={"softmax": KernelFigures(error=0.07)})
    assert block_class(own, "vector", "float16", kernel="softmax").error == 0.07
    assert block_class(own, "none", "float16").error == 0.0


def test_a_class_without_measurements_is_the_least_certain() -> None:
    device = replace(load_device("h100-sxm5-80gb"), kernels={})
    assert block_class(device, "contraction", "bfloat16").error == UNKNOWN_ERROR


def test_a_copy_has_the_error_of_the_collective_measured_most_nearly() -> None:
    (axis,) = MESH.axes
    table = next(t for t in axis.collectives if (t.kind, t.members, t.inside) == ("all_reduce", 8, 1))
    known = replace(MESH, axes=(replace(axis, collectives=(replace(table, error=0.03),)),))
    reduced, of_four, gathered = (
        copy_error(known, [Round("gpu", kind, members, 1)])
        for kind, members in (("all_reduce", 8), ("all_reduce", 4), ("all_gather", 8))
    )
    assert reduced == 0.03 < of_four == gathered < UNKNOWN_ERROR
    bare = replace(MESH, axes=(replace(axis, collectives=()),))
    assert copy_error(bare, [Round("gpu", "all_reduce", 8, 1)]) == UNKNOWN_ERROR


def test_a_copy_that_crosses_no_link_has_none() -> None:
    assert copy_error(MESH, []) == copy_error(MESH, [Round("gpu", "fetch", 1, 1)]) == 0.0


def test_a_network_has_the_error_of_what_was_measured_over_it() -> None:
    mesh = load_mesh("2x-aws-p5")
    crossing = Round("node", "all_reduce", 2, 1)
    table = next(t for t in mesh.axes[0].collectives if t.inside == 8)
    assert copy_error(mesh, [Round("gpu", "all_reduce", 8, 1), crossing]) == table.error
    assert copy_error(load_mesh("4x-aws-p5"), [Round("node", "all_reduce", 4, 1)]) > table.error
    assert copy_error(mesh, [Round("node", "all_gather", 2, 1)]) > table.error
    assert copy_error(mesh, [Round("node", "all_to_all", 2, 1)]) == UNKNOWN_ERROR
