"""Precomputation of what depends on parameters only: once, before the program runs.

An inference program is split in two parts. Its parameters do not change from run to run. Folded weights, merged
biases, rotated tables of positions are functions of them alone; a program that computes them in every run pays for
it in every run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tapestry.teg.builder import define
from tapestry.teg.graph import Block, Graph, Tensor, attributes

# Roles of inputs that are the same in every run, unless the program itself makes their next value.
PERSISTENT_ROLES = ("parameter", "buffer", "constant")


class Prepared(NamedTuple):
    """A program in two parts: `before` is evaluated once, its outputs are inputs of `program`.

    Such an input has the site of the tensor in the undivided program; the corresponding sink of `before` has that
    site with `.prepared` appended.
    """

    program: Graph
    before: Graph


def prepared(graph: Graph) -> Prepared | None:
    """Split the program into two parts; None if no computed value depends on lasting inputs alone.

    The outputs of `before` are held in memory from then on, so folding should come first: smaller tensors cross.
    """
    settled, reading = _settled(graph)
    late = [b for b in graph.blocks if not settled.get(b.site)]
    read = {t for b in late for t in b.inputs}
    crossing = [
        t
        for b in graph.blocks
        if b.site in reading and b.operator != "source"
        for t in b.outputs
        if t in read
    ]
    if not crossing:
        return None
    return Prepared(_program(graph, crossing), _before(graph, crossing))


def _settled(graph: Graph) -> tuple[dict[str, bool], set[str]]:
    """Find the blocks that depend on lasting inputs alone, and those that do read one (others: generators)."""
    carried = {b.definition.get("carries") for b in graph.blocks if b.operator == "sink"}
    settled: dict[str, bool] = {}
    reading: set[str] = set()
    for b in graph.blocks:
        producers = [graph.producers[t].site for t in b.inputs]
        if b.operator == "source":
            settled[b.site] = b.definition["role"] in PERSISTENT_ROLES and b.site not in carried
            if settled[b.site]:
                reading.add(b.site)
        else:
            free = b.device is None and b.index is None and b.operator not in ("sink", "sequence_point")
            settled[b.site] = free and all(settled[m] for m in producers)
            if settled[b.site] and any(m in reading for m in producers):
                reading.add(b.site)
    return settled, reading


def _program(graph: Graph, crossing: Sequence[str]) -> Graph:
    """Build the remaining program: crossing tensors are parameters. The sinks determine what is needed."""
    made = [_input(graph.tensors[t]) for t in crossing]
    needed = _needed(graph, [t for b in graph.blocks if b.operator == "sink" for t in b.inputs], crossing)
    blocks = (
        b for b in graph.blocks if b.site in needed or b.operator in ("sink", "sequence_point") or _is_kept(b)
    )
    return _graph(graph, graph.name, (*made, *blocks))


def _is_kept(block: Block) -> bool:
    """Return whether the block is an input that is not lasting: it stays, since callers give it a value."""
    return block.operator == "source" and block.definition["role"] not in PERSISTENT_ROLES


def _before(graph: Graph, crossing: Sequence[str]) -> Graph:
    """Build the part that is evaluated once, with a sink for each tensor that crosses."""
    needed = _needed(graph, crossing, ())
    sinks = tuple(_output(graph.tensors[t]) for t in crossing)
    blocks = tuple(b for b in graph.blocks if b.site in needed)
    return _graph(graph, f"{graph.name}.before", (*blocks, *sinks))


def _needed(graph: Graph, tensors: Sequence[str], known: Collection[str]) -> set[str]:
    """Find the blocks needed to compute these tensors, as far as they are not known."""
    waiting, found = list(tensors), set[str]()
    while waiting:
        t = waiting.pop()
        producer = graph.producers[t]
        if t not in known and producer.site not in found:
            found.add(producer.site)
            waiting.extend(producer.inputs)
    return found


def _input(tensor: Tensor) -> Block:
    shape, dtype = tensor.type
    definition, _ = define("source", attributes(shape=shape, dtype=dtype, role="parameter"), ())
    return Block(tensor.site, definition, (), (tensor.site,))


def _output(tensor: Tensor) -> Block:
    definition, _ = define("sink", (), (tensor.type,))
    return Block(f"{tensor.site}.prepared", definition, (tensor.site,), ())


def _graph(graph: Graph, name: str, blocks: Sequence[Block]) -> Graph:
    tensors = {t: graph.tensors[t] for b in blocks for t in b.outputs}
    data = {t: v for t, v in graph.data.items() if t in tensors}
    external = {t: named for t, named in graph.external.items() if t in tensors}
    return Graph(name, tuple(blocks), tensors, data, external)
