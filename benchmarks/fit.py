"""Fits of the tables `kernels` in the device files, from published measurements of single kernels.

    python -m benchmarks.fit FILE.json ... [--write] [--json OUT]

Every row becomes a program, and its block is timed as the product does it. Errors are reported per table in five
folds stratified by time within each table, for each device from the tables of the other devices (leave one device
out), and in total. A class of which a device has fewer than `FEWEST` rows gets no table: these rows are scored by
what the device inherits, and count in the totals. `--write` puts the figures and their errors into
`hardware/devices/*.toml`, with their sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from math import floor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.kernel_samples import samples_of
from benchmarks.measurements import Systems
from benchmarks.measurements.command_line import read_command_line
from benchmarks.measurements.scores import SIGMAS_90, log_scores
from benchmarks.setting import write
from tapestry.hardware.calibration.fitting import Fitted, fit_class, log_errors
from tapestry.hardware.calibration.samples import Samples
from tapestry.hardware.device import Device
from tapestry.hardware.kernel_tables import kernel_lines
from tapestry.hardware.kernels import Donor, KernelFigures, Relative, completed, figures_of
from tapestry.teg.operators.kernel_classes import PRODUCT_CLASSES

FEWEST = 8  # samples of a class and device that get a table of their own
DEVICES = Path(__file__).parents[1] / "hardware" / "devices"
START, END = "# Kernels: written by benchmarks/fit.py.\n", "# End of kernels.\n"


def left_out(fitted: Sequence[Fitted]) -> dict[tuple[str, str], tuple[np.ndarray, float]]:
    """Compute the errors of each device and class with the figures that it inherits, and the error that these state."""
    found = {}
    for each in fitted:
        others = donors_of([other for other in fitted if other.device.name != each.device.name])
        kernel, _, family = each.key.partition(".")
        figures = figures_of(completed({}, relative_of(each.device), others), kernel, family)
        if figures is not None:
            found[each.device.name, each.key] = log_errors(each.samples, figures), figures.error
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


class Scored(NamedTuple):
    """Logarithms of predicted over measured of some rows of one class, and the error that their prediction states."""

    key: str
    groups: np.ndarray
    logs: np.ndarray
    error: float

    @property
    def family(self) -> str:
        """The total that the rows count in beside that of all operators."""
        return "products" if self.key.partition(".")[0] in PRODUCT_CLASSES else "memory_bound"


def inherited(small: Sequence[Sequence[Samples]], fitted: Sequence[Fitted]) -> list[tuple[str, Scored]]:
    """Score rows too few for a table by what their device has: classes of its own, and those of the others.

    Each comes with the name of the device. Rows of classes that no device has tables of are not scored.
    """
    found = []
    for samples in small:
        device, key = samples[0].device, samples[0].key
        own = {each.key: each.figures for each in fitted if each.device.name == device.name}
        others = donors_of([each for each in fitted if each.device.name != device.name])
        kernel, _, family = key.partition(".")
        figures = figures_of(completed(own, relative_of(device), others), kernel, family)
        if figures is not None:
            groups = np.concatenate([each.groups for each in samples])
            found.append((device.name, Scored(key, groups, log_errors(samples, figures), figures.error)))
    return found


def report(
    fitted: Sequence[Fitted], small: Sequence[Sequence[Samples]] = ()
) -> dict[str, list[Mapping[str, object]]]:
    """Return errors in folds by table and in total, and of each device and class by what it would inherit.

    Rows of `small` groups, which got no table, are scored by what their device inherits.
    """
    few = inherited(small, fitted)
    folded = [Scored(each.key, each.groups, each.fold_errors, each.figures.error) for each in fitted]
    scored = [*folded, *(each for _, each in few)]
    tables: dict[str, list[np.ndarray]] = {}
    for each in scored:
        for group in np.unique(each.groups):
            tables.setdefault(str(group), []).append(each.logs[each.groups == group])
    without = [
        (device, Scored(key, np.array([]), logs, error))
        for (device, key), (logs, error) in left_out(fitted).items()
    ]
    families = {"operators": scored} | {
        name: [each for each in scored if each.family == name] for name in ("products", "memory_bound")
    }
    families |= {"small groups": [each for _, each in few], "left-out devices": [each for _, each in without]}
    return {
        "folds": [
            {"table": name, **log_scores(np.concatenate(found))} for name, found in sorted(tables.items())
        ],
        "left_out": _by_device(without),
        "small_groups": _by_device(few),
        "totals": [{"total": name, **_total(found)} for name, found in families.items() if found],
        "not_scored": [
            {"device": each[0].device.name, "class": each[0].key, "rows": _count(each)}
            for each in small
            if (each[0].device.name, each[0].key) not in {(device, known.key) for device, known in few}
        ],
    }


def _by_device(scored: Sequence[tuple[str, Scored]]) -> list[Mapping[str, object]]:
    ordered = sorted(scored, key=lambda each: (each[0], each[1].key))
    return [{"device": device, "class": each.key, **log_scores(each.logs)} for device, each in ordered]


def _total(scored: Sequence[Scored]) -> dict[str, float | int]:
    """Return the scores of all rows together, each alike; `inside_90` is the share inside their intervals of 90 %."""
    inside = np.concatenate([np.abs(each.logs) <= SIGMAS_90 * each.error for each in scored])
    logs = np.concatenate([each.logs for each in scored])
    return {**log_scores(logs), "inside_90": round(float(inside.mean()), 4)}


def by_class(samples: Sequence[Samples]) -> list[list[list[Samples]]]:
    """Return the samples of each class and vendor, by device; devices with fewer than `FEWEST` are left out."""
    counted = [[own for own in devices if _count(own) >= FEWEST] for devices in _by_device_and_class(samples)]
    return [devices for devices in counted if devices]


def small_groups(samples: Sequence[Samples]) -> list[list[Samples]]:
    """Return the samples of each class and device that are fewer than `FEWEST`, and so get no table."""
    return [own for devices in _by_device_and_class(samples) for own in devices if _count(own) < FEWEST]


def _by_device_and_class(samples: Sequence[Samples]) -> list[list[list[Samples]]]:
    found: dict[tuple[str, str], dict[str, list[Samples]]] = {}
    for each in samples:
        devices = found.setdefault((each.key, each.device.vendor), {})
        devices.setdefault(each.device.name, []).append(each)
    return [list(devices.values()) for _, devices in sorted(found.items())]


def _count(samples: Sequence[Samples]) -> int:
    return sum(len(each.groups) for each in samples)


def main() -> None:
    arguments, rows = read_command_line(
        __doc__, "write the errors here", "write the figures into hardware/devices/*.toml"
    )
    samples = samples_of(rows, Systems.of_catalog())
    classes = by_class(samples)
    with ProcessPoolExecutor() as pool:
        fitted = [each for devices in pool.map(fit_class, classes) for each in devices]
    found = report(fitted, small_groups(samples))
    for name, lines in found.items():
        print(name)
        for line in lines:
            print("   " + "  ".join(f"{key} {value}" for key, value in line.items()))
    if arguments.write:
        for name in sorted({each.device.name for each in fitted}):
            mine = [each for each in fitted if each.device.name == name]
            write_device(DEVICES / f"{name}.toml", mine)
    if arguments.json:
        write(arguments.json, {"in_sample": False, **found})


if __name__ == "__main__":
    main()
