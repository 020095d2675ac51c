"""Tests of whole models: exported, saved without torch's decompositions, trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapestry.teg.faults import ArgumentError
from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure, from_torch
from tapestry.teg.importers.torch.live import to_numpy
from tapestry.teg.validate import validate
from tests.teg.importers.models import run
from tests.teg.importers.torch.live import assert_close, check, tensors_in, torch

nn, F = torch.nn, torch.nn.functional
torch.manual_seed(0)


class Convolutional(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        first = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        second = (
            nn.Conv2d(8, 16, 3, 2, 1, groups=2),
            nn.BatchNorm2d(16),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.layers = nn.Sequential(*first, *second, nn.Linear(16, 5))

    def forward(self, x: Any) -> Any:
        return self.layers(x)


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.norm, self.qkv = heads, nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        heads = self.qkv(self.norm(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(batch, length, width)
        return x + self.mlp(x)


class Language(nn.Module):  # type: ignore[misc]
    """A model of two blocks that computes a next-token loss."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places, self.blocks = (
            nn.Embedding(11, 16),
            nn.Embedding(6, 16),
            nn.Sequential(Block(), Block()),
        )

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        logits = self.blocks(x) @ self.tokens.weight.T
        return F.cross_entropy(logits[:, :-1].reshape(-1, 11), tokens[:, 1:].reshape(-1))


class Vision(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.patch, self.block = nn.Conv2d(3, 16, 4, 4), Block()
        self.token, self.places = nn.Parameter(torch.randn(1, 1, 16)), nn.Parameter(torch.randn(1, 17, 16))

    def forward(self, x: Any) -> Any:
        patches = self.patch(x).flatten(2).transpose(1, 2)
        return self.block(torch.cat([self.token.expand(len(x), -1, -1), patches], 1) + self.places)[:, 0]


class Denoiser(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.down, self.norm, self.up = (
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.GroupNorm(2, 8),
            nn.ConvTranspose2d(8, 8, 4, 2, 1),
        )
        self.out, self.time = nn.Conv2d(11, 3, 3, padding=1, padding_mode="circular"), nn.Linear(4, 8)

    def forward(self, x: Any, time: Any) -> Any:
        angles = torch.exp(-torch.arange(2.0)) * time[:, None]
        step = self.time(torch.cat([angles.sin(), angles.cos()], -1))[:, :, None, None]
        inner = F.silu(self.norm(self.down(x))) + step
        return self.out(torch.cat([self.up(inner), x], 1)) + F.interpolate(inner, scale_factor=2.0)[:, :3]


MODELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "perceptron": (nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)), (torch.randn(4, 6),)),
    "convolutional": (Convolutional().eval(), (torch.randn(2, 3, 16, 16),)),
    "convolutional in training": (Convolutional().train(), (torch.randn(2, 3, 16, 16),)),
    "encoder": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval(), (torch.randn(2, 6, 16),)),
    "language": (Language(), (torch.randint(0, 11, (2, 6)),)),
    "vision": (Vision(), (torch.randn(2, 3, 16, 16),)),
    "denoiser": (Denoiser(), (torch.randn(2, 3, 8, 8), torch.rand(2))),
    "lstm": (nn.LSTM(5, 7, 2, batch_first=True, bidirectional=True), (torch.randn(3, 4, 5),)),
    "gru": (nn.GRU(5, 7), (torch.randn(4, 3, 5),)),
}


def operators(graph: Graph) -> set[str]:
    return {b.operator for b in graph.blocks if b.signature is None}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_what_torch_gives(name: str) -> None:
    model, arguments = MODELS[name]
    graph = check(model, *arguments)
    assert operators(graph) == set()  # every block can be sharded


@pytest.mark.parametrize("name", ["convolutional in training", "language", "lstm"])
def test_a_saved_model_is_the_live_one(tmp_path: Path, name: str) -> None:
    model, arguments = MODELS[name]
    exported = torch.export.export(model, arguments)
    torch.export.save(exported, tmp_path / "model.pt2")
    saved, live = from_torch(tmp_path / "model.pt2"), from_torch(exported)
    assert sorted(s.site for s in saved.sources) == sorted(s.site for s in live.sources)
    names = [s.site for s in live.sources if s.definition["role"] == "activation"]
    feeds = {n: to_numpy(a) for n, a in zip(names, arguments, strict=True)}
    found, wanted = run(saved, feeds), run(live, feeds)
    for sink, other in zip(saved.sinks, live.sinks, strict=True):
        assert sink.definition.get("carries") == other.definition.get("carries")
        assert_close(found[sink.site], wanted[other.site], sink.site)


