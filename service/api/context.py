"""Objects shared by handlers: the store, settings, task pool, event feed, kept answers and more of one application."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Request

from tapestry.service.api.event_feed import EventFeed
from tapestry.service.api.holders import HolderWatch
from tapestry.service.api.kept_answers import KeptAnswers
from tapestry.service.api.space import SpaceLeft
from tapestry.service.api.task_pool import TaskPool, TenantPool
from tapestry.service.api.users import user_of
from tapestry.service.settings import ServiceSettings
from tapestry.service.store import QueueLimits, Store, TenantStore


@dataclass(frozen=True)
class Context:
    """The store, settings, task pool, event feed and kept answers of one application.

    `store` is what the tenant of a request sees, and `pool` runs its tasks; `all_tenants` is for the operator.
    """

    all_tenants: Store
    store: TenantStore
    settings: ServiceSettings
    task_pool: TaskPool
    event_feed: EventFeed
    answers: KeptAnswers
    space: SpaceLeft
    holders: HolderWatch

    @property
    def pool(self) -> TenantPool:
        """The task pool for the tasks of the request's tenant."""
        return self.task_pool.of(self.store.tenant)

    @property
    def queue_limits(self) -> QueueLimits:
        """The limits on the jobs that wait."""
        limits = self.settings.limits
        return QueueLimits(limits.queued_jobs, limits.all_queued_jobs)

    def close(self) -> None:
        """Release all resources: end the event streams and the pool's processes, close the connections."""
        self.event_feed.close()
        self.task_pool.close()
        self.answers.close()
        self.all_tenants.close()


def context_of(request: Request) -> Context:
    """Return the context of the application that received a request, with the store of the request's tenant."""
    context = request.app.state.context
    assert isinstance(context, Context)
    return replace(context, store=context.all_tenants.of(user_of(request.scope).tenant))


Parts = Annotated[Context, Depends(context_of)]
