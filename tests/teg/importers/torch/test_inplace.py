"""Tests of programs that write in place, against torch's own run: outputs, and what inputs and buffers become."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tapestry.teg.importers import ImportFailure, from_torch
from tapestry.teg.importers.torch.inplace import SHARING
from tapestry.teg.importers.torch.live import to_numpy
from tapestry.teg.importers.torch.translate import BY_TARGET
from tests.teg.importers.models import run
from tests.teg.importers.torch.live import assert_close, tensors_in, torch

aten = torch.ops.aten
HINT = "save the program after exported.run_decompositions"


class Stateful(torch.nn.Module):  # type: ignore[misc]
    """A module with two buffers and a counter, whose step is a function of itself and the argument."""

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.step = step
        self.register_buffer("m", torch.arange(4.0) + 1)
        self.register_buffer("v", torch.ones(4))
        self.register_buffer("count", torch.tensor(3))

    def forward(self, x: Any) -> Any:
        return self.step(self, x)


def chained(s: Any, x: Any) -> Any:
    s.m.mul_(0.9).add_(x)
    return s.m * 2


def statements(s: Any, x: Any) -> Any:
    s.m.mul_(0.9)
    s.m.add_(x)
    return s.m * 2


def earlier_result(s: Any, x: Any) -> Any:
    a = s.m.add_(x)
    before = a * 3
    b = s.m.mul_(2)
    return a, before, b, s.m


def copied(s: Any, x: Any) -> Any:
    s.m.copy_(s.m * 0.9).add_(x)
    return s.m * 2


def clamped(s: Any, x: Any) -> Any:
    s.m.lerp_(x, 0.1).clamp_(0, 1)
    return s.m * 2


def restarted(s: Any, x: Any) -> Any:
    s.m.zero_().add_(x)
    return s.m + 0


def argument(s: Any, x: Any) -> Any:
    x.mul_(2).add_(1)
    return x * 1


def moments(s: Any, x: Any) -> Any:
    s.count.add_(1).add_(1)
    s.m.mul_(0.9).add_(x, alpha=0.1)
    s.v.mul_(0.99).addcmul_(x, x, value=0.01)
    s.v.add_(s.m)
    s.m.sub_(s.v)
    return x - s.m / (s.v.sqrt() + s.count)


def assigned(s: Any, x: Any) -> Any:
    s.m += x
    s.v = s.v * s.m
    s.m *= 2
    return s.m + s.v


def detached(s: Any, x: Any) -> Any:
    return aten.detach(s.m).mul_(2).add_(x) + 1, s.m - 1


def exchanged(s: Any, x: Any) -> Any:
    old = s.m.clone()
    s.m.copy_(s.v).add_(x)
    s.v.copy_(old).add_(s.m)
    return old


def normalized(s: Any, x: Any) -> Any:
    once = torch.nn.functional.batch_norm(
        x.expand(3, 4) * torch.arange(3.0)[:, None], s.m, s.v, training=True
    )
    s.m.mul_(2).add_(1)
    return torch.nn.functional.batch_norm(once + 1, s.m, s.v, training=True)


PROGRAMS = (
    *(chained, statements, earlier_result, copied, clamped, restarted),
    *(argument, moments, assigned, detached, exchanged, normalized),
)


@pytest.mark.parametrize("step", PROGRAMS, ids=lambda step: str(step.__name__))
def test_a_saved_program_carries_the_last_value_of_what_it_writes(step: Any, tmp_path: Path) -> None:
    exported = torch.export.export(Stateful(step), (torch.arange(4.0),))
    torch.export.save(exported, tmp_path / "step.pt2")
    x, module = torch.arange(4.0) - 1, exported.module()
    state = {"x": x, **dict(module.named_buffers())}
    feeds = {"x": to_numpy(x).copy()}
    before = {k: to_numpy(v).copy() for k, v in state.items()}
    graph = from_torch(tmp_path / "step.pt2")
    found = run(graph, feeds)
    wanted = list(tensors_in(module(x)))
    state |= dict(module.named_buffers())
    carried = {str(s.definition["carries"]): s.site for s in graph.sinks if s.definition.get("carries")}
    seen = [s.site for s in graph.sinks if s.site not in carried.values()]
    for site, tensor in zip(seen, wanted, strict=True):
        assert_close(found[site], to_numpy(tensor), site)
    for name, tensor in state.items():
        assert_close(found[carried[name]] if name in carried else before[name], to_numpy(tensor), name)
    assert carried


@pytest.mark.parametrize(
    "step",
    (
        lambda s, x: (s.m[:2].add_(1), x + 1)[1],
        lambda s, x: (s.m.view(2, 2).mul_(2).add_(1), x + 1)[1],
        lambda s, x: x.reshape(2, 2).relu_() + 1,
        lambda s, x: (s.m.view(2, 2), s.m.add_(1).mul_(2))[0] + 1,
        lambda s, x: (s.m.add_(1).view(2, 2), s.m.mul_(2))[0] + 1,
        lambda s, x: torch.einsum("i->i", s.m).add_(x) + 1,
    ),
    ids=("slice", "view", "argument", "view_before", "view_of_result", "einsum"),
)
def test_writes_into_views_of_what_is_read_later_are_refused_and_the_hint_helps(
    step: Any, tmp_path: Path
) -> None:
    exported = torch.export.export(Stateful(step), (torch.arange(4.0),))
    torch.export.save(exported, tmp_path / "step.pt2")
    with pytest.raises(ImportFailure, match=HINT):
        from_torch(tmp_path / "step.pt2")
    torch.export.save(exported.run_decompositions(), tmp_path / "plain.pt2")
    assert any(s.definition.get("carries") for s in from_torch(tmp_path / "plain.pt2").sinks)


@pytest.mark.parametrize(("start", "refused"), ((1, True), (2, False)))
def test_a_write_into_a_buffer_whose_elements_another_buffer_stores_too_is_refused(
    start: int, refused: bool, tmp_path: Path
) -> None:
    def step(s: Any, x: Any) -> Any:
        s.m.add_(x[:2])
        return s.v * 2

    module, whole = Stateful(step), torch.arange(4.0)
    module.m, module.v = whole[:2], whole[start:]
    torch.export.save(torch.export.export(module, (torch.arange(4.0),)), tmp_path / "step.pt2")
    if refused:
        with pytest.raises(ImportFailure, match="give each buffer storage of its own"):
            from_torch(tmp_path / "step.pt2")
        return
    found = run(from_torch(tmp_path / "step.pt2"), {"x": np.ones(4, np.float32)})
    assert [v.tolist() for v in found.values()] == [[4, 6], [1, 2]]


def test_a_buffer_with_two_names_carries_its_value_under_both(tmp_path: Path) -> None:
    def step(s: Any, x: Any) -> Any:
        s.m.add_(x)
        s.v.mul_(2)
        return s.m + s.v

    module = Stateful(step)
    module.v = module.m
    torch.export.save(torch.export.export(module, (torch.arange(4.0),)), tmp_path / "step.pt2")
    m = np.arange(4, dtype=np.float32) + 1
    found = run(from_torch(tmp_path / "step.pt2"), {"x": m, "m": m, "v": m})
    module(torch.arange(4.0) + 1)
    carried = {name: value.tolist() for name, value in found.items() if name.endswith(".next")}
    assert carried == {"m.next": module.m.tolist(), "v.next": module.m.tolist()}


def test_operators_whose_schema_lets_results_share_storage_are_known() -> None:
    sharing = set()
    for target in BY_TARGET:
        library, name, overload = target.split(".")
        schema = getattr(getattr(getattr(torch.ops, library), name), overload)._schema
        if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):
            sharing.add(name)
    assert sharing - SHARING == set()


WRITES = (
    lambda g, a, b: g.call_function(aten.add_.Tensor, (a, b)),
    lambda g, a, b: g.call_function(aten.mul_.Tensor, (a, b)),
    lambda g, a, b: g.call_function(aten.copy_.default, (a, b)),
    lambda g, a, b: g.call_function(aten.neg_.default, (a,)),
)
READS = (
    lambda g, a, b: g.call_function(aten.add.Tensor, (a, b)),
    lambda g, a, b: g.call_function(aten.clone.default, (a,)),
    lambda g, a, b: g.call_function(aten.detach.default, (a,)),
)
VIEW = (lambda g, a, b: g.call_function(aten.view.default, (a, [4])),)


def random_module(random: Random, operators: Any) -> Any:
    """Build a module of two inputs that reads and writes through any name of a tensor, in any order."""
    graph = torch.fx.Graph()
    nodes = [graph.placeholder("p"), graph.placeholder("q")]
    for _ in range(random.randint(3, 9)):
        nodes.append(random.choice(operators)(graph, random.choice(nodes), random.choice(nodes)))
    graph.output(tuple(random.choices(nodes[2:], k=3)))
    for node in graph.nodes:
        if node.op != "output":
            node.meta["val"] = torch.zeros(4)
    return torch.fx.GraphModule({}, graph)


def agrees(module: Any) -> bool:
    """Check an imported module against torch's run of it; return False where the import refuses its views."""
    given = {"p": torch.arange(4.0) - 2, "q": torch.arange(4.0) / 3 + 1}
    feeds = {k: to_numpy(v).copy() for k, v in given.items()}
    try:
        graph = from_torch(module, carries=None)
    except ImportFailure as failure:
        assert HINT in str(failure)
        return False
    found = run(graph, {s.site: feeds[s.site] for s in graph.sources})
    wanted = module(**given)
    carried = {str(s.definition["carries"]): s.site for s in graph.sinks if s.definition.get("carries")}
    seen = [s.site for s in graph.sinks if s.site not in carried.values()]
    for site, tensor in zip(seen, wanted, strict=True):
        assert_close(found[site], to_numpy(tensor), f"{site} of {module.graph}")
    for name, tensor in given.items():
        value = found[carried[name]] if name in carried else feeds[name]
        assert_close(np.asarray(value), to_numpy(tensor), f"{name} after {module.graph}")
    return True


@pytest.mark.parametrize("seed", range(4))
def test_reads_and_writes_by_any_name_of_a_tensor_are_those_of_torch(seed: int) -> None:
    random = Random(seed)
    assert all(agrees(random_module(random, WRITES + READS)) for _ in range(10))


def test_programs_with_views_are_those_of_torch_or_refused() -> None:
    random = Random(5)
    assert {agrees(random_module(random, WRITES + READS + VIEW)) for _ in range(30)} == {True, False}
