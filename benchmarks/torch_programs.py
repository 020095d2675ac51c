"""Live PyTorch programs for a conformance run: exported at run time, with torch's own results to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_torch

Arrays = Mapping[str, np.ndarray]


class LiveProgram(NamedTuple):
    """An imported program, values for its user inputs by site, and torch's results by site."""

    graph: Graph
    inputs: Arrays
    outputs: Arrays


def _exported(torch: Any, module: Any, *arguments: Any) -> LiveProgram:
    """Export a module through `torch.export`; its weights are supplied with the program."""
    program = torch.export.export(module.eval(), arguments)
    graph = from_torch(program)
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    results = program.module()(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    sites = [s.site for s in graph.sinks if s.definition.get("carries") is None]
    inputs = {name: _array(torch, a) for name, a in zip(names, arguments, strict=True)}
    return LiveProgram(graph, inputs, {s: _array(torch, r) for s, r in zip(sites, results, strict=True)})


def _array(torch: Any, tensor: Any) -> np.ndarray:
    """Convert a tensor to an array; numpy has bfloat16 from another package."""
    values = tensor.detach()
    if values.dtype == torch.bfloat16:
        return np.asarray(values.view(torch.int16).numpy()).view(numpy_dtype("bfloat16"))
    return np.asarray(values.numpy())


def _mlp(torch: Any) -> LiveProgram:
    nn = torch.nn
    return _exported(torch, nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 7)), torch.randn(5, 12))


def _convolution(torch: Any) -> LiveProgram:
    nn = torch.nn
    layers = (
        *(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.GroupNorm(2, 8), nn.Upsample(scale_factor=2)),
        *(nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    return _exported(torch, nn.Sequential(*layers), torch.randn(2, 3, 32, 32))


def _transformer(torch: Any) -> LiveProgram:
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
    return _exported(torch, layer, torch.randn(2, 6, 16))


def _recurrent(torch: Any) -> LiveProgram:
    class Tagger(torch.nn.Module):  # type: ignore[misc]
        """A bidirectional LSTM tagger: words in, one score per tag and word out."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(11, 6)
            self.lstm = torch.nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
            self.head = torch.nn.Linear(10, 4)

        def forward(self, words: Any) -> Any:
            return self.head(self.lstm(self.embedding(words))[0]).log_softmax(-1)

    return _exported(torch, Tagger(), torch.randint(0, 11, (3, 7)))


def _training_step(torch: Any) -> LiveProgram:
    """Trace forward, cross-entropy, backward and SGD with momentum as one graph of core operators."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def step(embedding: Any, head: Any, momentum: Any, words: Any, targets: Any) -> Any:
        with torch.enable_grad():
            weights = [w.detach().requires_grad_() for w in (embedding, head)]
            hidden = torch.nn.functional.embedding(words, weights[0]).mean(1).tanh()
            loss = torch.nn.functional.cross_entropy(hidden @ weights[1], targets)
            gradients = torch.autograd.grad(loss, weights)
        faster = 0.9 * momentum + gradients[1]
        return loss.detach(), embedding - 0.1 * gradients[0], head - 0.1 * faster, faster

    shapes = ((9, 6), (6, 4), (6, 4))
    arguments = (
        *(torch.randn(s) for s in shapes),
        torch.randint(0, 9, (5, 3)),
        torch.randint(0, 4, (5,)),
    )
    module = make_fx(step, decomposition_table=torch.export.default_decompositions())(*arguments)
    sites = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    results = [n.name for n in next(n for n in module.graph.nodes if n.op == "output").args[0]]
    roles = dict(zip(sites, ("parameter", "parameter", "optimizer_state"), strict=False))
    carries = dict(zip(results[1:], sites, strict=False))
    graph = from_torch(module, roles=roles, carries=carries)
    inputs = {s: _array(torch, a) for s, a in zip(sites, arguments, strict=True)}
    outputs = zip([s.site for s in graph.sinks], step(*arguments), strict=True)
    return LiveProgram(graph, inputs, {s: _array(torch, r) for s, r in outputs})


PROGRAMS: Mapping[str, Callable[[Any], LiveProgram]] = {
    "mlp": _mlp,
    "convolution": _convolution,
    "transformer": _transformer,
    "recurrent": _recurrent,
    "training_step": _training_step,
}


def live(name: str, dtype: str = "float32") -> LiveProgram:
    """Build the program called `name`, with fixed weights and inputs of a float type."""
    import torch

    usual = torch.get_default_dtype()
    torch.manual_seed(0)
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        return PROGRAMS[name](torch)
    finally:
        torch.set_default_dtype(usual)
