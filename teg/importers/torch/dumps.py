"""Reader of node lists of joint graphs as JSON: inputs, and nodes with name, op, target, args, kwargs and val."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.listing import Input, Listing, Ref, TorchCall, dtype_by_name, unique_outputs

ROLE_BY_PREFIX = {
    "param": "parameter",
    "parameter": "parameter",
    "buffer": "buffer",
    "const": "constant",
    "constant": "constant",
    "batch": "activation",
    "input": "activation",
}
GETITEM = "<built-in function getitem>"


def read_dump(document: Mapping[str, Any], name: str) -> Listing:
    """Read the program of a node list; `inputs` name its placeholders in order, as `kind:path` for known kinds.

    Kinds are `param`, `buffer`, `const`, `batch`; any other (`adam_m`, `momentum`) is a state of the optimizer.

    Raises:
        ImportFailure: it is no such list.
    """
    try:
        return _read(document, name)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ImportFailure(f"{name}: not a list of nodes as torch.fx has them: {error!r}") from None


def _read(document: Mapping[str, Any], name: str) -> Listing:
    nodes = document["nodes"]
    holders = [n for n in nodes if n["op"] == "placeholder"]
    labels = list(document.get("inputs") or [n["name"] for n in holders])
    if len(labels) != len(holders):
        raise ImportFailure(
            f"{name}: {len(labels)} inputs are named, but there are {len(holders)} placeholders"
        )
    inputs = tuple(_input(n, label) for n, label in zip(holders, labels, strict=True))
    items: dict[str, str] = {}
    calls: list[TorchCall] = []
    found: list[tuple[str, str, str | None]] = []
    for node in nodes:
        if node["op"] == "output":
            flat = _flat(node["args"])
            found.extend(
                (ref, ref, None) for ref in (_argument(a, items).name for a in flat if a is not None)
            )
        elif node["op"] == "call_function" and node["target"] == GETITEM:
            items[node["name"]] = f"{node['args'][0]['node']}.{node['args'][1]}"
        elif node["op"] == "call_function":
            calls.append(read_call(node, items))
        elif node["op"] != "placeholder":
            raise ImportFailure(f"{name}: node {node['name']!r} of kind {node['op']!r} is unsupported")
    outputs = unique_outputs(found, {i.value.name for i in inputs})
    return Listing(name, inputs, tuple(calls), outputs, carries={}, signed=False)


def _input(node: Mapping[str, Any], label: str) -> Input:
    kind, colon, path = label.partition(":")
    role = ROLE_BY_PREFIX.get(kind, "optimizer_state") if colon else "activation"
    site = path if role in ("parameter", "buffer", "constant") and path else label
    return Input(node["name"], read_value(site, node["val"], f"input {label!r}"), role)


def read_value(name: str, recorded: Any, where: str) -> Value:
    """Read the recorded shape and element type of a value.

    Raises:
        ImportFailure: they are no numbers, or the element type is unsupported.
    """
    if not isinstance(recorded, Mapping) or not all(isinstance(s, int) for s in recorded["shape"]):
        raise ImportFailure(f"{where} has no static shape: {recorded!r}; export it with fixed sizes")
    return Value(name, tuple(recorded["shape"]), dtype_by_name(recorded["dtype"], where))


def read_call(node: Mapping[str, Any], items: Mapping[str, str]) -> TorchCall:
    """Read a node that calls an operator; `items` are other names of values, such as those of a call's results."""
    name, recorded = node["name"], node["val"]
    where = f"node {name!r} ({node['target']})"
    if isinstance(recorded, Sequence):
        outputs = tuple(
            None if r is None else read_value(f"{name}.{k}", r, where) for k, r in enumerate(recorded)
        )
    else:
        outputs = () if recorded is None else (read_value(name, recorded, where),)
    args = tuple(_argument(a, items) for a in node["args"])
    kwargs = {k: _argument(a, items) for k, a in node["kwargs"].items()}
    return TorchCall(name, node["target"], args, kwargs, outputs)


def _argument(given: Any, items: Mapping[str, str]) -> Any:
    if isinstance(given, Mapping):
        return Ref(items.get(given["node"], given["node"]))
    if isinstance(given, list):
        return tuple(_argument(a, items) for a in given)
    return given


def _flat(given: Any) -> list[Any]:
    return [x for item in given for x in _flat(item)] if isinstance(given, list) else [given]
