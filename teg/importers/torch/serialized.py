"""Reader of torch's own JSON of an `ExportedProgram`, in `.pt2` archives and in dumps: schema version 5 to 8.

The schema: `torch/_export/serde/schema.py` of PyTorch 2.13. Nothing here needs torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.listing import (
    Extent,
    Input,
    Listing,
    Ref,
    TorchCall,
    dtype_by_code,
    made_unique,
    unique_outputs,
)
from tapestry.teg.importers.torch.sizes import Sizes

OLDEST_SCHEMA, NEWEST_SCHEMA = 5, 8

# Arguments of these kinds are what they are; `as_none` and tensors are distinguished below.
PLAIN = frozenset(
    (
        *("as_int", "as_ints", "as_float", "as_floats", "as_bool", "as_bools", "as_string", "as_strings"),
        *("as_scalar_type", "as_memory_format", "as_layout", "as_int_lists", "as_float_lists", "as_operator"),
    )
)
NUMBER_KINDS = ("as_sym_int", "as_sym_float", "as_sym_bool")
NUMBERS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def read_serialized(
    document: Any,
    name: str,
    data: Mapping[str, np.ndarray] | None = None,
    dims: Mapping[str, int] | None = None,
    extents: Mapping[str, Extent] | None = None,
) -> Listing:
    """Read the program of a serialized `ExportedProgram`; `data` are weights and constants by their names in it.

    `dims` gives numbers to the symbols of sizes that are open; `extents` say where the data are stored.

    Raises:
        ImportFailure: it is of another form or version, has dynamic shapes or inner graphs.
    """
    stated = document.get("schema_version", {}) if isinstance(document, Mapping) else None
    version = stated.get("major", 0) if isinstance(stated, Mapping) else None
    if not isinstance(version, int):
        raise ImportFailure(
            f"{name}: not an exported program as torch serializes it: it states no schema version"
        )
    if not OLDEST_SCHEMA <= version <= NEWEST_SCHEMA:
        raise ImportFailure(
            f"{name} has schema version {version}; read are {OLDEST_SCHEMA} to {NEWEST_SCHEMA}: "
            "export it again with a current PyTorch"
        )
    try:
        sizes = Sizes(dims, name)
        listing = _Reader(document["graph_module"], name, data or {}, extents or {}, sizes).listing()
        sizes.check_all_read()
        return listing
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ImportFailure(f"{name}: not an exported program as torch serializes it: {error!r}") from None


class _Reader:
    """A reader of one graph module of the document."""

    def __init__(
        self,
        module: Mapping[str, Any],
        name: str,
        data: Mapping[str, np.ndarray],
        extents: Mapping[str, Extent],
        sizes: Sizes,
    ) -> None:
        self.name, self.data, self.extents, self.sizes = name, data, extents, sizes
        self.graph, self.signature = module["graph"], module["signature"]
        self.module = module

    def listing(self) -> Listing:
        found = (self._input(*next(iter(spec.items()))) for spec in self.signature["input_specs"])
        inputs, names = made_unique([i for i in found if i is not None])
        nodes = [n for n in self.graph["nodes"] if not _is_about_sizes(n)]
        calls = tuple(self._call(n, k) for k, n in enumerate(nodes))
        outputs: list[tuple[str, str, str | None]] = []
        for spec in self.signature["output_specs"]:
            kind, given = next(iter(spec.items()))
            outputs.extend(self._output(kind, given, names))
        outputs.sort(key=lambda o: o[2] is not None)  # what the user sees first
        return Listing(self.name, inputs, calls, unique_outputs(outputs, {i.value.name for i in inputs}))

    def _size(self, given: Mapping[str, Any], where: str) -> int:
        """Evaluate a size: a number, or an expression over symbols that have numbers."""
        if "as_int" in given:
            return int(given["as_int"])
        return self.sizes.number(str(given["as_expr"]["expr_str"]), where)

    def _value(self, ref: str, name: str) -> Value:
        meta = self.graph["tensor_values"][ref]
        shape = tuple(self._size(s, f"value {ref!r}") for s in meta["sizes"])
        return Value(name, shape, dtype_by_code(meta["dtype"], f"{self.name}: value {ref!r}"))

    def _input(self, kind: str, spec: Mapping[str, Any]) -> Input | None:
        if kind == "user_input":
            argument = spec["arg"]
            if "as_tensor" not in argument:
                if not argument.keys() & {"as_none", "as_int", "as_float", "as_bool", "as_string"}:
                    raise ImportFailure(
                        f"{self.name}: input {argument!r} is no tensor; export it with fixed sizes"
                    )
                return None
            ref = argument["as_tensor"]["name"]
            return Input(ref, self._value(ref, ref), "activation")
        roles = {
            "parameter": ("parameter", "parameter_name"),
            "buffer": ("buffer", "buffer_name"),
            "tensor_constant": ("constant", "tensor_constant_name"),
        }
        if kind not in roles:
            if kind in ("constant_input", "token"):
                return None
            raise ImportFailure(f"{self.name}: inputs of kind {kind!r} are unsupported")
        role, key = roles[kind]
        ref, site = spec["arg"]["name"], spec[key]
        return Input(ref, self._value(ref, site), role, self.data.get(site), self.extents.get(site))

    def _output(
        self, kind: str, spec: Mapping[str, Any], names: Mapping[str, str]
    ) -> Iterator[tuple[str, str, str | None]]:
        argument = spec["arg"]
        if "as_tensors" in argument:
            yield from ((r["name"], r["name"], None) for r in argument["as_tensors"])
            return
        if kind == "user_output" and "as_tensor" not in argument:
            return  # a number or nothing
        ref = argument["as_tensor"]["name"] if "as_tensor" in argument else argument["name"]
        if kind in ("user_output", "loss_output"):
            yield ref, ref, None
        elif kind == "gradient_to_parameter":
            yield f"{spec['parameter_name']}.grad", ref, None
        elif kind == "gradient_to_user_input":
            yield f"{spec['user_input_name']}.grad", ref, None
        elif kind in ("buffer_mutation", "user_input_mutation", "parameter_mutation"):
            state = spec.get("buffer_name", spec.get("parameter_name"))
            site = spec["user_input_name"] if state is None else names[state]
            yield f"{site}.next", ref, site
        elif kind != "token":
            raise ImportFailure(f"{self.name}: outputs of kind {kind!r} are unsupported")

    def _call(self, node: Mapping[str, Any], position: int) -> TorchCall:
        target = node["target"].removeprefix("torch.ops.")
        refs = [r for o in node["outputs"] for r in _tensors_of(o)]
        name = node.get("name") or next((r for r in refs if r), "") or f"call_{position}"
        where = f"node {name!r} ({target})"
        named = {i["name"]: self._argument(i["arg"], where) for i in node["inputs"]}
        outputs = tuple(None if r is None else self._value(r, r) for r in refs)
        strides = {r: s for r in refs if r and (s := self._strides(r)) is not None}
        return TorchCall(name, target, (), named, outputs, strides)

    def _strides(self, ref: str) -> tuple[int, ...] | None:
        found = self.graph["tensor_values"][ref].get("strides") or ()
        return tuple(self._size(s, f"value {ref!r}") for s in found) if found else None

    def _argument(self, given: Mapping[str, Any], where: str) -> Any:
        kind, value = next(iter(given.items()))
        if kind in PLAIN:
            return value if kind != "as_float" or not isinstance(value, str) else NUMBERS[value]
        if kind == "as_none":
            return None
        if kind == "as_tensor":
            return Ref(value["name"])
        if kind == "as_tensors":
            return tuple(Ref(v["name"]) for v in value)
        if kind == "as_optional_tensors":
            return tuple(self._argument(v, where) for v in value)
        if kind == "as_optional_tensor":
            return self._argument(value, where)
        if kind == "as_device":
            return value["type"]
        if kind == "as_complex":
            return complex(value["real"], value["imag"])
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self._number(value, where)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return tuple(self._number(v, where) for v in value)
        if kind == "as_graph":
            raise ImportFailure(f"{self.name}: {where} has an inner graph, which is unsupported")
        raise ImportFailure(f"{self.name}: {where} has an argument of kind {kind!r}, which is unsupported")

    def _number(self, given: Mapping[str, Any], where: str) -> Any:
        """Return a number, or a reference to one that is computed from sizes."""
        kind, value = next(iter(given.items()))
        if kind != "as_name":
            return value
        stated = self.graph.get("sym_int_values", {}).get(value)
        return Ref(value) if stated is None else self._size(stated, where)


def _is_about_sizes(node: Mapping[str, Any]) -> bool:
    """Return whether a call only computes or checks sizes."""
    kinds = {k for o in node["outputs"] for k in o}
    return node["target"].startswith("torch.ops.aten._assert_scalar") or (
        bool(kinds) and kinds <= {*NUMBER_KINDS}
    )


def _tensors_of(output: Mapping[str, Any]) -> Iterator[str | None]:
    kind, value = next(iter(output.items()))
    if kind == "as_tensor":
        yield value["name"]
    elif kind == "as_tensors":
        yield from (v["name"] for v in value)
    elif kind == "as_optional_tensors":
        for v in value:
            yield from _tensors_of(v)
    elif kind == "as_optional_tensor":
        yield from _tensors_of(value)
    else:
        yield None


def looks_serialized(document: Any) -> bool:
    """Return whether a JSON document has the keys of a serialized `ExportedProgram`."""
    return isinstance(document, Mapping) and {"graph_module", "schema_version"} <= document.keys()


def parse_json(content: bytes, name: str) -> Any:
    """Parse the document in `content`; torch writes numbers without a JSON form as `Infinity` and `NaN`.

    Raises:
        ImportFailure: it is no JSON.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ImportFailure(f"{name} is not JSON: {error}") from None
