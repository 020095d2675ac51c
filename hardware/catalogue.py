"""Devices and meshes from TOML: the catalogue that comes with Tapestry, and users' own files alike."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from math import isfinite
from os import PathLike, fspath
from pathlib import Path

from hardware.layouts.layout import LayoutError
from hardware.layouts.native import ROW_MAJOR, native_named
from hardware.mesh import SHORT_DTYPES, TOPOLOGIES, VECTOR, Device, Mesh, MeshAxis, Tile

LONGEST_MESH = 1_000_000  # devices; beyond it a file is a typing error rather than a machine


class CatalogueError(ValueError):
    """An unknown name, or a file that is no device or mesh; the message says where and what to do."""


class _Table:
    """One table of a file, read key by key; knows its place, so that every error can say it."""

    def __init__(self, content: object, where: str) -> None:
        if not isinstance(content, Mapping):
            raise CatalogueError(f"{where}: expected a table, got {_shown(content)}")
        self.content: Mapping[str, object] = content
        self.where = where
        self.asked: list[str] = []

    def at(self, key: str) -> str:
        return f"{self.where}: {key}"

    def get(self, key: str, expected: str) -> object:
        self.asked.append(key)
        if key not in self.content:
            raise CatalogueError(f"{self.at(key)}: missing; expected {expected}")
        return self.content[key]

    def has(self, key: str) -> bool:
        self.asked.append(key)
        return key in self.content

    def text(self, key: str) -> str:
        value = self.get(key, "a text")
        if not isinstance(value, str) or not value:
            raise CatalogueError(f"{self.at(key)}: expected a text, got {_shown(value)}")
        return value

    def number(self, key: str, zero: bool = False) -> float:
        expected = "a number, zero or more" if zero else "a number above zero"
        return _number(self.get(key, expected), self.at(key), expected, zero)

    def whole(self, key: str) -> int:
        expected = "a whole number above zero"
        value = self.get(key, expected)
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise CatalogueError(f"{self.at(key)}: expected {expected}, got {_shown(value)}")
        return value

    def optional(self, key: str, zero: bool = False) -> float | None:
        return self.number(key, zero) if self.has(key) else None

    def number_or(self, key: str, default: float, zero: bool = False) -> float:
        return self.number(key, zero) if self.has(key) else default

    def items(self, key: str) -> list[object]:
        value = self.get(key, "a list")
        if not isinstance(value, list) or not value:
            raise CatalogueError(f"{self.at(key)}: expected a list that is not empty, got {_shown(value)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        if not self.has(key):
            return ()
        values = self.items(key)
        wrong = [value for value in values if not isinstance(value, str)]
        if wrong:
            raise CatalogueError(f"{self.at(key)}: expected a list of texts, got {_shown(wrong[0])} in it")
        return tuple(str(value) for value in values)

    def table(self, key: str) -> _Table:
        return _Table(self.get(key, "a table"), self.at(key))

    def rates(self, key: str) -> dict[str, float]:
        table = self.table(key)
        return {SHORT_DTYPES.get(name, name): table.number(name) for name in table.content}

    def names(self, key: str) -> dict[str, str]:
        if not self.has(key):
            return {}
        table = self.table(key)
        return {SHORT_DTYPES.get(name, name): table.text(name) for name in table.content}

    def sources(self) -> dict[str, str]:
        if not self.has("sources"):
            return {}
        table = self.table("sources")
        return {name: table.text(name) for name in table.content}

    def finish(self) -> None:
        """Refuses keys that nobody asked for: a misspelt optional field would otherwise be ignored."""
        for key in self.content:
            if key not in self.asked:
                raise CatalogueError(f"{self.at(str(key))}: unknown key{_near(str(key), self.asked)}")


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value!r}"[:80]


def _near(name: str, known: list[str] | tuple[str, ...]) -> str:
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    return (
        f"; did you mean {' or '.join(close)}?" if close else f"; known are {', '.join(sorted(set(known)))}"
    )


def _number(value: object, where: str, expected: str, zero: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CatalogueError(f"{where}: expected {expected}, got {_shown(value)}")
    if not isfinite(value) or value < 0 or (value == 0 and not zero):
        raise CatalogueError(f"{where}: expected {expected}, got {value}")
    return float(value)


def _tile(content: object, where: str) -> Tile:
    table = _Table(content, where)
    tile = Tile(table.whole("m"), table.whole("n"), table.whole("k"), table.number_or("efficiency", 1.0))
    table.finish()
    return tile


def device_from_dict(content: object, where: str = "device") -> Device:
    """The device described by a table with the fields of `Device`; `where` opens every error message.

    Raises:
        CatalogueError: a key is missing, unknown or of the wrong kind.
    """
    table = _Table(content, where)
    device = Device(
        name=table.text("name"),
        vendor=table.text("vendor"),
        memory_bytes=table.whole("memory_bytes"),
        memory_bytes_per_s=table.number("memory_bytes_per_s"),
        peak_flops_per_s=table.rates("peak_flops_per_s"),
        vector_flops_per_s=table.number("vector_flops_per_s"),
        cores=table.whole("cores"),
        tiles=tuple(
            _tile(tile, f"{table.at('tiles')}[{index}]") for index, tile in enumerate(table.items("tiles"))
        ),
        layouts=table.texts("layouts") or (ROW_MAJOR.name,),
        launch_overhead_s=table.number("launch_overhead_s", zero=True),
        contraction_overhead_s=table.number_or("contraction_overhead_s", 0.0, zero=True),
        contraction_efficiency=table.number_or("contraction_efficiency", 1.0),
        memory_efficiency=table.number_or("memory_efficiency", 1.0),
        vector_efficiency=table.number_or("vector_efficiency", 1.0),
        compute_dtype_default=table.names("compute_dtype_default"),
        tdp_w=table.optional("tdp_w"),
        idle_power_w=table.optional("idle_power_w", zero=True),
        joules_per_flop=table.rates("joules_per_flop") if table.has("joules_per_flop") else None,
        joules_per_memory_byte=table.optional("joules_per_memory_byte", zero=True),
        joules_per_link_byte=table.optional("joules_per_link_byte", zero=True),
        price_usd_per_hour=table.optional("price_usd_per_hour", zero=True),
        aliases=table.texts("aliases"),
        sources=table.sources(),
    )
    for layout in device.layouts:
        try:
            native_named(layout)
        except LayoutError as error:
            raise CatalogueError(f"{table.at('layouts')}: {error}") from error
    for dtype, precision in device.compute_dtype_default.items():
        if precision != VECTOR and precision not in device.peak_flops_per_s:
            raise CatalogueError(
                f"{table.at('compute_dtype_default')}.{dtype}: expected {VECTOR!r} or a key of "
                f"peak_flops_per_s, got {precision!r}"
            )
    table.finish()
    return device


def _axis(content: object, where: str) -> MeshAxis:
    table = _Table(content, where)
    topology = table.text("topology")
    if topology not in TOPOLOGIES:
        raise CatalogueError(
            f"{table.at('topology')}: expected one of {', '.join(TOPOLOGIES)}, got {topology!r}"
        )
    axis = MeshAxis(
        name=table.text("name"),
        size=table.whole("size"),
        topology=topology,
        bandwidth_bytes_per_s=table.number("bandwidth_bytes_per_s"),
        latency_s=table.number("latency_s", zero=True),
        efficiency=table.number_or("efficiency", 1.0),
        all_reduce_efficiency=table.optional("all_reduce_efficiency"),
        ramp_s=table.number_or("ramp_s", 0.0, zero=True),
        small_message_bytes_per_s=table.optional("small_message_bytes_per_s"),
        sources=table.sources(),
    )
    table.finish()
    return axis


def mesh_from_dict(content: object, where: str = "mesh") -> Mesh:
    """The mesh described by a table: `name`, `device` (a catalogue name or a whole device table) and `axes`.

    Raises:
        CatalogueError: a key is missing, unknown or of the wrong kind, or the device is not in the catalogue.
    """
    table = _Table(content, where)
    stated = table.get("device", "a device's name or table")
    device = load_device(stated) if isinstance(stated, str) else device_from_dict(stated, table.at("device"))
    axes = tuple(
        _axis(axis, f"{table.at('axes')}[{index}]") for index, axis in enumerate(table.items("axes"))
    )
    mesh = Mesh(table.text("name"), device, axes)
    if len({axis.name for axis in axes}) < len(axes):
        raise CatalogueError(
            f"{table.at('axes')}: expected different names, got {[axis.name for axis in axes]}"
        )
    if mesh.device_count > LONGEST_MESH:
        raise CatalogueError(
            f"{table.at('axes')}: {mesh.device_count} devices, at most {LONGEST_MESH} are possible"
        )
    table.finish()
    return mesh


def _content(text: str, where: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{where}: not TOML: {error}") from error


def _own_file(path: str) -> object:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CatalogueError(f"{path}: cannot read it: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CatalogueError(f"{path}: cannot read it: not UTF-8 text") from error
    return _content(text, path)


@cache
def _shipped(folder: str) -> dict[str, object]:
    """File name without ending -> content, of every TOML file in one folder of this package."""
    entries = sorted(files("hardware").joinpath(folder).iterdir(), key=lambda entry: entry.name)
    return {
        entry.name.removesuffix(".toml"): _content(
            entry.read_text(encoding="utf-8"), f"{folder}/{entry.name}"
        )
        for entry in entries
        if entry.name.endswith(".toml")
    }


@cache
def _devices() -> dict[str, Device]:
    return {
        name: device_from_dict(content, f"devices/{name}.toml")
        for name, content in _shipped("devices").items()
    }


@cache
def _meshes() -> dict[str, Mesh]:
    return {
        name: mesh_from_dict(content, f"meshes/{name}.toml") for name, content in _shipped("meshes").items()
    }


def _is_path(name: str | PathLike[str]) -> bool:
    return not isinstance(name, str) or name.endswith(".toml") or "/" in name or "\\" in name


def _unknown(kind: str, name: str, known: tuple[str, ...]) -> CatalogueError:
    return CatalogueError(
        f"no {kind} is called {name!r}{_near(name, known)}; a file's path ending in .toml works too"
    )


def _by_alias() -> dict[str, Device]:
    return {alias: device for device in _devices().values() for alias in (device.name, *device.aliases)}


def device_names(with_aliases: bool = False) -> tuple[str, ...]:
    """Names of the devices in the catalogue, sorted; their aliases only where asked for."""
    return tuple(_by_alias() if with_aliases else _devices())


def mesh_names() -> tuple[str, ...]:
    """Names of the meshes in the catalogue, sorted."""
    return tuple(_meshes())


def load_device(name_or_path: str | PathLike[str]) -> Device:
    """The device called so in the catalogue (or by an alias), or described by the TOML file at that path.

    Raises:
        CatalogueError: unknown name (near ones are listed), unreadable or wrong file.
    """
    if _is_path(name_or_path):
        path = fspath(name_or_path)
        return device_from_dict(_own_file(path), path)
    name = fspath(name_or_path)
    by_name = _by_alias()
    if name not in by_name:
        raise _unknown("device", name, tuple(by_name))
    return by_name[name]


def load_mesh(name_or_path: str | PathLike[str]) -> Mesh:
    """The mesh called so in the catalogue, or described by the TOML file at that path.

    Raises:
        CatalogueError: unknown name (near ones are listed), unreadable or wrong file.
    """
    if _is_path(name_or_path):
        path = fspath(name_or_path)
        return mesh_from_dict(_own_file(path), path)
    name = fspath(name_or_path)
    if name not in _meshes():
        raise _unknown("mesh", name, mesh_names())
    return _meshes()[name]
