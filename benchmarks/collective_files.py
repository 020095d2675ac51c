"""Tables of measured collectives in mesh files: the place of each, and their text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tapestry.hardware.collective_tables import CollectiveTable

MESHES = Path(__file__).parents[1] / "hardware" / "meshes"


class MeasuredGroup(NamedTuple):
    """The table that a row belongs to: the file of its node, the axis or the network in it, kind and group."""

    mesh: str
    is_network: bool
    kind: str
    members: int
    inside: int
    algorithm: str


def table_text(table: CollectiveTable, parent: str) -> str:
    """Write a table as TOML."""
    lines = [f"[[{parent}.collectives]]", f'kind = "{table.kind}"', f"members = {table.members}"]
    lines += [f"inside = {table.inside}"] if table.inside > 1 else []
    lines += [f'algorithm = "{table.algorithm}"'] if table.algorithm != "any" else []
    sizes = ", ".join(f"{n:.0f}" for n in table.bytes)
    times = ", ".join(f"{t:g}" for t in table.seconds)
    lines += [
        f"bytes = [{sizes}]",
        f"seconds = [{times}]",
        f"error = {table.error:g}",
        f'source = "{table.source}"',
    ]
    return "\n".join(lines) + "\n"


def write_mesh(path: Path, tables: Mapping[MeasuredGroup, CollectiveTable]) -> None:
    """Replace the tables of the last axis and of the network in a mesh file."""
    parts = path.read_text(encoding="utf-8").split("\n[")
    kept = [part for part in parts if not part.startswith(("[axes.collectives]]", "[network.collectives]]"))]
    for parent, is_network in (("axes", False), ("network", True)):
        written = [table_text(t, parent) for p, t in sorted(tables.items()) if p.is_network == is_network]
        if written:
            heads = ("[axes]]", "axes.sources]") if parent == "axes" else ("network]", "network.sources]")
            at = max(k for k, part in enumerate(kept) if part.startswith(heads)) + 1
            kept[at:at] = [text.removeprefix("[") for text in written]
    path.write_text("\n[".join(part.rstrip("\n") + "\n" for part in kept), encoding="utf-8")
