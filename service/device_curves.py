"""Devices as documents: every figure with unit and source, times by the model, and kernels that were measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from tapestry.hardware import CatalogError, Device, MeshAxis, load_device, load_mesh, mesh_names
from tapestry.hardware.calibration.measured import MeasuredKernel, measured_kernels, measured_tables
from tapestry.hardware.device import SHORT_DTYPES
from tapestry.hardware.ranges import RANGES
from tapestry.hardware.timing import block_ticks, seconds
from tapestry.hardware.timing.units import Floats
from tapestry.teg.dtypes import NAMES, item_bytes

SIZES = tuple(2**k for k in range(6, 15))  # rows and columns of products
STREAMED = tuple(2**k for k in range(12, 34))  # bytes that a kernel reads and writes
STREAM_DTYPE = "float32"
# Figures by what they are of; the others are of the shares that kernels reach.
GROUPS = {
    "memory": ("memory_", "cache_", "fresh_", "host_"),
    "arithmetic": ("peak_flops", "vector_flops", "cores"),
    "launches and queues": ("launch_", "contraction_overhead", "communication_"),
    "held beside the tensors": ("context_", "workspace_", "allocator_", "communicator_"),
    "power and price": ("tdp", "idle_", "joules", "price"),
}
SHARES = "shares that kernels reach"
TOGETHER = ("kernels", "tiles", "kinds", "collectives", "part_of", "inner", "in_switch")  # no single figures
# Bytes of an element that matrix units multiply; block formats store an exponent for 16 elements.
ELEMENT_BYTES = {
    **{SHORT_DTYPES.get(name, name): float(item_bytes(name)) for name in NAMES},
    "tf32": 4.0,
    "fp4": 0.5,
    "int4": 0.5,
    "bfp8": 1 + 1 / 16,
    "bfp4": 0.5 + 1 / 16,
}


def device_document(name: str) -> dict[str, Any] | None:
    """Build the document of a device of the catalog; None if it has no such device."""
    try:
        return document_of_device(load_device(name))
    except CatalogError:
        return None


def document_of_device(device: Device) -> dict[str, Any]:
    """Build the document of a device.

    `products` has by precision the seconds of n x n products, and `ideal` those at the peak or the memory's rate,
    whichever is longer; `streams` the seconds in which an elementwise kernel reads and writes so many bytes. `error` is
    the standard deviation of the logarithm of measured over predicted time. `measured` has the kernels that were
    measured, each with its prediction, the interval of nine in ten times and the relative error.
    """
    meshes = [each for each in mesh_names() if load_mesh(each).device.name == device.name]
    return {
        "name": device.name,
        "vendor": device.vendor,
        "architecture": device.architecture,
        "aliases": list(device.aliases),
        "layouts": list(device.layouts),
        "meshes": meshes,
        "figures": list(figures_of(device)),
        "kernels": [
            {
                "class": kernel,
                "error": figures.error,
                "origin": figures.origin,
                "source": device.sources.get(f"kernels.{kernel}", ""),
            }
            for kernel, figures in sorted(device.kernels.items())
        ],
        "sizes": list(SIZES),
        "products": [_products(device, precision) for precision in device.peak_flops_per_s],
        "bytes": list(STREAMED),
        "streams": {
            "seconds": _stream_s(device).tolist(),
            "ideal": (np.array(STREAMED) / device.memory_bytes_per_s).tolist(),
            "error": device.figures("elementwise", STREAM_DTYPE, "vector").error,
        },
        "measured": {
            "tables": [
                {
                    "source": table.source,
                    "launch": table.launch,
                    "is_fitted": table.is_fitted,
                    "rows": len(table.seconds),
                }
                for table in measured_tables(device)
            ],
            "kernels": [_measured(each, device) for each in measured_kernels(device)],
        },
    }


def figures_of(record: Device | MeshAxis) -> Iterator[dict[str, Any]]:
    """Yield the known figures of a device or an axis with group, meaning, value, unit and source, in order.

    Those that are neither stated nor of another value than by default are left out.
    """
    for each in fields(record):
        value = getattr(record, each.name)
        known = RANGES.get(each.name)
        source = record.sources.get(each.name, "")
        if each.name in TOGETHER or known is None or value is None or (not source and value == each.default):
            continue
        parts = value.items() if hasattr(value, "items") else (("", value),)
        for part, number in parts:
            yield {
                "key": f"{each.name}.{part}" if part else each.name,
                "group": _group_of(each.name),
                "about": known.about + (f", {part}" if part else ""),
                "value": number,
                "unit": known.unit,
                "source": source,
            }


def _group_of(key: str) -> str:
    unshared = key.removesuffix("_efficiency")
    found = (group for group, starts in GROUPS.items() if unshared == key and key.startswith(starts))
    return next(found, SHARES)


def _products(device: Device, precision: str) -> dict[str, Any]:
    n = np.array(SIZES, np.float64)
    flops, moved = 2 * n**3, 3 * n * n * ELEMENT_BYTES[precision]
    spent = block_ticks(
        device, "contraction", flops, moved, precision, kernel="matrix_product", m=n, n=n, k=n
    )
    peak = device.peak_flops_per_s[precision]
    return {
        "precision": precision,
        "peak_flops_per_s": peak,
        "seconds": seconds(spent).tolist(),
        "ideal": np.maximum(flops / peak, moved / device.memory_bytes_per_s).tolist(),
        "error": device.figures("matrix_product", precision, "contraction", contracts=True).error,
    }


def _stream_s(device: Device) -> Floats:
    """Compute the seconds of a kernel that reads and writes so many bytes in all, an operation for each element."""
    moved = np.array(STREAMED, np.float64)
    elements = moved / (2 * item_bytes(STREAM_DTYPE))
    return seconds(block_ticks(device, "vector", elements, moved, STREAM_DTYPE, kernel="elementwise"))


def _measured(each: MeasuredKernel, device: Device) -> dict[str, Any]:
    sample, (low, high) = each.sample, each.predicted.interval()
    sizes = dict(sample.sizes)
    return {
        "name": each.name,
        "table": each.table,
        "class": sample.kernel,
        "precision": device.contraction_dtype(sample.compute_dtype or sample.dtype)
        if sample.kind == "contraction"
        else SHORT_DTYPES.get(sample.dtype, sample.dtype),
        "flops": sample.flops,
        "bytes": sample.moved,
        "sizes": [sizes[name] for name in ("batch", "m", "n", "k")] if "k" in sizes else [],
        "measured_s": each.measured_s,
        "predicted_s": each.predicted.seconds,
        "low_s": low,
        "high_s": high,
        "is_inside": each.is_inside,
        "error": each.error,
    }
