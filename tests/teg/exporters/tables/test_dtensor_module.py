"""Tests of placements for PyTorch, with DTensor's own local shapes and offsets as the witness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tapestry
from tapestry.teg.exporters.tables.build import sharding_table
from tapestry.teg.exporters.tables.dtensor_module import DTENSOR, dtensor_module
from tapestry.teg.exporters.tables.table import ShardingTable, TensorSharding
from tapestry.teg.exporters.tables.verdicts import OK, verdict
from tapestry.teg.importers import from_torch
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.teg.exporters.tables.plans import random_plan
from tests.teg.exporters.tables.test_compiled_tables import kinds

torch = pytest.importorskip("torch")
placing = pytest.importorskip("torch.distributed.tensor")
local_part = pytest.importorskip("torch.distributed.tensor._utils").compute_local_shape_and_global_offset


@contextmanager
def rank_of(rank: int, world_size: int) -> Iterator[None]:
    """Be one rank of a process group that exchanges nothing."""
    store = pytest.importorskip("torch.testing._internal.distributed.fake_pg").FakeStore()
    torch.distributed.init_process_group("fake", store=store, rank=rank, world_size=world_size)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def module_of(table: ShardingTable) -> dict[str, Any]:
    """Run the exported module and return its names."""
    names: dict[str, Any] = {}
    exec(compile(dtensor_module(table), "placements", "exec"), names)
    return names


def naive(table: ShardingTable, tensor: TensorSharding) -> list[Any]:
    """Return the placements that one would write without a look at sizes."""
    where = {axis: k for k, dim in enumerate(tensor.dims) for axis in dim.axes}
    return [placing.Shard(where[a]) if a in where else placing.Replicate() for a in table.sizes]


def boxes_by_torch(shape: tuple[int, ...], mesh: Any, placements: list[Any]) -> list[list[int]]:
    whole = [placing.Replicate() if isinstance(p, placing.Partial) else p for p in placements]
    sizes, starts = local_part(torch.Size(shape), mesh, whole)
    return [[a, a + n] for a, n in zip(starts, sizes, strict=True)]


def equal(found: list[list[int]], wanted: np.ndarray) -> bool:
    """Return whether two boxes hold the same elements; all empty ones do."""
    sizes = [[b - a for a, b in box] for box in (found, wanted.tolist())]
    return found == wanted.tolist() or (0 in sizes[0] and 0 in sizes[1])


@pytest.mark.parametrize("seed", range(4))
def test_torch_places_what_is_ok_as_the_table_states_and_what_is_refused_elsewhere(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = [random_plan(rng).table for _ in range(6)]
    accepted, refused = 0, dict[tuple[int, str], bool]()
    for k, table in enumerate(tables):
        names = module_of(table)
        known = names["INPUTS"] | names["PARAMETERS"] | names["OUTPUTS"] | names["INTERMEDIATES"]
        for rank in range(table.device_count):
            with rank_of(rank, table.device_count):
                mesh = names["make_mesh"]()
                for found in table.tensors:
                    if any(dim.fault for dim in found.dims):
                        continue
                    wanted = table.boxes(found)[rank]
                    if verdict(table, found, DTENSOR) == OK:
                        got = boxes_by_torch(found.shape, mesh, known[found.name])
                        assert equal(got, wanted), (found, rank)
                        accepted += 1
                    else:
                        got = boxes_by_torch(found.shape, mesh, naive(table, found))
                        differs = refused.setdefault((k, found.name), False)
                        refused[k, found.name] = differs or not equal(got, wanted)
    assert accepted > 100
    assert len(refused) > 5
    assert all(refused.values())


def test_layers_of_a_module_are_placed_by_name_and_by_torchs_own_styles() -> None:
    # Given two linear layers, of which the first is split by columns and the second by rows
    layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
    graph = from_torch(layers, torch.zeros(4, 16))
    strategies = {"0.weight": "(gpu.0*gpu.1, -)", "0.bias": "(gpu.0*gpu.1)", "2.weight": "(-, gpu.0*gpu.1)"}
    placed = {site: Placement(parse_strategy(text)) for site, text in strategies.items()}
    table = sharding_table(graph, graph, Placements(placed), MeshShape.of(gpu=4))

    names = module_of(table)

    assert names["AXES"] == {"gpu": 4}
    assert names["PARAMETERS"]["0.weight"] == [placing.Shard(0)]
    assert names["PARAMETERS"]["2.bias"] == [placing.Replicate()]
    assert names["LAYERS"] == {"0": ("gpu", 0), "2": ("gpu", 1)}
    for parallelize in ("distribute_parameters", "parallelize"):
        with rank_of(1, 4):
            module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
            names[parallelize](names["make_mesh"](), module)
            found = dict(module.named_parameters())
            assert {k: tuple(p.to_local().shape) for k, p in found.items() if hasattr(p, "to_local")} == {
                "0.weight": (8, 16),
                "0.bias": (8,),
                "2.weight": (8, 8),
                "2.bias": (8,),
            }


class Perceptron(torch.nn.Module):
    """Two layers beside which their input passes, as a user writes them with functions of an exported module."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(64, 256, bias=False)
        self.down = torch.nn.Linear(256, 64, bias=False)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.tanh(self.up(x)))

    def placed(self, mesh: Any, names: dict[str, Any], x: Any) -> Any:
        """Compute on DTensors: each value is constrained, and each operand read, as the table says.

        A value that the table does not have is part of the block that makes the next one.
        """
        order, known = ("linear", "tanh", "linear_1", "add"), names["INTERMEDIATES"] | names["OUTPUTS"]

        def read(reader: str, name: str, value: Any) -> Any:
            made = next(later for later in order[order.index(reader) :] if later in known)
            return names["read"](mesh, made, name, value)

        def constrain(name: str, value: Any) -> Any:
            return names["constrain"](mesh, name, value)

        weights = {
            name: names["distribute"](mesh, name, value.detach()) for name, value in self.named_parameters()
        }

        def linear(reader: str, name: str, value: Any, weight: str) -> Any:
            operands = read(reader, name, value), read(reader, weight, weights[weight])
            return constrain(reader, torch.nn.functional.linear(*operands))

        x = names["distribute"](mesh, "x", x)
        h = linear("linear", "x", x, "up.weight")
        h = constrain("tanh", torch.tanh(read("tanh", "linear", h)))
        h = linear("linear_1", "tanh", h, "down.weight")
        y = read("add", "x", x) + read("add", "linear_1", h)
        return y.redistribute(mesh, names["OUTPUTS"]["add"])


