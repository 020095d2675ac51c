"""Options of the commands that execute, show, compare and explain plans and runs."""

from __future__ import annotations

from tapestry.service.cli.options.shared import (
    Parser,
    as_json,
    dims,
    dtype,
    graph,
    launch,
    quiet,
    store,
    timing,
)
from tapestry.service.cli.values import assignment, names, number, optional_assignment, whole

EXPORTED = (
    "teg",
    "rewritten",
    "torch",
    "jax",
    "table",
    "jax-specs",
    "dtensor",
    "shardy",
    "ttnn",
    "tt",
    "ttcore",
)


def simulate(parser: Parser) -> None:
    """Add the options of `simulate`: a plan, or a program, and the settings of its execution."""
    graph(parser, optional=True)
    dtype(parser)
    parser.add_argument("--mesh", metavar="NAME|FILE", help="the mesh, for a program without a stored plan")
    launch(parser)
    parser.add_argument("--plan", metavar="PLAN", help="a stored plan: PLAN, or RUN/PLAN; a prefix is enough")
    parser.add_argument("--run", metavar="RUN", help="a stored run; without --plan its knee is taken")
    _computing(parser)
    _disturbing(parser)
    _values(parser)
    parser.add_argument("--no-store", action="store_true", help="store nothing")
    store(parser)
    as_json(parser)


def _computing(parser: Parser) -> None:
    """Add the options of how a plan is run: what computes, how many steps, what is recorded."""
    parser.add_argument("--dry", action="store_true", help="count without computing values")
    parser.add_argument(
        "--backend",
        choices=("numpy", "torch"),
        default="numpy",
        help="what computes; torch takes a GPU where it finds one (default: numpy)",
    )
    parser.add_argument(
        "--steps",
        type=whole(1),
        default=1,
        metavar="N",
        help="run so many steps, each with the state of the last",
    )
    parser.add_argument(
        "--trace", metavar="FILE", help="write a trace of the last step for Perfetto (.json, .json.gz)"
    )
    parser.add_argument("--compute-dtype", metavar="DTYPE", help="precision of contractions on the clock")


def _disturbing(parser: Parser) -> None:
    """Add the options of a run on a mesh that loses devices or is slow."""
    parser.add_argument(
        "--fail",
        metavar="AXIS:N@T",
        help="lose devices after a fraction of the run: gpu:3@0.4, node:1,gpu:0@0.9",
    )
    parser.add_argument(
        "--slow",
        metavar="AXIS[:N]=F",
        action="append",
        default=[],
        help="slow devices (gpu:3=1.5) or links (node=2) down by a factor; may be repeated",
    )
    parser.add_argument(
        "--processes",
        type=whole(1),
        metavar="N",
        help="run once more on N processes of torch, one for each device; --fail really ends one of them",
    )


def _seed(parser: Parser) -> None:
    parser.add_argument(
        "--seed", type=whole(0), default=0, metavar="S", help="seed of inputs and weights (default: 0)"
    )


def _values(parser: Parser) -> None:
    """Add the options of the values that a plan reads and leaves."""
    _seed(parser)
    parser.add_argument(
        "--inputs",
        metavar="FILE",
        help="values of inputs by name (.npz, .npy, .safetensors) instead of seeded ones; inputs and weights may be "
        "one file or split in any way",
    )
    parser.add_argument("--weights", metavar="FILE", help="values of weights by name, in such a file")
    parser.add_argument(
        "--tensor",
        type=assignment,
        action="append",
        default=[],
        metavar="INPUT=NAME",
        help="an input that is a stored tensor (tapestry tensors), which starts where that lies; may be repeated",
    )
    parser.add_argument(
        "--save",
        type=assignment,
        action="append",
        default=[],
        metavar="OUTPUT=NAME",
        help="store an output of the last step as a tensor, in the place where the plan leaves it; may be repeated",
    )
    parser.add_argument("--outputs", metavar="FILE", help="write the outputs of the last step to such a file")


def compare(parser: Parser) -> None:
    """Add the options of `compare`: the runs or plans."""
    parser.add_argument(
        "references",
        metavar="RUN|PLAN",
        nargs="+",
        help="two to four stored runs, or plans (`PLAN` or `RUN/PLAN`); a prefix is enough",
    )
    store(parser)
    as_json(parser)


def show(parser: Parser) -> None:
    """Add the options of `show`: the run or plan to show."""
    parser.add_argument(
        "reference",
        metavar="RUN|PLAN",
        nargs="?",
        help="a run, a plan, or RUN/PLAN; a prefix is enough; without it the newest runs are listed",
    )
    store(parser)
    as_json(parser)


def verify(parser: Parser) -> None:
    """Add the options of `verify`: the plan, the module, and the seed of the values that are compared."""
    parser.add_argument("plan", metavar="PLAN", help="a stored plan: PLAN, or RUN/PLAN; a prefix is enough")
    parser.add_argument(
        "module",
        metavar="MODULE",
        help="the plan's program for PyTorch (.py), whose code is executed on this machine to record what every rank "
        "does, on tensors without elements; or the StableHLO that its program for JAX lowers to (.mlir, also .gz): "
        "python plan.py --lower MODULE",
    )
    _seed(parser)
    parser.add_argument(
        "--backend",
        choices=("gloo", "nccl"),
        default="gloo",
        help="the backend that a program for PyTorch is to run on; nothing is sent (default: gloo)",
    )
    store(parser)
    as_json(parser)


