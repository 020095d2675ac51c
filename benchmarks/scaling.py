"""Growth of the search's effort with layers and devices.

    python -m benchmarks.scaling --json FILE [--layers 1,2,4 ...] [--devices 8,64 ...] [--seconds 60]

Programs of equal layers (`benchmarks.layered`) on nodes of eight H100: all `--layers` on the fewest `--devices`, and
one of `--several` layers on all of these. Each search runs for `--seconds` CPU seconds in a process of its own. Stored
are the CPU seconds of compiling the program's plan space, those until the first front, those until a front dominates
99 % of what the last one does, and the most memory that the process held, libraries included. FILE is written after
every search, and searches that it has are not run again.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.contenders.cells import CellError, apart
from benchmarks.contenders.document import INSTEAD
from benchmarks.contenders.fronts import box_of
from benchmarks.contenders.ours import WHOLE
from benchmarks.contenders.recorder import FrontRecord, FrontRecorder
from benchmarks.layered import transformer
from benchmarks.search import count_in, seconds_in, warm_up
from benchmarks.setting import write
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.costmodel.view import default_view
from tapestry.hardware import Mesh, load_mesh
from tapestry.teg.sharding.mesh_shape import MeshShape

LAYERS, DEVICES = (1, 2, 5, 10, 20, 40, 80), (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
NODE, NODE_DEVICES, MOST_DEVICES = "dgx-h100", 8, 4096
SHARE = 0.99
SETTINGS = {"benchmark": "scaling", "cost_model": COST_MODEL_VERSION, "share": SHARE}
FIGURES = ("compile_s", "first_front_s", "cpu_s", "ended_s", "peak_bytes")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the searches that are not in the file yet, print a table, store figures."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        searches = _kept(given.json)
    except ValueError as error:
        parser.error(str(error))
    sizes = [(layers, given.devices[0]) for layers in given.layers]
    sizes = list(dict.fromkeys([*sizes, *((given.several, devices) for devices in given.devices)]))
    left = [size for size in sizes if not any(_is_of(each, size, given.seconds) for each in searches)]
    if left:
        warm_up([])
    for layers, devices in left:
        try:
            found = apart(partial(measure, layers, devices, given.seconds))
            found["compile_s"] = apart(partial(compile_seconds, layers, devices))
        except CellError as error:
            print(
                f"{layers} layers on {devices} devices: failed, run again to repeat it: {error}", flush=True
            )
            continue
        searches.append(found)
        print(" ".join(f"{name}={value}" for name, value in found.items()), flush=True)
        write(given.json, {**SETTINGS, "searches": searches})
    Console(width=120).print(table_of(searches))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--layers", type=_counts, default=list(LAYERS), metavar="A,B")
    parser.add_argument("--devices", type=_devices, default=list(DEVICES), metavar="A,B")
    parser.add_argument(
        "--several", type=count_in, default=2, metavar="N", help="layers of the program on all devices"
    )
    parser.add_argument("--seconds", type=_seconds, default=60.0, help="CPU seconds per search")
    return parser


def _seconds(text: str) -> float:
    found = seconds_in(text)
    if len(found) != 1:
        raise argparse.ArgumentTypeError(f"expected one number of CPU seconds above 0, not {text!r}")
    return found[0]


def _counts(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"expected counts of at least 1, such as 1,10, not {text!r}")
    return sorted({int(part) for part in parts})


def _devices(text: str) -> list[int]:
    counts = _counts(text)
    if any(count % NODE_DEVICES or count > MOST_DEVICES for count in counts):
        raise argparse.ArgumentTypeError(
            f"expected multiples of {NODE_DEVICES} up to {MOST_DEVICES}, the devices of whole nodes, not {text!r}"
        )
    return counts


def _kept(path: Path | None) -> list[dict[str, Any]]:
    """Read the searches that a file has.

    Raises:
        ValueError: the file is damaged, or of another benchmark or cost model.
    """
    if path is None or not path.exists():
        return []
    try:
        document = json.loads(path.read_text())
        other = [name for name, value in SETTINGS.items() if document.get(name) != value]
        searches: list[dict[str, Any]] = [] if other else document["searches"]
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path} cannot be continued ({error or type(error).__name__}): {INSTEAD}"
        ) from error
    if other:
        raise ValueError(f"{path} has figures with another {', '.join(other)}: {INSTEAD}")
    return searches


def _is_of(found: dict[str, Any], size: tuple[int, int], seconds: float) -> bool:
    return (found["layers"], found["devices"], found["seconds"]) == (*size, seconds)


def mesh_of(devices: int) -> Mesh:
    """Return the mesh of so many devices: nodes of eight."""
    return load_mesh(NODE if devices == NODE_DEVICES else f"{devices // NODE_DEVICES}x-{NODE}")


def compile_seconds(layers: int, devices: int) -> float:
    """Return the CPU seconds of compiling a program's plan space, in this process."""
    graph, mesh = transformer(layers), mesh_of(devices)
    began_s = time.process_time()
    PlanSpace(graph, mesh, default_view(MeshShape(mesh.axis_sizes)))
    return round(time.process_time() - began_s, 3)


def measure(layers: int, devices: int, seconds: float) -> dict[str, Any]:
    """Search a program of so many layers on so many devices, in this process."""
    graph, mesh = transformer(layers), mesh_of(devices)
    recorder = FrontRecorder(seconds)
    WHOLE.run(graph, mesh, 0, recorder)
    ended_s = recorder.spent_s
    figures = {
        "compile_s": None,
        "first_front_s": recorder.records[0].cpu_s if recorder.records else None,
        "cpu_s": seconds_to_share(recorder.records),
        "ended_s": ended_s,
    }
    rounded = {name: None if value is None else round(value, 3) for name, value in figures.items()}
    size = {"layers": layers, "devices": devices, "seconds": seconds, "blocks": len(graph.blocks)}
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {**size, **rounded, "peak_bytes": peak_bytes}


def seconds_to_share(records: Sequence[FrontRecord], share: float = SHARE) -> float | None:
    """Return the CPU seconds after which a front dominates a share of what the last one does; None without a front."""
    fronts = [record.front for record in records]
    box = box_of(fronts[-1:])
    if box is None:
        return None
    enough = share * box.share(fronts[-1])
    return next(r.cpu_s for r, front in zip(records, fronts, strict=True) if box.share(front) >= enough)


def table_of(searches: Sequence[dict[str, Any]]) -> Table:
    """Build a table of the figures by layers and devices."""
    table = Table(
        "layers", "devices", "blocks", "compile s", "first front s", "99 % s", "ended s", "peak GiB"
    )
    for each in sorted(searches, key=lambda s: (s["devices"], s["layers"])):
        *figures, peak_bytes = (each[name] for name in FIGURES)
        cells = ["-" if value is None else f"{value:.2f}" for value in figures]
        sizes = (str(each[name]) for name in ("layers", "devices", "blocks"))
        table.add_row(*sizes, *cells, f"{peak_bytes / 2**30:.2f}")
    return table


if __name__ == "__main__":
    main()
