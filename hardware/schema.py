"""The JSON Schema of device and mesh files, recorded from their readers: what they read is what files may state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapestry.hardware.ranges import RANGES
from tapestry.hardware.tables import MISSING, Faults, Table

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# What the keys mean that are no figures; those have their meaning in `hardware.ranges`.
MEANINGS = {
    "name": "what it is called; of an axis, its name in shardings",
    "vendor": "who makes it",
    "architecture": "the generation of chips; a device that names it inherits kernels that it does not state",
    "launch": "how kernels are launched: in a captured graph, or one by one by the host",
    "kernels": "what kernels of a class reach, by class such as `softmax`, or class and precision as `softmax.fp16`",
    "rows": "pairs of a row's length and the share of the memory's rate that is reached",
    "overlaps": "whether matrix units and vector units work at the same time",
    "origin": "the devices that figures are inherited from",
    "aliases": "further names",
    "systems": "names of the machine, or of its network, in reports of measurements",
    "device": "a name of the catalog, the path of a TOML file, or a device's table; needed unless there are `nodes`",
    "axes": "the axes of devices, the slowest first; needed unless there are `nodes`",
    "in_switch": "whether links that can reduce do so; false where the library is told not to",
    "size": "devices along the axis",
    "topology": "how the devices of an axis are joined",
    "network": "the links between several such meshes, each figure one device's share: an axis without name and size",
    "device_count": "the number of devices, compared with the product of the axes",
    "layouts": "physical layouts that kernels work in, the default one first",
    "tiles": "blocks of a product that one core computes at a time",
    "compute_dtype_default": "the precision, or `vector`, of products of element types without a peak",
    "collectives": "measured collectives, from which times follow",
    "collectives_from": "a mesh that comes with Tapestry, whose measured collectives hold here too",
    "kind": "the collective",
    "members": "devices that take part, along the axis",
    "inside": "devices of faster axes that take part with each member",
    "algorithm": "how the library carries it out",
    "bytes": "sizes; of the whole tensor, in `all_to_all` of what one device holds",
    "seconds": "the time of each size",
    "source": "where the measurements come from",
    "sources": "where a figure comes from, by its key",
}
ANY_NAME = "<name>"  # a key of a table whose keys are names, such as precisions
Schema = dict[str, Any]


class Recorder(Table):
    """A table without content that notes what its reader asks for: keys, kinds and ranges."""

    def __init__(self, where: str) -> None:
        super().__init__({ANY_NAME: None}, where, Faults())
        self.properties: dict[str, Schema] = {}
        self.optional_keys: set[str] = set()

    def schema(self) -> Schema:
        """Return the schema of the table; of one that is read name by name, that of what each name stands for."""
        members = {key: kept for key, kept in self.properties.items() if key != ANY_NAME}
        properties = {k: _described(k, _resolved(v)) for k, v in members.items()}
        found: Schema = {"type": "object", "properties": properties}
        if required := [key for key in members if key not in self.optional_keys]:
            found["required"] = required
        named = self.properties.get(ANY_NAME)
        return found | {"additionalProperties": False if named is None else _resolved(named)}

    def fault(self, key: str, text: str) -> None:
        """Note nothing: placeholders break rules that values keep."""

    def get(self, key: str, expected: str) -> object:
        self.properties.setdefault(key, {"description": expected})
        return MISSING

    def has(self, key: str, expected: str = "") -> bool:
        self.optional_keys.add(key)
        return True

    def text(self, key: str) -> str:
        self.properties[key] = {"type": "string", "minLength": 1}
        return ""

    def flag(self, key: str, default: bool) -> bool:
        self.optional_keys.add(key)
        self.properties[key] = {"type": "boolean"}
        return default

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        self.properties[key] = {"enum": list(known)}
        return ""

    def number(self, key: str, figure: str = "", zero: bool = False) -> float:
        self.properties[key] = _figure(figure or key, "number", zero)
        return super().number(key, figure, zero)

    def whole(self, key: str) -> int:
        self.properties[key] = _figure(key, "integer")
        return super().whole(key)

    def items(self, key: str) -> list[object]:
        self.properties[key] = {"type": "array", "minItems": 1}
        return []

    def ascending(self, key: str, figure: str) -> tuple[float, ...]:
        items = _figure(figure, "number", zero=False)
        self.properties[key] = {"type": "array", "minItems": 1, "items": items}
        return ()

    def tables(self, key: str) -> list[Table]:
        member = Recorder(f"{self.at(key)}[0]")
        self.properties[key] = {"type": "array", "minItems": 1, "items": member}
        return [member]

    def texts(self, key: str) -> tuple[str, ...]:
        self.optional_keys.add(key)
        self.properties[key] = {"type": "array", "minItems": 1, "items": {"type": "string"}}
        return ()

    def table(self, key: str) -> Table:
        member = Recorder(self.at(key))
        self.properties[key] = {"is": member}
        return member


def _figure(figure: str, kind: str, zero: bool = True) -> Schema:
    """Return the schema of a figure with a range, whose meaning and unit are its description."""
    known = RANGES.get(figure)
    if known is None:
        return {"type": kind, "minimum": 1}
    is_share = known.unit == "share"
    is_above = is_share or (known.least == 0 and not zero)
    bounds = {"exclusiveMinimum": 0} if is_above else {"minimum": known.least}
    unit = f", {known.unit}" if known.unit and not is_share else ""
    return {"type": kind, **bounds, "maximum": known.most, "description": f"{known.about}{unit}"}


def _resolved(kept: Schema) -> Schema:
    """Replace the recorders in what was noted of a key by their schemas."""
    if isinstance(member := kept.get("is"), Recorder):
        return member.schema()
    if isinstance(member := kept.get("items"), Recorder):
        return {**kept, "items": member.schema()}
    return kept


def _described(key: str, schema: Schema) -> Schema:
    """Add what a key means where that does not follow from a range."""
    return {**schema, "description": MEANINGS[key]} if key in MEANINGS and "maximum" not in schema else schema


def recorded(title: str, read: Callable[[Table], object]) -> Schema:
    """Return the schema of the files that a reader reads."""
    recorder = Recorder(title)
    read(recorder)
    return {"$schema": DIALECT, "title": title, **recorder.schema()}
