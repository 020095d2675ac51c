"""Storage in a narrower float type: the rule by which a program keeps its parameters and activations in it.

One rule holds for every block. What depends on an activation or a parameter is stored in the narrower type; what
comes of integers, constants and buffers alone, such as positions, masks and rotations, stays as it is. A block that
reads a narrower value

- computes in it, where its operator takes it and then gives its results in it: contractions and normalizations still
  accumulate in float32 (`teg.dtypes.accumulation`);
- is an expression over elements: its casts and its result have the narrower type, and its constants lie within that
  type's range, as the least number of a mask;
- else computes as before, between casts.

State that is carried from step to step, as a cache of keys and values, is stored in the narrower type where its next
value is: a step reads what the last one wrote. A counter, which comes of itself and constants, stays. Programs that
carry parameters or an optimizer's state are refused: training keeps these in full precision.

Types that are no wider than the new one stay; a program that is stored so already is the same again. The result is
another program with other types of inputs and outputs: it is verified against itself, and `storage_error` says how far
it is from the one that was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapestry.teg.builder import define
from tapestry.teg.dtypes import bounds, is_float, item_bytes, numpy_dtype
from tapestry.teg.evaluate import evaluate
from tapestry.teg.faults import near_hint, one_of
from tapestry.teg.graph import Attributes, Block, Definition, Graph, Tensor, TensorType, attributes

PRECISIONS = {"bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn"}
NARROWED_ROLES = ("activation", "parameter")
TRAINED_ROLES = ("parameter", "optimizer_state")  # of what training carries from step to step
WITHOUT_INFINITY = ("float8_e4m3fn",)
AS_GIVEN = ("external", "onnx_fallback")  # operators whose attributes state the types of what they read


class StoragePrecisionError(ValueError):
    """Error raised for a program that is not stored in another precision; the message names place and remedy."""


def stored_in(graph: Graph, precision: str) -> Graph:
    """Return the program with parameters and activations stored in `precision`: `bf16`, `fp16` or `fp8` (e4m3).

    Raises:
        StoragePrecisionError: unknown precision, a program that has nothing to store in it, a training step, or values
            of a parameter that lie outside the program.
    """
    if precision not in PRECISIONS:
        hint = near_hint(precision, PRECISIONS)
        raise StoragePrecisionError(f"expected {one_of(tuple(PRECISIONS))}, not {precision!r}; {hint}")
    _check(graph)
    dtype, states = PRECISIONS[precision], frozenset[str]()
    while True:
        pass_ = _Narrowing(graph, dtype, states)
        stored = pass_.run(f"{graph.name}-{precision}")
        if not pass_.narrowed:
            return _unchanged(graph, dtype)
        if (narrowed := pass_.narrowed_states()) == states:
            return stored
        states = narrowed


def _unchanged(graph: Graph, dtype: str) -> Graph:
    """Return a program in which there was nothing to change, if that is because it is stored so already."""
    sources = [s for s in graph.sources if s.definition["role"] in NARROWED_ROLES]
    if any(graph.tensors[source.outputs[0]].dtype == dtype for source in sources):
        return graph
    raise StoragePrecisionError(
        f"program {graph.name!r} has no parameter or activation that is wider than {dtype}"
    )


def storage_error(graph: Graph, stored: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Compute by output how far a program in another precision is from the given one: max |a - b| / max |b|.

    `inputs` are values for the given program; the other one reads them in its own types. Infinite where an output is
    not finite that should be.
    """
    expected = evaluate(graph, inputs)
    own = {
        source.site: _converted(np.asarray(inputs[source.site]), stored.tensors[source.outputs[0]].dtype)
        for source in stored.sources
        if source.site in inputs
    }
    found = evaluate(stored, own)
    return {site: _distance(found[site], value) for site, value in expected.items()}


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    wide = np.complex128 if np.iscomplexobj(b) else np.float64
    a, b = a.astype(wide), b.astype(wide)
    finite = np.isfinite(b)
    if not np.isfinite(a[finite]).all():
        return float("inf")
    largest = float(np.abs(b[finite]).max(initial=0.0))
    difference = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    return difference / largest if largest else difference


def _check(graph: Graph) -> None:
    """Check that a program is no step of training."""
    carried = {source.site for source in graph.carriers.values()}
    for source in graph.sources:
        role = source.definition["role"]
        if role == "optimizer_state" or (role in TRAINED_ROLES and source.site in carried):
            raise StoragePrecisionError(
                f"program {graph.name!r} is a step of training: it carries {source.site!r} ({role.replace('_', ' ')}) "
                "from step to step, in full precision; give the program of inference, or choose compute_dtype alone"
            )


