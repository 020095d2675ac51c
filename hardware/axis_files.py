"""Axes of mesh files: tables of TOML become axes, with the collectives that were measured on their links."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tapestry.hardware.collective_tables import ALGORITHMS, MEASURED_KINDS, CollectiveTable, distinct
from tapestry.hardware.device_files import shipped
from tapestry.hardware.mesh import TOPOLOGIES, MeshAxis
from tapestry.hardware.relations import fast_point
from tapestry.hardware.tables import CUTOFF, Table
from tapestry.teg.faults import near_hint, value_text

AXIS_NAME = re.compile(r"[A-Za-z_][\w-]*")  # as specs are written: [gpu.0, -]
FROM = "collectives_from"


def read_axis(table: Table, name: str | None = None) -> MeshAxis:
    """Read an axis, or the network between nodes, whose `name` is given and of which there is one as yet."""
    measured = _collectives(table, name is not None)
    axis = MeshAxis(
        name=table.text("name") if name is None else name,
        size=table.whole("size") if name is None else 1,
        topology=table.one_of("topology", TOPOLOGIES),
        bandwidth_bytes_per_s=table.number("bandwidth_bytes_per_s"),
        latency_s=table.number("latency_s", zero=True),
        efficiency=table.number_or("efficiency", 1.0),
        all_reduce_efficiency=table.optional("all_reduce_efficiency"),
        ramp_s=table.number_or("ramp_s", 0.0, zero=True),
        small_message_bytes_per_s=table.optional("small_message_bytes_per_s"),
        collectives=distinct(each for _, each in measured),
        in_switch=table.flag("in_switch", True),
        quantile=table.optional("quantile"),
        sources=table.sources(),
    )
    if axis.name and not AXIS_NAME.fullmatch(axis.name):
        table.fault(
            "name", f"expected a letter, then letters, digits, `_` and `-`, not {value_text(axis.name)}"
        )
    small, rate = axis.small_message_bytes_per_s, axis.bandwidth_bytes_per_s
    is_sound = table.is_sound("small_message_bytes_per_s", "bandwidth_bytes_per_s")
    if small is not None and small > rate and table.faults.plausible and is_sound:
        table.fault(
            "small_message_bytes_per_s", f"expected at most bandwidth_bytes_per_s, {rate:g}, not {small:g}"
        )
    if table.faults.plausible:
        _check_collectives(table, axis, measured)
    table.finish()
    return axis


def _check_collectives(table: Table, axis: MeshAxis, measured: Sequence[tuple[str, CollectiveTable]]) -> None:
    """Report measurements that the links of an axis do not allow; groups larger than the axis say what its links do."""
    if not table.is_sound("collectives", "collectives_from", "bandwidth_bytes_per_s", "topology", "size"):
        return
    for place, each in measured:
        is_own = place != FROM
        if not is_own and not table.is_sound(FROM):
            return  # one is enough to say that the links are unlike
        if (point := fast_point(each, axis)) is not None:
            at, least = point
            table.fault(
                f"{place}: seconds[{at}]" if is_own else place,
                f"expected at least {least:.3g} s, what the links take for {each.bytes[at]:g} bytes of "
                f"{each.kind} among {each.members}, not {each.seconds[at]:.3g}; "
                f"leave out what was measured on faster links, or correct bandwidth_bytes_per_s",
            )


def _collectives(table: Table, is_network: bool) -> list[tuple[str, CollectiveTable]]:
    """Read the measurements of an axis or a network, with places: its own, then those of the mesh that it names."""
    own = _own_collectives(table)
    if not table.has(FROM, "a mesh that comes with Tapestry"):
        return own
    name = table.text(FROM)
    content = shipped("meshes").get(name)
    if content is None:
        hint = near_hint(name, tuple(shipped("meshes")), cutoff=CUTOFF)
        table.fault(FROM, f"expected a mesh that comes with Tapestry, not {value_text(name)}; {hint}")
        return own
    other = Table(content, f"meshes/{name}.toml", table.faults)
    place = other.table("network") if is_network else other.tables("axes")[-1]
    return own + [(FROM, each) for _, each in _own_collectives(place)]


def _own_collectives(table: Table) -> list[tuple[str, CollectiveTable]]:
    if not table.has("collectives", "a list of tables"):
        return []
    return [(f"collectives[{k}]", _collective(each)) for k, each in enumerate(table.tables("collectives"))]


def _collective(table: Table) -> CollectiveTable:
    """Read the measurements of a collective: lists of equal length that ascend."""
    found = CollectiveTable(
        kind=table.one_of("kind", tuple(MEASURED_KINDS)),
        members=table.whole("members"),
        bytes=table.ascending("bytes", "message_bytes"),
        seconds=table.ascending("seconds", "collective_s"),
        error=table.number("error", "error", zero=True),
        source=table.text("source"),
        inside=table.optional_whole("inside") or 1,
        algorithm=table.optional_one_of("algorithm", ALGORITHMS),
    )
    if len(found.bytes) != len(found.seconds):
        table.fault("seconds", f"expected as many as bytes, {len(found.bytes)}, not {len(found.seconds)}")
    if found.members == 1:
        table.fault("members", "expected at least 2, not 1")
    if found.kind == "send_recv" and found.members > 2:
        table.fault("members", f"expected 2, the sender and the receiver, not {value_text(found.members)}")
    table.finish()
    return found
