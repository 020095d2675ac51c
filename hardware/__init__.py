"""Hardware models: devices, meshes, timing and the device simulator."""

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.hardware: imported as hardware, its classes would exist twice")


from tapestry.hardware.catalog import (
    device_names,
    load_device,
    load_file,
    load_mesh,
    mesh_from_dict,
    mesh_names,
    mesh_schema,
    node_names,
)
from tapestry.hardware.device import Device, MatrixTile, MissingFigureError
from tapestry.hardware.device_files import device_from_dict, device_schema, device_to_dict
from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.hardware.mixed_meshes import node_meshes
from tapestry.hardware.tables import CatalogError

__all__ = [
    "CatalogError",
    "Device",
    "MatrixTile",
    "Mesh",
    "MeshAxis",
    "MissingFigureError",
    "device_from_dict",
    "device_names",
    "device_schema",
    "device_to_dict",
    "load_device",
    "load_file",
    "load_mesh",
    "mesh_from_dict",
    "mesh_names",
    "mesh_schema",
    "node_meshes",
    "node_names",
]
