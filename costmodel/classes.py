"""Device classes: devices that cost the same whatever the plan, so that one of them is counted for all.

This is the convention "device classes" of `docs/sharding.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.costmodel.block_cost import BlockCosts
from tapestry.costmodel.storage_tables import StorageTable


def device_classes(
    tables: Sequence[StorageTable], blocks: Sequence[BlockCosts], devices: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group the devices that no table distinguishes into classes.

    Returns: devices per class `(classes,)`, a representative of each `(classes,)`, class of each device.
    """
    label = np.zeros(devices, dtype=np.int64)
    columns = [a for t in tables for a in (t.made_bytes, t.needed_bytes, t.staging_bytes)]
    amounts = [a for b in blocks for a in (b.flops, *b.resources)]
    for table in (*columns, *amounts):
        if len(np.unique(label)) == devices:
            break
        if table.size == 0 or (table == table[:, :1]).all():
            continue
        stacked = np.concatenate([label[None, :], table])
        _, label = np.unique(stacked, axis=1, return_inverse=True)
        label = label.reshape(-1)
    _, representative, counts = np.unique(label, return_index=True, return_counts=True)
    return counts.astype(np.int64), representative, label
