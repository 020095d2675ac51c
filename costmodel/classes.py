"""Device classes: devices that cost the same whatever the plan, so that one of them is counted for all.

This is the convention "device classes" of `docs/sharding.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.costmodel.block_cost import BlockCosts
from tapestry.costmodel.resharding_loops import ascending, distinct_rows
from tapestry.costmodel.resharding_tables import ReshardingTable
from tapestry.costmodel.storage_tables import StorageTable


def device_classes(
    tables: Sequence[StorageTable],
    blocks: Sequence[BlockCosts],
    devices: int,
    sent: Sequence[ReshardingTable] = (),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group the devices that no table distinguishes into classes; `sent` are those of copies between stages.

    Returns: devices per class `(classes,)`, a representative of each `(classes,)`, class of each device.
    """
    label = np.zeros(devices, dtype=np.int64)
    sizes = [a for t in tables for a in (t.made_bytes, t.needed_bytes, t.staging_bytes)]
    sizes += [t.staging_bytes for t in sent]
    sizes += [t.host_bytes for t in tables]
    amounts = [a for b in blocks for a in (b.flops, *b.resources)]
    for table in (*sizes, *amounts):
        if len(np.unique(label)) == devices:
            break
        if table.size == 0 or (table == table[:, :1]).all():
            continue
        columns = np.concatenate([label[None, :], table]).T.copy()
        first, number = distinct_rows(columns)
        position = np.empty(len(first), dtype=np.int64)
        position[ascending(columns, first)] = np.arange(len(first))
        label = position[number]
    _, representative, counts = np.unique(label, return_index=True, return_counts=True)
    return counts.astype(np.int64), representative, label
