"""Options of the commands that search; those of a run are made from their descriptions."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from typing import Any

from tapestry.optimizer.run.option_fields import Option
from tapestry.optimizer.run.options import OPTIONS, RunOptions
from tapestry.service.cli.options.shared import (
    MOST_ISLANDS,
    Parser,
    as_json,
    graph,
    launch,
    port,
    quiet,
    store,
)
from tapestry.service.cli.values import names, pair
from tapestry.teg.faults import Fault

# The greatest numbers on a command line where an option has no bound of its own.
MOST = {"islands": MOST_ISLANDS}


def demo(parser: Parser) -> None:
    """Add the options of `demo`: a search of the example."""
    parser.add_argument(
        "--once",
        action="store_true",
        help="end after the frontier; without it a terminal keeps the service up",
    )
    port(parser)
    run_options(parser, [known for known in OPTIONS if known.name in ("seconds", "seed", "islands")])
    _output(parser)


def optimize(parser: Parser) -> None:
    """Add the options of `optimize`: the program, the mesh, and the options of the run."""
    graph(parser)
    parser.add_argument(
        "--mesh", required=True, metavar="NAME|FILE", help="a mesh of the catalog, or a TOML file"
    )
    launch(parser)
    run_options(parser, OPTIONS)
    parser.add_argument(
        "--fresh", action="store_true", help="search even where a stored run has answered the same request"
    )
    parser.add_argument(
        "--pins-from",
        metavar="FILE",
        help="pin tensors as a file states: a table (.json), a module of PartitionSpecs or placements (.py), or "
        "StableHLO with Shardy attributes (.mlir)",
    )
    parser.add_argument("--no-store", action="store_true", help="store nothing")
    _output(parser)


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


def options_of(arguments: Namespace, sound: Sequence[Option] = OPTIONS) -> RunOptions:
    """Return the options of a run that a command was given; those that are not `sound` have their defaults."""
    given = {option.name: getattr(arguments, option.name) for option in sound if option.name in arguments}
    for option in sound:
        if option.is_repeated and option.name in given:
            given[option.name] = (dict if option.kind == "pairs" else tuple)(given[option.name])
    return RunOptions.as_given(given)


def option_fault_line(fault: Fault) -> str:
    """Return a fault of a run's request as a user of the command line reads it: its place is an option."""
    for option in OPTIONS:
        if fault.pointer == option.pointer or fault.pointer.startswith(f"{option.pointer}/"):
            return f"argument {option.flag}: {fault.detail}"
    return fault.detail


def help_of(option: Option) -> str:
    """Return what `--help` says of an option: its description, and its default where that is a value."""
    more = "; may be repeated" if option.is_repeated else ""
    if option.default not in (None, (), {}):
        more += f" (default: {option.text(option.default).replace(', ', ',')})"
    return option.description.replace("`", "'").replace("%", "%%") + more


def _parser_of(option: Option) -> Callable[[str], Any]:
    """Return the parser of an option's text on a command line."""
    if option.kind == "pairs":
        return pair
    if option.kind == "texts":
        return str if option.is_repeated else names

    def convert(text: str) -> Any:
        value = option.parse(text)
        for fault in option.faults(value, MOST.get(option.name)):
            raise ArgumentTypeError(fault.detail)
        return value

    return convert


def _output(parser: Parser) -> None:
    """Add the options about progress, the store and the form of the result."""
    quiet(parser)
    store(parser)
    as_json(parser)
