"""Reader of tables of shardings in JSON, the form that `teg.exporters.tables` writes."""

from __future__ import annotations

from typing import Any

import tapestry.teg.jsonvalues as take
from tapestry.teg.encoding import MalformedError
from tapestry.teg.exporters.tables.document import FORMAT, VERSION
from tapestry.teg.importers.shardings.stated import (
    ShardingError,
    StatedAxis,
    StatedSharding,
    StatedShardings,
)
from tapestry.teg.jsontext import parse
from tapestry.teg.sharding.spec import WHOLE, Split

# Members that repeat others, or state nothing about where a tensor is.
FOR_PEOPLE = ("role", "shape", "dtype", "replicated", "reads", "layout", "carries", "verdicts")


def from_table(text: str | bytes) -> StatedShardings:
    """Read a table in JSON.

    A tensor of which a dimension has a fault is taken as its factors state it.

    Raises:
        ShardingError: no JSON, or JSON of another form; says at which path.
    """
    try:
        return _table(parse(text))
    except MalformedError as problem:
        raise ShardingError(str(problem.issue)) from None


def _table(document: Any) -> StatedShardings:
    take.members(document, "$", ("format", "version", "mesh", "tensors"), ("program", "plan"))
    if (document["format"], document["version"]) != (FORMAT, VERSION):
        came = f"format {document['format']!r} version {document['version']!r}"
        raise MalformedError("$.format", came, f"this program reads {FORMAT!r} version {VERSION}")
    take.members(document["mesh"], "$.mesh", ("axes",), ("of", "devices"))
    axes = take.listed(document["mesh"]["axes"], "$.mesh.axes")
    tensors = take.listed(document["tensors"], "$.tensors")
    return StatedShardings(
        tuple(_axis(value, f"$.mesh.axes[{k}]") for k, value in enumerate(axes)),
        tuple(_tensor(value, f"$.tensors[{k}]") for k, value in enumerate(tensors)),
    )


def _axis(value: Any, path: str) -> StatedAxis:
    take.members(value, path, ("name", "size"), ("sub_axes",))
    size = take.integer(value["size"], f"{path}.size")
    if size < 1:
        raise MalformedError(f"{path}.size", str(size), "an axis has at least one device")
    sub_axes = take.sites(value.get("sub_axes", []), f"{path}.sub_axes")
    return StatedAxis(take.site(value["name"], f"{path}.name"), size, sub_axes)


def _tensor(value: Any, path: str) -> StatedSharding:
    take.members(value, path, ("name", "dims"), (*FOR_PEOPLE, "partial", "factored"))
    name = take.site(value["name"], f"{path}.name")
    dims, is_faulty = _dims(value["dims"], f"{path}.dims")
    factors = None
    if is_faulty:
        if "factored" not in value:
            raise MalformedError(
                f"{path}.dims", "a dimension has a fault", "expected 'factored', which states it"
            )
        own = value["factored"]
        take.members(own, f"{path}.factored", ("shape", "dims"), ("groups",))
        factors = take.integers(own["shape"], f"{path}.factored.shape")
        dims, _ = _dims(own["dims"], f"{path}.factored.dims")
    partial: tuple[str, ...] = ()
    monoid = None
    if "partial" in value:
        take.members(value["partial"], f"{path}.partial", ("axes", "monoid"))
        partial = take.sites(value["partial"]["axes"], f"{path}.partial.axes")
        monoid = take.text(value["partial"]["monoid"], f"{path}.partial.monoid")
    return StatedSharding(name, dims, partial, monoid, factors)


def _dims(value: Any, path: str) -> tuple[tuple[Split, ...], bool]:
    """Return the splits, and whether one of them could not be stated."""
    dims, is_faulty = [], False
    for k, dim in enumerate(take.listed(value, path)):
        where = f"{path}[{k}]"
        take.members(dim, where, ("axes",), ("chunk", "granule", "fault"))
        axes = take.sites(dim["axes"], f"{where}.axes")
        granule = take.integer(dim.get("granule", 1), f"{where}.granule")
        if granule < 1:
            raise MalformedError(f"{where}.granule", str(granule), "a granule is at least 1")
        dims.append(Split(axes, granule) if axes else WHOLE)
        is_faulty = is_faulty or bool(dim.get("fault"))
    return tuple(dims), is_faulty
