"""`tapestry devices` and `tapestry meshes`: the catalog of devices and meshes."""

from __future__ import annotations

from argparse import Namespace

from tapestry.hardware import (
    Device,
    Mesh,
    device_names,
    device_to_dict,
    load_device,
    load_mesh,
    mesh_names,
    node_names,
)
from tapestry.service.cli.errors import OK
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.store import mesh_to_document
from tapestry.teg.readable import quantity


def run(arguments: Namespace) -> int:
    """List the devices or the meshes, whichever the command is named after."""
    if arguments.command == "devices":
        _devices([load_device(name) for name in device_names()], arguments.json)
    else:
        _meshes([load_mesh(name) for name in mesh_names()], arguments.json)
    return OK


def _devices(devices: list[Device], as_json: bool) -> None:
    if as_json:
        print_json({"devices": [device_to_dict(device) for device in devices]})
        return
    rows = [
        (
            device.name,
            device.vendor,
            quantity(device.memory_bytes, "B"),
            f"{device.memory_bytes_per_s / 1e12:.2f} TB/s",
            ", ".join(f"{dtype} {rate / 1e12:,.0f}" for dtype, rate in device.peak_flops_per_s.items()),
            "-" if device.tdp_w is None else f"{device.tdp_w:.0f} W",
            "-" if device.price_usd_per_hour is None else f"{device.price_usd_per_hour:.2f} USD/h",
        )
        for device in devices
    ]
    headers = ("device", "vendor", "memory", "bandwidth", "peak Tflop/s", "power", "price")
    print_table(headers, rows, right=(2, 3, 5, 6))


def _meshes(meshes: list[Mesh], as_json: bool) -> None:
    if as_json:
        print_json({"meshes": [mesh_to_document(mesh) for mesh in meshes]})
        return
    rows = [
        (
            mesh.name,
            str(mesh.device_count),
            mesh.device.name,
            ", ".join(
                f"{a.name}: {a.size} ({a.topology}, {a.bandwidth_bytes_per_s / 1e9:,g} GB/s)"
                for a in mesh.axes
            ),
        )
        for mesh in meshes
    ]
    print_table(("mesh", "devices", "device", "axes, slowest first"), rows, right=(1,))
    print(f"\nAny number N of nodes, named Nx-MESH (2x-dgx-h100), of {', '.join(node_names())}")
