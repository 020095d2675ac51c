"""The store: graphs, runs, plans, frontiers and executions in a database."""

from service.store.codec import mesh_of, mesh_to_document
from service.store.database import StoreError
from service.store.records import Execution, FinishedRun, GraphSummary, RunSummary, StoredPlan, StoredRun
from service.store.store import Store

__all__ = [
    "Execution",
    "FinishedRun",
    "GraphSummary",
    "RunSummary",
    "Store",
    "StoreError",
    "StoredPlan",
    "StoredRun",
    "mesh_of",
    "mesh_to_document",
]
