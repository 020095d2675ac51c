"""A client of the service: programs in, runs followed, plans chosen and fetched.

`Client` waits for each answer, `AsyncClient` is awaited; both have the same methods (`client.operations`). Loading this
package loads neither the service nor the search, only the names of a run's options; httpx is loaded with the first
client (`pip install 'tapestry[client]'`).
"""

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.client: imported as client, its classes would exist twice")

from tapestry.client.clients import AsyncClient, Client
from tapestry.client.comparison_records import (
    ComparedPlan,
    ComparedRun,
    DecisionComparison,
    DecisionGroup,
    PlanComparison,
    RunComparison,
)
from tapestry.client.errors import (
    ImportCancelledError,
    NoPlanError,
    ProblemError,
    RunFailedError,
    ServiceError,
    UnreachableError,
    WaitTimeoutError,
)
from tapestry.client.records import (
    BoundRecord,
    BoundScopeRecord,
    ClassTimeRecord,
    CostedPlan,
    DifferenceRecord,
    EventRecord,
    FinishedSearch,
    Frontier,
    GraphRecord,
    ImportRecord,
    LeadRecord,
    MeasurementRecord,
    ObjectiveRecord,
    PlanDetail,
    PlanRecord,
    RunDetail,
    RunRecord,
    SubmittedRun,
    TimeRecord,
)
from tapestry.client.retrying import Retries

__all__ = [
    "AsyncClient",
    "BoundRecord",
    "BoundScopeRecord",
    "ClassTimeRecord",
    "Client",
    "ComparedPlan",
    "ComparedRun",
    "CostedPlan",
    "DecisionComparison",
    "DecisionGroup",
    "DifferenceRecord",
    "EventRecord",
    "FinishedSearch",
    "Frontier",
    "GraphRecord",
    "ImportCancelledError",
    "ImportRecord",
    "LeadRecord",
    "MeasurementRecord",
    "NoPlanError",
    "ObjectiveRecord",
    "PlanComparison",
    "PlanDetail",
    "PlanRecord",
    "ProblemError",
    "Retries",
    "RunComparison",
    "RunDetail",
    "RunFailedError",
    "RunRecord",
    "ServiceError",
    "SubmittedRun",
    "TimeRecord",
    "UnreachableError",
    "WaitTimeoutError",
]
