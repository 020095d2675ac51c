"""Replacement of a match by its right side, in a draft: results keep their sites, the rest is unchanged.

A result that becomes a new block keeps its tensor, so its readers are untouched; a result that becomes a
tensor which exists already is read there from now on. New sites say where they come from
(`place~role.digest`); a new block with the operator and index space of the root it replaces keeps the
root's site, and with it what a plan knows about it. What loses its last reader by the move goes with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from tapestry.rewrites.fusing import put_expanded, put_fused
from tapestry.rewrites.match import late_blocks
from tapestry.rewrites.move import Move
from tapestry.rewrites.mutable_graph import MutableGraph
from tapestry.rewrites.regions import Above, ExpandFused, Fuse, PutWaypoint, Repeat
from tapestry.rewrites.repeating import put_repetition
from tapestry.rewrites.rule import (
    Attribute,
    Case,
    Computed,
    Match,
    NoOperand,
    Op,
    Parts,
    Pick,
    Rest,
    Result,
    Rule,
    RuleError,
    Term,
    WholeSide,
)
from tapestry.rewrites.rule import TensorPattern as AnyTensor
from tapestry.rewrites.waypoints import put_waypoint
from tapestry.teg.builder import define
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Block, Definition, Tensor, TensorType, attributes
from tapestry.teg.stored_state import stored_copy


def apply_match(edited: MutableGraph, rule: Rule, match: Match, move: Move) -> None:
    """Replace the blocks that a rule matched, in place.

    Raises:
        RuleError: the right side has no meaning, or another type than the left side.
    """
    before, targets = len(edited.put_in), list[str]()
    if isinstance(rule.right, Fuse):
        prune(edited, put_fused(edited, rule, rule.right, match, move))
    elif isinstance(rule.right, ExpandFused):
        put_expanded(edited, match)
    elif isinstance(rule.right, Repeat):
        put_repetition(edited, rule.right, match)
    elif isinstance(rule.right, PutWaypoint):
        put_waypoint(edited, rule.right, match)
    else:
        targets = _replace(edited, rule, match, move)
    _store_state(edited, (*targets, *(t for block in edited.put_in[before:] for t in block.outputs)))


def _store_state(edited: MutableGraph, tensors: Iterable[str]) -> None:
    """Put a copy before each sink that carries state and reads one of these tensors that is a view.

    It is no work of the rule: whether rules end is measured without it.
    """
    counted = len(edited.put_in), len(edited.taken_out)
    for tensor in dict.fromkeys(tensors):
        if tensor not in edited.producers or not edited.producers[tensor].is_view:
            continue
        for sink, _ in edited.readers[tensor]:
            if sink.definition.carries:
                copy, stored = stored_copy(edited.free_site(f"{sink.site}~stored"), edited.tensors[tensor])
                position = edited.position(sink.site)
                edited.remove(sink.site)
                edited.add(copy, (*position, 0), (stored,))
                edited.add(dataclasses.replace(sink, inputs=(stored.site,)), (*position, 1))
    del edited.put_in[counted[0] :], edited.taken_out[counted[1] :]


def _replace(edited: MutableGraph, rule: Rule, match: Match, move: Move) -> list[str]:
    """Replace the blocks by those of the right side; return the tensors that stand for their results."""
    made = _Construction(edited, rule, match, move)
    try:
        targets = [
            None if isinstance(result, NoOperand) else made.result(k, result)
            for k, result in enumerate(made.results())
        ]
    except RuleError:
        raise
    except Exception as error:
        raise made.fail(f"the right side fails: {error!r}") from error
    olds = [root.outputs[0] for root in match.roots]
    gone = [
        root
        for root, old, new in zip(match.roots, olds, targets, strict=True)
        if new != old or old in made.tensors
    ]
    late = late_blocks(match) if len(match.roots) > 1 and made.blocks else []
    position = edited.position(match.roots[0].site)
    for root in gone:
        edited.remove(root.site)
    order = [*(late or ()), *made.blocks]
    for k, block in enumerate(order):
        at = position if len(order) == 1 else (*position, k)
        if block.site in edited.blocks:
            edited.move(block.site, at)
        else:
            edited.add(block, at, (made.tensors[t] for t in block.outputs))
    for tensor, value in made.data.items():
        edited.know(tensor, value)
    _check_order(edited, made, [(o, n) for o, n in zip(olds, targets, strict=True) if n is not None])
    for root, old, new in zip(match.roots, olds, targets, strict=True):
        if new is not None and new != old:
            for t, equal in _replaced_by(edited, root, new):
                edited.redirect(t, equal)
        for t in root.outputs:
            if t not in edited.producers:
                if edited.readers[t]:
                    raise RuleError(rule.name, f"drops {t!r}, which {edited.readers[t][0][0].site!r} reads")
                edited.clear_reads(t)
    prune(edited, [t for root in gone for t in root.inputs])
    return [t for t in targets if t is not None]


def _replaced_by(edited: MutableGraph, root: Block, new: str) -> Iterable[tuple[str, str]]:
    """Pair the results of a block with what they become if the first is `new`: all of an equal block, else one."""
    producer = edited.producers[new]
    is_equal = (producer.definition, producer.inputs) == (root.definition, root.inputs)
    return zip(root.outputs, producer.outputs, strict=True) if is_equal else [(root.outputs[0], new)]


def _check_order(edited: MutableGraph, made: _Construction, results: Sequence[tuple[str, str]]) -> None:
    """Check that no block reads a tensor that is produced after it; raise an error otherwise."""
    for block in made.blocks:
        for t in block.inputs:
            if t not in edited.producers or not _stands_before(edited, t, block):
                raise made.fail(f"the right side reads {t!r}, which is made below it")
    for old, new in results:
        for reader, _ in edited.readers[old] if new != old else ():
            if new not in edited.producers or not _stands_before(edited, new, reader):
                raise made.fail(f"the result becomes {new!r}, which is made below {reader.site!r}")


def _stands_before(edited: MutableGraph, tensor: str, reader: Block) -> bool:
    return edited.position(edited.producers[tensor].site) < edited.position(reader.site)


def prune(edited: MutableGraph, tensors: Sequence[str]) -> None:
    """Remove the producers of these tensors that have no readers; inputs of the program stay."""
    waiting = list(tensors)
    while waiting:
        t = waiting.pop()
        producer = edited.producers.get(t)
        if (
            producer is None
            or any(edited.readers[o] for o in producer.outputs)
            or not _may_go(edited, producer)
        ):
            continue
        edited.remove(producer.site)
        for o in producer.outputs:
            edited.clear_reads(o)
        waiting.extend(producer.inputs)


def _may_go(edited: MutableGraph, block: Block) -> bool:
    if block.operator == "source":
        return bool(block.definition["role"] == "constant")
    return block.operator != "sink" and edited.is_free(block)


class _Construction:
    """The blocks of a right side, built from the leaves up."""

    def __init__(self, edited: MutableGraph, rule: Rule, match: Match, move: Move) -> None:
        self.edited, self.rule, self.match, self.move = edited, rule, match, move
        self.blocks: list[Block] = []
        self.tensors: dict[str, Tensor] = {}
        self.data: dict[str, np.ndarray] = {}
        self.sites: set[str] = set()
        self.known: dict[Op, str] = {}
        self.made: dict[Parts, tuple[Term, ...]] = {}

    def fail(self, message: str) -> RuleError:
        return RuleError(self.rule.name, f"at {self.move.place!r}: {message}")

    def results(self) -> Sequence[Result]:
        """Return the terms of the right side."""
        right = self.rule.right
        if not isinstance(right, Computed):
            return [r for r in self.rule.results if not isinstance(r, WholeSide)]
        try:
            found = tuple(right.terms(self.match))
        except Exception as error:
            raise self.fail(f"the right side cannot be worked out: {error!r}") from error
        if len(found) != len(self.match.roots):
            raise self.fail(f"the right side makes {len(found)} results instead of {len(self.match.roots)}")
        return found

    def result(self, k: int, term: AnyTensor | Op | Case) -> str:
        """Return the tensor that the k-th result becomes: the old one if a new block produces it."""
        root = self.match.roots[k]
        old = self.edited.tensors[root.outputs[0]]
        term = self.decided(term)
        site = self.value(term, root) if isinstance(term, Op) else self.match[term.name]
        new = self.type_of(site)
        if new != old.type:
            raise self.fail(
                f"the right side has type {new.shape} {new.dtype}, the left side {old.shape} {old.dtype}"
            )
        return str(site)

    def type_of(self, site: str) -> TensorType:
        return (self.tensors[site] if site in self.tensors else self.edited.tensors[site]).type

    def value(self, term: Op, root: Block | None = None) -> str:
        """Build the tensor of an application; `root` is the block whose result it takes over."""
        if term in self.known:
            return self.known[term]
        inputs = [site for operand in term.operands for site in self.operand(operand)]
        try:
            values = {name: self.attribute(value) for name, value in term.attributes}
            if term.given is not None:
                values.update(term.given(self.match))
            definition, types = define(
                term.operator or "", attributes(**values), [self.type_of(t) for t in inputs]
            )
        except Exception as error:
            raise self.fail(f"the right side's {term.operator!r} cannot be built: {error}") from error
        if definition.operator == "sink" or (definition.operator == "source" and term.data is None):
            raise self.fail(
                f"the right side makes a {definition.operator}, which belongs to the program as given"
            )
        role = term.name or definition.operator
        if root is not None and _same_work(definition, root.definition):
            site = root.site
        else:
            site = self.new_site(role, definition, inputs)
        output = site if root is None else root.outputs[0]
        self.sites.add(site)
        self.tensors[output] = Tensor(output, *types[0], self.names_of(output, types[0]))
        if term.data is not None:
            self.data[output] = self.held(term.data, types[0])
        count = max(b.repetition for b in self.match.roots)
        self.blocks.append(Block(site, definition, tuple(inputs), (output,), repetition=count))
        self.known[term] = output
        return output

    def held(self, data: Callable[[Match], np.ndarray], kind: TensorType) -> np.ndarray:
        """Compute and check the values of a new constant."""
        value = data(self.match)
        if (value.shape, value.dtype) != (kind.shape, numpy_dtype(kind.dtype)):
            raise self.fail(
                f"the data of a constant of type {kind.shape} {kind.dtype} is {value.shape} {value.dtype}"
            )
        return np.array(value)

    def names_of(self, output: str, kind: TensorType) -> tuple[str, ...]:
        """Return the dimension names of an output: a tensor that survives a rewrite with its shape keeps them."""
        old = self.edited.tensors.get(output)
        return old.names if old is not None and old.shape == kind.shape else ()

    def decided(self, term: AnyTensor | Op | Case) -> AnyTensor | Op:
        """Resolve a case to the term that its condition chooses."""
        if not isinstance(term, Case):
            return term
        try:
            return term.yes if term.condition(self.match) else term.no
        except Exception as error:
            raise self.fail(f"a case of the right side fails: {error!r}") from error

    def operand(self, term: Term) -> Sequence[str]:
        if isinstance(term, Case):
            term = self.decided(term)
        if isinstance(term, Op):
            return (self.value(term),)
        if isinstance(term, Pick):
            return tuple(term.sites(self.match))
        if isinstance(term, Parts):
            return tuple(site for part in self.made_parts(term) for site in self.operand(part))
        if isinstance(term, Above):
            raise self.fail("`above` belongs to left sides")
        found = self.match[term.name]
        return found if isinstance(term, Rest) else (found,)

    def made_parts(self, term: Parts) -> Sequence[Term]:
        """Build the terms for the match; the same objects however often they are named."""
        if term not in self.made:
            try:
                self.made[term] = tuple(term.terms(self.match))
            except Exception as error:
                raise self.fail(f"the parts of the right side fail: {error!r}") from error
        return self.made[term]

    def attribute(self, value: Any) -> Any:
        if isinstance(value, Attribute):
            return self.match[value.name]
        return value(self.match) if callable(value) else value

    def new_site(self, role: str, definition: Definition, inputs: Sequence[str]) -> str:
        """Build the site name `place~role.digest`: the digest distinguishes all possible results at this place."""
        origin = self.match.roots[0].site.partition("~")[0]
        text = repr((self.move, role, definition.operator, definition.attributes, inputs))
        wanted = f"{origin}~{role}.{blake2b(text.encode(), digest_size=4).hexdigest()}"
        site, k = self.edited.free_site(wanted), 1
        while site in self.sites:
            site, k = self.edited.free_site(f"{wanted}.{k}"), k + 1
        return site


def _same_work(new: Definition, old: Definition) -> bool:
    """Return whether strategies of the old block fit the new one: same operator, same index space."""
    if new.operator != old.operator or new.signature is None or old.signature is None:
        return False
    return new.signature.dims == old.signature.dims
