"""Where a program runs: devices, meshes, timing and the device simulator."""

from hardware.catalogue import (
    device_from_dict,
    device_names,
    load_device,
    load_mesh,
    mesh_from_dict,
    mesh_names,
)
from hardware.mesh import Device, Mesh, MeshAxis, MissingFigureError, Tile
from hardware.tables import CatalogueError

__all__ = [
    "CatalogueError",
    "Device",
    "Mesh",
    "MeshAxis",
    "MissingFigureError",
    "Tile",
    "device_from_dict",
    "device_names",
    "load_device",
    "load_mesh",
    "mesh_from_dict",
    "mesh_names",
]
