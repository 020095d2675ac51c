"""Tests of shardings for JAX: a process of eight virtual devices says which part of a tensor each one gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapestry.teg.exporters.tables.jax_module import JAX, jax_module
from tapestry.teg.exporters.tables.table import OUTPUT, ShardingTable, TensorSharding
from tapestry.teg.exporters.tables.verdicts import OK, verdict
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.teg.exporters.tables.plans import MESHES, random_plan
from tests.teg.exporters.tables.tables import table_of

pytest.importorskip("jax")

EIGHT = [shape for shape in MESHES if shape.device_count == 8]

# Reads [[module, [[dictionary, name, shape, naive spec or null], ...]], ...], and prints per tensor each device's
# box, or what JAX says against the naive spec.
WITNESS = """
import json, sys
import jax
from jax.sharding import NamedSharding, PartitionSpec

found = []
for text, tensors in json.load(open(sys.argv[1])):
    names = {}
    exec(compile(text, "shardings", "exec"), names)
    mesh = names["make_mesh"]()
    for where, name, shape, naive in tensors:
        spec = names[where][name] if naive is None else PartitionSpec(*(tuple(e) for e in naive))
        try:
            parts = NamedSharding(mesh, spec).devices_indices_map(tuple(shape))
            order = {d: k for k, d in enumerate(mesh.devices.reshape(-1))}
            boxes = [None] * len(order)
            for device, part in parts.items():
                boxes[order[device]] = [list(s.indices(n)[:2]) for s, n in zip(part, shape)]
            found.append(boxes)
        except ValueError as error:
            found.append(type(error).__name__)
json.dump(found, sys.stdout)
"""


def by_jax(tmp_path: Path, script: str, given: Any) -> Any:
    """Run a script on eight virtual devices with a JSON file as its argument; return the JSON that it prints."""
    path = tmp_path / "given.json"
    path.write_text(json.dumps(given))
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
    }
    ran = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def question(table: ShardingTable, found: TensorSharding) -> list[Any]:
    """Return what the witness is asked of a tensor: its exported spec or, if that is refused, a naive one."""
    where = {OUTPUT: "OUTPUTS", "intermediate": "CONSTRAINTS"}.get(found.role, "INPUTS")
    is_sound = verdict(table, found, JAX) == OK
    return [where, found.name, found.shape, None if is_sound else [list(dim.axes) for dim in found.dims]]


@pytest.mark.slow
def test_jax_places_what_is_ok_as_the_table_states_and_rejects_what_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tables = [random_plan(rng, mesh_shape=EIGHT[k % len(EIGHT)]).table for k in range(24)]
    subjects = [
        [t for t in table.tensors if t.is_boundary and not any(dim.fault for dim in t.dims)]
        for table in tables
    ]
    given = [
        [jax_module(table), [question(table, found) for found in own]]
        for table, own in zip(tables, subjects, strict=True)
    ]

    answers = iter(by_jax(tmp_path, WITNESS, given))

    accepted = refused = 0
    for table, own in zip(tables, subjects, strict=True):
        for found in own:
            answer = next(answers)
            if verdict(table, found, JAX) == OK:
                assert answer == table.boxes(found).tolist(), found
                accepted += 1
            else:
                assert answer == "IndivisibleError" or answer != table.boxes(found).tolist(), found
                refused += 1
    assert accepted > 100
    assert refused > 50


CONSTRAINING = """
import json, sys
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding

text, shapes = json.load(open(sys.argv[1]))
names = {}
exec(compile(text, "shardings", "exec"), names)
mesh = names["make_mesh"]()
specs = names["specs"]("params", {"w": 0, "b": 0})
lowered = jax.jit(lambda x: names["constrain"](mesh, "h", x * 2) + 1).lower(jnp.ones(shapes["h"]))
json.dump([str(specs["w"]), str(specs["b"]), lowered.as_text()], sys.stdout)
"""


@pytest.mark.slow
def test_a_tree_of_specs_and_a_constraint_are_used_as_jax_expects(tmp_path: Path) -> None:
    table = table_of(
        {"data": 2, "model": 4},
        ("params.w", "parameter", (16, 8), ((), ("model",))),
        ("params.b", "parameter", (8,), (("model",),)),
        ("h", "intermediate", (10, 8), (("data", "model"), ())),
    )
    w, b, lowered = by_jax(tmp_path, CONSTRAINING, [jax_module(table), {"h": [10, 8]}])
    assert w == "P(None, 'model')"
    assert b == "P('model',)"
    assert 'sdy.sharding_constraint %1 <@mesh, [{"data", "model"}, {}]>' in lowered


def test_what_a_spec_cannot_say_is_whole_in_it_and_has_its_reason() -> None:
    plan = random_plan(np.random.default_rng(5), tensors=6, mesh_shape=MeshShape.of(gpu=8))
    names: dict[str, Any] = {}
    text = jax_module(plan.table)
    exec(compile(text, "shardings", "exec"), names)

    refused = {t.name for t in plan.table.tensors if verdict(plan.table, t, JAX) != OK}
    assert refused and refused == names["NOT_EXPRESSIBLE"].keys()
    assert not refused & names["CONSTRAINTS"].keys()
    for found in plan.table.tensors:
        if found.is_boundary:
            spec = (names["INPUTS"] | names["OUTPUTS"])[found.name]
            for entry, size in zip(spec, found.shape, strict=False):
                axes = (entry,) if isinstance(entry, str) else entry or ()
                assert size % plan.table.parts(axes) == 0


def test_terms_are_combined_where_all_that_they_are_made_of_can_be_stated() -> None:
    combined = left = moved = 0
    for seed in range(20):
        table = random_plan(np.random.default_rng(seed), mesh_shape=MeshShape.of(gpu=8)).table
        names: dict[str, Any] = {}
        exec(compile(jax_module(table), "shardings", "exec"), names)
        for tensor in table.of_roles(["intermediate"]):
            faults = [dim.fault for read in tensor.reads for dim in read.dims if dim.fault]
            if tensor.partial and faults:
                assert tensor.name not in names["TERMS"]
                left += 1
            if tensor.name in names["TERMS"]:
                monoid, spec = names["TERMS"][tensor.name]
                assert monoid == tensor.monoid
                assert [e or () for e in spec] == [
                    own[0] if len(own) == 1 else own for own in (dim.axes for dim in tensor.dims[: len(spec)])
                ]
                combined += 1
            for name, spec in names["READS"].get(tensor.name, {}).items():
                assert spec != names["CONSTRAINTS"].get(name)
                moved += 1
    assert min(combined, left, moved) > 0