def test_buffers_that_a_model_changes_are_carried_on() -> None:
    model, (x,) = MODELS["convolutional in training"]
    graph = from_torch(torch.export.export(model, (x,)))
    carried = {s.definition["carries"]: s.site for s in graph.sinks if s.definition.get("carries")}
    found = run(graph, {"x": to_numpy(x)})
    model(x)
    for name, buffer in model.named_buffers():
        assert graph.by_site[name].definition["role"] == "buffer"
        assert_close(found[carried[name]], to_numpy(buffer), name)


@pytest.mark.slow
def test_gradients_of_an_exported_joint_graph_are_named_after_their_parameters() -> None:
    from torch.export.experimental import _export_forward_backward

    model, (tokens,) = MODELS["language"]
    graph = from_torch(_export_forward_backward(torch.export.export(model, (tokens,))))
    assert validate(graph) == []
    found = run(graph, {"tokens": to_numpy(tokens)})
    model.zero_grad()
    model(tokens).backward()
    for name, parameter in model.named_parameters():
        assert graph.by_site[name].definition["role"] == "parameter"
        assert_close(found[f"{name}.grad"], to_numpy(parameter.grad), name)


def training_step(weights: Any, means: Any, squares: Any, count: Any, x: Any, y: Any) -> Any:
    """Compute one step of Adam on a perceptron."""

    def loss(first: Any, second: Any) -> Any:
        return F.cross_entropy(torch.tanh(x @ first) @ second, y)

    gradients, value = torch.func.grad_and_value(loss, (0, 1))(*weights)
    count = count + 1
    means = [0.9 * m + 0.1 * g for m, g in zip(means, gradients, strict=True)]
    squares = [0.99 * s + 0.01 * g * g for s, g in zip(squares, gradients, strict=True)]
    scales = [
        (m / (1 - 0.9**count)) / ((s / (1 - 0.99**count)).sqrt() + 1e-8)
        for m, s in zip(means, squares, strict=True)
    ]
    return value, [w - 0.01 * s for w, s in zip(weights, scales, strict=True)], means, squares, count


def test_a_training_step_carries_its_parameters_and_the_state_of_the_optimizer() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    weights = [torch.randn(6, 8), torch.randn(8, 3)]
    states = (
        [torch.zeros_like(w) for w in weights],
        [torch.zeros_like(w) for w in weights],
        torch.tensor(0.0),
    )
    arguments = (weights, *states, torch.randn(5, 6), torch.randint(0, 3, (5,)))
    module = make_fx(training_step)(*arguments)
    names = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    roles = dict.fromkeys(names[:2], "parameter") | dict.fromkeys(names[2:7], "optimizer_state")
    graph = from_torch(module, roles=roles)
    found = run(graph, {n: to_numpy(a) for n, a in zip(names, tensors_in(arguments), strict=True)})
    assert [s.definition.get("carries") for s in graph.sinks] == [None, *names[:7]]
    for sink, tensor in zip(graph.sinks, tensors_in(training_step(*arguments)), strict=True):
        assert_close(found[sink.site], to_numpy(tensor), sink.site)


