"""Import of a Loom graph as a program: operations become blocks, their shards are checked and then left out.

Tensors begin at 0 here, so ranges and projections are shifted to that. A tensor that no operation makes is a
source; where no operation exports, every tensor without readers is observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.document import MAX_BYTES
from tapestry.teg.encoding import MalformedError, decode_value
from tapestry.teg.graph import Graph, TensorType, attributes
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.loom.constraints import constraint_issues
from tapestry.teg.importers.loom.kernels import Application, kernel_named
from tapestry.teg.importers.loom.model import (
    LoomNode,
    OperationBody,
    Selection,
    Selections,
    TensorBody,
    parse,
)
from tapestry.teg.issues import Issue, listing
from tapestry.teg.jsontext import parse as parse_text
from tapestry.teg.operators.external import external_attributes
from tapestry.teg.operators.selectors import sliced, view_attributes
from tapestry.teg.signature import IndexDim, Signature
from tapestry.teg.zspace import IndexProjection, ZRange

IMPORTS = ("op:import", "import", "source")
EXPORTS = ("op:export", "export", "sink")
OWN = "teg:"
# Objects take two levels of an attribute, which has at most 200.
DEEPEST = 90


class InvalidLoom(ImportFailure):
    """Error raised for a Loom graph that violates constraints: `issues` holds all of them, the text the first ten."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__(listing("the Loom graph is not valid", issues))
        self.issues = tuple(issues)


def import_loom(source: str | Path | bytes | Mapping[str, Any], name: str | None = None) -> Graph:
    """Import a Loom document; see `teg.importers.from_loom`."""
    obj = source if isinstance(source, Mapping) else _values(source)
    loom, issues = parse(dict(obj) if isinstance(obj, Mapping) else obj)
    issues = [*issues, *constraint_issues(loom)]
    if issues:
        raise InvalidLoom(issues)
    return _Reading(loom.nodes, name or loom.id or "loom").run()


def _values(source: str | Path | bytes) -> Any:
    try:
        if isinstance(source, bytes) or (isinstance(source, str) and source.lstrip()[:1] == "{"):
            return parse_text(source)
        with Path(source).open("rb") as file:
            size = Path(source).stat().st_size
            content = file.read(MAX_BYTES + 1) if size <= MAX_BYTES else b""
    except OSError as error:
        raise ImportFailure(f"{source!s}: {error.strerror or error}") from None
    except MalformedError as problem:
        raise InvalidLoom([problem.issue]) from None
    if max(size, len(content)) > MAX_BYTES:
        raise ImportFailure(f"{source!s}: more than {MAX_BYTES} bytes")
    return _values(content)


