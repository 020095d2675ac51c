"""Differences between the figures of two meshes, by table: a device's classes of kernels, an axis' collectives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SOURCES = ("source", "sources")


@dataclass(frozen=True)
class FigureDifference:
    """A figure that two meshes have with other values; None where one does not state it."""

    figure: str
    first: Any
    second: Any

    @property
    def ratio(self) -> float | None:
        """The larger value divided by the smaller; None where these are no positive numbers."""
        values = (self.first, self.second)
        if any(isinstance(v, bool) or not isinstance(v, (int, float)) or v <= 0 for v in values):
            return None
        return float(max(values) / min(values))

    def text(self) -> str:
        """Format the figure and both values."""
        one, other = ("not given" if v is None else v for v in (self.first, self.second))
        return f"{self.figure}: {one} and {other}"

    def to_json(self) -> dict[str, Any]:
        return {"figure": self.figure, "first": self.first, "second": self.second, "ratio": self.ratio}


@dataclass(frozen=True)
class TableDifference:
    """The figures of one table in which two meshes differ; at least one."""

    table: str
    figures: tuple[FigureDifference, ...]

    @property
    def largest(self) -> FigureDifference:
        """The figure with the largest ratio."""
        return max(self.figures, key=lambda each: each.ratio or 0.0)

    def text(self) -> str:
        """Format the table as a line: one figure with its values, of several their number and the largest ratio."""
        if len(self.figures) == 1:
            return f"{self.table} {self.figures[0].text()}"
        largest, count = self.largest, f"{self.table}: {len(self.figures)} figures"
        if largest.ratio is None:
            return f"{count}, such as {largest.text()}"
        return f"{count}, by a factor of up to {largest.ratio:.3g}, of {largest.text()}"

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "largest_ratio": self.largest.ratio,
            "figures": [each.to_json() for each in self.figures],
        }


def mesh_differences(
    first: Mapping[str, Any], second: Mapping[str, Any], without: Collection[str] = ()
) -> tuple[TableDifference, ...]:
    """Return the tables in which two documents of meshes differ, and all differing figures.

    Sources do not count, nor do the figures named in `without`.
    """
    one, other = _tables(first), _tables(second)
    found = []
    for table in dict.fromkeys((*one, *other)):
        a, b = one.get(table, {}), other.get(table, {})
        names = (figure for figure in dict.fromkeys((*a, *b)) if figure not in without)
        compared = (FigureDifference(figure, a.get(figure), b.get(figure)) for figure in names)
        if figures := tuple(each for each in compared if each.first != each.second):
            found.append(TableDifference(table, figures))
    return tuple(found)


def same_figures(first: object, second: object) -> bool:
    """Return whether two documents of meshes are equal but for what a run sets: launches, and the quantile of times.

    Errors of kernels and links are common to runs that differ in these alone.
    """
    return _without_options(first) == _without_options(second)


def _without_options(mesh: object) -> object:
    if isinstance(mesh, Mapping):
        return {
            key: _without_options(value) for key, value in mesh.items() if key not in ("launch", "quantile")
        }
    return [_without_options(each) for each in mesh] if isinstance(mesh, list) else mesh


def _tables(mesh: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the figures of a mesh's document, by table and name; those of different nodes are apart."""
    found: dict[str, dict[str, Any]] = {}
    nodes = mesh.get("nodes", ())
    parts = [(f"node {k}: ", node) for k, node in enumerate(nodes)] or [("", mesh)]
    for k, node in enumerate(nodes):
        found[f"node {k}"] = {"count": node.get("count", 1)}
    for place, part in parts:
        for table, figure, value in (*_device_figures(part["device"]), *_link_figures(part)):
            found.setdefault(place + table, {})[figure] = value
    if nodes:
        for table, figure, value in _link_figures({"axes": (), "network": mesh["network"]}):
            found.setdefault(table, {})[figure] = value
    return found


def _device_figures(device: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield table, name and value of a device's figures; the precisions of a class of kernels are one table."""
    for key, value in device.items():
        if key == "kernels":
            for name, kernel in value.items():
                kernel_class, _, precision = name.partition(".")
                table = f"device.kernels.{kernel_class}"
                yield from ((table, f"{precision} {f}".lstrip(), v) for f, v in _leaves(kernel))
        elif key not in SOURCES:
            table = f"device.{key}" if isinstance(value, Mapping) else "device"
            leaves = _leaves(value) if isinstance(value, Mapping) else _leaves(value, key)
            yield from ((table, f, v) for f, v in leaves)


def _link_figures(mesh: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield table, name and value of the figures of axes and network; the groups of a collective are one table."""
    places = [(f"axis {axis['name']}", axis) for axis in mesh["axes"]]
    places += [("network", mesh["network"])] if "network" in mesh else []
    for place, axis in places:
        for table in axis.get("collectives", ()):
            group = f"of {table['members']} members"
            group += f" with {table['inside']} each" if table.get("inside", 1) > 1 else ""
            group += f", {table['algorithm']}" if table.get("algorithm", "any") != "any" else ""
            where = f"{place} {table['kind']}"
            yield where, f"error {group}", table["error"]
            for k, (size, seconds) in enumerate(zip(table["bytes"], table["seconds"], strict=True)):
                again = table["bytes"][:k].count(size)  # two points of a step in the times
                number = f" (point {again + 1})" if again else ""
                yield where, f"seconds for {size:,.0f} bytes{number} {group}", seconds
        own = {key: value for key, value in axis.items() if key != "collectives"}
        yield from ((place, f, v) for f, v in _leaves(own))


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the figures of a part of a document with their places, such as `tiles[0].m`."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            if key not in SOURCES:
                yield from _leaves(member, f"{place}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for k, member in enumerate(value):
            yield from _leaves(member, f"{place}[{k}]")
    else:
        yield place, value
