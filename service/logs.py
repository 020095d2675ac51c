"""Logs on standard error: one JSON object or one line of text per message, with the ids of request and job if known."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime

from tapestry.service.settings import LOG_FORMATS, log_format
from tapestry.service.telemetry.correlation_fields import correlation_fields, current_span

FIELDS = (
    "request_id",
    "run_id",
    "execution_id",
    "import_id",
    "tenant",
    "worker",
    "attempt",
    "method",
    "path",
    "status",
    "seconds",
)


class JsonLines(logging.Formatter):
    """A formatter of log records as one line of JSON each, with the known ones of their extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextLines(logging.Formatter):
    """A formatter of log records for people: one line each, with its fields at the end; tracebacks follow it."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        message = " ".join(record.getMessage().splitlines())
        line = f"{_time(record)} {record.levelname} {record.name}: {message}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


FORMATTERS: dict[str, type[logging.Formatter]] = dict(zip(LOG_FORMATS, (JsonLines, TextLines), strict=True))


def start_logging(level: str, form: str | None = None) -> None:
    """Send all logs of this process to standard error, from `level` upwards, in one of the forms `LOG_FORMATS`.

    Without `form` it is that of the environment, which processes inherit.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[form or log_format(os.environ)]())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("httpx", "httpcore", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """Return the fields of the request or job at hand, and over them those of the record itself."""
    found: dict[str, object] = dict(correlation_fields())
    found |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
    span = current_span()
    if span is not None and span.trace_id:
        found["trace_id"] = span.trace_id
    return {name: found[name] for name in (*FIELDS, "trace_id") if name in found}