def _converted(array: np.ndarray, dtype: str) -> np.ndarray:
    """Convert an array; what is beyond the range of a narrower type becomes its largest number."""
    if array.dtype == numpy_dtype(dtype):
        return array
    low, high = bounds(dtype)
    converted: np.ndarray = np.clip(array, low, high).astype(numpy_dtype(dtype))
    return converted


class _Narrowing:
    """A pass over the blocks in program order; `narrowed` are the tensors in the new type so far.

    `states` are the sites of sources of carried state that are stored in it.
    """

    def __init__(self, graph: Graph, dtype: str, states: frozenset[str]) -> None:
        self.graph, self.dtype, self.states = graph, dtype, states
        self.blocks: list[Block] = []
        self.tensors: dict[str, Tensor] = {}
        self.data = dict(graph.data)
        self.narrowed: set[str] = set()
        self.casts: dict[tuple[str, str], str] = {}
        self.taken = {*graph.by_site, *graph.tensors}

    def run(self, name: str) -> Graph:
        for block in self.graph.blocks:
            if block.operator == "source":
                self._source(block)
            elif not self.narrowed.intersection(block.inputs):
                self._keep(block)
            elif block.operator == "cell" and self._cell(block):
                continue
            elif not self._whole(block):
                self._between_casts(block)
        return Graph(name, tuple(self.blocks), self.tensors, self.data, self.graph.external)

    def narrowed_states(self) -> frozenset[str]:
        """Return the sites of the sources of carried state whose next value is in the new type."""
        next_values = ((self.graph.by_site[s].inputs[0], source) for s, source in self.graph.carriers.items())
        return frozenset(source.site for value, source in next_values if value in self.narrowed)

    def _is_wide(self, dtype: str) -> bool:
        return is_float(dtype) and item_bytes(dtype) > item_bytes(self.dtype)

    def _source(self, block: Block) -> None:
        (site,) = block.outputs
        is_narrowed = block.definition["role"] in NARROWED_ROLES or block.site in self.states
        if not (is_narrowed and self._is_wide(self.graph.tensors[site].dtype)):
            self._keep(block)
            return
        if site in self.graph.external:
            raise StoragePrecisionError(
                f"the values of {site!r} lie outside program {self.graph.name!r} and cannot be converted: import the "
                "program with its values inside, or without them"
            )
        attrs = _with(block.definition.attributes, dtype=self.dtype)
        self._put(block, attrs, (), *self._defined("source", attrs, (), block))
        if site in self.data:
            self.data[site] = _converted(self.data[site], self.dtype)
            self.data[site].setflags(write=False)

    def _keep(self, block: Block) -> None:
        self.blocks.append(block)
        self.tensors.update((t, self.graph.tensors[t]) for t in block.outputs)

    def _cell(self, block: Block) -> bool:
        """Store an expression's result in the new type; false where it has no meaning on these types."""
        before = self.graph.tensors[block.outputs[0]].dtype
        dtype = self.dtype if self._is_wide(before) else before
        expr = self._within(block.definition["expr"])
        is_mixed = any(t not in self.narrowed for t in block.inputs)
        if dtype in WITHOUT_INFINITY and is_mixed:
            low, high = bounds(dtype)
            expr = ("min", ("max", expr, ("const", low)), ("const", high))
        attrs = _with(block.definition.attributes, expr=expr, dtype=dtype)
        try:
            definition, types = self._defined("cell", attrs, self._types(block.inputs), block)
        except ValueError:
            return False
        self._put(block, attrs, block.inputs, definition, types)
        return True

    def _within(self, expr: Any) -> Any:
        """Replace the casts of an expression to wide types, and bring its constants into the range of the new one."""
        name = expr[0]
        if name == "const":
            value = expr[1]
            if isinstance(value, bool) or not isinstance(value, float):
                return expr
            low, high = bounds(self.dtype)
            is_kept = np.isnan(value) or (np.isinf(value) and self.dtype not in WITHOUT_INFINITY)
            return expr if is_kept else ("const", min(max(value, low), high))
        if name in ("input", "index", "bitcast"):
            return expr
        if name == "cast":
            wanted = self.dtype if self._is_wide(expr[1]) else expr[1]
            return ("cast", wanted, self._within(expr[2]))
        return (name, *(self._within(part) for part in expr[1:]))

    def _whole(self, block: Block) -> bool:
        """Let a block compute on the new type as a whole; false where its operator does not."""
        if block.operator in AS_GIVEN:
            return False
        inputs = [self._as(t, self.dtype) if self._is_wide(self._type(t).dtype) else t for t in block.inputs]
        wanted = tuple(
            TensorType(t.shape, self.dtype) if self._is_wide(t.dtype) else t
            for t in self.graph.output_types(block)
        )
        attrs = block.definition.attributes
        try:
            definition, types = self._defined(block.operator, attrs, self._types(inputs), block)
        except ValueError:
            return False
        if types != wanted:
            return False
        self._put(block, attrs, inputs, definition, types)
        return True

    def _between_casts(self, block: Block) -> None:
        """Let a block compute on what it did, from casts, and cast what it gives."""
        inputs = tuple(
            self._as(t, self.graph.tensors[t].dtype) if t in self.narrowed else t for t in block.inputs
        )
        outputs = []
        for t in block.outputs:
            tensor = self.graph.tensors[t]
            is_cast = self._is_wide(tensor.dtype)
            outputs.append(self._free(f"{t}.{tensor.dtype}") if is_cast else t)
            self.tensors[outputs[-1]] = replace(tensor, site=outputs[-1])
        self.blocks.append(replace(block, inputs=inputs, outputs=tuple(outputs)))
        for made, t in zip(outputs, block.outputs, strict=True):
            if made != t:
                self._cast(made, self.dtype, t)

    def _as(self, t: str, dtype: str) -> str:
        """Return tensor `t` in a type, by a cast that its readers share."""
        if self._type(t).dtype == dtype:
            return t
        if (t, dtype) not in self.casts:
            self.casts[t, dtype] = self._cast(t, dtype, self._free(f"{t}.{dtype}"))
        return self.casts[t, dtype]

    def _cast(self, source: str, dtype: str, result: str) -> str:
        shape, names = self._type(source).shape, self.tensors[source].names
        dims = tuple((f"d{k}", size) for k, size in enumerate(shape))
        expr: Any = ("input", 0)
        if dtype in WITHOUT_INFINITY:
            low, high = bounds(dtype)
            expr = ("min", ("max", expr, ("const", low)), ("const", high))
        attrs = attributes(expr=expr, labels=(tuple(name for name, _ in dims),), dims=dims, dtype=dtype)
        definition, (kind,) = define("cell", attrs, (self._type(source),))
        self.blocks.append(Block(self._free(f"{result}.cast"), definition, (source,), (result,)))
        self.tensors[result] = Tensor(result, kind.shape, kind.dtype, names)
        if dtype == self.dtype:
            self.narrowed.add(result)
        return result

    def _defined(
        self, operator: str, attrs: Attributes, inputs: Sequence[TensorType], block: Block
    ) -> tuple[Definition, tuple[TensorType, ...]]:
        """Define a block anew; one without signature stays fixed, and costs of the program's own stay."""
        definition, types = define(operator, attrs, inputs)
        signature = None if block.definition.signature is None else definition.signature
        return Definition(operator, attrs, signature, block.definition.costs), types

    def _put(
        self,
        block: Block,
        attrs: Attributes,
        inputs: Sequence[str],
        definition: Definition,
        types: Sequence[TensorType],
    ) -> None:
        self.blocks.append(replace(block, definition=definition, inputs=tuple(inputs)))
        for t, kind in zip(block.outputs, types, strict=True):
            self.tensors[t] = replace(self.graph.tensors[t], dtype=kind.dtype)
            if kind.dtype == self.dtype != self.graph.tensors[t].dtype:
                self.narrowed.add(t)

    def _type(self, t: str) -> TensorType:
        return self.tensors[t].type

    def _types(self, sites: Sequence[str]) -> tuple[TensorType, ...]:
        return tuple(map(self._type, sites))

    def _free(self, wanted: str) -> str:
        """Return a site that neither program has: the wanted one, or with a number."""
        site, k = wanted, 0
        while site in self.taken:
            k += 1
            site = f"{wanted}.{k}"
        self.taken.add(site)
        return site


def _with(attrs: Attributes, **changed: Any) -> Attributes:
    """Return attributes with other values for some."""
    return attributes(**(dict(attrs) | changed))
