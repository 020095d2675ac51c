"""Reader of live PyTorch objects: `ExportedProgram`, and `GraphModule`s such as joint forward and backward graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tapestry.teg.dtypes import EXTENDED
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.listing import (
    Input,
    Listing,
    Ref,
    TorchCall,
    dtype_by_name,
    made_unique,
    unique_outputs,
)
from tapestry.teg.importers.torch.sizes import Sizes

ROLE_BY_KIND = {
    "PARAMETER": "parameter",
    "BUFFER": "buffer",
    "CONSTANT_TENSOR": "constant",
    "USER_INPUT": "activation",
}
MUTATIONS = ("BUFFER_MUTATION", "USER_INPUT_MUTATION", "PARAMETER_MUTATION")


def read_exported(exported: Any, name: str, dims: Mapping[str, int] | None = None) -> Listing:
    """Read the program of a live `ExportedProgram`; `dims` gives numbers to the symbols of sizes that are open.

    Raises:
        ImportFailure: it has dynamic shapes, inner graphs, or inputs that are no tensors.
    """
    signature, sizes = exported.graph_signature, Sizes(dims, name)
    holders = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
    inputs = []
    for spec in signature.input_specs:
        kind, ref = spec.kind.name, getattr(spec.arg, "name", "")
        if not hasattr(holders[ref].meta.get("val"), "dtype") or kind == "TOKEN":
            continue  # a number that the program was made for
        if kind not in ROLE_BY_KIND:
            raise ImportFailure(f"{name}: input {ref!r} of kind {kind} is unsupported")
        site = ref if kind == "USER_INPUT" else spec.target
        data = _stored(exported, spec) if kind != "USER_INPUT" else None
        inputs.append(Input(ref, _value(holders[ref], site, name, sizes), ROLE_BY_KIND[kind], data))
    apart, names = made_unique(inputs)
    calls, items = _calls(exported.graph, name, sizes)
    found = [(o, items.get(ref, ref), carried) for o, ref, carried in _signed_outputs(signature, names, name)]
    sizes.check_all_read()
    found.sort(key=lambda o: o[2] is not None)  # what the user sees first
    return Listing(name, apart, calls, unique_outputs(found, {i.value.name for i in apart}))


def _stored(exported: Any, spec: Any) -> np.ndarray | None:
    """Return the data of a parameter, buffer or constant, else None; unsaved buffers are among the constants."""
    for where in (exported.state_dict, exported.constants):
        if spec.target in where:
            return to_numpy(where[spec.target])
    return None


def _signed_outputs(
    signature: Any, names: Mapping[str, str], name: str
) -> Iterator[tuple[str, str, str | None]]:
    for spec in signature.output_specs:
        kind, ref = spec.kind.name, getattr(spec.arg, "name", None)
        if ref is None or kind == "TOKEN":
            continue  # a number or nothing
        if kind in MUTATIONS:
            site = spec.target if kind == "USER_INPUT_MUTATION" else names[spec.target]
            yield f"{site}.next", ref, site
        elif kind in ("GRADIENT_TO_PARAMETER", "GRADIENT_TO_USER_INPUT"):
            yield f"{spec.target}.grad", ref, None
        elif kind in ("USER_OUTPUT", "LOSS_OUTPUT"):
            if not hasattr(spec.arg, "value"):
                yield ref, ref, None
        else:
            raise ImportFailure(f"{name}: outputs of kind {kind} are unsupported")


def read_module(module: Any, name: str, sites: Mapping[str, str] | None = None) -> Listing:
    """Read the program of a `GraphModule` whose nodes record their shapes; `sites` renames placeholders.

    Raises:
        ImportFailure: a placeholder records no shape, or there are nodes of another kind than calls.
    """
    sizes = Sizes(None, name)
    inputs = [
        Input(n.name, _value(n, (sites or {}).get(n.name, n.name), name, sizes), "activation")
        for n in module.graph.nodes
        if n.op == "placeholder" and n.users
    ]
    for n in module.graph.nodes:
        if n.op == "get_attr":
            found = _attribute(module, n.target)
            if not hasattr(found, "dtype"):
                raise ImportFailure(f"{name}: node {n.name!r} has an inner graph, which is unsupported")
            value = Value(str(n.target), tuple(found.shape), dtype_by_name(found.dtype, f"node {n.name!r}"))
            inputs.append(Input(n.name, value, "constant", to_numpy(found)))
    (end,) = [n for n in module.graph.nodes if n.op == "output"]
    calls, items = _calls(module.graph, name, sizes)
    observed = [(n.name, items.get(n.name, n.name), None) for n in _nodes_in(end.args)]
    outputs = unique_outputs(observed, {i.value.name for i in inputs})
    idle = frozenset(n.name for n in module.graph.nodes if n.op == "placeholder" and not n.users)
    return Listing(name, tuple(inputs), calls, outputs, carries={}, signed=False, idle=idle)


def _attribute(module: Any, target: str) -> Any:
    for part in str(target).split("."):
        module = getattr(module, part)
    return module


def _nodes_in(argument: Any) -> Iterator[Any]:
    if isinstance(argument, (tuple, list)):
        for a in argument:
            yield from _nodes_in(a)
    elif isinstance(argument, Mapping):
        for a in argument.values():
            yield from _nodes_in(a)
    elif hasattr(argument, "op"):
        yield argument


def _calls(graph: Any, name: str, sizes: Sizes) -> tuple[tuple[TorchCall, ...], dict[str, str]]:
    """Read the calls, and for nodes that take one result of a call its name."""
    items: dict[str, str] = {}
    calls = []
    for node in graph.nodes:
        if node.op not in ("call_function", "placeholder", "output", "get_attr"):
            raise ImportFailure(f"{name}: node {node.name!r} of kind {node.op!r} is unsupported")
        if node.op != "call_function" or _is_number(node.meta.get("val")):
            continue  # computed from sizes, where it is read
        if getattr(node.target, "__name__", "") == "getitem" and hasattr(node.args[0], "op"):
            items[node.name] = f"{node.args[0].name}.{node.args[1]}"
        else:
            calls.append(_call(node, items, name, sizes))
    return tuple(calls), items


def _call(node: Any, items: Mapping[str, str], name: str, sizes: Sizes) -> TorchCall:
    recorded = node.meta.get("val")
    target = str(node.target)
    if isinstance(recorded, (tuple, list)):
        outputs = tuple(
            _recorded(r, f"{node.name}.{k}", node, name, sizes) if hasattr(r, "dtype") else None
            for k, r in enumerate(recorded)
        )
        values = recorded
    else:
        outputs = (_recorded(recorded, node.name, node, name, sizes),) if hasattr(recorded, "dtype") else ()
        values = (recorded,)
    strides = {
        o.name: tuple(_number(s, sizes, o.name) for s in v.stride())
        for o, v in zip(outputs, values, strict=False)
        if o is not None
    }
    args = tuple(_argument(a, items, sizes) for a in node.args)
    kwargs = {k: _argument(a, items, sizes) for k, a in node.kwargs.items()}
    return TorchCall(node.name, target, args, kwargs, outputs, strides)


def _is_number(value: Any) -> bool:
    """Return whether a recorded result is a number that torch computes from sizes."""
    return hasattr(value, "node") and not hasattr(value, "dtype")


def _number(value: Any, sizes: Sizes, where: str) -> int:
    """Evaluate a size: a number, or an expression over symbols that have numbers."""
    return value if isinstance(value, int) else sizes.number(str(value), f"node {where!r}")


def _argument(given: Any, items: Mapping[str, str], sizes: Sizes) -> Any:
    if hasattr(given, "op") and hasattr(given, "meta"):
        recorded = given.meta.get("val")
        if _is_number(recorded):
            return _number(recorded, sizes, given.name)
        return Ref(items.get(given.name, given.name))
    if isinstance(given, (tuple, list)):
        return tuple(_argument(a, items, sizes) for a in given)
    if given is None or isinstance(given, (bool, int, float, complex, str)):
        return given
    return str(given)


def _value(node: Any, site: str, name: str, sizes: Sizes) -> Value:
    return _recorded(node.meta.get("val"), site, node, name, sizes)


def _recorded(value: Any, site: str, node: Any, name: str, sizes: Sizes) -> Value:
    where = f"{name}: node {node.name!r}"
    if value is None or not hasattr(value, "dtype"):
        raise ImportFailure(f"{where} records no shape; trace the program with fake or example tensors")
    shape = tuple(_number(s, sizes, node.name) for s in value.shape)
    return Value(site, shape, dtype_by_name(value.dtype, where))


def is_hollow(tensor: Any) -> bool:
    """Return whether a tensor is a placeholder: a value inside a transformation of `torch.func`, or one of a trace."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor) or bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def to_numpy(tensor: Any) -> np.ndarray:
    """Convert a tensor to an array; types that numpy lacks are reinterpreted, not converted.

    Raises:
        ImportFailure: the tensor has a shape but no elements, like constants that `torch.export` makes of the values
            inside a transformation of `torch.func`.
    """
    import torch

    if is_hollow(tensor):
        raise ImportFailure(
            "a constant of the program has no elements: torch.export does not see through torch.func.grad and "
            "the like; trace the function with torch.fx.experimental.proxy_tensor.make_fx and import what that gives"
        )
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    name = str(plain.dtype).removeprefix("torch.")
    if name in EXTENDED:
        unsigned = torch.uint16 if plain.element_size() == 2 else torch.uint8
        return np.asarray(plain.view(unsigned).numpy().view(EXTENDED[name]))
    return np.asarray(plain.numpy())
