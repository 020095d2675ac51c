"""Tables of shardings of stored plans: one record per form; command line and HTTP API are made from these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tapestry.hardware.layouts.table_layouts import layout_fault, mapper_fault, metal_layouts, ttnn_specs
from tapestry.service.store import StoredPlan, TenantStore, mesh_of
from tapestry.teg.exporters.tables.build import sharding_table
from tapestry.teg.exporters.tables.document import table_text
from tapestry.teg.exporters.tables.dtensor_module import dtensor_module
from tapestry.teg.exporters.tables.jax_module import jax_module
from tapestry.teg.exporters.tables.shardy import annotated_stablehlo
from tapestry.teg.exporters.tables.table import ShardingTable, TensorSharding
from tapestry.teg.exporters.tables.verdicts import OK, TARGETS, verdict, verdicts
from tapestry.teg.sharding.mesh_shape import MeshShape


@dataclass(frozen=True)
class TableForm:
    """A form of a table: its name, a line for readers, its verdicts on a tensor, and how it is written.

    `verdicts` are `ok` or a reason by target; `write` gets the table and the user's own program, its path or its
    content, which only some forms need.
    """

    name: str
    description: str
    media_type: str
    verdicts: Callable[[ShardingTable, TensorSharding], Mapping[str, str]]
    write: Callable[[ShardingTable, str | bytes], str]
    needs_program: bool = False


Verdicts = Callable[[ShardingTable, TensorSharding], Mapping[str, str]]


def _only(name: str) -> Verdicts:
    target = next(known for known in TARGETS if known.name == name)
    return lambda table, tensor: {name: verdict(table, tensor, target)}


def _of_layouts(table: ShardingTable, tensor: TensorSharding) -> Mapping[str, str]:
    return {"layout": layout_fault(table, tensor) or OK}


def _of_ttnn(table: ShardingTable, tensor: TensorSharding) -> Mapping[str, str]:
    return {**_of_layouts(table, tensor), "mapper": mapper_fault(table, tensor) or OK}


FORMS: tuple[TableForm, ...] = (
    TableForm(
        "table",
        "where the plan places each tensor, by the program's names, with verdicts per framework",
        "application/json",
        verdicts,
        lambda table, _: table_text(table),
    ),
    TableForm(
        "jax-specs",
        "a Python module of PartitionSpecs",
        "text/x-python",
        _only("jax"),
        lambda table, _: jax_module(table),
    ),
    TableForm(
        "dtensor",
        "a Python module of DTensor placements",
        "text/x-python",
        _only("dtensor"),
        lambda table, _: dtensor_module(table),
    ),
    TableForm(
        "shardy",
        "the program's own StableHLO with Shardy attributes",
        "text/plain",
        _only("shardy"),
        annotated_stablehlo,
        needs_program=True,
    ),
    TableForm(
        "ttnn",
        "a Python module with the ttnn.MeshMapperConfig of a tensor and the ttnn.TensorSpec of what a device holds",
        "text/x-python",
        _of_ttnn,
        lambda table, _: ttnn_specs(table),
    ),
    TableForm(
        "tt",
        "the program's tensors with #tt.metal_layout over a grid of devices",
        "text/plain",
        _of_layouts,
        lambda table, _: metal_layouts(table, "tt"),
    ),
    TableForm(
        "ttcore",
        "the program's tensors with #ttcore.metal_layout over a grid of devices",
        "text/plain",
        _of_layouts,
        lambda table, _: metal_layouts(table, "ttcore"),
    ),
)


class TableRefusal(ValueError):
    """Error raised for a plan that no table describes; the message gives the reason."""


def stored_table(store: TenantStore, plan: StoredPlan) -> ShardingTable:
    """Build the table of a stored plan.

    Raises:
        TableRefusal: the plan has stages.
    """
    request = store.runs.request(plan.run_id)
    found = store.plans.load(plan.key)
    mesh = mesh_of(request.mesh)
    program = store.graphs.load(request.graph_id)
    try:
        return sharding_table(program, found.graph, found.placements, MeshShape(mesh.axis_sizes), plan.id)
    except ValueError as error:
        raise TableRefusal(str(error)) from error
