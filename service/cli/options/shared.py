"""The parser of the command line, and options that several commands share."""

from __future__ import annotations

import argparse
import re
from argparse import SUPPRESS, Action, ArgumentError, ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from tapestry.optimizer.run.option_fields import Option
from tapestry.optimizer.run.options import OPTIONS
from tapestry.service.cli.errors import CommandError
from tapestry.service.cli.values import dimension, duration, names, pairs, whole
from tapestry.service.settings import LOG_FORMATS
from tapestry.teg.faults import expected, joined, near_hint, near_names, no_such, one_of

MOST_ISLANDS = 256
SHELLS = ("bash", "zsh", "fish")
LEVELS = ("debug", "info", "warning", "error")
# Degrees of parallelism as people call them -> the options of a run that fix them.
FIXED = {
    "data": "data_parallel",
    "tensor": "tensor_parallel",
    "pipeline": "stages",
    "micro_batches": "micro_batches",
}
# The greatest numbers on a command line where an option of a run has no bound of its own.
MOST = {"islands": MOST_ISLANDS}


# How argparse words a value that is not among the choices; quoted or not, by the release of Python.
_CHOICE = re.compile(r"argument (?P<name>\S+): invalid choice: '(?P<given>.*)' \(choose from (?P<known>.*)\)")


class ArgumentFault(NamedTuple):
    """A fault of the command line: the destination of its option (empty for the line itself), and a text."""

    destination: str
    text: str


class _Ended(Exception):
    """Error raised to end the parsing where nothing that follows can be read; its fault is noted already."""


class Parser(argparse.ArgumentParser):
    """A parser that collects all faults of a command line, worded with near names, instead of ending at the first.

    The values it returns have `faults`, and `prog`, the command whose help to read. A value that is at fault stays the
    text that was given.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.faults: list[ArgumentFault] = []

    def error(self, message: str) -> NoReturn:
        self.faults.append(ArgumentFault("", _worded(message)))
        raise _Ended

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; leftovers are faults that are found here, where the options of the command are known."""
        self.faults = []
        found = argparse.Namespace() if namespace is None else namespace
        rest: list[str] = []
        with suppress(_Ended):
            found, rest = super().parse_known_args(args, found)
        self.faults += _leftovers(rest, sorted(self._option_string_actions))
        found.faults = (*getattr(found, "faults", ()), *self.faults)
        found.prog = getattr(found, "prog", self.prog)
        return found, []

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a whole command line.

        Raises:
            CommandError: its faults, all of them.
        """
        found, _ = self.parse_known_args(args, namespace)
        if found.faults:
            raise wrong_usage(found)
        return found

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            self.faults.append(ArgumentFault(action.dest, _worded(str(error))))
            return arg_string

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            if isinstance(action, argparse._SubParsersAction):
                raise
            self.faults.append(ArgumentFault(action.dest, _worded(str(error))))


def wrong_usage(found: argparse.Namespace, more: Sequence[str] = ()) -> CommandError:
    """Return the error that lists the faults of a command line, and `more` that were found in what it names."""
    text = joined([*(fault.text for fault in found.faults), *more])
    return CommandError(f"{text}{' See' if text.endswith('?') else '; see'} {found.prog} --help")


def _worded(message: str) -> str:
    """Reword an error of argparse about a choice: the near ones, or all of them."""
    found = _CHOICE.fullmatch(message)
    if found is None:
        return message
    known = [name.strip(" '") for name in found["known"].split(",")]
    if found["name"].isupper():
        return no_such(found["name"].lower(), found["given"], known)
    near = near_names(found["given"], known)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return expected(f"argument {found['name']}", one_of(known), found["given"]) + hint


def _leftovers(rest: Sequence[str], known: Sequence[str]) -> Iterator[ArgumentFault]:
    """Yield the faults of arguments that nothing takes; what follows an unknown option is its value."""
    is_value = False
    for given in rest:
        is_option = given.startswith("-")
        if is_option:
            near = near_names(given.partition("=")[0], known)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            yield ArgumentFault("", f"there is no option {given}{hint}")
        elif not is_value:
            yield ArgumentFault("", f"there is an argument too many: {given!r}")
        is_value = is_option and "=" not in given


def as_json(parser: Parser) -> None:
    """Add `--json`, for commands that print a document."""
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")


def quiet(parser: Parser) -> None:
    """Add `--quiet`, for commands that report progress."""
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def run_options(parser: Parser, known: Sequence[Option]) -> None:
    """Add options of a run, made from their descriptions."""
    for option in known:
        values: dict[str, Any] = {"help": help_of(option), "default": option.default, "dest": option.name}
        if option.is_repeated:
            values |= {"action": "append", "default": []}
        if option.choices:
            values["choices"] = option.choices
        else:
            values |= {"metavar": option.metavar, "type": _parser_of(option)}
        parser.add_argument(option.flag, **values)
    if {option.name for option in known} >= set(FIXED.values()):
        help = f"degrees that all plans have, of {', '.join(FIXED)}; the same as their own options"
        parser.add_argument("--fix", action=_Fix, metavar="DEGREE=N[,DEGREE=N]", help=help, dest=SUPPRESS)


class _Fix(Action):
    """An argument that sets several degrees of parallelism: `tensor=8,pipeline=4`."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        by_name = {option.name: option for option in OPTIONS}
        for pair in str(values).split(","):
            name, is_given, text = (part.strip() for part in pair.partition("="))
            if name not in FIXED or not is_given:
                hint = near_hint(name, FIXED) if is_given else "write tensor=8,pipeline=4"
                raise ArgumentError(self, f"expected degrees and their numbers, not {pair.strip()!r}; {hint}")
            option = by_name[FIXED[name]]
            try:
                setattr(namespace, option.name, _parser_of(option)(text))
            except ArgumentTypeError as error:
                raise ArgumentError(self, f"{name}: {error}") from error