class _Reading:
    def __init__(self, nodes: Sequence[LoomNode], name: str) -> None:
        self.tensors = {n.id: (n, n.body) for n in nodes if isinstance(n.body, TensorBody)}
        self.operations = {n.id: (n, n.body) for n in nodes if isinstance(n.body, OperationBody)}
        self.builder = GraphBuilder(name)
        self.sites: dict[str, str] = {}  # of tensors, by id
        self.parts: dict[tuple[str, ZRange], str] = {}
        self.exports = 0

    def run(self) -> Graph:
        made = self._producers()
        for tensor in self.tensors:
            if tensor not in made:
                self._source(tensor, {})
        for name in self._order(made):
            self._operation(name)
        read = {s.tensor for _, body in self.operations.values() for s in _flat(body.inputs)}
        if not self.exports:
            for tensor, (node, _) in self.tensors.items():
                if tensor not in read:
                    self.builder.sink(self.sites[tensor], site=f"{node.label or tensor}.out")
        return self.builder.build()

    def _producers(self) -> dict[str, str]:
        made: dict[str, str] = {}
        for name, (node, body) in self.operations.items():
            for selection in _flat(body.outputs):
                tensor = self.tensors[selection.tensor][1]
                if selection.range != tensor.range or selection.tensor in made:
                    raise ImportFailure(
                        f"operation {_label(node)} makes {selection.range} of tensor {selection.tensor!r}, whose "
                        f"range is {tensor.range}: a tensor is made whole, by one operation"
                    )
                made[selection.tensor] = name
        return made

    def _order(self, made: Mapping[str, str]) -> list[str]:
        needs = {
            name: {made[s.tensor] for s in _flat(body.inputs) if s.tensor in made}
            for name, (_, body) in self.operations.items()
        }
        try:
            return list(TopologicalSorter(needs).static_order())
        except CycleError as error:  # pragma: no cover - the constraints forbid it
            raise ImportFailure(f"operations form a cycle: {error.args[1]}") from None

    def _operation(self, name: str) -> None:
        node, body = self.operations[name]
        inputs, outputs = _flat(body.inputs), _flat(body.outputs)
        try:
            if body.kernel in IMPORTS and not inputs:
                for selection in outputs:
                    self._source(selection.tensor, body.params or {})
            elif body.kernel in EXPORTS and not outputs:
                self._sinks(node, body)
            else:
                self._block(node, body, tuple(self._part(s) for s in inputs), outputs)
        except (ValueError, MalformedError) as error:
            if isinstance(error, ImportFailure):
                raise
            raise ImportFailure(f"operation {_label(node)} ({body.kernel}): {error}") from error

    def _source(self, tensor: str, params: Mapping[str, Any]) -> None:
        node, body = self.tensors[tensor]
        specified = {"role": "activation", **_known(params, ("role", "logical_shape"))}
        attrs = attributes(shape=body.range.shape, dtype=body.dtype, **specified)
        self.sites[tensor] = self.builder.add("source", (), attrs, site=node.label or tensor)[0]

    def _sinks(self, node: LoomNode, body: OperationBody) -> None:
        self.exports += 1
        specified = _known(body.params or {}, ("carries", "logical_shape"))
        for selection in _flat(body.inputs):
            part = self._part(selection)
            self.builder.add("sink", (part,), attributes(**specified), site=node.label or f"{part}.out")

    def _block(
        self, node: LoomNode, body: OperationBody, inputs: tuple[str, ...], outputs: Sequence[Selection]
    ) -> None:
        wanted = self.builder.free_site(
            self.tensors[outputs[0].tensor][0].label or node.id if outputs else node.id
        )
        kinds = [self._type(s) for s in outputs]
        kernel = kernel_named(body.kernel, len(inputs)) if len(outputs) == 1 else None
        if body.kernel.startswith(OWN):
            made = self._own(body, inputs, wanted)
        elif kernel is not None:
            made = (kernel(Application(self.builder, wanted, inputs, *kinds[0])),)
        else:
            made = self._external(node, body, inputs, kinds, wanted)
        for selection, site, kind in zip(outputs, made, kinds, strict=True):
            found = self.builder.tensors[site].type
            if found != kind:
                raise ValueError(
                    f"makes {found.dtype}{list(found.shape)}, not {kind.dtype}{list(kind.shape)}"
                )
            self.sites[selection.tensor] = site
        if node.is_sequence_point:
            self.builder.sequence_point((self.builder.blocks[-1].site,), site=f"{wanted}.point")

    def _own(self, body: OperationBody, inputs: tuple[str, ...], site: str) -> tuple[str, ...]:
        attrs = attributes(**{k: decode_value(v, f"$.params.{k}") for k, v in (body.params or {}).items()})
        return self.builder.add(body.kernel.removeprefix(OWN), inputs, attrs, site=site)

    def _external(
        self,
        node: LoomNode,
        body: OperationBody,
        inputs: tuple[str, ...],
        kinds: Sequence[TensorType],
        site: str,
    ) -> tuple[str, ...]:
        reads = [self.builder.tensors[t].type for t in inputs]
        params = _frozen(body.params) if body.params else None
        attrs = external_attributes(body.kernel, reads, kinds, self._signature(node, body), params)
        return self.builder.add("external", inputs, attrs, site=site)

    def _signature(self, node: LoomNode, body: OperationBody) -> Signature | None:
        """Build the operation's signature over an index that begins at 0, onto tensors that do; None without one."""
        if node.signature is None or node.index is None:
            return None
        index = node.index
        dims = tuple(IndexDim(f"d{k}", n) for k, n in enumerate(index.shape))
        sides = []
        for specified, ports in (
            (body.inputs, node.signature.inputs),
            (body.outputs, node.signature.outputs),
        ):
            moved = [
                _moved(projection, index, selection)
                for name, selections in (specified or {}).items()
                for selection, projection in zip(selections, ports[name], strict=True)
            ]
            sides.append(tuple(moved))
        return Signature(dims, *sides)

    def _part(self, selection: Selection) -> str:
        """Return the tensor that holds a selection: the tensor itself, or a view of a part of it."""
        site, body = self.sites[selection.tensor], self.tensors[selection.tensor][1]
        if selection.range == body.range:
            return site
        key = (selection.tensor, selection.range)
        if key not in self.parts:
            low = [s - t for s, t in zip(selection.range.start, body.range.start, strict=True)]
            high = [s - t for s, t in zip(selection.range.end, body.range.start, strict=True)]
            view = view_attributes(sliced(body.range.shape, low, high))
            self.parts[key] = self.builder.add("view", (site,), view, site=f"{site}.part")[0]
        return self.parts[key]

    def _type(self, selection: Selection) -> TensorType:
        body = self.tensors[selection.tensor][1]
        return TensorType(body.range.shape, body.dtype)


def _moved(projection: IndexProjection, index: ZRange, selection: Selection) -> IndexProjection:
    start = projection.start.apply(index.start)
    low = projection.start.apply((0,) * index.rank)
    by = tuple(s - o - t for s, o, t in zip(start, low, selection.range.start, strict=True))
    return projection.translate(by)


def _flat(ports: Selections | None) -> list[Selection]:
    return [s for selections in (ports or {}).values() for s in selections]


def _known(params: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Decode the parameters of an import or export that are known here."""
    return {k: decode_value(params[k], f"$.params.{k}") for k in names if k in params}


def _frozen(value: Any, depth: int = 0) -> Any:
    """Convert JSON to an attribute: objects become tuples of pairs."""
    if depth > DEEPEST:
        raise ValueError(f"parameters are nested deeper than {DEEPEST} levels")
    if isinstance(value, Mapping):
        return tuple((k, _frozen(v, depth + 1)) for k, v in value.items())
    if isinstance(value, list):
        return tuple(_frozen(v, depth + 1) for v in value)
    return value


def _label(node: LoomNode) -> str:
    return repr(node.label or node.id)
