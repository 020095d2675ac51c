"""Rounds: a part of a program that runs several times, each time on a slice of the data (micro-batches).

Time is an axis that one index dimension of a block may be mapped to. From a dimension of one input, `time_axis` follows
it through the program: every block that it runs through is in a *loop*, which runs once per round. Reductions over
it accumulate in place, and are read after the last round: by blocks outside of loops, or by those of a next loop. Where
a waypoint alone reads such a reduction, each round has a *term* of its own, and the waypoint accumulates them: in its
own sharding, to which each round brings its term (gradients that are reduce-scattered in every micro-batch).

Imported by the expansion, which writes the rounds out, and by the fast cost model, which counts one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import gcd

from tapestry.teg.graph import Block, Definition, Graph
from tapestry.teg.sharding.host import is_on_host
from tapestry.teg.sharding.strategy import Read, read_of, splittable
from tapestry.teg.signature import PARALLEL, Row, Signature, rows_of
from tapestry.teg.views import RootRow

MOST_LOOPS = 2
DATA_ROLES = ("activation",)  # of inputs whose dimensions rounds may be over
# Of sources of which rounds may have slices: all others are there for all rounds.
SLICED_ROLES = (*DATA_ROLES, "constant")


class RoundsError(ValueError):
    """Error raised where a program cannot run in rounds; `site` is the block, or the input, that does not allow it."""

    def __init__(self, site: str, why: str) -> None:
        super().__init__(f"no rounds: {why}")
        self.site = site


class UnevenRounds(RoundsError):
    """Error raised where rounds do not divide a dimension of a tensor, which has `size` elements."""

    def __init__(self, site: str, why: str, size: int) -> None:
        super().__init__(site, why)
        self.size = size


@dataclass(frozen=True)
class Rounds:
    """The rounds of a plan: how many, and the input with the dimension of which each round takes a slice."""

    count: int
    source: str
    dim: int = 0

    def __str__(self) -> str:
        return f"{self.count} x {self.source}[{self.dim}]"


_ROUNDS = re.compile(r"(\d+) x (.+)\[(\d+)\]", re.DOTALL)


def parse_rounds(text: str) -> Rounds | None:
    """Parse the rounds that `str` wrote; empty for none.

    Raises:
        ValueError: the text is something else.
    """
    found = _ROUNDS.fullmatch(text)
    if text and found is None:
        raise ValueError(
            f"expected micro-batches such as '4 x tokens[0]', the count and a dimension of an input, not {text!r}"
        )
    return None if found is None else Rounds(int(found[1]), found[2], int(found[3]))


@dataclass(frozen=True, eq=False)
class TimeAxis:
    """The rounds of a program in full: what each block and tensor has of them.

    `dims` are the index dimensions, of blocks in loops and of inputs, that run over the rounds, `slices` the
    dimensions of stored tensors of which each round has a slice, `terms` the tensors of which each round has a whole
    one of its own, `accumulated` the monoids by which tensors gather what rounds make.
    `levels` of the blocks that are no sources or views: those of a loop have an odd one, others an even one.
    """

    rounds: Rounds
    dims: Mapping[str, int]
    slices: Mapping[str, int]
    terms: frozenset[str]
    accumulated: Mapping[str, str]
    levels: Mapping[str, int]

    @property
    def count(self) -> int:
        return self.rounds.count

    def segments(self, blocks: Sequence[Block]) -> list[tuple[Block, ...]]:
        """Divide blocks in schedule order by level: `segments[1]` is the first loop. Segments may be empty."""
        found: list[list[Block]] = [[] for _ in range((max(self.levels.values()) + 1) // 2 * 2 + 1)]
        for block in blocks:
            found[self.levels[block.site]].append(block)
        return [tuple(segment) for segment in found]

    def has_of_round(self, tensor: str) -> bool:
        """Return whether each round has a stored tensor of its own: a slice, or a term."""
        return tensor in self.slices or tensor in self.terms

    def runs_of(self, block: Block) -> int:
        """Return how often a block runs that is no view, and how many slices there are of a source."""
        if block.operator == "source":
            return self.count if block.outputs[0] in self.slices else 1
        return self.count if self.levels[block.site] % 2 else 1

    def shape_of(self, tensor: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of what one round has of a stored tensor; all of it where rounds do not slice it."""
        dim = self.slices.get(tensor)
        return shape if dim is None else sliced_shape(shape, dim, self.count)

    def slice_of(
        self, tensor: str, shape: tuple[int, ...], number: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return shape and origin of what a round has of a stored tensor of `shape`."""
        dim, origin = self.slices.get(tensor), [0] * len(shape)
        if dim is not None:
            origin[dim] = number * (shape[dim] // self.count)
        return self.shape_of(tensor, shape), tuple(origin)

    def monoid_of(self, block: Block) -> str:
        """Return the monoid by which a block accumulates what it makes round by round; empty if it does not."""
        return self.accumulated.get(block.outputs[0], "") if block.outputs else ""

    def definition_of(self, block: Block) -> Definition:
        """Return the definition of a block with the index space of one round."""
        dim = self.dims.get(block.site)
        return block.definition if dim is None else round_definition(block.definition, dim, self.count)

    def read_in(self, read: Read, shape: tuple[int, ...]) -> Read:
        """Return a read of a root tensor of `shape` as one round has it: its rows over the slice."""
        dim = self.slices.get(read.root)
        if dim is None:
            return read
        row = read.rows[dim]
        return Read(
            read.root,
            (*read.rows[:dim], row._replace(high=shape[dim] // self.count), *read.rows[dim + 1 :]),
        )


def sliced_shape(shape: tuple[int, ...], dim: int, count: int) -> tuple[int, ...]:
    """Return the shape of a slice of one round."""
    return (*shape[:dim], shape[dim] // count, *shape[dim + 1 :])


@lru_cache(maxsize=1 << 12)
def round_definition(definition: Definition, dim: int, count: int) -> Definition:
    """Return a definition with the index space of one of `count` rounds over the index dimension `dim`."""
    signature = definition.signature
    assert signature is not None
    size = signature.dims[dim].size // count
    dims = (*signature.dims[:dim], replace(signature.dims[dim], size=size), *signature.dims[dim + 1 :])
    sliced = Signature(dims, signature.inputs, signature.outputs)
    return Definition(definition.operator, definition.attributes, sliced, definition.costs)


def time_axis(graph: Graph, rounds: Rounds) -> TimeAxis:
    """Follow the dimension of an input through the program.

    Raises:
        RoundsError: the input or its dimension is not there, a block cannot run on a slice, a parameter would be
            sliced, or blocks need too often what is complete only after the last round.
    """
    return _known(graph, rounds)


@lru_cache(maxsize=32)
def _known(graph: Graph, rounds: Rounds) -> TimeAxis:
    return _Following(graph, rounds).run()


def most_rounds(graph: Graph, rounds: Rounds) -> Rounds | None:
    """Return the most rounds in which a program can run, of those that divide a number of them; None: in none."""
    while rounds.count > 1:
        try:
            time_axis(graph, rounds)
            return rounds
        except UnevenRounds as error:
            rounds = replace(rounds, count=gcd(rounds.count, error.size))
        except RoundsError:
            return None
    return None


def can_run_in(graph: Graph, rounds: Rounds) -> bool:
    """Return whether a program can run in rounds."""
    try:
        time_axis(graph, rounds)
    except RoundsError:
        return False
    return True


@dataclass(frozen=True)
class _Reads:
    """The reads of a program: of each tensor by block and position, and of each block in the order of its inputs."""

    of_tensor: Mapping[str, Sequence[tuple[Block, int, Read]]]
    of_block: Mapping[str, Sequence[Read]]


@lru_cache(maxsize=4)
def _reads(graph: Graph) -> _Reads:
    of_tensor: dict[str, list[tuple[Block, int, Read]]] = {}
    of_block: dict[str, list[Read]] = {}
    for block in graph.blocks:
        if block.is_view:
            continue
        own = of_block[block.site] = [read_of(graph, block.site, k) for k in range(len(block.inputs))]
        for k, read in enumerate(own):
            of_tensor.setdefault(read.root, []).append((block, k, read))
    return _Reads(of_tensor, of_block)


@dataclass
class _Following:
    graph: Graph
    rounds: Rounds
    dims: dict[str, int] = field(default_factory=dict)
    slices: dict[str, int] = field(default_factory=dict)
    terms: set[str] = field(default_factory=set)
    passing: set[str] = field(default_factory=set)  # the sites of waypoints that accumulate terms
    accumulated: dict[str, str] = field(default_factory=dict)
    waiting: list[tuple[str, int]] = field(default_factory=list)

    def run(self) -> TimeAxis:
        graph, rounds = self.graph, self.rounds
        source = graph.by_site.get(rounds.source)
        if source is None or source.operator != "source":
            raise RoundsError(rounds.source, f"the program has no input {rounds.source!r}")
        rank = len(graph.tensors[source.outputs[0]].shape)
        if not 0 <= rounds.dim < rank:
            raise RoundsError(
                rounds.source, f"input {rounds.source!r} has {rank} dimensions, no {rounds.dim}"
            )
        if rounds.count < 2:
            raise RoundsError(rounds.source, f"there are 2 rounds or more, not {rounds.count}")
        self.reads = _reads(graph)
        self._slice(source.outputs[0], rounds.dim, source.site)
        while self.waiting:
            self._follow(*self.waiting.pop())
        return TimeAxis(
            rounds, self.dims, self.slices, frozenset(self.terms), self.accumulated, self._levels()
        )

    def _slice(self, tensor: str, dim: int, site: str) -> None:
        """State that each round has a slice of a stored tensor along a dimension."""
        known = self.slices.setdefault(tensor, dim)
        if known != dim:
            why = f"block {site!r} needs slices of {tensor!r} along dimension {dim}, others along {known}"
            raise RoundsError(site, why)
        size = self.graph.tensors[tensor].shape[dim]
        if size % self.rounds.count:
            why = (
                f"{self.rounds.count} do not divide dimension {dim} of {tensor!r}, which has {size} elements"
            )
            raise UnevenRounds(site, why, size)
        if (tensor, dim) not in self.waiting:
            self.waiting.append((tensor, dim))

    def _follow(self, tensor: str, dim: int) -> None:
        """Follow a sliced tensor to the block that makes it and to those that read it."""
        maker = self.graph.producers[tensor]
        size = self.graph.tensors[tensor].shape[dim]
        if maker.operator == "source":
            role = maker.definition.get("role")
            if role not in SLICED_ROLES or maker.site in {s.site for s in self.graph.carriers.values()}:
                why = f"input {maker.site!r} is read in slices, but as {role or 'state'} it belongs to all rounds"
                raise RoundsError(maker.site, why)
            if maker.signature is not None:
                self.dims[maker.site] = self._dim_of_output(maker, tensor, dim, size)
        else:
            self._run_on(maker, self._dim_of_output(maker, tensor, dim, size))
        for block, position, read in self.reads.of_tensor.get(tensor, ()):
            self._run_on(block, self._dim_of_read(block, position, read.rows[dim], size))

    def _dim_of_output(self, maker: Block, tensor: str, dim: int, size: int) -> int:
        row: Row | None = None
        if maker.signature is not None:
            row = rows_of(maker.signature.outputs[maker.outputs.index(tensor)])[dim]
        if row is None or row.dim < 0 or not _is_plain(row, size, self._size(maker, row.dim)):
            why = f"block {maker.site!r} ({maker.operator}) makes {tensor!r} as a whole, not slice by slice"
            raise RoundsError(maker.site, why)
        return row.dim

    def _dim_of_read(self, block: Block, position: int, row: RootRow, size: int) -> int:
        plain = row.dim >= 0 and (row.low, row.high) == (0, size)
        if not plain or not _is_plain(Row(*row[:4]), size, self._size(block, row.dim)):
            why = f"block {block.site!r} ({block.operator}) needs more than a slice of its input {position}"
            raise RoundsError(block.site, why)
        return row.dim

    @staticmethod
    def _size(block: Block, dim: int) -> int:
        return block.signature.dims[dim].size if block.signature is not None else 0

    def _run_on(self, block: Block, dim: int) -> None:
        """State that a block runs in rounds over one of its index dimensions."""
        known = self.dims.get(block.site)
        if known == dim:
            return
        assert block.signature is not None
        name = block.signature.dims[dim].name
        if known is not None:
            first = block.signature.dims[known].name
            why = f"block {block.site!r} ({block.operator}) needs slices along both {first!r} and {name!r}"
            raise RoundsError(block.site, why)
        if not splittable(block.signature)[dim]:
            why = f"dimension {name!r} of block {block.site!r} ({block.operator}) may not be split"
            raise RoundsError(block.site, why)
        self.dims[block.site] = dim
        kind = block.signature.dims[dim].kind
        for position, tensor in enumerate(block.outputs):
            if kind != PARALLEL:
                self._combine(block, tensor, kind)
                continue
            for k, made in enumerate(rows_of(block.signature.outputs[position])):
                if made is not None and made.dim == dim:
                    self._slice(tensor, k, block.site)
        for k, read in enumerate(self.reads.of_block[block.site]):
            for axis, row in enumerate(read.rows):
                if row.dim == dim:
                    self._dim_of_read(block, k, row, self.graph.tensors[read.root].shape[axis])
                    self._slice(read.root, axis, block.site)

    def _combine(self, block: Block, tensor: str, kind: str) -> None:
        """State that what rounds make of a tensor are terms: they accumulate there, or at the waypoint behind it."""
        readers = self.reads.of_tensor.get(tensor, ())
        if len(block.outputs) == 1 and len(readers) == 1 and may_accumulate(readers[0][0]):
            (waypoint, _, _) = readers[0]
            self.terms.add(tensor)
            self.passing.add(waypoint.site)
            tensor = waypoint.outputs[0]
        self.accumulated[tensor] = kind

    def _levels(self) -> dict[str, int]:
        """Find the level of each block: as late as its readers allow, so that little is kept from loop to loop.

        Raises:
            RoundsError: there would be more than `MOST_LOOPS` loops.
        """
        graph = self.graph
        blocks = [b for b in graph.blocks if b.operator != "source"]
        least: dict[str, int] = {}
        for block in blocks:
            is_looped = self._is_looped(block)
            level, waits_for = int(is_looped), ""
            for site, distance in self._needs(block):
                bound = least.get(site, 0) + distance
                bound += int(bound % 2 != is_looped)
                if bound > level:
                    level, waits_for = bound, site
            if level > 2 * MOST_LOOPS:
                why = (
                    f"block {block.site!r} ({block.operator}) needs {waits_for!r}, which is complete after the last "
                    f"round only; this happens more than {MOST_LOOPS} times in a row"
                )
                raise RoundsError(block.site, why)
            least[block.site] = level
        last = (max(least.values(), default=0) + 1) // 2 * 2
        levels: dict[str, int] = {}
        for block in reversed(blocks):
            is_looped = self._is_looped(block)
            level = min(levels.get(block.site, last), last - int(is_looped))
            level -= int(level % 2 != is_looped)
            levels[block.site] = level
            for site, distance in self._needs(block):
                levels[site] = min(levels.get(site, last), level - distance)
        return {b.site: levels[b.site] for b in blocks if not b.is_view}

    def _is_looped(self, block: Block) -> bool:
        """Return whether a block is in a loop; a view is where its root is made."""
        while block.is_view and (maker := self.graph.producers[block.inputs[0]]).operator != "source":
            block = maker
        return block.operator != "source" and (block.site in self.dims or block.site in self.passing)

    def _needs(self, block: Block) -> Iterator[tuple[str, int]]:
        """Yield the blocks that come before a block, and whether levels must differ: by what is complete only then."""
        for tensor in block.inputs:
            maker = self.graph.producers[tensor]
            if maker.operator != "source":
                yield maker.site, int(not maker.is_view and tensor in self.accumulated)
        for site in block.after:
            yield site, int(self._is_looped(self.graph.by_site[site]))


def may_accumulate(block: Block) -> bool:
    """Return whether a block may accumulate the terms of rounds that it reads: a waypoint on the devices."""
    return block.operator == "waypoint" and not is_on_host(block)


def _is_plain(row: Row, size: int, count: int) -> bool:
    """Return whether slices of an index dimension are slices of a tensor dimension, in order and without overlap."""
    return row.stride == row.extent > 0 and row.offset == 0 and row.extent * count == size
