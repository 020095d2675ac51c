"""Explicit graphs from other writers: blocks with an index range each, pinned to devices; verified and made abstract.

Shards of one block are recognized by their sites, `name@anything`; without that they are those of one definition
whose index ranges do not meet. Every shard must read exactly what its index projects to, from pieces that are
complete; all shards together must tile the index space. Slices, joins and sums between shards disappear; where
shards read whole tensors side by side, a concatenation that no device ran is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tapestry.teg.brief import counted, shown
from tapestry.teg.builder import define
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.evaluate import output_boxes
from tapestry.teg.graph import Attributes, Block, Definition, Graph, TensorType, attributes
from tapestry.teg.issues import Issue, listing
from tapestry.teg.operators.selectors import sliced, view_attributes
from tapestry.teg.sharding.abstraction import (
    Abstract,
    CircularShards,
    ShardGroup,
    Shards,
    SiteBox,
    abstract_graph,
)
from tapestry.teg.sharding.pieces import Piece, Token, made_piece
from tapestry.teg.sharding.tiling import overlap, tiling_fault
from tapestry.teg.signature import PARALLEL, Signature
from tapestry.teg.validate import validate
from tapestry.teg.zspace import ZRange


def is_explicit(graph: Graph) -> bool:
    """Return whether some block states which part of its index space it computes, or where."""
    return any(b.index is not None or b.device is not None for b in graph.blocks)


class ExternalProgram(NamedTuple):
    """The result of verifying an explicit graph: the abstract graph (None if it has issues), and what is wrong.

    `parts` says by site what its sources take and its sinks show of the abstract graph's values; `indices` are
    the different index ranges of the shards of each abstract block.
    """

    abstract: Graph | None
    issues: tuple[Issue, ...]
    parts: Mapping[str, SiteBox]
    indices: Mapping[str, tuple[ZRange, ...]]

    def __repr__(self) -> str:
        return shown("ExternalProgram", (repr(self.abstract), counted(len(self.issues), "issue")))

    def cut(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Cut whole values by abstract source into those of the explicit graph's sources."""
        return {
            site: inputs[part.site][tuple(map(slice, part.box.start, part.box.end))]
            for site, part in self.parts.items()
            if part.site in inputs
        }

    def joined(self, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Join values of the explicit graph's sinks to whole ones by abstract sink."""
        assert self.abstract is not None
        whole = {}
        for sink in self.abstract.sinks:
            (kind,) = self.abstract.input_types(sink)
            whole[sink.site] = np.zeros(kind.shape, numpy_dtype(kind.dtype))
        for site, value in outputs.items():
            part = self.parts[site]
            whole[part.site][tuple(map(slice, part.box.start, part.box.end))] = value
        return whole


def verify_external(graph: Graph) -> ExternalProgram:
    """Verify an explicit graph and find the program that it is a sharding of."""
    issues = validate(graph)
    if issues:
        return ExternalProgram(None, tuple(issues), {}, {})
    reading = _Reading(graph)
    found = reading.run()
    if found is not None:
        reading.issues += validate(found.graph)
    if found is None or reading.issues:
        return ExternalProgram(None, tuple(reading.issues), {}, {})
    return ExternalProgram(found.graph, (), found.parts, found.indices)


def recover_external(graph: Graph) -> Graph:
    """Recover the abstract graph of an explicit one.

    Raises:
        ValueError: the shards do not verify; all issues are listed.
    """
    found = verify_external(graph)
    if found.abstract is None:
        raise ValueError(listing(f"the shards of graph {graph.name!r} do not verify", found.issues))
    return found.abstract


class _Reading:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.groups: list[ShardGroup] = []
        self.by_stem: dict[str, ShardGroup] = {}
        self.alike: dict[tuple[Definition, int], list[ShardGroup]] = {}
        self.pieces: dict[str, Piece] = {}
        self.group_of: dict[str, int] = {}
        self.views: dict[tuple[Token, ZRange], Token] = {}
        self.constants: dict[Attributes, Token] = {}
        self.issues: list[Issue] = []

    def run(self) -> Abstract | None:
        for k, block in enumerate(self.graph.blocks):
            pieces = tuple(self.pieces[t] for t in block.inputs)
            if block.index is not None and block.signature is not None:
                self._shard(k, block, block.index, pieces)
            elif not self._moves(block, pieces):
                self._alone(k, block, pieces)
        for group in list(self.groups):
            self._check(group)
        if self.issues:
            return None
        try:
            return abstract_graph(Shards(self.graph, self.groups, self.group_of, self.pieces))
        except CircularShards as error:
            self.issues.append(error.issue)
            return None

    # Reading blocks.

    def _shard(self, k: int, block: Block, index: ZRange, pieces: tuple[Piece, ...]) -> None:
        group = self._group(block, index, pieces)
        group.shards.append(k)
        group.indices.append(index)
        group.pieces.append(pieces)
        self.group_of[block.site] = group.number
        if group.definition is not block.definition:
            hint = f"give it the definition of {self.graph.blocks[group.shards[0]].site!r}, or another name"
            self._issue(
                "shard", k, f"shard {block.site!r} differs in definition from others of its name", hint
            )
        terms, monoid = _terms(group.definition.signature, index)
        for j, (t, box) in enumerate(zip(block.outputs, output_boxes(block.definition, index), strict=True)):
            self.pieces[t] = Piece((group.number, j), box, terms=terms, monoid=monoid)

    def _group(self, block: Block, index: ZRange, pieces: tuple[Piece, ...]) -> ShardGroup:
        stem, mark, _ = block.site.rpartition("@")
        if mark:
            if stem not in self.by_stem:
                self.by_stem[stem] = self._new(block, stem)
            return self.by_stem[stem]
        signature = block.signature
        assert signature is not None
        alike = self.alike.setdefault((block.definition, block.repetition), [])
        if block.operator not in ("source", "sink") or index != signature.index_range:
            for group in alike:
                twins = (p == pieces for i, p in zip(group.indices, group.pieces, strict=True) if i == index)
                if any(twins) or not any(_meet(index, other) for other in group.indices):
                    return group
        alike.append(self._new(block, None))
        return alike[-1]

    def _new(self, block: Block, stem: str | None) -> ShardGroup:
        outputs = []
        for k, t in enumerate(block.outputs):
            shape = self.graph.tensors[t].shape
            if block.index is not None and block.signature is not None:
                shape = output_boxes(block.definition, block.signature.index_range)[k].shape
            outputs.append(TensorType(shape, self.graph.tensors[t].dtype))
        made = ShardGroup(
            len(self.groups), block.definition, tuple(outputs), stem=stem, repetition=block.repetition
        )
        self.groups.append(made)
        return made

    def _moves(self, block: Block, pieces: tuple[Piece, ...]) -> bool:
        """Return whether a block only moves or combines pieces; then its output is recorded as one."""
        if len(block.outputs) != 1:
            return False
        shape, dtype = self.graph.tensors[block.outputs[0]].type
        piece = made_piece(block.definition, pieces, shape, dtype)
        if piece is None:
            return False
        self.pieces[block.outputs[0]] = self._settled(piece)
        return True

    def _settled(self, piece: Piece) -> Piece:
        """Return the piece, no longer partial if its terms make up the whole reduction."""
        if piece.token is None or not piece.terms:
            return piece
        signature = self.groups[piece.token[0]].definition.signature
        assert signature is not None
        whole = _reduced(signature, signature.index_range)
        done = tiling_fault(list(piece.terms), whole) is None
        return Piece(piece.token, piece.box, piece.flat) if done else piece

    def _alone(self, k: int, block: Block, pieces: tuple[Piece, ...]) -> None:
        """Add a block that is not sharded: it reads whole tensors, or views of them."""
        group = self._new(block, None)
        self.group_of[block.site] = group.number
        inputs = []
        for j, piece in enumerate(pieces):
            token = self._whole(piece)
            if token is None:
                message = f"input {block.inputs[j]!r} is a partial or flattened result"
                self._issue("partial", k, message, "combine the shards' results first", f"inputs[{j}]")
                token = (group.number, 0)
            inputs.append(token)
        group.inputs = tuple(inputs)
        group.shards.append(k)
        for j, t in enumerate(block.outputs):
            box = ZRange.of_shape(self.graph.tensors[t].shape)
            self.pieces[t] = Piece((group.number, j), box)

    def _whole(self, piece: Piece) -> Token | None:
        """Return the abstract tensor that is exactly this piece, or a view of one for a part; None if there is none."""
        if piece.flat is not None or piece.terms or piece.stack or piece.written is not None:
            return None
        if piece.token is None:
            return self._constant(piece)
        full = self._type(piece.token)
        if piece.box == ZRange.of_shape(full.shape):
            return piece.token
        key = (piece.token, piece.box)
        if key not in self.views:
            attrs = view_attributes(sliced(full.shape, piece.box.start, piece.box.end))
            self.views[key] = self._made("view", attrs, (piece.token,))
        return self.views[key]

    def _constant(self, piece: Piece) -> Token:
        assert piece.fill is not None
        value, dtype = piece.fill
        dims = tuple((f"d{k}", n) for k, n in enumerate(piece.box.shape))
        attrs = attributes(expr=("const", value), labels=(), dims=dims, dtype=dtype)
        if attrs not in self.constants:
            self.constants[attrs] = self._made("cell", attrs, ())
        return self.constants[attrs]

    def _made(self, operator: str, attrs: Attributes, inputs: tuple[Token, ...]) -> Token:
        """Add a block that no device ran, but that states what the shards read."""
        definition, outputs = define(operator, attrs, [self._type(t) for t in inputs])
        self.groups.append(ShardGroup(len(self.groups), definition, outputs, inputs=inputs))
        return (len(self.groups) - 1, 0)

    def _type(self, token: Token) -> TensorType:
        return self.groups[token[0]].outputs[token[1]]

    def _issue(self, kind: str, k: int, message: str, expected: str, key: str = "") -> None:
        self.issues.append(Issue(kind, f"$.blocks[{k}]{'.' if key else ''}{key}", message, expected))

    # Proving groups.

    def _check(self, group: ShardGroup) -> None:
        """Check that the shards make up the block, and read exactly what they should."""
        signature = group.definition.signature
        if not group.indices or signature is None:
            return
        first = group.shards[0]
        if not group.definition.is_view:
            fault = tiling_fault(group.indices, signature.index_range)
            if fault is not None:
                names = ", ".join(repr(self.graph.blocks[k].site) for k in group.shards[:4])
                hint = f"the index range is {signature.index_range}"
                self._issue("partition", first, f"shards {names} do not make the whole block: {fault}", hint)
        group.inputs = tuple(self._input(group, signature, j) for j in range(len(signature.inputs)))

    def _input(self, group: ShardGroup, signature: Signature, j: int) -> Token:
        """Return the abstract tensor that all shards read at input `j`."""
        read: dict[Token, ZRange] = {}  # where each tensor lies in the abstract input
        nothing: list[Piece] = []
        for k, index, pieces in zip(group.shards, group.indices, group.pieces, strict=True):
            piece = pieces[j]
            if piece.fill is not None and not piece.box.is_empty:
                piece = Piece(self._constant(piece), piece.box)
            if piece.box.is_empty:
                nothing.append(piece)
                continue
            if piece.token is None or piece.flat is not None or piece.terms or piece.written is not None:
                message = f"input {j} is a partial or flattened result"
                self._issue("partial", k, message, "combine the shards' results first", f"inputs[{j}]")
                continue
            wanted = signature.inputs[j].project(index)
            shape = self._type(piece.token).shape
            offset = tuple(max(w, 0) - b for w, b in zip(wanted.start, piece.box.start, strict=True))
            place = ZRange.of_shape(shape).translate(offset)
            if read.setdefault(piece.token, place) != place:
                message = f"input {j} is {piece.box} of a tensor of which another shard reads elsewhere"
                self._issue("projection", k, message, f"index {index} projects to {wanted}", f"inputs[{j}]")
        if not read:
            known = next((p.token for p in nothing if p.token is not None), None)
            return known or (self._constant(nothing[0]) if nothing else (group.number, 0))
        token, places = next(iter(read)), list(read.values())
        if len(read) > 1:
            return self._beside(group, j, read)
        if any(places[0].start):
            message = f"shards read input {j} moved by {places[0].start}"
            self._issue(
                "projection", group.shards[0], message, "read what the index projects to", f"inputs[{j}]"
            )
        self._check_boxes(group, signature, j, places[0])
        return token

    def _check_boxes(self, group: ShardGroup, signature: Signature, j: int, whole: ZRange) -> None:
        for k, index, pieces in zip(group.shards, group.indices, group.pieces, strict=True):
            wanted = signature.inputs[j].project(index).intersection(whole)
            found = pieces[j].box
            if pieces[j].token is not None and found.shape != wanted.shape:
                message = f"input {j} is {found} of its tensor"
                self._issue("projection", k, message, f"index {index} projects to {wanted}", f"inputs[{j}]")

    def _beside(self, group: ShardGroup, j: int, read: Mapping[Token, ZRange]) -> Token:
        """Concatenate several tensors that shards read side by side to one abstract input."""
        places = sorted(read.items(), key=lambda item: item[1].start)
        whole = ZRange.around(place for _, place in places)
        axes = [d for d in range(whole.rank) if len({(p.start[d], p.end[d]) for _, p in places}) > 1]
        fault = tiling_fault([place for _, place in places], whole)
        if any(whole.start) or len(axes) != 1 or fault is not None:
            message = f"input {j} of its shards mixes {len(read)} tensors that do not lie side by side"
            hint = fault or "they may differ along one axis, from 0 on"
            self._issue("projection", group.shards[0], message, hint, f"inputs[{j}]")
            return places[0][0]
        assert group.definition.signature is not None
        self._check_boxes(group, group.definition.signature, j, whole)
        return self._made("concat", attributes(axis=axes[0]), tuple(token for token, _ in places))


def _terms(signature: Signature | None, index: ZRange) -> tuple[frozenset[ZRange], str | None]:
    """Return the part of the reduction that a shard does, and its monoid; nothing where it does all of it."""
    if signature is None:
        return frozenset(), None
    part, whole = _reduced(signature, index), _reduced(signature, signature.index_range)
    if part == whole:
        return frozenset(), None
    return frozenset([part]), next(d.kind for d in signature.dims if d.kind != PARALLEL)


def _reduced(signature: Signature, index: ZRange) -> ZRange:
    """Restrict an index range to the reduction dimensions."""
    kept = [k for k, d in enumerate(signature.dims) if d.kind != PARALLEL]
    return ZRange(tuple(index.start[k] for k in kept), tuple(index.end[k] for k in kept))


def _meet(a: ZRange, b: ZRange) -> bool:
    return overlap([a, b]) is not None
