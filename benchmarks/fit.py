"""Fits of the tables `kernels` in the device files, from published measurements of single kernels.

    python -m benchmarks.fit FILE.json ... [--write] [--json OUT]

Every row becomes a program, and its block is timed as the product does it. Errors are reported per table in five
folds stratified by time within each table, for each device from the tables of the other devices (leave one device
out), and in sample. `--write` puts the figures and their errors into `hardware/devices/*.toml`, with their sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from math import floor
from pathlib import Path

import numpy as np

from benchmarks.kernel_samples import samples_of
from benchmarks.measurements import Systems
from benchmarks.measurements.command_line import read_command_line
from benchmarks.measurements.scores import log_scores
from benchmarks.setting import write
from tapestry.hardware.calibration.fitting import Fitted, fit_class, log_errors
from tapestry.hardware.calibration.samples import Samples
from tapestry.hardware.kernel_tables import kernel_lines
from tapestry.hardware.kernels import Donor, KernelFigures, Relative, completed, figures_of
from tapestry.hardware.mesh import Device

FEWEST = 8  # samples of a class and device that get a table of their own
DEVICES = Path(__file__).parents[1] / "hardware" / "devices"
START, END = "# Kernels: written by benchmarks/fit.py.\n", "# End of kernels.\n"


def left_out(fitted: Sequence[Fitted]) -> dict[tuple[str, str], np.ndarray]:
    """Compute the errors of each device and class with the figures that it inherits from the other devices."""
    found = {}
    for each in fitted:
        others = donors_of([other for other in fitted if other.device.name != each.device.name])
        kernel, _, family = each.key.partition(".")
        figures = figures_of(completed({}, relative_of(each.device), others), kernel, family)
        if figures is not None:
            found[each.device.name, each.key] = log_errors(each.samples, figures)
    return found


def donors_of(fitted: Sequence[Fitted]) -> list[Donor]:
    """Return the devices with the classes fitted for them."""
    tables: dict[str, dict[str, KernelFigures]] = {}
    devices = {each.device.name: each.device for each in fitted}
    for each in fitted:
        tables.setdefault(each.device.name, {})[each.key] = each.figures
    return [Donor(name, relative_of(devices[name]), table) for name, table in tables.items()]


def relative_of(device: Device) -> Relative:
    """Return what says how alike a device is to others."""
    figures = (device.memory_bytes_per_s, device.require("tdp_w"), device.peak_flops_per_s.get("fp32", 0.0))
    return Relative(device.vendor, device.architecture, *figures)


def table_text(key: str, figures: KernelFigures) -> str:
    """Write the figures of a class as a TOML table, rounded to four digits."""
    numbers = {f.name: getattr(figures, f.name) for f in fields(figures)}
    digits = {name: float(f"{value:.4g}") for name, value in numbers.items() if isinstance(value, float)}
    short = replace(figures, **digits, rows=tuple(rounded(figures.rows)))
    return "\n".join([f'[kernels."{key}"]', *kernel_lines(short)]) + "\n"


def rounded(rows: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Round shares to four digits, down where a longer row would else take less time."""
    found: list[tuple[float, float]] = []
    for length, share in rows:
        most = found[-1][1] * length / found[-1][0] if found else 1.0
        found.append((length, round(share, 4) if round(share, 4) <= most else floor(most * 1e4) / 1e4))
    return found


def source_text(fitted: Fitted) -> str:
    """Say which rows the figures of a class were fitted to."""
    tables, counts = np.unique(fitted.groups, return_counts=True)
    listed = ", ".join(f"{count} {table}" for table, count in zip(tables, counts, strict=True))
    return f"fitted by benchmarks/fit.py on rows of {listed}; error: their residuals in five folds"


def write_device(path: Path, fitted: Sequence[Fitted]) -> None:
    """Replace the tables `kernels` of a device file, and their sources."""
    text = path.read_text(encoding="utf-8")
    written = {f'"kernels.{each.key}"' for each in fitted}
    if START in text:
        before, rest = text.split(START)
        mine, after = rest.split(END + "\n")
        text = before + after
        written |= {
            f'"{line[1:-1].replace(chr(34), "")}"' for line in mine.splitlines() if line.startswith("[")
        }
    head, sources = text.split("[sources]\n")
    kept = "".join(line for line in sources.splitlines(True) if line.partition(" = ")[0] not in written)
    tables = "\n".join(table_text(each.key, each.figures) for each in fitted)
    named = "".join(f'"kernels.{each.key}" = "{source_text(each)}"\n' for each in fitted)
    path.write_text(f"{head}{START}\n{tables}\n{END}\n[sources]\n{kept}{named}", encoding="utf-8")


def report(fitted: Sequence[Fitted]) -> dict[str, list[Mapping[str, object]]]:
    """Return errors in folds by table, and of each device and class by what it would inherit."""
    tables: dict[str, list[np.ndarray]] = {}
    for each in fitted:
        for group in np.unique(each.groups):
            tables.setdefault(str(group), []).append(each.fold_errors[each.groups == group])
    without = left_out(fitted)
    return {
        "folds": [
            {"table": name, **log_scores(np.concatenate(found))} for name, found in sorted(tables.items())
        ],
        "left_out": [
            {"device": device, "class": key, **log_scores(found)}
            for (device, key), found in sorted(without.items())
        ],
    }


def by_class(samples: Sequence[Samples]) -> list[list[list[Samples]]]:
    """Return the samples of each class and vendor, by device; devices with fewer than `FEWEST` are left out."""
    found: dict[tuple[str, str], dict[str, list[Samples]]] = {}
    for each in samples:
        devices = found.setdefault((each.key, each.device.vendor), {})
        devices.setdefault(each.device.name, []).append(each)
    counted = [
        [own for own in devices.values() if sum(len(each.groups) for each in own) >= FEWEST]
        for _, devices in sorted(found.items())
    ]
    return [devices for devices in counted if devices]


def main() -> None:
    arguments, rows = read_command_line(
        __doc__, "write the errors here", "write the figures into hardware/devices/*.toml"
    )
    classes = by_class(samples_of(rows, Systems.of_catalog()))
    with ProcessPoolExecutor() as pool:
        fitted = [each for devices in pool.map(fit_class, classes) for each in devices]
    found = report(fitted)
    for name, lines in found.items():
        print(name)
        for line in lines:
            print("   " + "  ".join(f"{key} {value}" for key, value in line.items()))
    if arguments.write:
        for name in sorted({each.device.name for each in fitted}):
            mine = [each for each in fitted if each.device.name == name]
            write_device(DEVICES / f"{name}.toml", mine)
    if arguments.json:
        write(arguments.json, found)


if __name__ == "__main__":
    main()
