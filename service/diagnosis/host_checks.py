"""Checks of this host: Python and libraries, compiled loops, disks, memory, plug-ins, and traces."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from tapestry.costmodel.compiled import cache_folder
from tapestry.service.children.limits import CGROUP, group_limit
from tapestry.service.diagnosis.findings import Finding, broken, doubtful, fine
from tapestry.service.plugins import plug_ins
from tapestry.service.telemetry.tracing import EXTRA_HINT, is_requested

LEAST_PYTHON = (3, 11)
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)")
BOUND = re.compile(r"(>=|<=|==|<|>|!=|~=)\s*([0-9][0-9.]*)")

DISK_SCARCE_BYTES = 5 * 2**30
DISK_FULL_BYTES = 512 * 2**20
MEMORY_SCARCE_BYTES = 2 * 2**30
MEMORY_SMALL_BYTES = 1 * 2**30
MEMINFO = Path("/proc/meminfo")


def check_python() -> Finding:
    """Check the version of Python."""
    found = platform.python_version()
    if sys.version_info < LEAST_PYTHON:
        least = ".".join(map(str, LEAST_PYTHON))
        return broken("python", f"Python {found}", f"install Python {least} or later")
    return fine("python", f"Python {found}")


def check_libraries(requirements: Iterable[str] | None = None) -> Finding:
    """Check that the libraries that Tapestry needs are there, in versions that it was made for."""
    needed = requires("tapestry") or () if requirements is None else requirements
    wrong = [fault for text in needed if "extra ==" not in text for fault in _faults(text)]
    if wrong:
        return broken("libraries", "; ".join(wrong), "install Tapestry again: pip install --upgrade tapestry")
    return fine("libraries", "all there, in known versions")


def _faults(requirement: str) -> Iterator[str]:
    """Yield what is wrong with a required library: nothing if it is installed within its bounds."""
    match = REQUIREMENT.match(requirement)
    assert match is not None, requirement
    name, bounds = match[1], match[2]
    try:
        found = version(name)
    except PackageNotFoundError:
        yield f"{name} is missing"
        return
    for operator, bound in BOUND.findall(bounds):
        if not _holds(_numbers(found), operator, _numbers(bound)):
            yield f"{name} is {found}, and {operator} {bound} is needed"


def _numbers(text: str) -> tuple[int, ...]:
    leading = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in leading[0].split(".")) if leading else ()


def _holds(found: tuple[int, ...], operator: str, bound: tuple[int, ...]) -> bool:
    size = max(len(found), len(bound))
    a, b = (numbers + (0,) * (size - len(numbers)) for numbers in (found, bound))
    return {">=": a >= b, "<=": a <= b, "<": a < b, ">": a > b, "==": a == b, "!=": a != b}.get(
        operator, a >= b
    )


def check_compiled() -> Finding:
    """Check that compiled loops can be kept, and whether there are any."""
    folder = cache_folder()
    hint = "set TAPESTRY_CACHE to a folder that can be written to and stays"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        message = f"compiled loops cannot be kept in {str(folder)!r}: {error.strerror}"
        return doubtful("compiled", f"{message}; each process compiles them for minutes", hint)
    count = sum(1 for _ in folder.rglob("*.nbi"))
    if not count:
        message = f"no compiled loops in {str(folder)!r}: the first search compiles them for minutes"
        return doubtful("compiled", message, "search once: tapestry demo --once")
    return fine("compiled", f"{count} compiled loops in {str(folder)!r}")


def check_disk(folders: Mapping[str, Path]) -> Finding:
    """Check the free space where these contents lie, by what they are."""
    found = []
    for content, folder in folders.items():
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        found.append((shutil.disk_usage(existing).free, content, folder))
    free, content, folder = min(found)
    message = f"{free / 2**30:.1f} GiB free for {content} in {str(folder)!r}"
    hint = "delete what is old (tapestry gc --older-than 30d --compact), or move it to a larger disk"
    if free < DISK_FULL_BYTES:
        return broken("disk", message, hint)
    return doubtful("disk", message, hint) if free < DISK_SCARCE_BYTES else fine("disk", message)


def check_memory(group: Path = CGROUP, meminfo: Path = MEMINFO) -> Finding:
    """Check the memory that is left, of the machine or of the control group that limits this process."""
    limit, used = group_limit(group)
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        total, free = (int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return doubtful(
            "memory", "the system does not say how much memory there is", "watch it by other means"
        )
    source = "the machine's"
    if limit is not None and limit < total:
        total, free, source = limit, min(free, limit - used), "the control group's limit"
    message = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free ({source})"
    if total < MEMORY_SMALL_BYTES:
        return broken("memory", message, "give it at least 2 GiB: a search of a large program needs more")
    if free < MEMORY_SCARCE_BYTES:
        return doubtful("memory", message, "end other programs, start fewer --islands, or raise the limit")
    return fine("memory", message)


def check_plugins() -> Finding:
    """Check that all installed plug-ins were accepted."""
    found = plug_ins()
    faults = [f"{plug_in}: {fault.message}" for plug_in in found for fault in plug_in.faults]
    if faults:
        return doubtful("plugins", f"left out: {'; '.join(faults)}", "see tapestry plugins")
    return fine("plugins", f"{len(found)} entry points, without faults" if found else "none are installed")


def check_tracing(environment: Mapping[str, str] = os.environ) -> Finding:
    """Check that traces, if the environment asks for them, can be made."""
    if not is_requested(environment):
        return fine("tracing", "the environment asks for no traces")
    if importlib.util.find_spec("opentelemetry") is None or not _has_sdk():
        message = "the environment asks for traces, but OpenTelemetry is missing"
        return doubtful("tracing", message, EXTRA_HINT)
    return fine("tracing", "OpenTelemetry is there")


def _has_sdk() -> bool:
    try:
        return all(version(name) for name in ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"))
    except PackageNotFoundError:
        return False
