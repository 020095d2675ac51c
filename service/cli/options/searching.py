"""Options of the commands that search."""

from __future__ import annotations

from tapestry.service.cli.options.shared import Parser, graph, port, search
from tapestry.service.cli.values import names, pin, whole

DEFAULT_SECONDS = 10.0
OBJECTIVES = "time_s,peak_memory_bytes,traffic_bytes,energy_j"
VERIFY = ("auto", "none", "dry", "execute")


def demo(parser: Parser) -> None:
    """Add the options of `demo`: a search of the example."""
    parser.add_argument(
        "--once",
        action="store_true",
        help="end after the frontier; without it a terminal keeps the service up",
    )
    port(parser)
    search(parser)


def optimize(parser: Parser) -> None:
    """Add the options of `optimize`: the program, the mesh, and the limits of the search."""
    graph(parser)
    parser.add_argument(
        "--mesh", required=True, metavar="NAME|FILE", help="a machine of the catalog, or a TOML file"
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
    search(parser)