def help_of(option: Option) -> str:
    """Return what `--help` says of an option: its description, and its default where that is a value."""
    more = "; may be repeated" if option.is_repeated else ""
    if option.default not in (None, (), {}):
        more += f" (default: {option.text(option.default).replace(', ', ',')})"
    return option.description.replace("`", "'").replace("%", "%%") + more


def _parser_of(option: Option) -> Callable[[str], Any]:
    """Return the parser of an option's text on a command line."""
    if option.kind == "pairs":
        return pairs(option.metavar, option.example)
    if option.kind == "texts":
        return str if option.is_repeated else names

    def convert(text: str) -> Any:
        value = option.parse(text)
        for fault in option.faults(value, MOST.get(option.name)):
            raise ArgumentTypeError(fault.detail)
        return value

    return convert


def dtype(parser: Parser) -> None:
    """Add `--dtype`, for commands that read a program without searching its plans."""
    run_options(parser, [known for known in OPTIONS if known.name == "dtype"])


def launch(parser: Parser) -> None:
    """Add `--launch`, for commands that predict times on a mesh without searching."""
    run_options(parser, [known for known in OPTIONS if known.name == "launch"])


def timing(parser: Parser, seconds: float) -> None:
    """Add the options of what runs programs on this machine, and for how many seconds."""
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="what runs them (default: cpu, the processors)",
    )
    parser.add_argument(
        "--threads",
        type=whole(1),
        default=1,
        metavar="N",
        help="threads of each process, pinned to processors of their own where there are enough (default: 1)",
    )
    parser.add_argument(
        "--seconds",
        type=duration,
        default=seconds,
        metavar="S",
        help=f"how long to measure, five times each at least (default: {seconds:g})",
    )


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
    """Add the options for reading a program: sizes of dynamic dimensions, folder of external data."""
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


def cluster(parser: Parser, help_: str) -> None:
    """Add the options for a Dask cluster: the address of its scheduler, and the files that encrypt connections."""
    parser.add_argument("--cluster", metavar="ADDRESS", help=help_)
    for name, what in (("ca", "authority's certificate"), ("cert", "certificate"), ("key", "key")):
        parser.add_argument(
            f"--tls-{name}", metavar="FILE", help=f"the {what} (PEM) for a cluster at tls://host:port"
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
    """Add the options for logs: their level and form."""
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="what is logged (default: info)")
    parser.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        help="the form of logs: a JSON object or a line of text each (default: $TAPESTRY_LOG_FORMAT, else json)",
    )


def shell(parser: Parser) -> None:
    """Add the argument of `completion`: the shell."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
