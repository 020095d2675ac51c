"""Logs and traces of a command that serves or works, by its options and the environment."""

from __future__ import annotations

import os
from argparse import Namespace

from tapestry.service.cli.errors import CommandError
from tapestry.service.logs import start_logging
from tapestry.service.settings import LOG_FORMAT, SettingsError, log_format
from tapestry.service.telemetry.tracing import start_tracing


def begin_telemetry(arguments: Namespace, service_name: str) -> None:
    """Begin to log and, if the environment asks for it, to trace; processes begun later log in the same form."""
    try:
        form = log_format(os.environ, arguments.log_format)
    except SettingsError as error:
        raise CommandError(str(error)) from error
    os.environ[LOG_FORMAT] = form
    start_logging(arguments.log_level)
    start_tracing(os.environ, service_name)
