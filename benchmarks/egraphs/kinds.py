"""Kinds of e-nodes, apart from their operands: interned definitions over operand types, by number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware.mesh import Mesh
from tapestry.teg.builder import GraphBuilder, define
from tapestry.teg.graph import Block, Definition, Graph, Tensor, TensorType, attributes

UNTHINKABLE = 10**17
FREE = ("source", "sink", "result", "outputs")


class ENodeKind(NamedTuple):
    """A definition, the types of its operands and of its results; `site` distinguishes sources."""

    definition: Definition
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    site: str = ""

    @property
    def constructor(self) -> str:
        """The name of its e-nodes: operator and number of operands; several results are hidden from the rules."""
        several = "_several" if len(self.outputs) > 1 else ""
        return constructor_of(f"{self.definition.operator}{several}", len(self.inputs))


def constructor_of(operator: str, operands: int) -> str:
    """Return the name of an operator's e-nodes with so many operands.

    Like all names that egglog gets from us it ends in a letter. egglog 13 makes names of its own by appending a
    counter to ours: of `$a25` and `$a252` both becomes `$a252`, and a term reads another one's result.
    """
    return f"{re.sub('[^A-Za-z0-9]', '_', operator)}_{operands}x"


@lru_cache(maxsize=1 << 16)
def renamed(definition: Definition, inputs: tuple[TensorType, ...]) -> Definition:
    """Rename the dimensions of a contraction in order of appearance: names mean nothing."""
    if definition.operator != "contract" or definition.costs is not None:
        return definition
    labels = definition["labels"]
    names = {n: f"d{k}" for k, n in enumerate(dict.fromkeys(n for part in labels for n in part))}
    new = attributes(
        **{
            **dict(definition.attributes),
            "labels": tuple(tuple(names[n] for n in part) for part in labels),
            "output": tuple(names[n] for n in definition["output"]),
        }
    )
    return define("contract", new, inputs)[0]


class Kinds:
    """Kinds by number, and the cost of each on one device."""

    def __init__(self, mesh: Mesh) -> None:
        self._costs = UnshardedCosts(mesh.device)
        self.entries: list[ENodeKind] = []
        self._numbers: dict[ENodeKind, int] = {}
        self._ticks: dict[int, int] = {}

    def __getitem__(self, number: int) -> ENodeKind:
        return self.entries[number]

    def number(self, kind: ENodeKind) -> int:
        """Return the number of a kind; a new kind gets a new one."""
        kind = kind._replace(definition=renamed(kind.definition, kind.inputs))
        found = self._numbers.get(kind)
        if found is None:
            found = self._numbers[kind] = len(self.entries)
            self.entries.append(kind)
        return found

    def ticks(self, number: int) -> int:
        """Return the time of one block of this kind, in ticks of 1 ps, by the cost model."""
        if number not in self._ticks:
            self._ticks[number] = self._measured(self.entries[number])
        return self._ticks[number]

    def size_bytes(self, number: int) -> int:
        """Return the bytes that one block of this kind allocates: its results; none for views and free operators."""
        kind = self.entries[number]
        if kind.definition.operator in (*FREE, "view"):
            return 0
        return sum(t.size_bytes for t in kind.outputs)

    def _measured(self, kind: ENodeKind) -> int:
        if kind.definition.operator in FREE:
            return 0
        graph = program([kind], [tuple(("leaf", k) for k in range(len(kind.inputs)))], kind.inputs, [])
        try:
            return self._costs.cost(graph).time_ticks
        except ValueError:  # longer than any clock counts
            return UNTHINKABLE


Ref = tuple[str, int]


def program(
    kinds: Sequence[ENodeKind],
    operands: Sequence[Sequence[Ref]],
    leaves: Sequence[TensorType],
    roots: Sequence[int],
) -> Graph:
    """Build a small program: blocks of these kinds over `("leaf", k)` and `("node", k)`; the roots are observed."""
    builder = GraphBuilder("pattern")
    for k, leaf in enumerate(leaves):
        builder.tensors[f"leaf{k}"] = Tensor(f"leaf{k}", *leaf)
        builder.blocks.append(Block(f"leaf{k}", _source(leaf), (), (f"leaf{k}",)))
    for k, (kind, refs) in enumerate(zip(kinds, operands, strict=True)):
        outputs = (f"node{k}", *(f"node{k}.{j}" for j in range(1, len(kind.outputs))))
        builder.tensors.update({t: Tensor(t, *of) for t, of in zip(outputs, kind.outputs, strict=True)})
        inputs = tuple(f"{what}{number}" for what, number in refs)
        builder.blocks.append(Block(f"node{k}", kind.definition, inputs, outputs))
    for k in roots:
        builder.sink(f"node{k}", site=f"out{k}")
    return builder.build()


@lru_cache(maxsize=1 << 14)
def _source(of: TensorType) -> Definition:
    return define("source", attributes(shape=of.shape, dtype=of.dtype, role="activation"), [])[0]
