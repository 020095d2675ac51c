"""Replacement of matched blocks by one fused block, and of a fused block by the blocks of its steps.

All tensors that stay keep their sites, so their readers are untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from tapestry.rewrites.fused_form import expanded_steps, region
from tapestry.rewrites.move import Move
from tapestry.rewrites.mutable_graph import MutableGraph
from tapestry.rewrites.regions import Fuse
from tapestry.rewrites.rule import Match, Rule, RuleError
from tapestry.teg.graph import Block, Definition, Tensor


def put_fused(edited: MutableGraph, rule: Rule, right: Fuse, match: Match, move: Move) -> list[str]:
    """Put a fused block in the place of the matched blocks; return the tensors that may have lost a reader.

    Raises:
        RuleError: the matched blocks cannot be one.
    """
    whole = region(match.edited, match.roots, match.blocks, right.recomputes, right.joined)
    late = whole.late_inputs()
    if late is None:
        raise RuleError(rule.name, f"at {move.place!r}: what it reads needs what it makes")
    try:
        form = right.finished(whole.form())
        definition, types = form.define()
    except Exception as error:
        raise RuleError(rule.name, f"at {move.place!r}: the blocks cannot be one: {error}") from error
    tensors = [edited.tensors[t] for t in form.sites]
    if tuple(t.type for t in tensors) != types:
        raise RuleError(rule.name, f"at {move.place!r}: the fused block makes {types} for {form.sites}")
    replaced = whole.replaced
    position = edited.position(replaced[0].site)
    site = _site(edited, match.roots[0].site, "fused", definition, form.reads)
    gone = dict.fromkeys([*replaced, *whole.roots])
    for block in gone:
        edited.remove(block.site)
    _move(edited, late, position)
    count = max(b.repetition for b in gone)
    fused = Block(site, definition, form.reads, form.sites, repetition=count)
    edited.add(fused, (*position, len(late)), tensors)
    for t in (t for block in gone for t in block.outputs if t not in form.sites):
        edited.clear_reads(t)
    return [t for block in gone for t in block.inputs if t in edited.tensors]


def put_expanded(edited: MutableGraph, match: Match) -> None:
    """Replace a fused block by its steps."""
    (fused,) = match.roots
    steps = expanded_steps(fused.definition, fused.inputs)
    position = edited.position(fused.site)
    edited.remove(fused.site)
    made: list[tuple[str, ...]] = []
    for k, (definition, reads, types, results) in enumerate(steps):
        inputs = [made[r[0]][r[1]] if isinstance(r, tuple) else r for r in reads]
        site = _site(edited, fused.site, definition.operator, definition, inputs)
        outputs = tuple(
            fused.outputs[o] if o >= 0 else (site if j == 0 else f"{site}#{j}") for j, o in enumerate(results)
        )
        tensors = [
            edited.tensors[t] if o >= 0 else Tensor(t, *kind)
            for t, o, kind in zip(outputs, results, types, strict=True)
        ]
        step = Block(site, definition, tuple(inputs), outputs, repetition=fused.repetition)
        edited.add(step, (*position, k), tensors)
        made.append(outputs)


def _move(edited: MutableGraph, late: Sequence[Block], position: tuple[int, ...]) -> None:
    for k, block in enumerate(late):
        edited.move(block.site, (*position, k))


def _site(edited: MutableGraph, place: str, role: str, definition: Definition, inputs: Sequence[str]) -> str:
    """Build the site name `place~role.digest`: the digest distinguishes all possible results at this place."""
    text = repr((definition.operator, definition.attributes, tuple(inputs)))
    digest = blake2b(text.encode(), digest_size=4).hexdigest()
    return edited.free_site(f"{place.partition('~')[0]}~{role}.{digest}")
