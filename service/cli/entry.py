"""The entry point: find the command of the arguments, run it, and return an exit code without a traceback."""

from __future__ import annotations

import os
import sys
import time
import traceback
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tapestry.service.cli.errors import INTERNAL, INTERRUPTED, OK, CommandError
from tapestry.service.cli.options.shared import wrong_usage
from tapestry.service.cli.parser import COMMANDS, build_parser

TRACEBACK = "TAPESTRY_TRACEBACK"
# The field of the kernel's status of a process, counted behind its name, that has the ticks at which it was started.
STARTED_AT = 19
MODULES = {command.name: f"tapestry.service.cli.commands.{command.module}" for command in COMMANDS}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are one line on standard error.

    Without `argv` it is that of this process, with which its time begins.
    """
    began_s = time.perf_counter() - (seconds_since_start() if argv is None else 0.0)
    try:
        arguments, _ = build_parser().parse_known_args(argv)
        arguments.began_s = began_s
        module = import_module(MODULES[arguments.command]) if arguments.command in MODULES else None
        if module is None or arguments.faults:
            raise wrong_usage(arguments, getattr(module, "further_faults", _none)(arguments))
        code = int(module.run(arguments))
        sys.stdout.flush()
        return code
    except CommandError as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exception(error)
        _complain(str(error))
        return error.code
    except SystemExit as end:  # --help
        return int(end.code or OK)
    except KeyboardInterrupt:
        _complain("interrupted; nothing was kept")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has left; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        text = " ".join(str(error).split())
        _complain(
            f"a fault of this program, please report it: {type(error).__name__}: {text} "
            f"({TRACEBACK}=1 shows where)"
        )
        return INTERNAL


def seconds_since_start() -> float:
    """Return the seconds since this process was started; 0 where the system does not tell."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started_s = int(fields[STARTED_AT]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - started_s, 0.0)
    except (OSError, AttributeError, ValueError, IndexError):
        return 0.0


def _none(_: Namespace) -> tuple[str, ...]:
    """Return no faults: those of what a command line names are found by `further_faults` of its command, if any."""
    return ()


def _complain(message: str) -> None:
    print(f"tapestry: {message}", file=sys.stderr)
