"""JSON Schemas of meshes in requests. What their figures may be is said by their faults: it depends on each other."""

from __future__ import annotations

from typing import Any

from tapestry.service.requests import LONGEST_TEXT, WIDEST
from tapestry.teg.printable import PATTERN

MESH_SCHEMA = "#/components/schemas/MeshDocument"
# What a model says of a mesh: in the document of the API, the schema stands in its place.
MESH = {"type": "object", "title": "MeshDocument"}
_PART_SCHEMA = {"$ref": "#/components/schemas/MeshPart"}
_TEXT = {"type": "string", "maxLength": LONGEST_TEXT, "pattern": PATTERN}
_NAME = {"minLength": 1, **_TEXT}
_TABLE = {
    "type": "object",
    "propertyNames": _TEXT,
    "maxProperties": WIDEST,
    "additionalProperties": _PART_SCHEMA,
}
_NAME_OR_TABLE = {"anyOf": [_NAME, _TABLE]}
MESH_SCHEMAS: dict[str, dict[str, Any]] = {
    "MeshDocument": {
        "title": "MeshDocument",
        "description": "a mesh, as a mesh file has it: of equal devices along axes, or of nodes",
        "type": "object",
        "properties": {
            "name": _NAME,
            "device": _NAME_OR_TABLE,
            "axes": {"type": "array", "items": _TABLE, "minItems": 1, "maxItems": WIDEST},
            "nodes": {"type": "array", "items": _NAME_OR_TABLE, "minItems": 1, "maxItems": WIDEST},
            "network": _TABLE,
            "systems": {"type": "array", "items": _NAME, "maxItems": WIDEST},
            "device_count": {"type": "integer", "minimum": 1},
        },
        "anyOf": [
            {"required": ["name", "device", "axes"], "properties": {"nodes": False}},
            {"required": ["name", "nodes"], "properties": {"device": False, "axes": False}},
        ],
        "additionalProperties": False,
    },
    "MeshPart": {
        "title": "MeshPart",
        "description": "a figure, a text, or a list or table of such",
        "anyOf": [
            _TEXT,
            {"type": "boolean"},
            {"type": "number", "exclusiveMinimum": -(2**63), "exclusiveMaximum": 2**63},
            {"type": "array", "items": _PART_SCHEMA, "maxItems": WIDEST},
            _TABLE,
        ],
    },
}
