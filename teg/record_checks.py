"""Checks of single records of a graph: a tensor, a name, a table of costs."""

from __future__ import annotations

from collections.abc import Iterator

from tapestry.teg.block_checks import type_text
from tapestry.teg.dtypes import NAMES
from tapestry.teg.graph import Definition, Tensor
from tapestry.teg.issues import Issue, key_path
from tapestry.teg.printable import is_printable
from tapestry.teg.zpoint import DimensionMap


def tensor_issues(site: str, tensor: Tensor, path: str) -> Iterator[Issue]:
    """Yield the issues of a tensor: name, sizes, element type, and a size too large to exist."""
    yield from name_issues(tensor.site, f"{path}.site")
    if tensor.site != site:
        yield Issue(
            "site", f"{path}.site", f"stored under {site!r} but called {tensor.site!r}", "use one name"
        )
    if any(type(n) is not int or n < 0 for n in tensor.shape):
        yield Issue("shape", f"{path}.shape", f"shape {tensor.shape}", "sizes are Python ints from 0 up")
    elif tensor.dtype not in NAMES:
        yield Issue(
            "dtype", f"{path}.dtype", f"unknown type {tensor.dtype!r}", f"known are {', '.join(NAMES)}"
        )
    elif tensor.type.size_bytes >= 2**63:
        yield Issue(
            "shape", f"{path}.shape", f"{type_text(tensor.type)} is too large", "stay below 2**63 bytes"
        )


def dimension_name_issues(tensor: Tensor, path: str) -> Iterator[Issue]:
    """Yield an issue unless all dimensions have valid names, or none."""
    if not tensor.names:
        return
    if len(tensor.names) != len(tensor.shape):
        message = f"{len(tensor.names)} names for {len(tensor.shape)} dimensions"
        yield Issue("names", f"{path}.names", message, "name every dimension, or leave the names out")
    try:
        DimensionMap(tensor.names)
    except ValueError as error:
        yield Issue("names", f"{path}.names", str(error), "names help people only; leaving them out is fine")


def name_issues(site: str, path: str) -> Iterator[Issue]:
    """Yield an issue if a site is not text that people can read."""
    if not site or not is_printable(site):
        yield Issue("site", path, f"{site!r} is no name", "use printable text that is not empty")


def cost_issues(definition: Definition, path: str) -> Iterator[Issue]:
    """Yield issues for costs that grow with an index dimension that the signature lacks."""
    if definition.costs is None:
        return
    dims = [] if definition.signature is None else [d.name for d in definition.signature.dims]
    for resource in definition.costs.resources:
        for dim, _ in resource.steps:
            if dim not in dims:
                where = key_path(f"{key_path(path, resource.resource)}.steps", dim)
                known = (
                    f"its dimensions are {', '.join(dims)}" if dims else "a fixed block has no index to step"
                )
                yield Issue("costs", where, f"{definition.operator!r} has no index dimension {dim!r}", known)