def test_what_cannot_come_in_is_refused_with_the_reason() -> None:
    x = torch.randn(3, 4)

    def mixed(x: Any) -> Any:
        return torch.ops.aten.multi_margin_loss(x, torch.tensor([0, 1, 2])) + torch.rand(1)

    with pytest.raises(ImportFailure, match="draws random numbers"):
        from_torch(mixed, x)
    with pytest.raises(ImportFailure, match="draws random numbers"):
        from_torch(nn.Dropout().train(), x)
    dynamic = torch.export.export(nn.Linear(4, 2), (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    with pytest.raises(ImportFailure, match="dynamic shapes") as failure:
        from_torch(dynamic)
    symbol = str(failure.value).partition("depends on '")[2].partition("'")[0]
    with pytest.raises(ImportFailure, match="no dimension 'bacth' without a size; known are"):
        from_torch(dynamic, dims={symbol: 3, "bacth": 3})
    assert from_torch(dynamic, dims={symbol: 3}).by_site["input"].definition["logical_shape"] == (3, 4)
    with pytest.raises(ArgumentError, match=r"^source: expected an ExportedProgram"):
        from_torch(7)


def test_a_module_with_example_arguments_is_exported() -> None:
    graph = from_torch(lambda a, b: a @ b + 1, torch.ones(2, 3), torch.ones(3, 2), name="product")
    assert graph.name == "product"
    values = run(graph, {s.site: np.ones(s.definition["logical_shape"], np.float32) for s in graph.sources})
    assert [v.tolist() for v in values.values()] == [[[4, 4], [4, 4]]]


class Clashing(nn.Module):  # type: ignore[misc]
    """A module with a parameter called like the argument, another like an operator, and an argument that is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.add = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3))

    def forward(self, x: Any) -> Any:
        x.add_(1)
        return x + self.x + self.add


def test_the_users_arguments_keep_their_names_and_may_be_changed() -> None:
    graph = check(Clashing(), torch.randn(3))
    assert {s.site: s.definition["role"] for s in graph.sources} == {
        "p_x": "parameter",
        "add": "parameter",
        "x": "activation",
    }
    assert {s.definition.get("carries") for s in graph.sinks} == {None, "x"}


def test_values_without_elements_and_without_dimensions() -> None:
    x = torch.randn(3, 4)
    check(lambda x: (x[:0].sum(0), torch.cat([x[:0], x]), x.sum().cumsum(0), x.mean().softmax(0)), x)


def test_labels_that_an_einsum_repeats_walk_diagonals() -> None:
    x, v = torch.randn(2, 3, 3), torch.randn(2)
    check(lambda x: (torch.einsum("bii->bi", x), torch.einsum("bii", x), torch.einsum("...ii->...i", x)), x)
    check(lambda x, v: (torch.einsum("bii,b->i", x, v), torch.einsum("ii->i", x[0])), x, v)


def descent(w: Any, x: Any) -> Any:
    return w - 0.1 * torch.func.grad(lambda w: ((x @ w) ** 2).mean())(w)


def test_a_step_with_gradients_inside_comes_in_and_is_given_its_parameters() -> None:
    w, x = torch.randn(3, 3), torch.randn(4, 3)
    graph = from_torch(descent, w, x)
    names = [s.site for s in graph.sources]
    (sink,) = graph.sinks
    assert_close(
        run(graph, dict(zip(names, map(to_numpy, (w, x)), strict=True)))[sink.site],
        to_numpy(descent(w, x)),
        "",
    )
    graph = from_torch(descent, w, x, roles={names[0]: "parameter"})
    assert {s.site: s.definition["carries"] for s in graph.sinks} == {f"{names[0]}.next": names[0]}


class Averages(nn.Module):  # type: ignore[misc]
    def forward(self, mean: Any, x: Any) -> Any:
        return x * 2, 0.9 * mean + 0.1 * x


def test_an_exported_program_is_given_roles_and_carried_state() -> None:
    exported = torch.export.export(Averages(), (torch.zeros(3), torch.randn(3)))
    assert all(s.definition.get("carries") is None for s in from_torch(exported).sinks)
    last = from_torch(exported).sinks[1].site
    for options in ({"roles": {"mean": "buffer"}}, {"carries": {last: "mean"}}):
        graph = from_torch(exported, **options)
        assert [s.definition.get("carries") for s in graph.sinks] == [None, "mean"]
    with pytest.raises(ImportFailure, match="there is no input 'means' to be a buffer; inputs are mean, x"):
        from_torch(exported, roles={"means": "buffer"})
    with pytest.raises(ImportFailure, match="there is no output 'last' to carry a state"):
        from_torch(exported, carries={"last": "mean"})


def test_factors_of_matrices() -> None:
    def factors(a: Any) -> Any:
        square = a @ a.mT
        left, scales, right = torch.linalg.svd(a, full_matrices=False)  # vectors up to their signs
        return (
            *(left.abs(), scales, right.abs(), (left * scales[:, None]) @ right, torch.linalg.svdvals(a)),
            *(torch.linalg.qr(a), torch.linalg.qr(a.mT), torch.linalg.eigvalsh(square)),
            *(torch.linalg.pinv(a), torch.linalg.matrix_norm(a, 2), torch.linalg.matrix_norm(a, "nuc")),
        )

    torch.manual_seed(1)
    check(factors, torch.randn(2, 4, 3))


@pytest.mark.parametrize("include_self", [True, False])
def test_means_of_what_is_scattered(include_self: bool) -> None:
    places = torch.tensor([[0, 1, 1], [0, 3, 1]])
    check(
        lambda x, s: x.scatter_reduce(1, places, s, "mean", include_self=include_self),
        torch.randn(2, 5),
        torch.randn(2, 3),
    )
