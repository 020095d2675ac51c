"""Device files: tables of TOML become devices, which inherit the kernel classes they lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from tapestry.hardware.device import LAUNCHES, SHORT_DTYPES, VECTOR, Device, MatrixTile
from tapestry.hardware.kernel_tables import kernels_of, own_kernels, relative_of
from tapestry.hardware.kernels import HALF, Donor
from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.native import ROW_MAJOR, native_named
from tapestry.hardware.ranges import RANGES
from tapestry.hardware.relations import misspelled, slow_precisions
from tapestry.hardware.schema import Schema, recorded
from tapestry.hardware.tables import CUTOFF, Faults, Table, parsed
from tapestry.teg.dtypes import NAMES
from tapestry.teg.faults import joined, near_hint, value_text

# What rates, energies and defaults may be of: element types, and what only matrix units multiply.
PRECISIONS = {*(SHORT_DTYPES.get(name, name) for name in NAMES), *HALF, VECTOR}

RATES = "a table of numbers, by precision"


@cache
def shipped(folder: str) -> dict[str, object]:
    """Read every TOML file in one folder of this package: file name without ending -> content."""
    entries = sorted(files("tapestry.hardware").joinpath(folder).iterdir(), key=lambda entry: entry.name)
    return {
        entry.name.removesuffix(".toml"): parsed(entry.read_text(encoding="utf-8"), f"{folder}/{entry.name}")
        for entry in entries
        if entry.name.endswith(".toml")
    }


def _tile(table: Table) -> MatrixTile:
    tile = MatrixTile(
        table.whole("m"), table.whole("n"), table.whole("k"), table.number_or("efficiency", 1.0)
    )
    table.finish()
    return tile


@cache
def _donors() -> tuple[Donor, ...]:
    """Return the catalog's devices with measured kernels."""
    found = []
    for name, content in shipped("devices").items():
        table = Table(content, f"devices/{name}.toml", Faults())
        relative = relative_of(table.content)
        if table.has("kernels") and relative is not None:
            found.append(Donor(name, relative, own_kernels(table)))
    return tuple(found)


def device_from_dict(content: object, where: str = "device", plausible: bool = True) -> Device:
    """Build the device described by a table with the fields of `Device`; `where` opens every error message.

    `plausible` refuses figures that no device has (`hardware.ranges`).

    Raises:
        CatalogError: keys are missing, unknown, of the wrong kind or out of range; it lists all of them.
    """
    faults = Faults(plausible)
    device = read_device(Table(content, where, faults))
    faults.finish()
    return device


def device_to_dict(device: Device) -> dict[str, Any]:
    """Convert a device to the table of its file, with the kernels it inherits; `device_from_dict` reads it."""
    return known_fields(asdict(device))


def known_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file states of the fields of a value: those that are unknown are left out, in tables of it too."""
    kept = {name: _written(value) for name, value in fields.items()}
    return {name: value for name, value in kept.items() if value not in (None, [], {}, "")}


def _written(value: Any) -> Any:
    if isinstance(value, Mapping):
        return known_fields(value)
    return [_written(item) for item in value] if isinstance(value, (list, tuple)) else value


def read_device(table: Table) -> Device:
    """Read a device; it may hold placeholders where the table's `faults` has any."""
    device = Device(
        name=table.text("name"),
        vendor=table.text("vendor"),
        architecture=table.optional_text("architecture"),
        launch=table.optional_one_of("launch", LAUNCHES),
        quantile=table.optional("quantile"),
        memory_bytes=table.whole("memory_bytes"),
        memory_bytes_per_s=table.number("memory_bytes_per_s"),
        peak_flops_per_s=table.rates("peak_flops_per_s"),
        vector_flops_per_s=table.number("vector_flops_per_s"),
        cores=table.whole("cores"),
        communication_cores=table.optional_whole("communication_cores") or 0,
        communication_queues=table.optional_whole("communication_queues") or 1,
        tiles=tuple(_tile(tile) for tile in table.tables("tiles")),
        layouts=table.texts("layouts") or (ROW_MAJOR.name,),
        launch_overhead_s=table.number("launch_overhead_s", zero=True),
        contraction_overhead_s=table.number_or("contraction_overhead_s", 0.0, zero=True),
        contraction_efficiency=table.number_or("contraction_efficiency", 1.0),
        memory_efficiency=table.number_or("memory_efficiency", 1.0),
        vector_efficiency=table.number_or("vector_efficiency", 1.0),
        cache_bytes=table.optional_whole("cache_bytes"),
        cache_bytes_per_s=table.optional("cache_bytes_per_s"),
        fresh_bytes=table.optional_whole("fresh_bytes"),
        fresh_bytes_per_s=table.optional("fresh_bytes_per_s"),
        kernels=kernels_of(table, _donors),
        compute_dtype_default=table.names("compute_dtype_default"),
        context_bytes=table.optional_whole("context_bytes"),
        workspace_bytes=table.optional_whole("workspace_bytes"),
        allocator_bytes=table.optional_whole("allocator_bytes"),
        communicator_bytes=table.optional_whole("communicator_bytes"),
        host_bytes_per_s=table.optional("host_bytes_per_s"),
        host_memory_bytes=table.optional_whole("host_memory_bytes"),
        tdp_w=table.optional("tdp_w"),
        idle_power_w=table.optional("idle_power_w", zero=True),
        joules_per_flop=table.rates("joules_per_flop") if table.has("joules_per_flop", RATES) else None,
        joules_per_memory_byte=table.optional("joules_per_memory_byte", zero=True),
        joules_per_link_byte=table.optional("joules_per_link_byte", zero=True),
        price_usd_per_hour=table.optional("price_usd_per_hour", zero=True),
        aliases=table.texts("aliases"),
        sources=table.sources(),
    )
    _check_relations(table, device)
    table.finish()
    return device


