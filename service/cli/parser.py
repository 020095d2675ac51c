"""Every command with its options. Light: nothing is loaded here, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import NoReturn

from service.cli.errors import CommandError

DEFAULT_SECONDS = 10.0
OBJECTIVES = "time_s,peak_memory_bytes,traffic_bytes,energy_j"
VERIFY = ("auto", "none", "dry", "execute")
LEVELS = ("debug", "info", "warning", "error")
MOST_ISLANDS = 256
MOST = 2**63 - 1


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, instead of a usage text with it."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see {self.prog} --help")


def positive_seconds(text: str) -> float:
    """A finite number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above zero, not {text!r}")
    return value


def whole(least: int, most: int = MOST) -> Callable[[str], int]:
    """A whole number within bounds."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            limit = f"from {least} to {most}" if most < MOST else f"of at least {least}"
            raise argparse.ArgumentTypeError(f"expected a whole number {limit}, not {text!r}")
        return value

    return convert


def dimension(text: str) -> tuple[str, int]:
    """`name=size`."""
    name, _, size = text.partition("=")
    if not (name and size.isascii() and size.isdigit() and int(size) > 0):
        raise argparse.ArgumentTypeError(f"expected NAME=SIZE such as batch=8, not {text!r}")
    return name, int(size)


def pin(text: str) -> tuple[str, str]:
    """`site=spec`."""
    site, _, spec = text.partition("=")
    if not (site.strip() and spec.strip()):
        raise argparse.ArgumentTypeError(f"expected SITE=SPEC such as 'linear=[gpu.0, -]', not {text!r}")
    return site.strip(), spec.strip()


def coordinates(text: str) -> tuple[int, ...]:
    """Whole numbers with commas in between; none for a scalar's."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(part.isascii() and part.isdigit() and len(part) < 20 and int(part) <= MOST for part in parts):
        raise argparse.ArgumentTypeError(f"expected whole numbers such as 2,3, not {text!r}")
    return tuple(map(int, parts))


