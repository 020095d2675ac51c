"""`tapestry tensors`: tensors with names, loaded from files, listed, copied, exported and dropped."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.searching import open_store
from tapestry.service.presentation import tensor_document
from tapestry.service.store import NamedTensor, Store, StoreError, TensorValue
from tapestry.service.tensor_names import name_fault
from tapestry.teg.dtypes import NAMES
from tapestry.teg.faults import ArgumentError, joined, no_such
from tapestry.teg.loading import LoadCost
from tapestry.teg.readable import quantity
from tapestry.teg.tensor_files import TensorFileError, read_tensors, write_tensors


def run(arguments: Namespace) -> int:
    """Carry out the action, and print the tensors that it is about."""
    store = open_store(arguments.database_url)
    try:
        found = ACTIONS[arguments.action](store, arguments)
    except (StoreError, TensorFileError) as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    if arguments.json:
        print_json({"items": [tensor_document(tensor) for tensor in found]})
    elif found:
        rows = [
            (t.name, t.dtype, "x".join(map(str, t.shape)), quantity(t.size_bytes, "B"), *_place(t))
            for t in found
        ]
        print_table(("name", "type", "shape", "size", "mesh", "spec"), rows, right=(3,))
    else:
        print("there are no stored tensors" if arguments.action == "list" else "done")
    return OK


def _load(store: Store, arguments: Namespace) -> tuple[NamedTensor, ...]:
    """Store the tensors of a file: all, or those named, each as itself or under another name."""
    tensors = read_tensors(arguments.file)
    wanted = {name: member or name for name, member in arguments.names} or {name: name for name in tensors}
    faults = [fault for name in wanted if (fault := name_fault(name))]
    faults += [
        no_such("tensor", member, list(tensors)) for member in wanted.values() if member not in tensors
    ]
    faults += [
        f"{member!r} has plain bytes for elements, without a type; take .safetensors"
        for member in wanted.values()
        if member in tensors and tensors[member].dtype.name not in NAMES
    ]
    if faults:
        raise CommandError(f"{arguments.file!r}: {joined(faults)}")
    try:
        cost = LoadCost(arguments.seconds, arguments.bytes_per_s, arguments.device)
    except ArgumentError as error:
        raise CommandError(str(error)) from error
    values = {name: TensorValue.of(tensors[member]) for name, member in wanted.items()}
    store.tensors.put(values, datetime.now(UTC), load=None if cost == LoadCost() else cost)
    return tuple(store.tensors.get(name) for name in values)


def _list(store: Store, _: Namespace) -> tuple[NamedTensor, ...]:
    return store.tensors.all()


def _copy(store: Store, arguments: Namespace) -> tuple[NamedTensor, ...]:
    if fault := name_fault(arguments.new):
        raise CommandError(fault)
    store.tensors.copy(arguments.name, arguments.new, datetime.now(UTC))
    return (store.tensors.get(arguments.new),)


def _export(store: Store, arguments: Namespace) -> tuple[NamedTensor, ...]:
    """Write tensors to a file, those named or all."""
    names = dict.fromkeys(arguments.names or [tensor.name for tensor in store.tensors.all()])
    found = {name: store.tensors.load(name) for name in names}
    write_tensors(arguments.file, {name: value.array for name, (_, value) in found.items()})
    return tuple(tensor for tensor, _ in found.values())


def _drop(store: Store, arguments: Namespace) -> tuple[NamedTensor, ...]:
    store.tensors.drop(arguments.names)
    for name in arguments.names:
        store.audit.note_command("drop tensor", name, datetime.now(UTC))
    return ()


ACTIONS: Mapping[str, Any] = {
    "load": _load,
    "list": _list,
    "copy": _copy,
    "export": _export,
    "drop": _drop,
}


def _place(tensor: NamedTensor) -> tuple[str, str]:
    """Return where a tensor lies, for a table: mesh and part of it, spec and layout."""
    place, load = tensor.place, tensor.load
    if place is None:
        return "-" if load is None or not load.device else f"loaded to {load.device}", "-"
    return " ".join(filter(None, (place.mesh, place.devices))), " ".join(
        filter(None, (place.spec, place.layout))
    )
