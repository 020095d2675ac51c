"""What handlers work with: the store, the settings, the desk and the feed of events, one of each per application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from tapestry.service.api.desk import Desk
from tapestry.service.api.feed import Feed
from tapestry.service.settings import ServiceSettings
from tapestry.service.store import Store


@dataclass(frozen=True)
class Context:
    """One application's parts."""

    store: Store
    settings: ServiceSettings
    desk: Desk
    feed: Feed

    def close(self) -> None:
        """Let go of everything: streams end, processes of the desk end, connections are closed."""
        self.feed.close()
        self.desk.close()
        self.store.close()


def context_of(request: Request) -> Context:
    """The parts of the application that a request came to."""
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


Parts = Annotated[Context, Depends(context_of)]
