"""A backend of arrays: every device has a memory of its own, with real arrays of numpy or torch in it.

Arrays are immutable, so devices that hold the same values may share one of them on the host; a block that
reads the same memory for the same index part is computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np

from tapestry.hardware.simulator.movement import ArrayMovement
from tapestry.hardware.simulator.parts import Memo, box_part, frozen, same_bits
from tapestry.hardware.simulator.rounds import CopyCounts, per_device
from tapestry.hardware.simulator.storage import Packed, ShardStorage
from tapestry.teg.arrays import NUMPY, Array, ArrayNamespace
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.evaluate import NOTHING, run_operator
from tapestry.teg.graph import TensorType
from tapestry.teg.operators.operator import Operand
from tapestry.teg.sharding.expand import ComputeStep, CopyStep, ExplicitGraph, InputRead
from tapestry.teg.views import apply_view
from tapestry.teg.zspace import ZRange

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
        self.seen: dict[str, np.ndarray] = {}
        self.is_restored = False

    def place(self, site: str) -> np.ndarray:
        key = self.program.sources[site]
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
        shape = self.program.abstract.tensors[source.tensor].shape
        movement = ArrayMovement(self.xp, copy.plan, shape, self.program.mesh_shape)
        result, counts = movement.run([self.held(copy.source, device) for device in self.devices])
        return counts._replace(result_bytes=self._store(copy.result, result))

    def compute(self, step: ComputeStep) -> tuple[np.ndarray, ...]:
        if step.definition.operator == "sink":
            self.seen[step.site] = self._observe(step.site, step.reads[0])
            source = self.program.abstract.carriers.get(step.site)
            if source is not None:
                parts = [self.xp.to_numpy(self._read(step.reads[0], device)) for device in self.devices]
                self.next_state[source.outputs[0]] = parts
            return ()
        known: Memo[Sequence[Array]] = Memo()
        made = []
        for device in self.devices:
            arrays = [self._read(read, device) for read in step.reads]
            index = self._index(step, device)
            run = partial(self._run, step, device, index, self._operands(step, device, arrays))
            made.append(known.get(arrays, run, index))
        return tuple(self._store(key, [m[k] for m in made]) for k, key in enumerate(step.outputs))

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

    def empty(self, key: str, box: np.ndarray) -> Array:
        """Return an array for the elements of `box` of a buffer's tensor, not initialized."""
        return self.xp.empty((box[:, 1] - box[:, 0]).tolist(), self.program.buffers[key].dtype)

    def run_on(self, step: ComputeStep, device: int, parts: Sequence[Array]) -> Sequence[Array]:
        """Run a block on one device from its parts of the buffers that the block reads; return those that it makes."""
        arrays = [self._view(read, device, part) for read, part in zip(step.reads, parts, strict=True)]
        return self._run(step, device, self._index(step, device), self._operands(step, device, arrays))

    def observed(self) -> Mapping[str, np.ndarray]:
        return self.seen

    def _store(self, key: str, local: Sequence[Array]) -> np.ndarray:
        """Put every device's part into its memory; return the bytes that each takes there."""
        buffer, known = self.program.buffers[key], Memo[Packed]()
        packed = [known.get([array], partial(self.storage.pack, array, buffer)) for array in local]
        for memory, part in zip(self.memory, packed, strict=True):
            memory[key] = part
        self.unpacked[key] = Memo()
        return per_device([part.slots.nbytes for part in packed])

    def held(self, key: str, device: int) -> Array:
        """Return the elements of a device's part of a buffer; equal memory is unpacked once."""
        part = self.memory[device][key]
        return self.unpacked[key].get([part.slots], part.array)

    def _read(self, read: InputRead, device: int) -> Array:
        """Return the elements that a block on `device` reads, as a view of the local buffer."""
        return self._view(read, device, self.held(read.buffer, device))

    def _view(self, read: InputRead, device: int, held: Array) -> Array:
        start = self.program.buffers[read.buffer].boxes[device, :, 0].tolist()
        return apply_view(self.xp, read.view, held, start, read.wanted[device].tolist())

    @staticmethod
    def _operands(step: ComputeStep, device: int, arrays: Sequence[Array]) -> list[Operand]:
        starts = [tuple(read.wanted[device, :, 0].tolist()) for read in step.reads]
        return list(map(Operand, arrays, starts))

    def _index(self, step: ComputeStep, device: int) -> ZRange:
        if step.definition.signature is None:
            return NOTHING
        index = step.index[device]
        return ZRange(tuple(index[:, 0].tolist()), tuple(index[:, 1].tolist()))

    def _run(
        self, step: ComputeStep, device: int, index: ZRange, operands: Sequence[Operand]
    ) -> Sequence[Array]:
        types = [self.program.abstract.tensors[key].type for key in step.outputs]
        made = run_operator(self.xp, step.definition, index, operands, types)
        for key, kind, array in zip(step.outputs, types, made, strict=True):
            box = self.program.buffers[key].boxes[device]
            shape = tuple((box[:, 1] - box[:, 0]).tolist())
            found = TensorType(tuple(array.shape), self.xp.dtype_of(array))
            if found != (shape, kind.dtype):
                raise ValueError(
                    f"block {step.site!r} ({step.definition.operator}) on device {device} made shape "
                    f"{found.shape} of {found.dtype} for {key!r}, not {shape} of {kind.dtype}"
                )
        return [frozen(array) for array in made]

    def _agree(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Return whether replicas are equal: bit by bit, up to rounding once a value was put in from outside."""
        if same_bits(a, b) or not self.is_restored or a.dtype.kind not in "fc":
            return same_bits(a, b)
        high = np.abs(a[np.isfinite(a)]).max(initial=0)
        return bool(np.allclose(a, b, rtol=0, atol=np.sqrt(np.finfo(a.dtype).eps) * high, equal_nan=True))

    def _observe(self, site: str, read: InputRead) -> np.ndarray:
        """Combine the devices' parts into the whole value that a sink sees.

        Raises:
            RuntimeError: devices that hold the same part differ, or parts are missing.
        """
        parts: dict[ZRange, tuple[int, np.ndarray]] = {}
        for device in self.devices:
            wanted = read.wanted[device]
            part = ZRange(tuple(wanted[:, 0].tolist()), tuple(wanted[:, 1].tolist()))
            if part.is_empty:
                continue
            array = self.xp.to_numpy(self._read(read, device))
            first, known = parts.setdefault(part, (device, array))
            if not self._agree(known, array):
                raise RuntimeError(f"sink {site!r}: devices {first} and {device} disagree on {part}")
        whole = ZRange.of_shape(read.view.shape)
        if sum(part.size for part in parts) != whole.size:
            raise RuntimeError(f"sink {site!r}: the devices' parts {list(parts)} do not make up {whole}")
        if whole in parts:
            return np.asarray(parts[whole][1])
        dtype = numpy_dtype(self.program.buffers[read.buffer].dtype)
        value = np.empty(read.view.shape, dtype)
        for part, (_, array) in parts.items():
            value[tuple(map(slice, part.start, part.end))] = array
        value.setflags(write=False)
        return value


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
    for site in (site for site in program.sources if site not in known):
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
    names = {graph.producers[site].site for site in program.sources}
    issues += [f"there is no source {name!r}" for name in inputs if name not in names]
    if issues:
        raise ValueError(f"program {graph.name!r} cannot be run: " + "; ".join(issues))
    return values
