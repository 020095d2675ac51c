"""`tapestry mesh`: start a mesh file from one of the catalog, check one, show one."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from dataclasses import replace

from tapestry.hardware import CatalogError, Mesh, device_schema, load_file, mesh_schema
from tapestry.service.cli.errors import FAILED, OK, CommandError
from tapestry.service.cli.mesh_files import check_new, write_mesh
from tapestry.service.cli.output import paint, print_json, print_table
from tapestry.service.cli.searching import read_mesh
from tapestry.service.store import mesh_to_document
from tapestry.teg.brief import counted
from tapestry.teg.readable import quantity


def run(arguments: Namespace) -> int:
    """Carry out the action."""
    actions = {"new": _new, "check": _check, "show": _show, "schema": _schema}
    return actions[arguments.action](arguments)


def _new(arguments: Namespace) -> int:
    check_new(arguments.file, arguments.force)
    mesh = read_mesh(arguments.source)
    write_mesh(mesh, arguments.file, arguments.with_device)
    if arguments.json:
        print_json({"file": arguments.file, "from": mesh.name})
    else:
        print(
            f"wrote {arguments.file}, a copy of {mesh.name}; change it, then `tapestry mesh check {arguments.file}`"
        )
    return OK


def _check(arguments: Namespace) -> int:
    if not arguments.file.endswith(".toml"):
        raise CommandError(f"{arguments.file!r}: a mesh file ends in .toml")
    faults: tuple[str, ...] = ()
    try:
        load_file(arguments.file)
    except CatalogError as error:
        faults = error.faults
    if arguments.json:
        print_json({"file": arguments.file, "ok": not faults, "faults": list(faults)})
        return FAILED if faults else OK
    for fault in faults:
        print(fault)
    count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
    print(paint(count, "red") if faults else f"{arguments.file}: {paint('ok', 'green')}")
    return FAILED if faults else OK


def _schema(arguments: Namespace) -> int:
    print_json(device_schema() if arguments.device else mesh_schema())
    return OK


def _show(arguments: Namespace) -> int:
    mesh = read_mesh(arguments.mesh)
    if arguments.json:
        print_json({**mesh_to_document(mesh), "device_count": mesh.device_count})
    else:
        _print(mesh)
    return OK


def _print(mesh: Mesh) -> None:
    device = mesh.device
    print(f"{mesh.name}: {counted(mesh.device_count, 'device')}, {device.name} ({device.vendor})\n")
    network = (replace(mesh.network, name="between nodes"),) if mesh.network else ()
    rows = [
        (
            axis.name,
            str(axis.size) if axis in mesh.axes else "any",
            axis.topology,
            f"{axis.bandwidth_bytes_per_s / 1e9:,g} GB/s",
            f"{axis.efficiency:.0%}",
            quantity(axis.latency_s, "s"),
        )
        for axis in (*network, *mesh.axes)
    ]
    print_table(("axis", "devices", "topology", "bandwidth", "reached", "latency"), rows, right=(1, 3, 4, 5))
    peaks = ", ".join(f"{dtype} {rate / 1e12:,.4g}" for dtype, rate in device.peak_flops_per_s.items())
    if mesh.nodes:
        counts = Counter((node.name, node.device.name) for node in mesh.nodes)
        print("\nnodes:")
        kinds = [(node, str(count), kind) for (node, kind), count in counts.items()]
        print_table(("node", "count", "device"), kinds, right=(1,))
    print("\none device, by the worst figure of all kinds:" if mesh.nodes else "\none device:")
    print_table(
        ("figure", "value"),
        [
            ("memory", quantity(device.memory_bytes, "B")),
            ("memory's bandwidth", f"{device.memory_bytes_per_s / 1e9:,g} GB/s"),
            ("peak Tflop/s", peaks),
            ("vector units", f"{device.vector_flops_per_s / 1e12:,.4g} Tflop/s"),
            ("layouts", ", ".join(device.layouts)),
            ("power", "unknown" if device.tdp_w is None else f"{device.tdp_w:g} W"),
            (
                "price",
                "unknown" if device.price_usd_per_hour is None else f"{device.price_usd_per_hour:g} USD/h",
            ),
        ],
    )
