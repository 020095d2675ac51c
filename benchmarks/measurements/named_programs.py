"""Programs whose dimensions have names of one letter, with a placement of every block that follows from the names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import attributes
from tapestry.teg.operators.selectors import sliced, view_attributes
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy

X, Y, Z, W = (("input", k) for k in range(4))
STATE = "optimizer_state"
AHEAD = 4  # blocks, by which parameters that are split are gathered before they are read


@dataclass(frozen=True)
class Axes:
    """The sub-axes of devices that divide each dimension of a program, by its letter.

    `along` divides the dimension `among` in blocks that have none of `by_letter` but the batch (sequence
    parallelism). `spread` are sub-axes, of so many devices, that divide what belongs to states of the optimizer, and
    parameters if `with_parameters`, along a dimension that is whole; those are gathered again for each reader.
    """

    by_letter: Mapping[str, tuple[str, ...]]
    batch: str = "b"
    among: str = "s"
    along: tuple[str, ...] = ()
    spread: tuple[str, ...] = ()
    spread_count: int = 1
    with_parameters: bool = False


def outer_and_inner(mesh_shape: MeshShape, inner: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Divide sub-axes into outer and inner ones, the inner ones of so many devices; None if they cannot be."""
    names = tuple(s.name for s in mesh_shape.sub_axes)
    cuts = range(len(names), -1, -1)
    at = next((k for k in cuts if mesh_shape.size_of(names[k:]) == inner), None)
    return None if at is None else (names[:at], names[at:])


