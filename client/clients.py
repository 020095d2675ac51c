"""The two clients: the operations over blocking and over asynchronous connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tapestry.client.calls import Call, Follow, Lost, Pause, Reply, Step, Steps
from tapestry.client.errors import WaitTimeoutError
from tapestry.client.following import Following
from tapestry.client.operation import Awaited, Blocking, Reference, T, id_of
from tapestry.client.operations import Operations
from tapestry.client.records import EventRecord
from tapestry.client.retrying import Retries
from tapestry.teg.faults import ArgumentError

ADDRESS = "http://127.0.0.1:8000"
TIMEOUT_S = 60.0


class Connected(Operations):
    """The connections of a client to a service: those of an object of httpx, of its class or given."""

    _http_class: ClassVar[str]

    def __init__(
        self,
        address: str = ADDRESS,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        http: Any = None,
    ) -> None:
        super().__init__(retries)
        self._library = _library()
        self._owns_http = http is None
        self._http = http or getattr(self._library, self._http_class)(
            **_settings(address, api_key, timeout_s)
        )

    def _arguments(self, call: Call, files: ExitStack) -> dict[str, Any]:
        """Return the arguments of a request to httpx; `files` closes the files that it opens."""
        arguments: dict[str, Any] = {"method": call.method, "url": call.path, "headers": dict(call.headers)}
        if call.params:
            arguments["params"] = dict(call.params)
        if call.json is not None:
            arguments["json"] = call.json
        if call.content is not None:
            arguments["content"] = call.content
        if (upload := call.upload) is not None:
            parts = [
                ("file", upload.name, upload.content),
                *(("data", *part) for part in upload.data.items()),
            ]
            opened = [
                (
                    field,
                    (name, files.enter_context(content.open("rb")) if isinstance(content, Path) else content),
                )
                for field, name, content in parts
            ]
            arguments |= {"files": opened, "data": dict(upload.fields)}
        if call.read_timeout_s is not None:
            usual = self._http.timeout.as_dict()
            arguments["timeout"] = self._library.Timeout(**{**usual, "read": call.read_timeout_s})
        return arguments


class Client(Connected, Blocking):
    """A client of the service at an address, whose methods wait for their answers.

    `api_key` is the service's, where it has one. `timeout_s` bounds the wait for each part of an answer. `http` is an
    `httpx.Client` of your own, for proxies and certificates; it is not closed.

    >>> with Client("http://127.0.0.1:8000") as client:  # doctest: +SKIP
    ...     found = client.optimize("model.onnx", "dgx-h100", seconds=10)
    ...     plan = found.frontier.fastest(under={"peak_memory_bytes": "40GiB"})

    Raises:
        ArgumentError: the address is not that of a service.
        ImportError: httpx is not installed.
    """

    _http_class = "Client"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            self._http.close()

    def events(self, run: Reference, after: int = 0) -> Iterator[EventRecord]:
        """Yield the events of a run until it ends; a lost connection is resumed after the last event.

        Raises:
            ProblemError: there is no such run.
            UnreachableError: the connection does not come back.
        """
        yield from self._events(Following(id_of(run), after, self.retries))

    def _events(self, following: Following) -> Iterator[EventRecord]:
        while not following.is_over:
            reason = "the stream has ended"
            following.check_time()
            try:
                with (
                    ExitStack() as files,
                    self._http.stream(**self._arguments(following.call, files)) as response,
                ):
                    following.opened(_answer(response, response.read() if response.is_error else b""))
                    for line in response.iter_lines():
                        if (event := following.line(line)) is not None:
                            yield event
                        following.check_time()
                        if following.is_stale:
                            break
            except self._library.TransportError as error:
                reason = _reason(error)
            if not following.is_over:
                time.sleep(following.lost(reason))

    def carry_out(self, steps: Steps[T]) -> T:
        """Carry the steps of an operation out and return its result."""
        reply: Reply | Lost | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            reply = self._do(step)

    def _do(self, step: Step) -> Reply | Lost | None:
        if isinstance(step, Call):
            try:
                with ExitStack() as files:
                    response = self._http.request(**self._arguments(step, files))
                    return _answer(response, response.content)
            except self._library.TransportError as error:
                return Lost(_reason(error))
        if isinstance(step, Pause):
            time.sleep(step.seconds)
        elif isinstance(step, Follow):
            for event in self._events(Following(step.run_id, 0, self.retries, step.timeout_s)):
                if step.on_event is not None:
                    step.on_event(event)
        return None


class AsyncClient(Connected, Awaited):
    """A client like `Client`, whose methods are awaited; `http` is an `httpx.AsyncClient` of your own.

    >>> async with AsyncClient("http://127.0.0.1:8000") as client:  # doctest: +SKIP
    ...     found = await client.optimize("model.onnx", "dgx-h100", seconds=10)

    Raises:
        ArgumentError, ImportError: as `Client`.
    """

    _http_class = "AsyncClient"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def events(self, run: Reference, after: int = 0) -> AsyncIterator[EventRecord]:
        """Yield the events of a run until it ends, as `Client.events`."""
        following = Following(id_of(run), after, self.retries)
        while not following.is_over:
            reason = "the stream has ended"
            try:
                with ExitStack() as files:
                    async with self._http.stream(**self._arguments(following.call, files)) as response:
                        following.opened(
                            _answer(response, await response.aread() if response.is_error else b"")
                        )
                        async for line in response.aiter_lines():
                            if (event := following.line(line)) is not None:
                                yield event
            except self._library.TransportError as error:
                reason = _reason(error)
            if not following.is_over:
                await asyncio.sleep(following.lost(reason))

    async def carry_out(self, steps: Steps[T]) -> T:
        """Carry the steps of an operation out and return its result."""
        reply: Reply | Lost | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            reply = await self._do(step)

    async def _do(self, step: Step) -> Reply | Lost | None:
        if isinstance(step, Call):
            try:
                with ExitStack() as files:
                    response = await self._http.request(**self._arguments(step, files))
                    return _answer(response, response.content)
            except self._library.TransportError as error:
                return Lost(_reason(error))
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        elif isinstance(step, Follow):
            try:
                async with asyncio.timeout(step.timeout_s) as limit:
                    async for event in self.events(step.run_id):
                        if step.on_event is not None:
                            step.on_event(event)
            except TimeoutError as error:
                if step.timeout_s is None or not limit.expired():
                    raise
                raise WaitTimeoutError(step.run_id, step.timeout_s) from error
        return None


def _settings(address: str, api_key: str | None, timeout_s: float) -> dict[str, Any]:
    if not address.startswith(("http://", "https://")):
        raise ArgumentError(f"address: expected one such as {ADDRESS}, not {address!r}")
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    return {"base_url": address, "headers": headers, "timeout": timeout_s, "trust_env": False}


def _answer(response: Any, content: bytes) -> Reply:
    return Reply(response.status_code, {k.lower(): v for k, v in response.headers.items()}, content)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _library() -> Any:
    """Load the HTTP library.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import httpx
    except ImportError:
        raise ImportError(
            "tapestry.client speaks to the service by httpx, which is not installed: pip install 'tapestry[client]'"
        ) from None
    return httpx
