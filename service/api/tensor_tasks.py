"""Tasks of the pool for values of tensors: read what was uploaded, and check all of it against a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from tapestry.optimizer import canonicalize
from tapestry.service.api.tasks import store_at
from tapestry.service.store import StoreAddress, TensorRequest, TensorValue
from tapestry.service.tensor_names import name_fault
from tapestry.teg.dtypes import NAMES
from tapestry.teg.faults import Fault, escape, no_such
from tapestry.teg.graph import Graph, TensorType
from tapestry.teg.interface import input_faults, unread_names
from tapestry.teg.loading import LoadCost
from tapestry.teg.tensor_files import TensorFileError, ending_of, read_tensors, typed


@dataclass(frozen=True)
class CheckedValues:
    """The values of an upload by input, the names that no input has, and all faults."""

    given: Mapping[str, TensorValue] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def check_values(
    address: StoreAddress, graph_id: str, uploads: Mapping[str, str], request: TensorRequest, most_bytes: int
) -> CheckedValues:
    """Check the values that an execution is asked to use and to keep; `uploads` are files by field of the form.

    Without uploads and stored tensors inputs are seeded, and nothing is missing.
    """
    store = store_at(address)
    graph = canonicalize(store.graphs.load(graph_id))
    arrays, fields, faults = _uploaded(uploads, most_bytes)
    known = {source.site: graph.tensors[source.outputs[0]].dtype for source in graph.sources}
    arrays = {
        name: typed(array, known.get(name, "")) if name in known else array for name, array in arrays.items()
    }
    types = {name: TensorType(array.shape, array.dtype.name) for name, array in arrays.items()}
    tensors = {tensor.name: tensor for tensor in store.tensors.all()} if request.tensors else {}
    for site, name in request.tensors.items():
        pointer = f"/tensors/{escape(site)}"
        if site in types:
            faults.append(Fault(pointer, f"the file of {fields[site]!r} gives {site!r} too; leave one out"))
        elif name not in tensors:
            faults.append(Fault(pointer, no_such("tensor", name, tensors)))
        else:
            types[site] = TensorType(tensors[name].shape, tensors[name].dtype)
            if site not in known:
                faults.append(Fault(pointer, no_such("input", site, list(known))))
    if (uploads or request.tensors) and not faults:
        fields |= dict.fromkeys(request.tensors, "tensors")
        first = next(iter(uploads), "tensors")
        faults += [
            Fault(f"/{fields.get(name, first)}/{escape(name)}", line)
            for name, line in input_faults(graph, types).items()
        ]
    faults += _output_faults(graph, request, most_bytes)
    given = {name: TensorValue.of(array) for name, array in arrays.items() if name in known}
    return CheckedValues({} if faults else given, tuple(unread_names(graph, arrays).values()), tuple(faults))


def put_tensor(
    address: StoreAddress, path: str, name: str, most_bytes: int, load: LoadCost
) -> tuple[Fault, ...]:
    """Store the one tensor in a private file under a name, with the cost of loading it; return the faults for which it
    was refused.
    """
    file = Path(path)
    try:
        tensors = _read(file, "the body", most_bytes)
    except TensorFileError as error:
        return (Fault("", str(error)),)
    if len(tensors) != 1:
        return (Fault("", f"expected a file with one tensor, not {len(tensors)}"),)
    (array,) = tensors.values()
    if array.dtype.name not in NAMES:
        size = array.dtype.itemsize
        return (Fault("", f"its elements are plain bytes ({size} each) without a type; send .safetensors"),)
    cost = None if load == LoadCost() else load
    store_at(address).tensors.put({name: TensorValue.of(array)}, datetime.now(UTC), load=cost)
    return ()


def _uploaded(
    uploads: Mapping[str, str], most_bytes: int
) -> tuple[dict[str, np.ndarray], dict[str, str], list[Fault]]:
    """Read the files of a form: values by name, the field of each, and faults."""
    arrays: dict[str, np.ndarray] = {}
    fields: dict[str, str] = {}
    faults: list[Fault] = []
    for form_field, path in uploads.items():
        try:
            found = _read(Path(path), f"the file of {form_field!r}", most_bytes)
        except TensorFileError as error:
            faults.append(Fault(f"/{form_field}", str(error)))
            continue
        for name, array in found.items():
            if name in fields:
                detail = f"the file of {fields[name]!r} gives {name!r} too; leave one out"
                faults.append(Fault(f"/{form_field}/{escape(name)}", detail))
            arrays[name], fields[name] = array, form_field
    return arrays, fields, faults


def _read(file: Path, shown: str, most_bytes: int) -> dict[str, np.ndarray]:
    """Read a private file whose format its content tells."""
    with file.open("rb") as content:
        ending = ending_of(content.read(8))
    named = file.with_name(f"{file.name}{ending}")
    file.rename(named)
    try:
        return read_tensors(named, most_bytes, shown)
    finally:
        named.rename(file)


def _output_faults(graph: Graph, request: TensorRequest, most_bytes: int) -> Iterator[Fault]:
    sizes = {sink.site: graph.tensors[sink.inputs[0]].type.size_bytes for sink in graph.sinks}
    times = Counter(request.save.values())
    for site, name in request.save.items():
        pointer = f"/save/{escape(site)}"
        if site not in sizes:
            yield Fault(pointer, no_such("output", site, list(sizes)))
        elif fault := name_fault(name):
            yield Fault(pointer, fault)
        elif times[name] > 1:
            yield Fault(pointer, f"another output is stored as {name!r} too; give each a name of its own")
        elif sizes[site] > most_bytes:
            yield Fault(pointer, f"it has {sizes[site]:,} bytes; at most {most_bytes:,} are stored here")
    if request.outputs and (size := sum(sizes.values())) > most_bytes:
        yield Fault("/outputs", f"they have {size:,} bytes; at most {most_bytes:,} are kept here")
