"""Objects shared by handlers: the store, settings, task pool, event feed and kept answers of one application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from tapestry.service.api.event_feed import EventFeed
from tapestry.service.api.kept_answers import KeptAnswers
from tapestry.service.api.task_pool import TaskPool
from tapestry.service.settings import ServiceSettings
from tapestry.service.store import Store


@dataclass(frozen=True)
class Context:
    """The store, settings, task pool, event feed and kept answers of one application."""

    store: Store
    settings: ServiceSettings
    pool: TaskPool
    event_feed: EventFeed
    answers: KeptAnswers

    def close(self) -> None:
        """Release all resources: end the event streams and the pool's processes, close the connections."""
        self.event_feed.close()
        self.pool.close()
        self.answers.close()
        self.store.close()


def context_of(request: Request) -> Context:
    """Return the context of the application that received a request."""
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


Parts = Annotated[Context, Depends(context_of)]
