"""The decorator that makes an operation of both clients of a generator of steps (`client.calls`), written once.

As an attribute of a `Client` it is a method that returns the result, of an `AsyncClient` one that is awaited; the types
of both follow from the generator's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from tapestry.client.calls import Call, Reply, Steps, answered
from tapestry.client.retrying import Retries

P = ParamSpec("P")
T = TypeVar("T")


class HasId(Protocol):
    """An object of the service that has an id, such as a run or a plan."""

    @property
    def id(self) -> str: ...


Reference = str | HasId


def id_of(reference: Reference) -> str:
    """Return the id of an object of the service, or the id itself."""
    return reference if isinstance(reference, str) else reference.id


class Blocking:
    """A client whose operations return their results: its `carry_out` waits for each step."""


class Awaited:
    """A client whose operations are awaited: its `carry_out` lets other tasks go on."""


class operation(Generic[P, T]):  # noqa: N801  # a decorator
    """A decorator that makes a generator of steps a method of both clients."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaited, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        @wraps(self.steps)
        def method(*arguments: P.args, **keywords: P.kwargs) -> Any:
            return client.carry_out(self.steps(client, *arguments, **keywords))

        return method


class Requests:
    """The requests of a client to the service. Each is sent again where that may help (`Retries`)."""

    def __init__(self, retries: Retries | None) -> None:
        self.retries = retries or Retries()

    def _answered(self, call: Call) -> Steps[Reply]:
        return answered(call, self.retries)

    def _got(self, path: str) -> Steps[Any]:
        """Return the JSON at a path."""
        return json.loads((yield from self._answered(Call("GET", path))).content)
