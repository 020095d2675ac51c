"""The tables: programs, runs, plans, frontiers and executions; jobs and workers; tenants.

Graphs are addressed by content, everything else by row. Costs are one JSON value by objective, so that a new
objective is no new column.
"""

from __future__ import annotations

from tapestry.service.store.tables.base import Base
from tapestry.service.store.tables.executions import ExecutionRow, ExecutionTensorRow, MeasurementRow
from tapestry.service.store.tables.jobs import CheckpointRow, EpochRow, EpochVariantRow, LeaseRow, WorkerRow
from tapestry.service.store.tables.programs import (
    GraphRow,
    ImportPartRow,
    ImportRow,
    RewriteRow,
    TensorRow,
    UploadRow,
)
from tapestry.service.store.tables.runs import (
    ArtifactRow,
    BatchEntryRow,
    BatchRow,
    EventRow,
    HistoryRow,
    PlanRow,
    RateRow,
    RuleRow,
    RunNotesRow,
    RunRow,
    RunTagRow,
    SnapshotRow,
)
from tapestry.service.store.tables.tallies import TallyRow
from tapestry.service.store.tables.tenants import (
    ApiKeyRow,
    AuditRow,
    IdempotencyRow,
    SessionRow,
    TenantRow,
    UsageRow,
)

__all__ = [
    "ApiKeyRow",
    "ArtifactRow",
    "AuditRow",
    "Base",
    "BatchEntryRow",
    "BatchRow",
    "CheckpointRow",
    "EpochRow",
    "EpochVariantRow",
    "EventRow",
    "ExecutionRow",
    "ExecutionTensorRow",
    "GraphRow",
    "HistoryRow",
    "IdempotencyRow",
    "ImportPartRow",
    "ImportRow",
    "LeaseRow",
    "MeasurementRow",
    "PlanRow",
    "RateRow",
    "RewriteRow",
    "RuleRow",
    "RunNotesRow",
    "RunRow",
    "RunTagRow",
    "SessionRow",
    "SnapshotRow",
    "TallyRow",
    "TenantRow",
    "TensorRow",
    "UploadRow",
    "UsageRow",
    "WorkerRow",
]