class NamedBuilder:
    """A builder of programs whose dimensions have names of one letter, and of their placements.

    `part` is that of the pipeline which the next blocks are in.
    """

    def __init__(self, name: str, sizes: Mapping[str, int], dtype: str, axes: Axes) -> None:
        self.builder, self.sizes, self.dtype, self.axes = GraphBuilder(name), sizes, dtype, axes
        self.names: dict[str, str] = {}
        self.roles: dict[str, str] = {}
        self.blocks: dict[str, Placement] = {}
        self.part = 0

    def _made(
        self,
        site: str,
        made: Mapping[str, str],
        dims: Sequence[str],
        *,
        is_spread: bool = False,
        along: tuple[str, ...] = (),
        again: str = "",
        early: str = "",
    ) -> str:
        """Note the names of a block's tensors, and place the block by the names of its index dimensions.

        `along` overrides that of the axes. What is read of the tensor `again` is copied again, not kept. The copies of
        `again` and `early` begin a block before they are read.
        """
        self.names.update(made)
        axes = self.axes
        splits = {d: Split(axes.by_letter[d]) for d in dims if axes.by_letter.get(d)}
        if (along := along or axes.along) and axes.among in dims and not splits.keys() - {axes.batch}:
            splits[axes.among] = Split(along)
        count = axes.spread_count
        free = [d for d in dims if d not in splits and self.sizes[d] >= count]
        if is_spread and axes.spread and free:  # in parts that are most alike
            least = min(free, key=lambda d: -(-self.sizes[d] // count) * count / self.sizes[d])
            splits[least] = Split(axes.spread)
        block = next(b for b in reversed(self.builder.blocks) if b.site == site)
        split = [axes.with_parameters and self.roles.get(t) == "parameter" for t in block.inputs]
        gathered = tuple(t == again or is_split for t, is_split in zip(block.inputs, split, strict=True))
        ahead = tuple(
            AHEAD if is_split else int(t in (early, again))
            for t, is_split in zip(block.inputs, split, strict=True)
        )
        self.blocks[site] = Placement(
            Strategy(tuple(splits.get(d, WHOLE) for d in dims)),
            ahead if any(ahead) else (),
            gathered if any(gathered) else (),
            part=self.part,
        )
        return site

    def source(self, site: str, names: str, role: str = "activation", dtype: str = "") -> str:
        """Append a source; states of an optimizer, and perhaps parameters, are spread."""
        shape = [self.sizes[name] for name in names]
        self.builder.source(site, shape, dtype or self.dtype, role)
        self.roles[site] = role
        return self._made(site, {site: names}, names, is_spread=self._is_spread(role))

    def sink(self, tensor: str, carries: str | None = None) -> None:
        """Make a tensor an output, or the next value of a source."""
        site = f"{tensor}.out"
        self.builder.sink(tensor, site=site, carries=carries)
        is_spread = self._is_spread(self.roles.get(carries or "", ""))
        self._made(site, {}, self.names[tensor], is_spread=is_spread)

    def _is_spread(self, role: str) -> bool:
        """Return whether sources of a role are spread over the data."""
        return role == STATE or (role == "parameter" and self.axes.with_parameters)

    def contract(self, site: str, left: str, right: str, form: str, again: str = "") -> str:
        """Append a product: `form` has the names of both operands and of the result, as `bsh,hf->bsf`."""
        operands, result = form.split("->")
        labels = tuple(tuple(part) for part in operands.split(","))
        self.builder.apply("contract", (left, right), site=site, labels=labels, output=tuple(result))
        return self._made(site, {site: result}, self._dims(), again=again)

    def cells(self, site: str, expr: Any, *inputs: str, along: tuple[str, ...] = (), early: str = "") -> str:
        """Append an element-wise block over the dimensions of the first input."""
        names = self.names[inputs[0]]
        labels = tuple(tuple(self.names[tensor]) for tensor in inputs)
        dims = tuple((name, self.sizes[name]) for name in names)
        self.builder.apply("cell", inputs, site=site, expr=expr, labels=labels, dims=dims, dtype=self.dtype)
        return self._made(site, {site: names}, names, along=along, early=early)

    def reduce(self, site: str, monoid: str, tensor: str, names: str) -> str:
        """Append a reduction to the dimensions `names`."""
        self.builder.apply(
            "reduce",
            (tensor,),
            site=site,
            monoid=monoid,
            labels=tuple(self.names[tensor]),
            output=tuple(names),
        )
        return self._made(site, {site: names}, self._dims())

    def along_rows(self, operator: str, site: str, *inputs: str, **options: Any) -> str:
        """Append a normalization of the last dimension."""
        names = self.names[inputs[0]]
        self.builder.apply(operator, inputs, site=site, axes=(len(names) - 1,), **options)
        return self._made(site, {site: names}, names[:-1])

    def gather(self, site: str, table: str, positions: str) -> str:
        """Append the rows of a table at positions."""
        self.builder.apply("gather", (table, positions), site=site, axis=0)
        names = self.names[positions] + self.names[table][1:]
        return self._made(site, {site: names}, names + self.names[table][0])

    def scatter(self, site: str, positions: str, rows: str, first: str) -> str:
        """Append the sum of rows at positions of a table, the first dimension of which is `first`."""
        size = self.sizes[first]
        self.builder.apply("scatter", (positions, rows), site=site, axis=0, monoid="sum", size=size)
        names = first + self.names[rows][len(self.names[positions]) :]
        return self._made(site, {site: names}, names + self.names[positions])

    def view(self, site: str, tensor: str, position: int, width: str, names: str) -> str:
        """Append a view of one of several tensors that lie side by side along the last dimension."""
        size = self.sizes[width]
        shape = tuple(self.sizes[name] for name in self.names[tensor])
        start = (*(0 for _ in shape[1:]), position * size)
        found = view_attributes(sliced(shape, start, (*shape[:-1], (position + 1) * size)))
        self.builder.apply("view", (tensor,), site=site, **dict(found))
        self.names[site] = names
        return site

    def joined(self, site: str, names: str, *inputs: str) -> str:
        """Append the copy of tensors side by side along the last dimension."""
        self.builder.apply("concat", inputs, site=site, axis=len(names) - 1)
        return self._made(site, {site: names}, names)

    def fused(
        self,
        site: str,
        inputs: Sequence[str],
        steps: Sequence[Any],
        results: Mapping[str, int],
        spread: bool = False,
    ) -> str:
        """Append steps as one block; `results` name the steps whose results it makes, the first one as the site.

        A step is `(expression, names of the result, reads)` of an element-wise one, with its element type behind
        where it has another, `(monoid, ...)` of a reduction, `("contract", ...)` of a product, or `("softmax", ...)`
        along the last dimension; reads are numbers of inputs, then of steps.
        """
        names = [self.names[tensor] for tensor in inputs]
        body: list[Any] = []
        for step in steps:
            what, made, reads, *dtype = step
            labels = tuple(tuple(names[k]) for k in reads)
            if what == "contract":
                body.append((what, attributes(labels=labels, output=tuple(made)), reads))
            elif what == "softmax":
                body.append((what, attributes(axes=(len(made) - 1,)), reads))
            elif isinstance(what, str):
                attrs = attributes(monoid=what, labels=labels[0], output=tuple(made))
                body.append(("reduce", attrs, reads))
            else:
                dims = tuple((name, self.sizes[name]) for name in made)
                attrs = attributes(
                    expr=what, labels=labels, dims=dims, dtype=dtype[0] if dtype else self.dtype
                )
                body.append(("cell", attrs, reads))
            names.append(made)
        kinds = [self.builder.tensors[tensor].type for tensor in inputs]
        self.builder.apply(
            "fused",
            inputs,
            site=site,
            outputs=tuple(results),
            body=tuple(body),
            types=tuple((kind.shape, kind.dtype) for kind in kinds),
            results=tuple(len(inputs) + k for k in results.values()),
        )
        made = {name: names[len(inputs) + k] for name, k in results.items()}
        # Operators that take no names count their dimensions.
        counted = {f"d{k}": name for k, name in enumerate(made[site])}
        return self._made(site, made, [counted.get(dim, dim) for dim in self._dims()], is_spread=spread)

    def _dims(self) -> list[str]:
        """Return the names of the index dimensions of the block that was appended last."""
        signature = self.builder.blocks[-1].signature
        return [dim.name for dim in signature.dims] if signature is not None else []
