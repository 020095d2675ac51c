"""A service that listens: socket, API and embedded worker, started and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, cast

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tapestry.service.api.app import create_app
from tapestry.service.api.context import Context
from tapestry.service.connections import Connections, LimitedProtocol
from tapestry.service.logs import start_logging
from tapestry.service.server_processes import ServerProcesses
from tapestry.service.settings import TRUSTED_PROXIES, ServiceSettings, SettingsError
from tapestry.service.store import Store, StoreError
from tapestry.service.telemetry.tracing import start_tracing, stop_tracing
from tapestry.service.temporary import temporary_folder
from tapestry.service.worker.supervisor import EmbeddedWorker

GRACE_S = 10.0
ENDING_S = 3.0  # beyond it, until a process has ended
BACKLOG = 512
ACCEPTED_AT_ONCE = 4  # by one of several processes, so that the others get their share
OTHER_FILES = 512  # of the database, the task pool and libraries
TICKS = 10  # of the server's, a tenth of a second each, between two looks for slow clients


class ServingError(ValueError):
    """Error raised when the service cannot start; the message is one line for the user."""


class _Server(uvicorn.Server):
    """A server that ends event streams before it waits for pending answers: they would not end by themselves."""

    def __init__(self, config: uvicorn.Config, context: Context, connections: Connections) -> None:
        super().__init__(config)
        self._context, self._connections = context, connections

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS == 0:
            self._connections.check(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.event_feed.close()
        await super().shutdown(sockets)


class ServiceServer:
    """A service bound to its address: `serve()` here until a signal comes, or `in_background()`.

    Port 0 takes any free port; `address` contains the chosen one.

    Raises:
        ServingError: the address is taken or not allowed, nobody has a key where others can reach it,
            or the database cannot be used.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        worker: bool,
        islands: int | None,
        log_level: str,
        processes: int = 1,
        worker_options: Sequence[str] = (),
    ) -> None:
        settings = replace(settings, processes=processes)
        try:
            self._store = Store(settings.database_url)
        except StoreError as error:
            raise ServingError(str(error)) from error
        try:
            self._socket = _bind(settings.host, settings.port)
        except ServingError:
            self._store.close()
            raise
        options = ["--log-level", log_level, *([] if islands is None else ["--islands", str(islands)])]
        options += worker_options
        self._worker = EmbeddedWorker(self._store, settings.database_url, options) if worker else None
        self._processes: ServerProcesses | None = None
        try:
            settings.require_key(self._store.keys.any_valid(datetime.now(UTC)))
        except SettingsError as error:
            self._socket.close()
            self._store.close()
            raise ServingError(str(error)) from error
        if processes == 1:
            self._server = _server_of(settings)
        else:
            serve = partial(serve_socket, settings, log_level)
            self._processes = ServerProcesses(serve, self._socket, processes)
        host, port = self._socket.getsockname()[:2]
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def __enter__(self) -> ServiceServer:
        if self._worker is not None:
            self._worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker is not None:
            self._worker.stop(GRACE_S)
        self._socket.close()
        self._store.close()

    def serve(self) -> None:
        """Answer requests until SIGTERM or SIGINT."""
        if self._processes is not None:
            self._processes.run(GRACE_S + ENDING_S)
        else:
            _run(self._server, self._socket)

    @contextlib.contextmanager
    def in_background(self) -> Iterator[None]:
        """Answer requests on another thread for as long as the block runs; not with several processes."""
        thread = threading.Thread(target=self._server.run, args=([self._socket],), name="api", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.should_exit = True
            thread.join(2 * GRACE_S)


class _SharedSocket(socket.socket):
    """A socket on which several processes listen; its queue is as long as who bound it made it."""

    def listen(self, backlog: int = BACKLOG, /) -> None:
        """Leave the queue as it is."""


def serve_socket(settings: ServiceSettings, log_level: str, listening: socket.socket) -> None:
    """Answer requests on a socket that other processes listen on, too, until SIGTERM or SIGINT."""
    start_logging(log_level)
    start_tracing(os.environ, "tapestry-api")
    with temporary_folder(), _SharedSocket(fileno=listening.detach()) as own:
        _run(_server_of(settings, ACCEPTED_AT_ONCE), own)
    stop_tracing()


def _run(server: _Server, listening: socket.socket) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn sends a signal again once it has ended well
        server.run(sockets=[listening])


def _server_of(settings: ServiceSettings, backlog: int = BACKLOG) -> _Server:
    """Create the server of an application; it accepts as many connections at a time as its `backlog` says."""
    _allow_files(settings.connections.total + OTHER_FILES)
    app = create_app(settings)
    proxies = os.environ.get(TRUSTED_PROXIES)
    trusted = None if proxies is None else ProxyHeadersMiddleware(cast(Any, app), proxies).trusted_hosts
    connections = Connections(
        settings.connections, lambda address: trusted is not None and address in trusted
    )
    config = uvicorn.Config(
        app,
        http=cast(Any, partial(LimitedProtocol, connections)),
        backlog=backlog,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=int(GRACE_S),
        server_header=False,
        proxy_headers=proxies is not None,  # else whoever runs here could name another address as its own
    )
    return _Server(config, app.state.context, connections)


def _allow_files(count: int) -> None:
    """Allow this process to have so many files and connections open, as far as the system lets it."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now != resource.RLIM_INFINITY and now < count:
        wanted = count if most == resource.RLIM_INFINITY else min(count, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError as error:
        raise ServingError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port (0: any free one)"
        ) from error
    return found
