"""Building graphs block by block: types and signatures are inferred, sites given or derived.

Used by importers, rewrites and tests; the user-facing interface (`teg.programs`) is built on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tapestry.teg.costs import CostTable
from tapestry.teg.graph import Attributes, Block, Definition, Graph, Tensor, TensorType, attributes
from tapestry.teg.intern import exact
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import Inferred
from tapestry.teg.stored_state import with_stored_state


def define(
    operator: str, attrs: Attributes, inputs: Sequence[TensorType]
) -> tuple[Definition, tuple[TensorType, ...]]:
    """Return the interned definition of an application and its output types.

    Raises:
        ValueError: the operator does not accept these attributes or input types.
    """
    return _defined(operator, operator_named(operator).infer, attrs, exact(attrs), tuple(inputs))


@lru_cache(maxsize=1 << 14)
def _defined(
    operator: str,
    infer: Callable[[Attributes, Sequence[TensorType]], Inferred],
    attrs: Attributes,
    _: Any,
    inputs: tuple[TensorType, ...],
) -> tuple[Definition, tuple[TensorType, ...]]:
    """Infer a definition once for all equal layers; the exact form of the attributes keeps 1 and 1.0 apart."""
    inferred = infer(attrs, inputs)
    return Definition(operator, attrs, inferred.signature), inferred.outputs


class GraphBuilder:
    """A builder that collects blocks in program order; `build()` returns the graph."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.blocks: list[Block] = []
        self.tensors: dict[str, Tensor] = {}
        self.data: dict[str, np.ndarray] = {}
        self._block_sites: set[str] = set()
        self._tried: dict[str, int] = {}

    @classmethod
    def of(cls, graph: Graph, blocks: Iterable[Block]) -> GraphBuilder:
        """Return a builder that goes on with `blocks` of a graph, in program order, and with the values they have."""
        builder = cls(graph.name)
        builder.blocks = list(blocks)
        builder._block_sites = {block.site for block in builder.blocks}
        builder.tensors = {t: graph.tensors[t] for block in builder.blocks for t in block.outputs}
        builder.data = {t: value for t, value in graph.data.items() if t in builder.tensors}
        return builder

    def free_site(self, wanted: str) -> str:
        """Return `wanted`, or the first `wanted.N` that names neither a block nor a tensor yet."""
        site, k = wanted, self._tried.get(wanted, 0)
        while site in self._block_sites or site in self.tensors:
            k += 1
            site = f"{wanted}.{k}"
            self._tried[wanted] = k - 1  # sites are never given back
        return site

    def apply(
        self,
        operator: str,
        inputs: Sequence[str],
        *,
        site: str,
        outputs: Sequence[str] | None = None,
        names: Sequence[str] = (),
        after: Sequence[str] = (),
        costs: CostTable | None = None,
        **attrs: Any,
    ) -> tuple[str, ...]:
        """Append one block and return its output tensors' sites (the block's site, `site#1`, ... by default).

        `names` name the dimensions of the first output, `after` lists sequence points (or blocks) that happen
        before, `costs` are the program's own for this block.

        Raises:
            ValueError: a type error, with the site named.
        """
        return self.add(
            operator,
            inputs,
            attributes(**attrs),
            site=site,
            outputs=outputs,
            names=names,
            after=after,
            costs=costs,
        )

    def add(
        self,
        operator: str,
        inputs: Sequence[str],
        attrs: Attributes,
        *,
        site: str,
        outputs: Sequence[str] | None = None,
        names: Sequence[str] = (),
        after: Sequence[str] = (),
        costs: CostTable | None = None,
    ) -> tuple[str, ...]:
        """Append one block like `apply`, with attributes that come as a value, perhaps from outside."""
        site = self.free_site(site)
        try:
            definition, types = define(operator, attrs, [self.tensors[t].type for t in inputs])
            if costs is not None:
                definition = Definition(operator, attrs, definition.signature, costs)
        except (ValueError, KeyError) as error:
            raise ValueError(f"block {site!r} ({operator}): {error}") from error
        made = (
            tuple(outputs) if outputs else tuple(site if k == 0 else f"{site}#{k}" for k in range(len(types)))
        )
        for k, (name, kind) in enumerate(zip(made, types, strict=True)):
            if name in self.tensors:
                raise ValueError(f"block {site!r} ({operator}): tensor {name!r} has a producer already")
            self.tensors[name] = Tensor(name, kind.shape, kind.dtype, tuple(names) if k == 0 else ())
        self.blocks.append(Block(site, definition, tuple(inputs), made, after=tuple(after)))
        self._block_sites.add(site)
        return made

    def source(
        self,
        site: str,
        shape: Sequence[int],
        dtype: str,
        role: str = "activation",
        value: np.ndarray | None = None,
        names: Sequence[str] = (),
    ) -> str:
        """Append a source block and return its tensor's site; `value` is its data if supplied with the program."""
        (name,) = self.apply("source", (), site=site, names=names, shape=tuple(shape), dtype=dtype, role=role)
        if value is not None:
            array = np.asarray(value, order="C").view()  # the caller's own array stays writeable
            array.setflags(write=False)
            self.data[name] = array
        return name

    def sink(self, tensor: str, *, site: str | None = None, carries: str | None = None) -> None:
        """Make `tensor` an observed output called `site`; `carries` names the source whose next value it is."""
        self.apply("sink", (tensor,), site=site or f"{tensor}.out", carries=carries)

    def sequence_point(self, after: Sequence[str], *, site: str = "point") -> str:
        """Append a sequence point after the blocks of these sites; others name it in their `after`. Return its site."""
        before = len(self.blocks)
        self.apply("sequence_point", (), site=site, after=after)
        return self.blocks[before].site

    def build(self) -> Graph:
        """Return the graph; see `teg.stored_state` for what it adds to carried state."""
        return with_stored_state(Graph(self.name, tuple(self.blocks), dict(self.tensors), dict(self.data)))