def _check_relations(table: Table, device: Device) -> None:
    """Report figures that contradict others of the device, and names that mean nothing."""
    _check_precisions(table, device)
    if table.faults.plausible:
        _check_names(table, device)
    if table.faults.plausible and table.is_sound("memory_bytes"):
        for key in ("cache_bytes", "fresh_bytes", "context_bytes", "workspace_bytes", "allocator_bytes"):
            size = getattr(device, key)
            if size is not None and size > device.memory_bytes and table.is_sound(key):
                table.fault(key, f"expected at most memory_bytes, {device.memory_bytes}, not {size}")
    if table.is_sound("cores", "communication_cores") and device.cores <= device.communication_cores:
        table.fault(
            "communication_cores",
            f"expected fewer than cores, {device.cores}, not {value_text(device.communication_cores)}",
        )
    if (device.fresh_bytes is None) != (device.fresh_bytes_per_s is None):
        table.fault("fresh_bytes", "expected together with fresh_bytes_per_s: give both or neither")
    if (device.cache_bytes is None) != (device.cache_bytes_per_s is None):
        table.fault("cache_bytes", "expected together with cache_bytes_per_s: give both or neither")
    elif (
        device.cache_bytes_per_s is not None
        and device.cache_bytes_per_s < device.memory_bytes_per_s
        and table.is_sound("cache_bytes_per_s", "memory_bytes_per_s")
    ):
        table.fault(
            "cache_bytes_per_s",
            f"expected at least memory_bytes_per_s, {device.memory_bytes_per_s:g}, "
            f"not {device.cache_bytes_per_s:g}",
        )
    idle, most = device.idle_power_w, device.tdp_w
    is_sound = table.is_sound("idle_power_w", "tdp_w")
    if idle is not None and most is not None and idle > most and is_sound:
        table.fault("idle_power_w", f"expected at most tdp_w, {most:g} W, not {idle:g}")
    for layout in device.layouts:
        try:
            native_named(layout)
        except LayoutError as error:
            table.fault("layouts", str(error))
    for dtype, precision in device.compute_dtype_default.items():
        if precision and device.peak_flops_per_s and precision not in (VECTOR, *device.peak_flops_per_s):
            table.fault(
                f"compute_dtype_default: {dtype}",
                f"expected {VECTOR!r} or a key of peak_flops_per_s, not {precision!r}",
            )


def _check_precisions(table: Table, device: Device) -> None:
    """Report precisions that are unknown, and peaks below those of wider ones."""
    for key in ("peak_flops_per_s", "joules_per_flop", "compute_dtype_default"):
        expected = RANGES[key].expected if key in RANGES else f"{VECTOR!r} or a key of peak_flops_per_s"
        for name in getattr(device, key) or ():
            if name not in PRECISIONS:
                hint = near_hint(name, sorted(PRECISIONS), cutoff=CUTOFF)
                table.fault(f"{key}: {name}", joined((f"unknown precision; {hint}", f"expected {expected}")))
    peaks = device.peak_flops_per_s
    if table.faults.plausible and table.is_sound("peak_flops_per_s"):
        for name, than, least in slow_precisions(peaks, device.compute_dtype_default):
            table.fault(
                f"peak_flops_per_s: {name}",
                f"expected at least {least:g} flop/s, that of {than}, not {peaks[name]:g}; "
                f'if products in {name} are that slow, write compute_dtype_default.{name} = "{name}" too',
            )


def _check_names(table: Table, device: Device) -> None:
    """Report a vendor or architecture that is almost one of the catalog: the device would inherit as a stranger."""
    catalog = [content for content in shipped("devices").values() if isinstance(content, Mapping)]
    for key in ("vendor", "architecture"):
        known = sorted({str(content[key]) for content in catalog if key in content})
        if near := misspelled(getattr(device, key), known):
            table.fault(
                key,
                f"expected {near}, as the catalog writes it, or a name of its own, "
                f"not {value_text(getattr(device, key))}; did you mean {near}?",
            )


def device_schema() -> Schema:
    """Return the JSON Schema of device files."""
    return recorded("A device", read_device)
