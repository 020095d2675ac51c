"""`tapestry doctor`: what is wrong with an installation and its service, and what to do about it."""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

from tapestry.costmodel.compiled import cache_folder
from tapestry.service.cli.errors import FAILED, OK
from tapestry.service.cli.output import print_json
from tapestry.service.diagnosis.findings import Finding
from tapestry.service.diagnosis.host_checks import (
    check_compiled,
    check_disk,
    check_libraries,
    check_memory,
    check_plugins,
    check_python,
    check_tracing,
)
from tapestry.service.diagnosis.service_checks import (
    check_database,
    check_port,
    check_settings,
    database_folder,
)


def run(arguments: Namespace) -> int:
    """Print a line per check; fail if any check fails, not for warnings."""
    found = []
    for finding in _findings(arguments):
        found.append(finding)
        if not arguments.json:
            print(f"{finding.verdict:<4}  {finding.check}: {finding.message}", flush=True)
            if finding.hint:
                print(f"      {finding.hint}", flush=True)
    has_failed = any(finding.verdict == "fail" for finding in found)
    if arguments.json:
        print_json({"ok": not has_failed, "findings": [finding.to_json() for finding in found]})
    return FAILED if has_failed else OK


def _findings(arguments: Namespace) -> Iterator[Finding]:
    folders = {"compiled loops": cache_folder(), "temporary files": Path(tempfile.gettempdir())}
    database = database_folder(os.environ, arguments.database_url)
    if database is not None:
        folders["the database"] = database
    host: dict[str, Callable[[], Finding]] = {
        "python": check_python,
        "libraries": check_libraries,
        "plugins": check_plugins,
        "tracing": check_tracing,
        "compiled": check_compiled,
        "disk": lambda: check_disk(folders),
        "memory": check_memory,
        "settings": lambda: check_settings(os.environ),
        "port": lambda: check_port(os.environ),
    }
    for name, check in host.items():
        if arguments.only in (None, name):
            yield check()
    if arguments.only in (None, "database"):
        yield from check_database(os.environ, arguments.database_url)
