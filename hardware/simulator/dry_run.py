"""A dry-run backend without values: every size follows from the devices' boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tapestry.hardware.simulator.counting import count_copy
from tapestry.hardware.simulator.rounds import CopyCounts
from tapestry.hardware.simulator.storage import ShardStorage
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.sharding.expand import ComputeStep, CopyStep, ExplicitGraph
from tapestry.teg.sharding.result_cache import ResultCache

LARGEST_FULL_MESH = 64  # devices; beyond it transfers are counted once per class of devices


class DryRunBackend:
    """A backend that counts instead of computing; see `Backend`."""

    def __init__(
        self, program: ExplicitGraph, storage: ShardStorage, cache: ResultCache | None = None
    ) -> None:
        self.next_state: Mapping[str, Sequence[np.ndarray]] = {}
        self.program, self.storage = program, storage
        self.cache = cache or ResultCache(program.mesh_shape)
        self.by_class = program.mesh_shape.device_count > LARGEST_FULL_MESH

    def place(self, key: str) -> np.ndarray:
        return self._size_bytes(key)

    def copy(self, copy: CopyStep) -> CopyCounts:
        source = self.program.buffers[copy.source]
        shape, size_bytes = source.shape, item_bytes(source.dtype)
        counts = self.cache.known(
            ("copied", copy.plan, shape, size_bytes, self.by_class),
            lambda: count_copy(copy.plan, shape, self.program.mesh_shape, size_bytes, self.by_class),
        )
        return counts._replace(result_bytes=self._size_bytes(copy.result))

    def compute(self, step: ComputeStep) -> tuple[np.ndarray, ...]:
        return tuple(self._size_bytes(key) for key in step.outputs)

    def free(self, key: str) -> None:
        """Do nothing, since no buffer is held."""

    def observed(self) -> Mapping[str, np.ndarray]:
        return {}

    def _size_bytes(self, key: str) -> np.ndarray:
        buffer = self.program.buffers[key]
        known = ("bytes", self.cache.key_of(buffer.boxes), buffer.dtype, buffer.layout)
        return self.cache.known(known, lambda: self.storage.part_bytes(buffer, buffer.boxes))
