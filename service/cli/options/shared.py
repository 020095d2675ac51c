"""The parser of the command line, and options that several commands share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from tapestry.service.cli.errors import CommandError
from tapestry.service.cli.values import dimension, whole

MOST_ISLANDS = 256
SHELLS = ("bash", "zsh", "fish")
LEVELS = ("debug", "info", "warning", "error")


# How argparse words a value that is not among the choices; quoted or not, by the release of Python.
_CHOICE = re.compile(r"argument (?P<name>\S+): invalid choice: '(?P<given>.*)' \(choose from (?P<known>.*)\)")


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line with near names, instead of a usage text with it."""

    def error(self, message: str) -> NoReturn:
        reworded = _with_near_names(message)
        raise CommandError(f"{reworded}{' See' if reworded.endswith('?') else '; see'} {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; leftovers are refused here, where the options of the command are known."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(_unknown(rest[0], sorted(self._option_string_actions)))
        return found, rest


def _with_near_names(message: str) -> str:
    """Reword an error of argparse about a choice: the near ones, or all of them."""
    found = _CHOICE.fullmatch(message)
    if found is None:
        return message
    known = [name.strip(" '") for name in found["known"].split(",")]
    noun = found["name"].lower() if found["name"].isupper() else f"choice of {found['name']}"
    near = get_close_matches(found["given"], known, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
    return f"there is no {noun} {found['given']!r}; {hint}"


def _unknown(given: str, known: Sequence[str]) -> str:
    if not given.startswith("-"):
        return f"there is an argument too many: {given!r}"
    near = get_close_matches(given.partition("=")[0], known, n=2)
    return f"there is no option {given}" + (f"; did you mean {' or '.join(near)}?" if near else "")


def as_json(parser: Parser) -> None:
    """Add `--json`, for commands that print a document."""
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")


def store(parser: Parser) -> None:
    """Add the option for the database in which results are stored."""
    parser.add_argument(
        "--database-url",
        metavar="URL",
        help="where results are stored (default: $TAPESTRY_DATABASE_URL, else tapestry.db in $TAPESTRY_HOME)",
    )


def graph(parser: Parser, optional: bool = False) -> None:
    """Add the argument for a program in a file."""
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        nargs="?" if optional else None,
        help="an .onnx, StableHLO (.mlir, .mlir.gz) or PyTorch (.pt2) file or a TEG document (.json, .json.gz)",
    )
    dims(parser)


def dims(parser: Parser) -> None:
    """Add the options for reading a program: sizes of dynamic dimensions and the folder of external data."""
    parser.add_argument(
        "--dim",
        type=dimension,
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="the size of a dynamic dimension, e.g. batch=8; may be repeated",
    )
    parser.add_argument(
        "--external-data",
        metavar="FOLDER",
        help="where an ONNX file's data in other files lies; no other file is read (default: none is)",
    )


def islands(parser: Parser) -> None:
    """Add the option for the number of processes that search."""
    parser.add_argument(
        "--islands",
        type=whole(1, MOST_ISLANDS),
        metavar="N",
        help="searches side by side, one process each (default: the number of cores)",
    )


def port(parser: Parser) -> None:
    """Add the option for the port to listen on."""
    parser.add_argument(
        "--port",
        type=whole(0, 65535),
        metavar="PORT",
        help="port to listen on, 0 for any free one (default: $TAPESTRY_PORT, else 8000)",
    )


def logging(parser: Parser) -> None:
    """Add the option for the log level."""
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="what is logged (default: info)")


def shell(parser: Parser) -> None:
    """Add the argument of `completion`: the shell."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