def validate(parser: Parser) -> None:
    """Add the options of `validate`: programs or a plan, the mesh that predicts, and what runs them."""
    parser.add_argument(
        "graphs",
        metavar="GRAPH",
        nargs="*",
        help="programs in files of any kind that is imported; one device runs each",
    )
    dims(parser)
    dtype(parser)
    parser.add_argument(
        "--plan", metavar="PLAN", help="a stored plan; so many processes run it as it has devices"
    )
    parser.add_argument(
        "--mesh",
        metavar="NAME|FILE",
        help="what predicts: a mesh, such as the file that `tapestry calibrate` wrote (default: the plan's)",
    )
    parser.add_argument(
        "--save",
        action="store_true",
        help="keep the measured time with the plan, for its page and for programs",
    )
    timing(parser, 30.0)
    quiet(parser)
    store(parser)
    as_json(parser)


def explain(parser: Parser) -> None:
    """Add the options of `explain`: the plan, and the parts of its history to print."""
    parser.add_argument(
        "plan",
        metavar="PLAN",
        help="a stored plan, PLAN or RUN/PLAN (a prefix is enough), or a file such as optimize --json prints: "
        "FILE (its knee) or FILE:PLAN",
    )
    parser.add_argument("--run", metavar="RUN", help="the stored run that has the plan")
    parser.add_argument("--site", metavar="SITE", help="show which moves made one block or tensor")
    parser.add_argument(
        "--marginal",
        action="store_true",
        help="show what each block takes at least, and for each further step of its index dimensions",
    )
    parser.add_argument("--graph", metavar="FILE", help="the program, for a plan of a file")
    dims(parser)
    dtype(parser)
    parser.add_argument(
        "--mesh", metavar="NAME|FILE", help="the mesh, for a plan of a file (default: the one it names)"
    )
    parser.add_argument(
        "--objectives", type=names, metavar="A,B,C", help="costs to show (default: the run's objectives)"
    )
    parser.add_argument(
        "--single", action="store_true", help="list simplifications in a row one by one, not as one step"
    )
    parser.add_argument(
        "--compute-dtype", metavar="DTYPE", help="precision of contractions (default: the run's)"
    )
    quiet(parser)
    store(parser)
    as_json(parser)


def export(parser: Parser) -> None:
    """Add the options of `export`: the plan, the form, and what of it."""
    parser.add_argument("plan", metavar="PLAN", help="a stored plan: PLAN, or RUN/PLAN; a prefix is enough")
    parser.add_argument(
        "--to",
        choices=EXPORTED,
        required=True,
        help="teg: the explicit graph, its weights named by content; rewritten: the graph that the plan shards, with "
        "its weights, both as TEG documents; torch: a module for PyTorch that torchrun runs on real devices; "
        "jax: one for JAX; "
        "table: where each tensor is, as JSON; jax-specs, dtensor: modules of "
        "PartitionSpecs and placements; shardy: your StableHLO with attributes; ttnn: tensor specs; tt, ttcore: metal "
        "layouts",
    )
    parser.add_argument(
        "--device",
        type=whole(0),
        action="append",
        default=[],
        metavar="N",
        help="blocks on this device only; may be repeated",
    )
    parser.add_argument(
        "--layer",
        action="append",
        default=[],
        metavar="NAME",
        help="blocks of this layer only, such as 3 or layers.3, by the names of parameters; may be repeated",
    )
    parser.add_argument(
        "--block",
        action="append",
        default=[],
        metavar="PATTERN",
        help="what these blocks of the program became only; * is any text; may be repeated",
    )
    parser.add_argument("--program", metavar="FILE", help="your program's file, for --to shardy")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write no table; list the tensors that cannot be placed so, and fail if there are any",
    )
    parser.add_argument(
        "--weights-output",
        metavar="FILE",
        help="also write the values that the program holds, for the option --weights of an exported module, as npz",
    )
    parser.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        help="file to write, gzipped if it ends in .gz (default: standard output)",
    )
    store(parser)
    as_json(parser)


def tensors(parser: Parser) -> None:
    """Add the actions of `tensors`, each with options of its own."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    load = actions.add_parser("load", help="store the tensors of a file (.npz, .npy, .safetensors)")
    load.add_argument("file", metavar="FILE", help="the file")
    load.add_argument(
        "names",
        metavar="NAME[=TENSOR]",
        type=optional_assignment,
        nargs="*",
        help="the tensors to store, NAME=TENSOR under another name than the file has (default: all)",
    )
    load.add_argument(
        "--seconds", type=number, default=0.0, metavar="N", help="seconds that loading each of them takes"
    )
    load.add_argument(
        "--bytes-per-s", type=number, metavar="N", help="the rate at which they are loaded, such as 25e9"
    )
    load.add_argument(
        "--device",
        default="",
        metavar="AXIS:N",
        help="the device that holds them when they are loaded, such as gpu:0; others get their parts from there "
        "(default: each device loads its own)",
    )
    listed = actions.add_parser("list", help="list the stored tensors and where they lie")
    copy = actions.add_parser("copy", help="store a tensor under another name too, in its place")
    copy.add_argument("name", metavar="NAME", help="the tensor")
    copy.add_argument("new", metavar="NEW", help="the name of the copy")
    export = actions.add_parser("export", help="write tensors to a file (.npz, .npy, .safetensors)")
    export.add_argument("file", metavar="FILE", help="the file; it appears whole or not at all")
    export.add_argument("names", metavar="NAME", nargs="*", help="the tensors (default: all)")
    drop = actions.add_parser("drop", help="delete tensors")
    drop.add_argument("names", metavar="NAME", nargs="+", help="the tensors")
    for action in (load, listed, copy, export, drop):
        store(action)
        as_json(action)
