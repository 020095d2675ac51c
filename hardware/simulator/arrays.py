"""A backend of arrays: every device has a memory of its own, with real arrays of numpy or torch in it.

Arrays are immutable, so devices that hold the same values may share one of them on the host; a block that
reads the same memory for the same index part is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import numpy as np

from tapestry.hardware.simulator.movement import ArrayMovement
from tapestry.hardware.simulator.parts import Memo, box_part, frozen, same_bits
from tapestry.hardware.simulator.rounds import CopyCounts, per_device
from tapestry.hardware.simulator.shards import (
    agree_up_to_rounding,
    index_part,
    read_elements,
    run_shard,
    whole_value,
)
from tapestry.hardware.simulator.storage import Packed, ShardStorage
from tapestry.teg.arrays import NUMPY, Array, ArrayNamespace
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.operators.monoids import combine
from tapestry.teg.sharding.expand import ComputeStep, CopyStep, ExplicitGraph, InputRead
from tapestry.teg.sharding.host import HOST

# The part of a tensor on every device, by the site of the source that begins as it.
State = Mapping[str, Sequence[np.ndarray]]


class ArrayBackend:
    """A backend that computes values; see `Backend`. `memory[device]` holds parts by buffer key, packed as stored.

    The arrays are those of the library `xp`, numpy or torch. Values come and go as numpy arrays.

    State in `state` begins as what the devices held at the end of the step before; `inputs` need no value for it.

    Raises:
        ValueError: values of sources are missing, unknown, or of another shape or element type.
    """

    def __init__(
        self,
        program: ExplicitGraph,
        inputs: Mapping[str, np.ndarray],
        storage: ShardStorage,
        state: State | None = None,
        xp: ArrayNamespace = NUMPY,
    ) -> None:
        self.xp = xp
        self.program, self.storage = program, storage
        self.devices = range(program.mesh_shape.device_count)
        self.memory: list[dict[str, Packed]] = [{} for _ in self.devices]
        self.unpacked: dict[str, Memo[Array]] = {}
        self.state = state or {}
        self.values = source_values(program, inputs, self.state)
        self.moved_in: Memo[Array] = Memo()
        self.next_state: dict[str, list[np.ndarray]] = {}
        self.seen: dict[str, list[tuple[ComputeStep, int, np.ndarray]]] = {}
        self.is_restored = False

    def place(self, key: str) -> np.ndarray:
        return self._store(key, [self.source_part(key, device) for device in self.devices])

    def source_part(self, key: str, device: int) -> Array:
        """Return the part of a source's tensor that a device begins with."""
        buffer = self.program.buffers[key]
        box = buffer.boxes[device]
        if buffer.tensor in self.state:
            held = self.state[buffer.tensor][device].reshape((box[:, 1] - box[:, 0]).tolist())
            return self.moved_in.get([held], partial(self.xp.from_numpy, held))
        whole = self.values[buffer.tensor]
        value = self.moved_in.get([whole], partial(self.xp.from_numpy, whole))
        return frozen(box_part(value, (0,) * value.ndim, box))

    def copy(self, copy: CopyStep) -> CopyCounts:
        source = self.program.buffers[copy.source]
        movement = ArrayMovement(self.xp, copy.plan, source.shape, self.program.mesh_shape)
        result, counts = movement.run([self.held(copy.source, device) for device in self.devices])
        return counts._replace(result_bytes=self._store(copy.result, result))

    def compute(self, step: ComputeStep) -> tuple[np.ndarray, ...]:
        if step.definition.operator == "sink":
            self._observe(step)
            source = self.program.abstract.carriers.get(step.site)
            if source is not None:
                parts = [self.xp.to_numpy(self._read(step.reads[0], device)) for device in self.devices]
                self.next_state[source.outputs[0]] = parts
            return ()
        known: Memo[Sequence[Array]] = Memo()
        made = []
        for device in self.devices:
            arrays = [self._read(read, device) for read in step.reads]
            run = partial(run_shard, self.xp, self.program, step, device, arrays)
            made.append(known.get(arrays, run, index_part(step, device)))
        if step.round and step.accumulates:
            made = [self._accumulated(step, device, parts) for device, parts in enumerate(made)]
        return tuple(self._store(key, [m[k] for m in made]) for k, key in enumerate(step.outputs))

    def _accumulated(self, step: ComputeStep, device: int, parts: Sequence[Array]) -> Sequence[Array]:
        """Combine what a block makes in a later round with what its outputs hold of the rounds before."""
        held = (self.held(key, device) for key in step.outputs)
        return [combine(self.xp, step.accumulates, a, b) for a, b in zip(held, parts, strict=True)]

    def free(self, key: str) -> None:
        for memory in self.memory:
            del memory[key]
        del self.unpacked[key]

    def forget(self, key: str, device: int) -> None:
        """Remove a device's part of a buffer."""
        del self.memory[device][key]

    def put(self, key: str, device: int, part: Array) -> None:
        """Put a device's part of a buffer into its memory, whose last bits may differ from what was there before."""
        self.is_restored = True
        self.memory[device][key] = self.storage.pack(part, self.program.buffers[key])

    def run_on(self, step: ComputeStep, device: int, parts: Sequence[Array]) -> Sequence[Array]:
        """Run a block on one device from its parts of the buffers that the block reads; return those that it makes."""
        arrays = [
            read_elements(self.xp, self.program, read, device, part)
            for read, part in zip(step.reads, parts, strict=True)
        ]
        return run_shard(self.xp, self.program, step, device, arrays)

    def observed(self) -> Mapping[str, np.ndarray]:
        return {site: whole_value(self.program, seen, self._agree) for site, seen in self.seen.items()}

    @property
    def _agree(self) -> Callable[[np.ndarray, np.ndarray], bool]:
        """Equality bit by bit, up to rounding once a value was put in from outside."""
        return agree_up_to_rounding if self.is_restored else same_bits

    def _store(self, key: str, local: Sequence[Array]) -> np.ndarray:
        """Put every device's part into its memory; return the bytes that each takes there."""
        buffer, known = self.program.buffers[key], Memo[Packed]()
        packed = [known.get([array], partial(self.storage.pack, array, buffer)) for array in local]
        for memory, part in zip(self.memory, packed, strict=True):
            memory[key] = part
        self.unpacked[key] = Memo()
        return per_device([0 if buffer.layout == HOST else part.slots.nbytes for part in packed])

    def held(self, key: str, device: int) -> Array:
        """Return the elements of a device's part of a buffer; equal memory is unpacked once."""
        part = self.memory[device][key]
        return self.unpacked[key].get([part.slots], part.array)

    def _read(self, read: InputRead, device: int) -> Array:
        """Return the elements that a block on `device` reads, as a view of the local buffer."""
        return read_elements(self.xp, self.program, read, device, self.held(read.buffer, device))

    def _observe(self, sink: ComputeStep) -> None:
        """Keep what the devices hold of what a sink sees."""
        parts = [self.xp.to_numpy(self._read(sink.reads[0], device)) for device in self.devices]
        self.seen.setdefault(sink.site, []).extend(zip([sink] * len(parts), self.devices, parts, strict=True))


def source_values(
    program: ExplicitGraph, inputs: Mapping[str, np.ndarray], known: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Return whole read-only values by source tensor: from `inputs` (by source site), else from the graph's data.

    Sources in `known` need none.

    Raises:
        ValueError: values are missing, unknown, or of another shape or element type; all are listed.
    """
    graph = program.abstract
    values, issues = {}, []
    sources = dict.fromkeys(program.sources.values())
    for site in (site for site in sources if site not in known):
        name, wanted = graph.producers[site].site, graph.tensors[site]
        value = inputs.get(name, graph.data.get(site))
        if value is None:
            issues.append(f"source {name!r} needs a value of shape {wanted.shape} and type {wanted.dtype}")
        elif (value.shape, value.dtype) != (wanted.shape, numpy_dtype(wanted.dtype)):
            issues.append(
                f"source {name!r} needs shape {wanted.shape} and type {wanted.dtype}, "
                f"not shape {value.shape} and type {value.dtype}"
            )
        else:
            values[site] = frozen(value.view())
    names = {graph.producers[site].site for site in sources}
    issues += [f"there is no source {name!r}" for name in inputs if name not in names]
    if issues:
        raise ValueError(f"program {graph.name!r} cannot be run: " + "; ".join(issues))
    return values
