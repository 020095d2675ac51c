"""`tapestry calibrate`: measure this machine, and write a mesh file of one device fitted to it."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from importlib.util import find_spec

from tapestry.hardware.calibration.calibrate import Calibration, calibrate
from tapestry.hardware.calibration.host import RunError, this_gpu, this_processor
from tapestry.hardware.calibration.memory_terms import TERMS
from tapestry.hardware.calibration.timed import Setting
from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.host_load import check_threads, load_before
from tapestry.service.cli.mesh_files import check_new, write_mesh
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.progress import reporter
from tapestry.teg.brief import counted
from tapestry.teg.readable import quantity

MOST_NAMES = 6  # that are printed with one reason


def run(arguments: Namespace) -> int:
    """Measure, write the file, and print what was found."""
    check_new(arguments.file, arguments.force)
    check_threads(arguments.threads)
    if find_spec("torch") is None:
        raise CommandError("programs are run by PyTorch: pip install tapestry[torch]")
    setting = Setting(arguments.device, arguments.threads)
    with reporter(arguments.quiet) as progress:
        try:
            host = this_gpu() if arguments.device == "cuda" else this_processor(arguments.threads)
            load = load_before(arguments.threads)
            found = calibrate(
                arguments.name,
                host,
                setting,
                arguments.seconds,
                time.monotonic,
                progress.measuring,
            )
        except RunError as error:
            raise CommandError(str(error)) from error
    write_mesh(found.mesh, arguments.file, with_device=True)
    if arguments.json:
        print_json(_document(arguments, found, setting, load))
    else:
        _print(found)
        print(f"\nwrote {arguments.file}: --mesh {arguments.file} searches and predicts for it")
    return OK


def _document(arguments: Namespace, found: Calibration, setting: Setting, load: float) -> dict[str, object]:
    return {
        "file": arguments.file,
        **setting._asdict(),
        "load": load,
        "kernels": {key: {"error": each.error} for key, each in found.mesh.device.kernels.items()},
        "probes": {name: each._asdict() for name, each in found.timings.items()},
        "left_out": dict(found.left_out),
        "unmeasured": dict(found.unmeasured),
    }


def _print(found: Calibration) -> None:
    device = found.mesh.device
    rates = {
        "memory": quantity(device.memory_bytes_per_s, "B/s"),
        "cache": quantity(device.cache_bytes_per_s or 0.0, "B/s"),
        **{
            f"products in {dtype}": quantity(rate, "flop/s")
            for dtype, rate in device.peak_flops_per_s.items()
        },
    }
    print_table(("rate", "measured"), list(rates.items()), right=(1,))
    print()
    rows = [(key, f"{each.error:.1%}") for key, each in sorted(device.kernels.items())]
    print_table(("kernels", "error"), rows, right=(1,))
    terms = [(name, quantity(value, "B")) for name in TERMS if (value := getattr(device, name)) is not None]
    if terms:
        print()
        print_table(("memory beside the tensors", "bytes"), terms, right=(1,))
    print("\nnot measured; objectives that need them ask for them")
    _print_reasons(found.unmeasured)
    if found.left_out:
        print(f"\nleft out: {counted(len(found.left_out), 'probe')}")
        _print_reasons(found.left_out)


def _print_reasons(reasons: Mapping[str, str]) -> None:
    """Print names by the reason that they share; of many the first ones."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    for reason, alike in names.items():
        more = f" and {len(alike) - MOST_NAMES} more" if len(alike) > MOST_NAMES else ""
        print(f"  {', '.join(alike[:MOST_NAMES])}{more}: {reason}")
