"""Options of the commands that search; those of a run are made from their descriptions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from tapestry.optimizer.run.option_fields import Option
from tapestry.optimizer.run.options import OPTIONS, RunOptions
from tapestry.service.cli.options.shared import (
    Parser,
    as_json,
    cluster,
    graph,
    islands,
    port,
    quiet,
    run_options,
    store,
)
from tapestry.teg.faults import Fault


def demo(parser: Parser) -> None:
    """Add the options of `demo`: a search of the example."""
    parser.add_argument(
        "--once",
        action="store_true",
        help="end after the frontier; without it a terminal keeps the service up",
    )
    port(parser)
    run_options(
        parser, [known for known in OPTIONS if known.name in ("seconds", "evaluations", "seed", "islands")]
    )
    _output(parser)


def optimize(parser: Parser) -> None:
    """Add the options of `optimize`: the program, the mesh, and the options of the run."""
    graph(parser)
    parser.add_argument(
        "--mesh", required=True, metavar="NAME|FILE", help="a mesh of the catalog, or a TOML file"
    )
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
    cluster(parser, "search on the workers of this Dask scheduler, such as tcp://host:8786")
    _output(parser)


def tune(parser: Parser) -> None:
    """Add the options of `tune`: the batch, and the folder of its report."""
    parser.add_argument(
        "batch", metavar="BATCH.toml", help="a file that states models, meshes, seeds and options"
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="where the report is written (default: BATCH.report, beside the batch)",
    )
    islands(parser)
    cluster(parser, "search on the workers of this Dask scheduler, such as tcp://host:8786")
    _output(parser)


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


def _output(parser: Parser) -> None:
    """Add the options about progress, the store and the form of the result."""
    quiet(parser)
    store(parser)
    as_json(parser)
