"""Fits of the tables `kernels` in the device files, from published measurements of single kernels.

    python -m benchmarks.fit FILE.json ... [--write] [--json OUT]

Every row becomes a program, and its block is timed as the product does it. Errors are reported per table in five
folds stratified by time within each table, for each device from the tables of the other devices (leave one device
out), and in sample. `--write` puts the figures and their errors into `hardware/devices/*.toml`, with their sources.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from math import floor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.kernel_fit import fit
from benchmarks.kernel_samples import Samples, samples_of
from benchmarks.measurements import DamagedRowsError, Systems, read_rows
from benchmarks.setting import write
from tapestry.hardware.kernel_tables import kernel_lines
from tapestry.hardware.kernels import Donor, KernelFigures, Relative, completed, figures_of
from tapestry.hardware.mesh import Device

FOLDS = 5
FEWEST = 8  # samples of a class and device that get a table of their own
NORMAL_90 = 1.645  # standard deviations that hold 90 % of a normal distribution on both sides
LEAST_ERROR = 0.02
DEVICES = Path(__file__).parents[1] / "hardware" / "devices"
START, END = "# Kernels: written by benchmarks/fit.py.\n", "# End of kernels.\n"


class Fitted(NamedTuple):
    """The figures of one class on one device, and the logarithms of predicted over measured in folds."""

    samples: Samples
    figures: KernelFigures
    fold_errors: np.ndarray


def folds_of(samples: Samples) -> np.ndarray:
    """Return the fold of each sample: in each table, samples in the order of their times take turns."""
    folds = np.zeros(len(samples.measured_s), np.int64)
    for k, group in enumerate(np.unique(samples.groups)):
        mine = np.flatnonzero(samples.groups == group)
        folds[mine[np.argsort(samples.measured_s[mine], kind="stable")]] = (np.arange(len(mine)) + k) % FOLDS
    return folds


def fit_class(samples: Sequence[Samples]) -> list[Fitted]:
    """Fit one class on all devices: together, then each drawn towards all; and again without each fold."""
    folds = [folds_of(each) for each in samples]
    errors = [np.zeros(len(each.measured_s)) for each in samples]
    for fold in range(FOLDS):
        kept = [each.of(numbers != fold) for each, numbers in zip(samples, folds, strict=True)]
        for k, figures in enumerate(_fit_devices(kept)):
            held = folds[k] == fold
            if held.any():
                errors[k][held] = samples[k].of(held).log_errors(figures)
    final = _fit_devices(samples)
    return [
        Fitted(each, replace(figures, error=_sigma(found)), found)
        for each, figures, found in zip(samples, final, errors, strict=True)
    ]


def _fit_devices(samples: Sequence[Samples]) -> list[KernelFigures]:
    prior = fit(samples)
    return [fit([each], prior) for each in samples]


def _sigma(errors: np.ndarray) -> float:
    """Return the standard deviation of a normal distribution with the errors' interval of 90 %."""
    return max(LEAST_ERROR, float(np.quantile(np.abs(errors), 0.9)) / NORMAL_90)


def left_out(fitted: Iterable[Fitted]) -> dict[tuple[str, str], np.ndarray]:
    """Compute the errors of each device and class with the figures that it inherits from the other devices."""
    fitted = list(fitted)
    found = {}
    for each in fitted:
        device = each.samples.device
        others = donors_of(other for other in fitted if other.samples.device.name != device.name)
        kernel, _, family = each.samples.key.partition(".")
        figures = figures_of(completed({}, relative_of(device), others), kernel, family)
        if figures is not None:
            found[device.name, each.samples.key] = each.samples.log_errors(figures)
    return found


def donors_of(chosen: Iterable[Fitted]) -> list[Donor]:
    """Return the devices with the classes fitted for them."""
    fitted = list(chosen)
    tables: dict[str, dict[str, KernelFigures]] = {}
    devices = {each.samples.device.name: each.samples.device for each in fitted}
    for each in fitted:
        tables.setdefault(each.samples.device.name, {})[each.samples.key] = each.figures
    return [Donor(name, relative_of(devices[name]), table) for name, table in tables.items()]


def relative_of(device: Device) -> Relative:
    """Return what says how alike a device is to others."""
    return Relative(device.vendor, device.architecture, device.memory_bytes_per_s, device.require("tdp_w"))


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


def source_text(samples: Samples) -> str:
    """Say which rows the figures of a class were fitted to."""
    tables, counts = np.unique(samples.groups, return_counts=True)
    listed = ", ".join(f"{count} {table}" for table, count in zip(tables, counts, strict=True))
    return f"fitted by benchmarks/fit.py on rows of {listed}; error: their residuals in five folds"


def write_device(path: Path, fitted: Sequence[Fitted]) -> None:
    """Replace the tables `kernels` of a device file, and their sources."""
    text = path.read_text(encoding="utf-8")
    if START in text:
        before, rest = text.split(START)
        text = before + rest.split(END + "\n")[1]
    head, sources = text.split("[sources]\n")
    kept = "".join(line for line in sources.splitlines(True) if not line.startswith('"kernels.'))
    tables = "\n".join(table_text(each.samples.key, each.figures) for each in fitted)
    named = "".join(f'"kernels.{each.samples.key}" = "{source_text(each.samples)}"\n' for each in fitted)
    path.write_text(f"{head}{START}\n{tables}\n{END}\n[sources]\n{kept}{named}", encoding="utf-8")


def summary(errors: np.ndarray) -> dict[str, float]:
    """Compute the mean and median relative error and the mean logarithm of errors in logarithms."""
    relative = np.abs(np.expm1(errors))
    return {
        "rows": len(errors),
        "mean_error": round(float(np.mean(relative)), 4),
        "median_error": round(float(np.median(relative)), 4),
        "bias": round(float(np.mean(errors)), 4),
    }


def report(fitted: Sequence[Fitted]) -> dict[str, list[Mapping[str, object]]]:
    """Return errors in folds by table, and of each device and class by what it would inherit."""
    tables: dict[str, list[np.ndarray]] = {}
    for each in fitted:
        for group in np.unique(each.samples.groups):
            tables.setdefault(str(group), []).append(each.fold_errors[each.samples.groups == group])
    without = left_out(fitted)
    return {
        "folds": [
            {"table": name, **summary(np.concatenate(found))} for name, found in sorted(tables.items())
        ],
        "left_out": [
            {"device": device, "class": key, **summary(found)}
            for (device, key), found in sorted(without.items())
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", help="the measurements")
    parser.add_argument("--write", action="store_true", help="write the figures into hardware/devices/*.toml")
    parser.add_argument("--json", type=Path, help="write the errors here")
    arguments = parser.parse_args()
    try:
        rows = read_rows(arguments.files)
    except DamagedRowsError as error:
        parser.error(str(error))
    classes: dict[str, list[Samples]] = {}
    for each in samples_of(rows, Systems.of_catalog()):
        if len(each.moved) >= FEWEST:
            classes.setdefault(each.key, []).append(each)
    fitted = [each for key in sorted(classes) for each in fit_class(classes[key])]
    found = report(fitted)
    for name, lines in found.items():
        print(name)
        for line in lines:
            print("   " + "  ".join(f"{key} {value}" for key, value in line.items()))
    if arguments.write:
        for name in sorted({each.samples.device.name for each in fitted}):
            mine = [each for each in fitted if each.samples.device.name == name]
            write_device(DEVICES / f"{name}.toml", mine)
    if arguments.json:
        write(arguments.json, found)


if __name__ == "__main__":
    main()
