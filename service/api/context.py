"""What handlers work with: the store, the settings, the desk and the feed of events, one of each per application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from service.api.desk import Desk
from service.api.feed import Feed
from service.api.models import ProblemAnswer
from service.settings import ServiceSettings
from service.store import Store


@dataclass(frozen=True)
class Context:
    """One application's parts."""

    store: Store
    settings: ServiceSettings
    desk: Desk
    feed: Feed


def context_of(request: Request) -> Context:
    """The parts of the application that a request came to."""
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


Parts = Annotated[Context, Depends(context_of)]

_SAID = {
    400: "The body is malformed",
    404: "There is nothing by that id",
    409: "It cannot happen any more, or not under this key",
    413: "The body or the graph is too large",
    415: "Another content type is expected",
    422: "The request cannot be carried out as it was given; errors say where",
    429: "The queue is full",
    503: "The service cannot do it now",
}
_ALWAYS = {
    401: "A key is needed",
    403: "A page of another site began the request",
    421: "The service does not answer to this host name",
    500: "A fault of the service",
}


def json_file(description: str) -> dict[int | str, dict[str, Any]]:
    """The documented success of an endpoint that answers with a whole JSON file."""
    return {200: {"description": description, "content": {"application/json": {}}}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documented errors of an endpoint: its own, and those that every endpoint has."""
    said = {status: _SAID[status] for status in (*statuses, 503)} | _ALWAYS
    return {
        status: {
            "description": text,
            "model": ProblemAnswer,
            "content": {"application/problem+json": {}},
        }
        for status, text in said.items()
    }
