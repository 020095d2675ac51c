"""The process that records a user's module: it runs the text for every rank, on tensors without elements.

Run as `python -m tapestry.teg.importers.torch.ranks.recorder MODULE RANKS BACKEND FILE`; it writes what it recorded to
the file, as JSON.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.distributed.fake_pg import FakeStore

from tapestry.teg.importers.torch.ranks.recording_group import Recording, RecordingGroup, RecordingMode

aten = torch.ops.aten
# What is read of a module beside the step that it computes: the parts of its inputs and outputs.
NEEDED = ("step", "boxes", "sizes", "SOURCES", "OUTPUTS")
SCATTERS = (aten.slice_scatter.default, aten.select_scatter.default, aten.as_strided_scatter.default)
UNWRITTEN = (
    *(aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default),
    *(aten.new_empty.default, aten.new_empty_strided.default, aten.empty_permuted.default),
)


def record(path: str, rank: int, count: int, backend: str) -> dict[str, Any]:
    """Run the text of a module as one of `count` ranks, and trace its step."""
    recording = Recording()
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count))
    name = f"recording_{len(dist.Backend.backend_list)}"
    dist.Backend.register_backend(
        name,
        lambda store, own, size, timeout: RecordingGroup(recording, backend, own, size),
        devices=["cpu"],
    )
    dist.init_process_group(name, rank=rank, world_size=count, store=FakeStore())
    dist.get_backend = lambda group=None: backend
    try:
        module = _loaded(path, f"module_of_rank_{rank}")
        parts = {
            kind: {name: _part(module, x, rank, kind) for name, x in getattr(module, kind, {}).items()}
            for kind in ("SOURCES", "CONSTANTS", "OUTPUTS")
        }
        return {"parts": parts, **_traced(module, parts, recording), "events": recording.events}
    finally:
        dist.destroy_process_group()


def _loaded(path: str, name: str) -> Any:
    module = ModuleType(
        name
    )  # not by the import system: bytecode cached within the same second would be stale
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(Path(path).read_bytes(), path, "exec"), vars(module))
    missing = [needed for needed in NEEDED if not hasattr(module, needed)]
    if missing:
        raise AttributeError(
            f"a plan's program has {', '.join(NEEDED)}; here {', '.join(missing)} is missing"
        )
    return module


def _part(module: Any, entry: Any, rank: int, kind: str) -> dict[str, Any]:
    """Return the box of a tensor that a rank has; of a constant also its values."""
    dtype, spec = ("", entry[0]) if kind == "OUTPUTS" else entry[:2]
    every = module.boxes(spec)  # those of the ranks of one stage
    box = np.asarray(every[rank % len(every)]).reshape(-1, 2).tolist()
    found: dict[str, Any] = {"box": box, "dtype": dtype}
    if kind == "OUTPUTS":
        found["is_of_all"] = len(every) >= dist.get_world_size()
    if kind == "CONSTANTS":
        at = tuple(slice(a, b) for a, b in box)
        whole = torch.tensor(entry[-1], dtype=getattr(torch, dtype)).reshape(module.sizes(spec))
        found["data"] = _data(whole[at])
    return found


def _traced(module: Any, parts: Mapping[str, Any], recording: Recording) -> dict[str, Any]:
    """Trace the step of a module: views and writes in place become functions of values."""
    given, outputs = {**parts["SOURCES"], **parts["CONSTANTS"]}, list[str]()

    def values(*inputs: Any) -> list[Any]:
        with FunctionalTensorMode(), RecordingMode(recording):
            w = {name: FunctionalTensor.to_functional(x) for name, x in zip(given, inputs, strict=True)}
            results = module.step(w)
            outputs[:] = [name for name, x in parts["OUTPUTS"].items() if name in results or x["is_of_all"]]
            for name in outputs:
                recording.check(results[name], writes=False)
            found = [*(results[name] for name in outputs), *recording.sent]
            for x in found:
                torch._sync(x)
        return [x.from_functional() for x in found]

    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = [
            torch.empty([b - a for a, b in p["box"]], dtype=getattr(torch, p["dtype"]))
            for p in given.values()
        ]
        traced = make_fx(values, tracing_mode="real")(*inputs)
    _normalize(traced)
    nodes = list(traced.graph.nodes)
    (results,) = nodes.pop().args
    names = [x.name if isinstance(x, Node) else None for x in results]
    holders = [n for n in nodes if n.op == "placeholder"]
    return {
        "nodes": [_document(n, traced) for n in nodes if n.op != "placeholder"],
        "inputs": {
            name: _value(n) | {"name": n.name} for name, n in zip(given, holders, strict=True) if n.users
        },
        "outputs": dict(zip(outputs, names, strict=False)),
        "sent": names[len(outputs) :],
    }


def _normalize(traced: GraphModule) -> None:
    """Rewrite a program so that memory that nothing wrote has no valid elements, and every value has elements."""
    graph = traced.graph
    for node in list(graph.nodes):
        tensors = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
        bare = [n for n in tensors if not n.meta["val"].numel()]
        if node.op == "output":
            node.args = ([None if n in bare else n for n in node.args[0]],)
        elif node.op != "call_function" or not _elements(node.meta.get("val")):
            continue
        elif node.target in UNWRITTEN:
            _rewrite(
                graph, node, aten.full.default, (list(node.meta["val"].shape), _unwritten(node.meta["val"]))
            )
        elif bare and node.target is aten.cat.default:
            node.args = ([n for n in node.args[0] if n not in bare], *node.args[1:])
        elif bare and node.target in SCATTERS and node.args[1] in bare:
            node.replace_all_uses_with(node.args[0])
        elif bare and bare == tensors:
            _fold(traced, node)
    graph.eliminate_dead_code()


def _rewrite(graph: Graph, node: Node, target: Any, args: tuple[Any, ...]) -> None:
    with graph.inserting_before(node):
        made = graph.call_function(target, args)
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)


def _fold(traced: GraphModule, node: Node) -> None:
    """Compute what an operator makes of tensors without elements: a constant."""

    def empty(n: Node) -> Any:
        return torch.empty(n.meta["val"].shape, dtype=n.meta["val"].dtype)

    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), empty)
    name = f"constant_{node.name}"
    traced.register_buffer(name, node.target(*args, **kwargs))
    with traced.graph.inserting_before(node):
        made = traced.graph.get_attr(name)
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)


def _elements(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() > 0


def _unwritten(value: torch.Tensor) -> Any:
    """Return an element that spoils whatever is computed from it."""
    if value.dtype.is_floating_point or value.dtype.is_complex:
        return float("nan")
    return value.dtype == torch.bool or torch.iinfo(value.dtype).max - 1


def _document(node: Node, traced: GraphModule) -> dict[str, Any]:
    """Return a node as JSON, in the form of the dumps that are imported."""
    found = {"name": node.name, "op": node.op, "val": _value(node)}
    if node.op == "get_attr":
        return found | {"data": _data(getattr(traced, str(node.target)))}
    return found | {
        "target": str(node.target),
        "args": _argument(node.args),
        "kwargs": _argument(node.kwargs),
    }


def _value(node: Node) -> Any:
    recorded = node.meta.get("val")
    if isinstance(recorded, (tuple, list)):
        return [_kind(x) for x in recorded]
    if recorded is None and node.op == "get_attr":
        recorded = getattr(node.graph.owning_module, str(node.target))
    return _kind(recorded)


def _kind(x: Any) -> Any:
    return {"shape": list(x.shape), "dtype": str(x.dtype)} if isinstance(x, torch.Tensor) else None


def _argument(given: Any) -> Any:
    if isinstance(given, Node):
        return {"node": given.name}
    if isinstance(given, (tuple, list)):
        return [_argument(x) for x in given]
    if isinstance(given, dict):
        return {key: _argument(x) for key, x in given.items()}
    return given if given is None or isinstance(given, (bool, int, float, str)) else str(given)


def _data(x: torch.Tensor) -> str:
    """Return the bytes of a tensor's elements, in base64."""
    return base64.b64encode(x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).decode()


def _reason(path: str, error: BaseException) -> str:
    """Say what went wrong, and in which line of the module."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    place = f"line {lines[-1]}: " if lines else ""
    if isinstance(error, DataDependentOutputException):
        return f"{place}the step reads an element; what it does may depend on the rank, not on values"
    return f"{place}{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def record_all(path: str, count: int, backend: str) -> dict[str, Any]:
    """Return what all ranks do, or the error of the first one that fails."""
    ranks = []
    for rank in range(count):
        try:
            ranks.append(record(path, rank, count, backend))
        except (Exception, SystemExit) as error:
            return {"error": f"rank {rank}: {_reason(path, error)}"}
    return {"ranks": ranks}


def main() -> None:
    """Record all ranks, and write the document."""
    path, count, backend, target = sys.argv[1:]
    sys.path.insert(0, str(Path(path).parent))
    Path(target).write_text(json.dumps(record_all(path, int(count), backend)))


if __name__ == "__main__":
    main()
