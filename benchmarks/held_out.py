"""Predictions of rows by figures in which their source had no part: every source is left out of the fits in turn.

Kernel classes and tables of collectives are fitted again to the rows of all other sources. A device of which these
have no rows of a class inherits it from others. What is stated in device and mesh files beside these tables stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from benchmarks import collective_fit
from benchmarks.collective_files import MeasuredGroup
from benchmarks.fit import by_class, relative_of
from benchmarks.kernel_samples import KINDS, samples_of
from benchmarks.measurements import Measurement, Prediction, Systems, predict
from benchmarks.measurements.sources import by_source
from tapestry.hardware.calibration.fitting import fit_in_sample
from tapestry.hardware.collective_tables import CollectiveTable, distinct
from tapestry.hardware.device import Device
from tapestry.hardware.kernels import Donor, KernelFigures, completed
from tapestry.hardware.mesh import Mesh, MeshAxis


def predict_held_out(rows: Sequence[Measurement]) -> Iterator[Prediction]:
    """Predict the rows of each source, on systems of the catalog that are fitted to those of all others."""
    sources = by_source(rows)
    with ProcessPoolExecutor() as pool:
        for found in pool.map(partial(predictions_of, rows), sources):
            yield from found


def predictions_of(rows: Sequence[Measurement], source: str) -> list[Prediction]:
    """Predict the rows of one source."""
    held = by_source(rows)[source]
    return list(predict(held, systems_without(rows, held, Systems.of_catalog())))


def systems_without(rows: Sequence[Measurement], held: Sequence[Measurement], systems: Systems) -> Systems:
    """Return systems whose kernels and collectives are fitted to rows without those that are held out."""
    names = {row.id for row in held}
    kept = [row for row in rows if row.id not in names]
    devices = devices_without(kept, held, systems)
    changed = Systems.of_catalog(devices=devices.values())
    return Systems(changed.devices, meshes_without(kept, held, changed))


def devices_without(
    kept: Sequence[Measurement], held: Sequence[Measurement], systems: Systems
) -> dict[str, Device]:
    """Return the devices with the classes of the held rows fitted to the kept ones, or inherited."""
    measured = samples_of(held, systems, (*KINDS, "attention"))
    affected = {(each.key, each.device.vendor) for each in measured}
    classes = [
        devices
        for devices in by_class(samples_of(kept, systems))
        if (devices[0][0].key, devices[0][0].device.vendor) in affected
    ]
    fitted = [each for devices in classes for each in fit_in_sample(devices)]
    dropped = {(each.device.name, each.key) for each in measured}
    own = {name: _kept(device, dropped) for name, device in systems.devices.items()}
    for each in fitted:
        own[each.device.name][each.key] = each.figures
    donors = [Donor(name, relative_of(systems.devices[name]), table) for name, table in own.items() if table]
    return {name: _completed(device, own[name], donors) for name, device in systems.devices.items()}


def _kept(device: Device, dropped: Collection[tuple[str, str]]) -> dict[str, KernelFigures]:
    """Return the device's own classes without those that held rows measured on it, given as names and classes."""
    return {
        key: figures
        for key, figures in device.kernels.items()
        if not figures.origin and (device.name, key) not in dropped
    }


def _completed(device: Device, own: dict[str, KernelFigures], donors: Sequence[Donor]) -> Device:
    """Return a device with classes of its own, and with inherited ones if it had any."""
    inherits = any(figures.origin for figures in device.kernels.values())
    return replace(device, kernels=completed(own, relative_of(device), donors) if inherits else own)


def meshes_without(
    kept: Sequence[Measurement], held: Sequence[Measurement], systems: Systems
) -> dict[str, Mesh]:
    """Return the meshes with tables fitted to the kept rows, with their errors in folds; others' tables stay."""
    samples, without = (
        [s for row in part if row.counts and (s := collective_fit.sample_of(row, systems)) is not None]
        for part in (kept, held)
    )
    if not without:
        return dict(systems.meshes)
    tables = collective_fit.fitted(samples, systems)
    errors = collective_fit.fold_errors(samples, systems)
    tables = collective_fit.errors_of(tables, samples, errors)
    measured = {sample.place for sample in (*samples, *without)}
    return {name: _refilled(mesh, tables, measured) for name, mesh in systems.meshes.items()}


def _refilled(
    mesh: Mesh, tables: Mapping[MeasuredGroup, CollectiveTable], measured: Collection[MeasuredGroup]
) -> Mesh:
    """Return a mesh with these tables, and of its own with those of groups that no row measured."""
    changed, like = collective_fit.with_tables(mesh, tables), collective_fit.likenesses()

    def joined(old: MeshAxis, new: MeshAxis, is_network: bool) -> MeshAxis:
        names = (mesh.name, like.get((mesh.name, is_network)))
        places = {p[2:] for p in measured if p.is_network == is_network and p.mesh in names}
        stay = [t for t in old.collectives if (t.kind, t.members, t.inside, t.algorithm) not in places]
        return replace(new, collectives=distinct([*new.collectives, *stay]))

    last = joined(mesh.axes[-1], changed.axes[-1], False)
    network = mesh.network and changed.network and joined(mesh.network, changed.network, True)
    return replace(changed, axes=(*changed.axes[:-1], last), network=network)