def names(text: str) -> tuple[str, ...]:
    """Names with commas in between."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names with commas in between, not {text!r}")
    return found


def build_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="tapestry", description="Search the equivalent programs of a tensor graph on a machine."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, help_: str) -> Parser:
        return commands.add_parser(name, help=help_, description=help_[0].upper() + help_[1:] + ".")

    _demo(command("demo", "serve, and search, execute and check plans of GPT-2 small on eight H100"))
    _optimize(
        command("optimize", "search the Pareto frontier of a program on a machine, verify it and store it")
    )
    _import(command("import", "read a program, say what is in it, and write it as a TEG document"))
    _rewrite(
        command(
            "rewrite", "list the moves that rules offer on a program, or apply rules and write the result"
        )
    )
    _simulate(command("simulate", "run a plan on the device simulator: counts against predictions, values"))
    _serve(command("serve", "serve the HTTP API and the dashboard, with a worker beside them"))
    _worker(command("worker", "search and execute what is queued in the database, until asked to end"))
    _compare(command("compare", "compare the frontiers of two stored runs"))
    _backup(command("backup", "copy the whole database into one file, while others use it"))
    _show(command("show", "show stored runs, a run's frontier, or a plan"))
    _explain(command("explain", "tell how a plan came about: its moves, and what each changed of its costs"))
    _layout(command("layout", "describe or draw where the elements of a tensor lie in memory"))
    for name, help_ in (
        ("devices", "list the devices of the catalogue"),
        ("meshes", "list the machines of the catalogue"),
        ("rules", "list the rules by which programs and placements are changed"),
        ("objectives", "list what plans can be judged by"),
        ("version", "print the versions of Tapestry and of what it builds on"),
    ):
        _json(command(name, help_))
    _plugins(command("plugins", "list installed plug-ins: what they add, and what was left out and why"))
    return parser


def _plugins(parser: Parser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="try every promise of their operators and rules; takes seconds"
    )
    _json(parser)


def _layout(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    describe = actions.add_parser("describe", help="shapes, buffers, bytes, and where an element lies")
    draw = actions.add_parser("draw", help="a grid of cells: which slot of which buffer each element lies in")
    for action in (describe, draw):
        action.add_argument("text", metavar="TEXT", help="a layout, e.g. 'f32[3,5]{1,0:T(2,2)}'")
        action.add_argument(
            "--dtype", metavar="DTYPE", help="the element's type, for notations that do not say it"
        )
    describe.add_argument(
        "--at", type=coordinates, metavar="I,J", help="the coordinates of an element: where does it lie?"
    )
    describe.add_argument("--offset", type=whole(0), metavar="N", help="an offset: what lies there?")
    _json(describe)
    draw.add_argument("--elements", action="store_true", help="show elements instead of slots in the cells")
    draw.add_argument("--svg", metavar="FILE", help="write an SVG picture instead")


def _json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")


def _store(parser: Parser) -> None:
    parser.add_argument(
        "--database-url",
        metavar="URL",
        help="where results are stored (default: $TAPESTRY_DATABASE_URL, else tapestry.db in $TAPESTRY_HOME)",
    )


def _search(parser: Parser) -> None:
    parser.add_argument(
        "--seconds", type=positive_seconds, metavar="N", help="search for N seconds (default: 10)"
    )
    parser.add_argument(
        "--seed", type=whole(0), default=0, metavar="S", help="seed of all randomness (default: 0)"
    )
    _islands(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    _store(parser)
    _json(parser)


def _graph(parser: Parser, optional: bool = False) -> None:
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        nargs="?" if optional else None,
        help="an .onnx, StableHLO (.mlir, .mlir.gz) or PyTorch (.pt2) file or a TEG document (.json, .json.gz)",
    )
    _dims(parser)


def _dims(parser: Parser) -> None:
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


def _demo(parser: Parser) -> None:
    parser.add_argument(
        "--once",
        action="store_true",
        help="end after the frontier; without it a terminal keeps the service up",
    )
    _port(parser)
    _search(parser)


def _optimize(parser: Parser) -> None:
    _graph(parser)
    parser.add_argument(
        "--mesh", required=True, metavar="NAME|FILE", help="a machine of the catalogue, or a TOML file"
    )
    parser.add_argument("--evaluations", type=whole(1), metavar="N", help="search for N plan evaluations")
    parser.add_argument(
        "--objectives", type=names, default=names(OBJECTIVES), metavar="A,B,C", help=f"default: {OBJECTIVES}"
    )
    parser.add_argument(
        "--constraint",
        action="append",
        default=[],
        metavar="BOUND",
        help="a bound on an objective, e.g. 'peak_memory_bytes<=60GiB'; may be repeated",
    )
    parser.add_argument(
        "--pin",
        type=pin,
        action="append",
        default=[],
        metavar="SITE=SPEC",
        help="keep a block's output sharded so, e.g. 'linear=[gpu.0, -]'; may be repeated",
    )
    parser.add_argument(
        "--start-from", metavar="RUN", help="start from the frontier of a stored run of the same program"
    )
    parser.add_argument(
        "--rules", type=names, metavar="A,B,C", help="structural rules that may be used (default: all)"
    )
    parser.add_argument(
        "--devices",
        choices=("any", "all"),
        default="any",
        help="any: plans may leave part of the machine idle; all: every device works (default: any)",
    )
    parser.add_argument(
        "--inputs",
        choices=("chosen", "replicated"),
        default="chosen",
        help="chosen: inputs are born as the plan wants them; replicated: whole on every device",
    )
    parser.add_argument(
        "--outputs",
        choices=("sharded", "gathered"),
        default="sharded",
        help="sharded: outputs stay as the plan leaves them; gathered: whole on every device",
    )
    parser.add_argument(
        "--layouts",
        choices=("chosen", "native"),
        default="chosen",
        help="chosen: plans choose physical layouts; native: every tensor in its device's default layout",
    )
    parser.add_argument(
        "--compute-dtype",
        metavar="DTYPE",
        help="precision of contractions, e.g. bf16 (default: the program's)",
    )
    parser.add_argument(
        "--verify",
        choices=VERIFY,
        default="auto",
        help="auto: prove and count every plan, execute knee, fastest and smallest peak if that takes seconds; "
        "none; dry: execute nothing; execute: execute every plan (default: auto)",
    )
    parser.add_argument("--no-store", action="store_true", help="store nothing")
    _search(parser)


def _import(parser: Parser) -> None:
    _graph(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the TEG document here (.json, .json.gz)"
    )
    _json(parser)


def _rewrite(parser: Parser) -> None:
    _graph(parser)
    parser.add_argument("--list", action="store_true", help="list what fits, and change nothing")
    parser.add_argument(
        "--rules",
        type=names,
        metavar="A,B,C",
        help="the rules (default: those that end by themselves; listed: all)",
    )
    parser.add_argument(
        "--families",
        type=names,
        metavar="A,B",
        help="only rules of these families: algebra, selectors, fusion, expansions, sharding, in_place, plugins",
    )
    parser.add_argument("--kind", metavar="KIND", help="only rules of this kind: semantic or optimization")
    parser.add_argument(
        "--mode",
        choices=("once", "fixpoint"),
        help="one pass per rule in the order given, or until nothing fits (default)",
    )
    parser.add_argument("--pipeline", metavar="NAME", help="stages with rules of their own: standard")
    parser.add_argument(
        "--moves", metavar="FILE", help="make these moves: a JSON list of {rule, place, choice}, as listed"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the TEG document here (.json, .json.gz)"
    )
    _json(parser)


def _simulate(parser: Parser) -> None:
    _graph(parser, optional=True)
    parser.add_argument(
        "--mesh", metavar="NAME|FILE", help="the machine, for a program without a stored plan"
    )
    parser.add_argument(
        "--plan", metavar="PLAN", help="a stored plan: PLAN, or RUN/PLAN; a beginning will do"
    )
    parser.add_argument("--run", metavar="RUN", help="a stored run; without --plan its knee is taken")
    parser.add_argument("--dry", action="store_true", help="count without computing values")
    parser.add_argument("--trace", metavar="FILE", help="write a trace for Perfetto (.json, .json.gz)")
    parser.add_argument(
        "--seed", type=whole(0), default=0, metavar="S", help="seed of inputs and weights (default: 0)"
    )
    parser.add_argument("--compute-dtype", metavar="DTYPE", help="precision of contractions on the clock")
    parser.add_argument("--no-store", action="store_true", help="store nothing")
    _store(parser)
    _json(parser)


def _compare(parser: Parser) -> None:
    parser.add_argument("first", metavar="RUN", help="a stored run; a beginning of its id will do")
    parser.add_argument("second", metavar="RUN", help="the run to compare it with")
    _store(parser)
    _json(parser)


def _islands(parser: Parser) -> None:
    parser.add_argument(
        "--islands",
        type=whole(1, MOST_ISLANDS),
        metavar="N",
        help="searches side by side, one process each (default: the number of cores)",
    )


def _port(parser: Parser) -> None:
    parser.add_argument(
        "--port",
        type=whole(0, 65535),
        metavar="PORT",
        help="port to listen on, 0 for any free one (default: $TAPESTRY_PORT, else 8000)",
    )


def _logging(parser: Parser) -> None:
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="what is logged (default: info)")


def _serve(parser: Parser) -> None:
    parser.add_argument(
        "--host", metavar="HOST", help="address to listen on (default: $TAPESTRY_HOST, else 127.0.0.1)"
    )
    _port(parser)
    parser.add_argument("--no-worker", action="store_true", help="start no worker; others must run")
    _islands(parser)
    _store(parser)
    _logging(parser)


def _worker(parser: Parser) -> None:
    parser.add_argument(
        "--name", metavar="TEXT", help="name in logs and leases (default: host, process, token)"
    )
    parser.add_argument("--embedded", action="store_true", help=argparse.SUPPRESS)
    _islands(parser)
    _store(parser)
    _logging(parser)


def _backup(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the copy; its folder must exist")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    _store(parser)
    _json(parser)


def _show(parser: Parser) -> None:
    parser.add_argument(
        "reference",
        metavar="RUN|PLAN",
        nargs="?",
        help="a run, a plan, or RUN/PLAN; a beginning will do; without it the newest runs are listed",
    )
    _store(parser)
    _json(parser)


def _explain(parser: Parser) -> None:
    parser.add_argument(
        "plan",
        metavar="PLAN",
        help="a stored plan, PLAN or RUN/PLAN (a beginning will do), or a file such as optimize --json prints: "
        "FILE (its knee) or FILE:PLAN",
    )
    parser.add_argument("--run", metavar="RUN", help="the stored run that has the plan")
    parser.add_argument("--site", metavar="SITE", help="tell which moves made one block or tensor")
    parser.add_argument("--graph", metavar="FILE", help="the program, for a plan of a file")
    _dims(parser)
    parser.add_argument(
        "--mesh", metavar="NAME|FILE", help="the machine, for a plan of a file (default: the one it names)"
    )
    parser.add_argument(
        "--objectives", type=names, metavar="A,B,C", help="costs to show (default: what the run judged by)"
    )
    parser.add_argument(
        "--single", action="store_true", help="list simplifications in a row one by one, not as one step"
    )
    parser.add_argument(
        "--compute-dtype", metavar="DTYPE", help="precision of contractions (default: the run's)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    _store(parser)
    _json(parser)
