"""Tasks of the pool that compute the documents of devices and meshes, as gzipped JSON, and that read mesh files."""

from __future__ import annotations

import json
import tomllib
from functools import lru_cache

from tapestry.service.api.packing import gzipped_json
from tapestry.service.api.tasks import store_at
from tapestry.service.device_curves import device_document, document_of_device
from tapestry.service.mesh_curves import document_of_mesh, mesh_document
from tapestry.service.store import StoreAddress, mesh_of

MOST_KEPT = 64  # documents, of some 20 KB; the catalog does not change while a process lives


@lru_cache(maxsize=MOST_KEPT)
def compute_device_curves(name: str) -> bytes | None:
    """Compute the document of a device; None if the catalog has no device of that name."""
    document = device_document(name)
    return None if document is None else gzipped_json(document)


@lru_cache(maxsize=MOST_KEPT)
def compute_mesh_curves(name: str) -> bytes | None:
    """Compute the document of a mesh; None if the catalog has no mesh of that name."""
    document = mesh_document(name)
    return None if document is None else gzipped_json(document)


def compute_run_curves(run_id: str, address: StoreAddress) -> bytes:
    """Compute the documents of the mesh of a run and of each kind of device in it, as they were for the run."""
    mesh = mesh_of(store_at(address).runs.request(run_id).mesh)
    devices = {node.device.name: node.device for node in mesh.nodes or (mesh,)}
    shown = [document_of_device(device) for device in devices.values()]
    return gzipped_json({"mesh": document_of_mesh(mesh), "devices": shown})


def read_mesh_file(text: str) -> tuple[str, str]:
    """Read TOML, and return its fields as JSON, or what is wrong with it.

    It is done in the pool, since a short text may state a key of so many parts that reading it takes gigabytes.
    """
    try:
        return json.dumps(tomllib.loads(text), allow_nan=False, default=str), ""
    except (ValueError, RecursionError) as error:
        return "", str(error)