def received_bytes(compute: Callable[[], Any]) -> Counter[str]:
    """Count by kind what one rank receives, from the arguments of the collectives that DTensor calls.

    On processors DTensor gathers where it exchanges pieces on accelerators: what it asks for is what counts.
    """
    received, kinds_of_place = Counter[str](), pytest.importorskip("torch.distributed.tensor.placement_types")
    exchange = kinds_of_place.shard_dim_alltoall

    def exchanged(local: Any, gathered: int, split: int, mesh: Any, mesh_dim: int) -> Any:
        before = received.copy()
        try:
            return exchange(local, gathered, split, mesh, mesh_dim)
        finally:
            received.clear()
            received.update(before)
            received["all_to_all"] += local.nbytes * (mesh.size(mesh_dim) - 1) // mesh.size(mesh_dim)

    class Collectives(pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if any(issubclass(kind, placing.DTensor) for kind in types):
                return NotImplemented
            name = function.__name__.partition(".")[0]
            if name == "all_gather_into_tensor":
                received["all_gather"] += args[0].nbytes * (args[1] - 1)
            elif name == "reduce_scatter_tensor":
                received["reduce_scatter"] += args[0].nbytes * (args[2] - 1) // args[2]
            elif function.namespace == "_c10d_functional":
                assert name in ("wait_tensor", "_wrap_tensor_autograd"), name
            return function(*args, **(kwargs or {}))

    with pytest.MonkeyPatch.context() as patch, Collectives():
        patch.setattr(kinds_of_place, "shard_dim_alltoall", exchanged)
        compute()
    return received


@pytest.mark.slow
def test_dtensor_moves_what_the_plan_does_where_operands_are_read_as_the_table_says() -> None:
    model, x = Perceptron(), torch.randn(128, 64)
    options = {"evaluations": 300, "islands": 1, "seed": 2, "devices": "all"}
    objectives = ["peak_memory_bytes", "time_s"]
    result = tapestry.optimize(from_torch(model, x), "dgx-h100", objectives, **options)
    read = moved = 0
    for plan in result.frontier:
        table = tapestry.sharding_table(result, plan.id)
        names = module_of(table)
        if names["NOT_EXPRESSIBLE"]:
            continue
        with rank_of(3, 8):
            mesh = names["make_mesh"]()
            found = received_bytes(lambda mesh=mesh, names=names: model.placed(mesh, names, x))
        assert {kind: 8 * count for kind, count in found.items()} == dict(kinds(plan))
        read += len(names["READS"])
        moved += found.total() > 0
    assert min(read, moved) > 0
