"""The contract of a rule as test functions, for built-in rules and plug-ins alike.

    from tapestry.rewrites.testing import contract_violations

    def test_my_rule():
        assert contract_violations(MY_RULE, numpy.random.default_rng(0)) == ()

A rule promises that it fires on its example, that every move of it gives a valid graph with equal values
(every bit where the domain is exact, up to rounding where it is real) and changes nothing outside its
neighborhood, that a move which was printed can be replayed, that what is found anew after a move is found
near it, that a saturating rule comes to an end - on the example as given, in random sizes and in other
element types - and that the example distinguishes a wrong copy of the rule from the right one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from tapestry.rewrites.apply import apply_all, apply_move
from tapestry.rewrites.cell_form import INPUT, dim_labels, pointwise
from tapestry.rewrites.duplication import duplicated
from tapestry.rewrites.finding import find
from tapestry.rewrites.fused_form import FusedForm, expanded_steps
from tapestry.rewrites.match import alternatives
from tapestry.rewrites.move import SEVERAL, Move
from tapestry.rewrites.regions import ExpandFused, Fuse, PutWaypoint, Repeat
from tapestry.rewrites.rule import NOTHING, Computed, ExampleSizes, Match, NoOperand, Rule, computed, op
from tapestry.rewrites.rule_contract import RuleContractError, expect, falls, same_values
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.rewrites.worklist import Worklist, find_tied
from tapestry.teg.builder import define
from tapestry.teg.graph import Block, Graph, Tensor, TensorType, attributes
from tapestry.teg.validate import check

OTHER_DTYPES = ("float64", "bfloat16", "float16", "int32", "uint8")


def contract_violations(rule: Rule, rng: np.random.Generator, trials: int = 8) -> tuple[str, ...]:
    """List the errors of a rule, one text per promise that it breaks; empty for a correct one.

    `trials` is the number of random sizes of its example that are tried. Guards, choices and right sides that
    raise count as broken promises.
    """
    promises: tuple[tuple[str, Callable[[], None]], ...] = (
        ("explains itself", lambda: is_documented(rule)),
        ("fires on its example and keeps its promises", lambda: keeps_contract(rule, ExampleSizes(), rng)),
        ("keeps them in random sizes", lambda: _on_random_sizes(rule, rng, trials)),
        ("keeps them for other element types", lambda: _on_other_dtypes(rule, rng)),
        ("differs from a wrong copy on its example", lambda: distinguishes_wrong_copy(rule, rng)),
        ("states that it recomputes shared values", lambda: states_that_it_recomputes(rule)),
    )
    broken = []
    for description, promise in promises:
        try:
            promise()
        except Exception as error:
            broken.append(f"{description}: {' '.join(str(error).split()) or type(error).__name__}")
    return tuple(broken)


def is_documented(rule: Rule) -> None:
    """Check that the doc is a sentence, a blank line, `before -> after`, and why; with source and plain name.

    Raises:
        RuleContractError: it is not.
    """
    first, *rest = rule.doc.splitlines() or [""]
    form = "A sentence about what changes. / (blank) / before -> after / when and why it preserves meaning"
    if not first.endswith(".") or len(rest) < 3 or rest[0] or "->" not in rest[1]:
        raise RuleContractError(rule, f"its doc should read: {form}")
    if not re.fullmatch(r"[\w.-]+", rule.name):
        raise RuleContractError(rule, "its name should be letters, digits, '_', '-' and '.'")
    if not rule.source:
        raise RuleContractError(rule, "its source (paper or law) is missing")


def states_that_it_recomputes(rule: Rule) -> None:
    """Check that the rule states by `duplicates` if it computes again what other readers of its example share.

    Raises:
        RuleContractError: it recomputes shared values and does not state it.
    """
    again = "" if rule.duplicates else duplicated(rule, rule.example(ExampleSizes()))
    expect(rule, not again, f"it recomputes values that others read, and `duplicates` is False: {again}")


def keeps_contract(rule: Rule, size: ExampleSizes, rng: np.random.Generator) -> None:
    """Check that the rule fires on its example and every move keeps every promise.

    Raises:
        RuleContractError: which one it breaks.
        ValueError: the example is not valid, or the rule fails on it.
    """
    graph = rule.example(size)
    check(graph)
    if keeps_contract_on(rule, graph, rng) == 0 and size.rng is None:
        raise RuleContractError(rule, "it does not fire on its example")


def keeps_contract_on(rule: Rule, graph: Graph, rng: np.random.Generator) -> int:
    """Check that every move of a rule on a graph keeps every promise; return the number of moves.

    Raises:
        RuleContractError: which one it breaks.
        ValueError: a move fails, or gives no valid graph.
    """
    rules = {rule.name: rule}
    candidates = Worklist.of(graph, [rule])
    moves = candidates.moves()
    expect(rule, moves == find(graph, [rule]), "its moves depend on how they are looked for")
    if rule.saturating and len(rule.roots) == 1:
        _looks_no_further(rule, graph)
    for move in moves:
        applied = apply_all(graph, [move], rules)
        after = applied.graph
        check(after)
        differs = after.structural_hash != graph.structural_hash or len(after.blocks) != len(graph.blocks)
        # A block may stand where it is put already.
        expect(rule, differs or isinstance(rule.right, Repeat), f"{move} changes nothing")
        same_values(graph, after, rule, rng)
        _neighborhood_only(graph, after, rule, move)
        again = Move.from_json(json.loads(json.dumps(move.to_json())))
        expect(rule, again == move, f"{move} is another move once it was printed and read")
        replayed = apply_move(graph, again, rules).structural_hash
        expect(rule, replayed == after.structural_hash, f"{move} leads elsewhere when it is replayed")
        found = find(after, [rule])
        current = candidates.after(after, applied.changes)
        kept = current.moves() == found and current.tied() == find_tied(after, [rule])
        expect(rule, kept, f"{move}: others are lost after it; does the rule look further than its pattern?")
        if rule.saturating:
            falls(graph, after, rule, move)
    return len(moves)


def _looks_no_further(rule: Rule, graph: Graph) -> None:
    """Check that the rule reads no further than its pattern and its `context_depth` reach, as saturation assumes."""
    tracked = TrackedGraph(graph)
    for block in graph.blocks:
        tracked.clear_reads()
        alternatives(tracked, rule, block.site)
        near = {block.site}
        for _ in range(rule.depth - 1):
            near |= {graph.producers[t].site for s in near for t in graph.by_site[s].inputs}
        for key in tracked.seen():
            tensor = key[0] if isinstance(key, tuple) and key else key
            found = isinstance(tensor, str) and graph.producers[tensor].site in near
            expect(
                rule,
                found,
                f"at {block.site!r} it reads {tensor!r}, beyond the {rule.context_depth} blocks of its `context_depth`",
            )


def distinguishes_wrong_copy(rule: Rule, rng: np.random.Generator) -> None:
    """Check that every move of a copy of the rule with wrong results is noticed on the example.

    A rule with several results has, beside the copy in which all are wrong, one for each result.

    Raises:
        RuleContractError: a wrong copy is not noticed.
    """
    graph = rule.example(ExampleSizes())
    results = [k for k, result in enumerate(rule.results) if not isinstance(result, NoOperand)]
    copies = [wrong(rule), *(wrong(rule, k) for k in (results if len(results) > 1 else ()))]
    for copy in copies:
        moves = find(graph, [copy])
        unnoticed = [move for move in moves if _is_unnoticed(copy, graph, move, rng)]
        # A copy without guard is wrong only where the guard would have said no.
        if unnoticed if results else len(unnoticed) == len(moves):
            raise RuleContractError(
                rule, f"its example gives the same values with a wrong copy: {unnoticed[0]}"
            )


def _is_unnoticed(rule: Rule, graph: Graph, move: Move, rng: np.random.Generator) -> bool:
    try:
        after = apply_move(graph, move, {rule.name: rule})
        check(after)
        same_values(graph, after, rule, rng)
    except (AssertionError, ValueError):
        return False
    return True


def _on_random_sizes(rule: Rule, rng: np.random.Generator, trials: int) -> None:
    for _ in range(trials):
        keeps_contract(rule, ExampleSizes(rng), rng)
    fires_in_some_sizes(rule, rng)


def fires_in_some_sizes(rule: Rule, rng: np.random.Generator, trials: int = 40) -> None:
    """Check that the rule fires on its example in some random size, so that its guard is about more than sizes.

    Raises:
        RuleContractError: in none of `trials`.
    """
    if not any(find(rule.example(ExampleSizes(rng)), [rule]) for _ in range(trials)):
        raise RuleContractError(rule, f"it fires in none of {trials} random sizes of its example")


def _on_other_dtypes(rule: Rule, rng: np.random.Generator) -> None:
    for dtype in OTHER_DTYPES:
        graph = retyped(rule.example(ExampleSizes()), dtype)
        if graph is not None:
            keeps_contract_on(rule, graph, rng)


def _neighborhood_only(before: Graph, after: Graph, rule: Rule, move: Move) -> None:
    """Check that only matched blocks, what only they read, and readers of a rebound result change."""
    kept = [b for b in before.blocks if after.by_site.get(b.site) is b]
    gone = [b for b in before.blocks if after.by_site.get(b.site) is not b]
    new = [b for b in after.blocks if before.by_site.get(b.site) is not b]
    roots = [before.by_site[s] for s in move.places[0].split(SEVERAL)]
    results = {t for b in roots for t in b.outputs}
    # A fused block takes over what others read of the blocks in it.
    absorbed = {t for b in new for t in b.outputs} if isinstance(rule.right, Fuse) else set[str]()
    for b in gone:
        other = after.by_site.get(b.site)
        rebound = other is not None and other.definition is b.definition and results & set(b.inputs)
        dead = other is None and not any(t in after.readers and t not in absorbed for t in b.outputs)
        expect(rule, bool(b in roots or rebound or dead), f"{move} changes {b.site!r}, which lies outside it")
    same = all(after.tensors[t] is before.tensors[t] for b in kept for t in b.outputs)
    expect(rule, same, f"{move} changes tensors outside it")
    fresh = {b.site for b in new} - before.by_site.keys()
    expect(rule, not fresh & before.tensors.keys(), f"{move} gives a new block the name of a tensor")
    others = set(kept) - set(roots)
    order = [b.site for b in after.blocks if b in others]
    if len(roots) == 1 and not isinstance(rule.right, Fuse):
        expect(rule, order == [b.site for b in kept if b in others], f"{move} reorders blocks outside it")


def wrong(rule: Rule, only: int | None = None) -> Rule:
    """Copy the rule with each new result off by one (or `only` that one), or, if none is new, without guard."""
    if all(isinstance(r, NoOperand) for r in rule.results):
        return with_right(rule, NOTHING, when=lambda _: True)
    if isinstance(rule.right, Fuse | ExpandFused):
        right = rule.right if isinstance(rule.right, Fuse) else Fuse()
        return with_right(rule, replace(right, finished=_all_off_by_one))

    if isinstance(rule.right, Repeat):
        return with_right(rule, Repeat(_of_first_input))
    if isinstance(rule.right, PutWaypoint):
        return with_right(rule, replace(rule.right, changed=_one_more))

    def altered(results: Sequence[Any]) -> list[Any]:
        return [_wrong_term(r, k) if only in (None, k) else r for k, r in enumerate(results)]

    if isinstance(rule.right, Computed):
        terms = rule.right.terms
        return with_right(rule, computed(lambda m: altered(terms(m))))
    results = altered(rule.results)
    return with_right(rule, results[0] if len(results) == 1 else tuple(results))


def _wrong_term(result: Any, k: int) -> Any:
    assert not isinstance(result, NoOperand)
    return op("cell", result, given=lambda m: _off_by_one(m, k)).named("wrong")


def _all_off_by_one(form: FusedForm) -> FusedForm:
    """Add one to the outputs of the fused block."""
    _, types = form.define()
    count = len(form.inputs) + sum(len(s.types) for s in expanded_steps(form.define()[0], form.reads))
    cells = tuple(
        ("cell", attributes(**_plus_one(kind)), (v,)) for v, kind in zip(form.outputs, types, strict=True)
    )
    outputs = tuple(range(count, count + len(cells)))
    return replace(form, steps=(*form.steps, *cells), outputs=outputs)


def _of_first_input(block: Block) -> Block:
    """Return a block that adds one to the first input of this one, a cell, instead."""
    shape, labels = block.definition["dims"], block.definition["labels"][0]
    kind = TensorType(tuple(n for _, n in shape), block.definition["dtype"])
    definition, _ = define("cell", attributes(**_plus_one(kind)), [kind])
    assert tuple(name for name, _ in shape) == labels
    return replace(block, definition=definition, inputs=block.inputs[:1])


def _one_more(waypoint: Block) -> Block:
    """Return a block that adds one to what a waypoint passes on."""
    assert waypoint.signature is not None
    shape = tuple(d.size for d in waypoint.signature.dims)
    kind = TensorType(shape, "float32")
    definition, _ = define("cell", attributes(**_plus_one(kind)), [kind])
    return replace(waypoint, definition=definition)


def _off_by_one(m: Match, k: int) -> Mapping[str, Any]:
    return _plus_one(m.result(k))


def _plus_one(kind: TensorType) -> Mapping[str, Any]:
    shape, dtype = kind
    expr = ("not", INPUT) if dtype == "bool" else ("add", INPUT, ("const", 1))
    return pointwise(expr, (dim_labels(len(shape)),), shape, dtype)


def with_right(rule: Rule, right: Any, **changes: Any) -> Rule:
    """Copy the rule with another right side."""
    kept = {f.name: getattr(rule, f.name) for f in fields(rule) if f.init}
    return Rule(**{**kept, "right": right, **changes})


def retyped(graph: Graph, dtype: str) -> Graph | None:
    """Return the graph with `dtype` for float32; None if an operator does not accept it."""
    tensors: dict[str, Tensor] = {}
    blocks: list[Block] = []
    for b in graph.blocks:
        given = {k: dtype if (k, v) == ("dtype", "float32") else v for k, v in b.definition.attributes}
        try:
            definition, types = define(b.operator, attributes(**given), [tensors[t].type for t in b.inputs])
        except (ValueError, OverflowError):
            return None
        tensors.update({t: Tensor(t, *kind) for t, kind in zip(b.outputs, types, strict=True)})
        blocks.append(replace(b, definition=definition))
    data = {t: v.astype(dtype if v.dtype == np.float32 else v.dtype) for t, v in graph.data.items()}
    if any(v.dtype.name != tensors[t].dtype for t, v in data.items()):
        return None
    return Graph(graph.name, tuple(blocks), tensors, data)
