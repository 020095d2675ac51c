"""Tasks of the pool that compute the documents of devices and meshes. Results are gzipped JSON."""

from __future__ import annotations

from functools import lru_cache

from tapestry.service.api.packing import gzipped_json
from tapestry.service.device_curves import device_document
from tapestry.service.mesh_curves import mesh_document

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
