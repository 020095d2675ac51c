"""`tapestry serve`: the HTTP API and the dashboard, with a worker process beside them unless disabled."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.telemetry import begin_telemetry
from tapestry.service.settings import ServiceSettings, SettingsError, service_settings
from tapestry.service.telemetry.tracing import stop_tracing
from tapestry.service.temporary import temporary_folder


def run(arguments: Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C; pending requests are answered, the worker returns its job to the queue."""
    begin_telemetry(arguments, "tapestry-api")
    # Only now: what is wrong with plug-ins is said when the application is loaded.
    from tapestry.service.serving import ServiceServer, ServingError

    settings = settings_of(arguments)
    try:
        server = ServiceServer(
            settings,
            worker=not arguments.no_worker,
            islands=arguments.islands,
            log_level=arguments.log_level,
            processes=arguments.processes,
            worker_options=_worker_options(arguments),
        )
        with temporary_folder(), server:
            print(f"Tapestry listens on {server.address}", file=sys.stderr, flush=True)
            server.serve()
    except ServingError as error:
        raise CommandError(str(error)) from error
    finally:
        stop_tracing()
    return OK


def _worker_options(arguments: Namespace) -> list[str]:
    memory = [] if arguments.memory is None else ["--memory", str(arguments.memory)]
    return ["--runs", str(arguments.runs), *memory]


def settings_of(arguments: Namespace) -> ServiceSettings:
    """Read the settings from the environment, overridden by the command line."""
    try:
        return service_settings(
            os.environ, database_url=arguments.database_url, host=arguments.host, port=arguments.port
        )
    except SettingsError as error:
        raise CommandError(str(error)) from error
