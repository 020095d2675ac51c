"""`tapestry validate`: programs or a plan, run by PyTorch on this machine: the measured time beside the predicted."""

from __future__ import annotations

import platform
import time
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec

from tapestry.hardware import Mesh
from tapestry.hardware.calibration.host import RunError
from tapestry.hardware.calibration.runs import TimedRuns
from tapestry.hardware.calibration.timed import Setting
from tapestry.hardware.calibration.validation import Validation, median_error, on_one_device, validate
from tapestry.optimizer import canonicalize
from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.host_load import check_threads, load_before
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.progress import reporter
from tapestry.service.cli.searching import open_store, read_graph, read_mesh
from tapestry.service.store import NewMeasurement, StoreError, mesh_of
from tapestry.teg.brief import counted
from tapestry.teg.readable import quantity
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape

HEADERS = ("program", "predicted", "90 % interval", "measured", "inside", "repeats within", "error")


def run(arguments: Namespace) -> int:
    """Read the programs, run them in turns, and print their times."""
    if bool(arguments.graphs) == bool(arguments.plan):
        raise CommandError("name programs in files, or one stored plan by --plan")
    if arguments.save and not arguments.plan:
        raise CommandError("--save keeps the time of a stored plan; name one by --plan")
    check_threads(arguments.threads)
    if find_spec("torch") is None:
        raise CommandError("programs are run by PyTorch: pip install tapestry[torch]")
    plans, mesh = _stored_plan(arguments) if arguments.plan else _programs(arguments)
    ranks = max(explicit.device_count for explicit in plans.values())
    setting = Setting(arguments.device, arguments.threads, ranks)
    with reporter(arguments.quiet) as progress:
        try:
            with TimedRuns(setting) as runs:
                load = load_before(arguments.threads * ranks)
                found = validate(plans, mesh, runs, arguments.seconds, time.monotonic, progress.measuring)
        except RunError as error:
            raise CommandError(str(error)) from error
    if arguments.save:
        _save(arguments, found[0], setting)
    if arguments.json:
        print_json(
            {
                "mesh": mesh.name,
                **setting._asdict(),
                "load": load,
                "median_error": median_error(found),
                "inside_90": sum(each.is_inside for each in found) / len(found),
                "programs": [each.to_json() for each in found],
            }
        )
    else:
        _print(found, mesh)
    return OK


def _programs(arguments: Namespace) -> tuple[dict[str, ExplicitGraph], Mesh]:
    """Read programs as plans of one device, by their files."""
    if arguments.mesh is None:
        raise CommandError(
            "which device predicts? --mesh FILE names one; `tapestry calibrate FILE` measures this machine"
        )
    mesh = read_mesh(arguments.mesh)
    reading = (arguments.dim, arguments.external_data, arguments.dtype)
    graphs = {path: read_graph(path, *reading) for path in arguments.graphs}
    return {name: on_one_device(canonicalize(graph)) for name, graph in graphs.items()}, mesh


def _stored_plan(arguments: Namespace) -> tuple[dict[str, ExplicitGraph], Mesh]:
    """Load a plan, and the mesh that it is for unless another one is named."""
    store = open_store(arguments.database_url)
    try:
        found = store.plans.find(arguments.plan)
        plan, stored = store.plans.load(found.key), mesh_of(store.runs.find(found.run_id).mesh)
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    mesh = stored if arguments.mesh is None else read_mesh(arguments.mesh)
    if mesh.axis_sizes != stored.axis_sizes:
        wanted, given = (", ".join(f"{name}={size}" for name, size in m.axis_sizes) for m in (stored, mesh))
        raise CommandError(f"the plan is for a mesh with the axes {wanted}; {mesh.name!r} has {given}")
    return {found.id: expand(plan.graph, plan.placements, MeshShape(mesh.axis_sizes))}, mesh


def _save(arguments: Namespace, found: Validation, setting: Setting) -> None:
    """Store the measured time with its plan."""
    threads = "" if setting.device == "cuda" else f" of {counted(setting.threads, 'thread')}"
    devices = counted(setting.ranks, "GPU" if setting.device == "cuda" else "rank")
    where = f"{devices}{threads} on {platform.node()}, PyTorch {version('torch')}"
    measured = NewMeasurement(found.measured.seconds, where, repeat_error=found.measured.repeat_error)
    store = open_store(arguments.database_url)
    try:
        store.measurements.save(store.plans.find(arguments.plan).key, measured, datetime.now(UTC))
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()


def _print(found: Sequence[Validation], mesh: Mesh) -> None:
    rows = [
        (
            each.name,
            quantity(each.predicted_s, "s"),
            " to ".join(quantity(end, "s") for end in each.interval_s),
            quantity(each.measured.seconds, "s"),
            "yes" if each.is_inside else "no",
            f"{each.measured.repeat_error:.1%}",
            f"{each.error:+.1%}",
        )
        for each in found
    ]
    print_table(HEADERS, rows, right=(1, 2, 3, 5, 6))
    inside = sum(each.is_inside for each in found)
    print(
        f"\npredicted for {mesh.name}; median error {median_error(found):.1%}; "
        f"{inside} of {counted(len(found), 'measurement')} inside the interval"
    )
