"""Lowering of steps that work along one dimension or read and write by positions: gathers, scatters, scans, sorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tapestry.teg.importers.lowering.storage import LoweredStorage, Rep, flat, names_of
from tapestry.teg.importers.program import Compute
from tapestry.teg.views import ViewDim, ViewMap

Factors = tuple[tuple[int, ...], ...]


def axiswise(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    """Lower an operator along the dimension labeled `axis`, which is whole; all other dimensions may be factored.

    In the output the axis stays, is replaced by the one label that no input has, or (neither) is removed. Every
    operand has the labels of the first; all other attributes are passed to the operator unchanged.
    """
    axis = step.attributes["axis"]
    names = names_of(step.input_labels[0], factors[0])
    if len(reps) == 1:
        root, stored = storage.read(reps[0], names)
        if axis not in stored:
            root, stored = storage.whole(reps[0]), names
        roots = [root]
    else:
        sizes = dict(zip(names, flat(factors[0]), strict=True))
        stored = names
        roots = [
            arranged(
                storage, rep, names_of(labels, own), names, {**sizes, axis: flat_size(labels, own, axis)}
            )
            for rep, labels, own in zip(reps, step.input_labels, factors, strict=True)
        ]
    attrs = {k: v for k, v in step.attributes.items() if k != "axis"}
    place = stored.index(axis)
    key = storage.emit(step.operator, roots, step.site, axis=place, **attrs)
    new = tuple(n for n in step.output_labels if n and n not in step.input_labels[0])
    along = new if axis not in step.output_labels else (axis,)
    made = (*stored[:place], *along, *stored[place + 1 :])
    return storage.named(key, made, names_of(step.output_labels, target), flat(target))


def flat_size(labels: Sequence[str], factors: Factors, label: str) -> int:
    """Return the size of the whole dimension that has this label."""
    (size,) = factors[list(labels).index(label)]
    return size


def arranged(
    storage: LoweredStorage, rep: Rep, names: Sequence[str], order: Sequence[str], sizes: Mapping[str, int]
) -> str:
    """Return a root whose dimensions are those in `order`; those that `names` lacks are broadcast."""
    dims = tuple(ViewDim(list(order).index(n), 1, 0) if n else ViewDim(-1, 0, 0) for n in names)
    return storage.whole(rep.through(ViewMap(dims, tuple(sizes[n] for n in order)), rep.site))


def gather(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    """Lower a gather; labels shared by the table and the indices are aligned."""
    wanted = names_of(step.output_labels, target)
    (table, rows), (indices, places) = (
        storage.read(rep, names_of(labels, own))
        for rep, labels, own in zip(reps, step.input_labels, factors, strict=True)
    )
    axis_name = step.attributes["axis"]
    if axis_name not in rows:
        table, rows = storage.whole(reps[0]), names_of(step.input_labels[0], factors[0])
    axis = rows.index(axis_name)
    aligned = tuple((k, places.index(n)) for k, n in enumerate(rows) if n in places)
    attrs = {k: v for k, v in step.attributes.items() if k == "mode" and v != "strict"}
    attrs |= {"aligned": aligned} if aligned else {}
    key = storage.emit("gather", (table, indices), step.site, axis=axis, **attrs)
    free = [n for n in places if n not in rows]
    return storage.named(key, (*rows[:axis], *free, *rows[axis + 1 :]), wanted, flat(target))


def scatter(
    storage: LoweredStorage, step: Compute, reps: Sequence[Rep], factors: Sequence[Factors], target: Factors
) -> Rep:
    """Lower a scatter; labels shared by the indices and the result are aligned.

    The updates also have the labels that only the indices have.
    """
    wanted = names_of(step.output_labels, target)
    names = [names_of(labels, own) for labels, own in zip(step.input_labels, factors, strict=True)]
    sizes = {n: s for own, f in zip(names, factors, strict=True) for n, s in zip(own, flat(f), strict=True)}
    sizes |= dict(zip(wanted, flat(target), strict=True))
    places, axis = names[-2], wanted.index(step.attributes["axis"])
    free = [n for n in places if n and n not in wanted]
    aligned = [n for n in wanted if n in places]
    orders = [[*aligned, *free], [*wanted[:axis], *free, *wanted[axis + 1 :]]]
    orders = [list(wanted), *orders] if len(reps) == 3 else orders
    roots = [
        arranged(storage, rep, own, order, sizes) for rep, own, order in zip(reps, names, orders, strict=True)
    ]
    attrs = {"axis": axis, "monoid": step.attributes["monoid"]}
    pairs = tuple((wanted.index(n), k) for k, n in enumerate(aligned))
    attrs |= {"aligned": pairs} if pairs else {}
    attrs |= {"size": sizes[wanted[axis]]} if len(reps) == 2 else {}
    attrs |= {k: v for k, v in step.attributes.items() if k == "mode" and v != "strict"}
    key = storage.emit("scatter", roots, step.site, **attrs)
    return storage.named(key, wanted, wanted, flat(target))
