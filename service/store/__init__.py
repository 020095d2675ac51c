"""The store: graphs, runs, plans, frontiers, executions, jobs and workers in a database."""

from tapestry.service.store.codec import mesh_of, mesh_to_document
from tapestry.service.store.database import StoreError
from tapestry.service.store.records import (
    ComputedTensors,
    Cursor,
    FinishedRun,
    Idempotency,
    Job,
    NewExecution,
    Rewriting,
    RunEvent,
    RunRequest,
    RunSummary,
    RunUpdate,
    SavedGraph,
    StoredExecution,
    StoredGraph,
    StoredPlan,
    StoredRun,
    Submitted,
    WorkerHeartbeat,
)
from tapestry.service.store.sessions import (
    AlreadyEnded,
    KeyReused,
    LeaseLost,
    QueueFull,
    UnknownId,
    Unreadable,
)
from tapestry.service.store.store import Store
from tapestry.service.store.tensor_values import NamedTensor, TensorPlace, TensorRequest, TensorValue

__all__ = [
    "AlreadyEnded",
    "ComputedTensors",
    "Cursor",
    "FinishedRun",
    "Idempotency",
    "Job",
    "KeyReused",
    "LeaseLost",
    "NamedTensor",
    "NewExecution",
    "QueueFull",
    "Rewriting",
    "RunEvent",
    "RunRequest",
    "RunSummary",
    "RunUpdate",
    "SavedGraph",
    "Store",
    "StoreError",
    "StoredExecution",
    "StoredGraph",
    "StoredPlan",
    "StoredRun",
    "Submitted",
    "TensorPlace",
    "TensorRequest",
    "TensorValue",
    "UnknownId",
    "Unreadable",
    "WorkerHeartbeat",
    "mesh_of",
    "mesh_to_document",
]
