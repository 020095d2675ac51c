"""Options of the commands that read and rewrite programs and describe tensor layouts."""

from __future__ import annotations

from tapestry.service.cli.options.shared import Parser, as_json, dtype, graph, quiet, timing
from tapestry.service.cli.values import coordinates, name, names, number, whole


def import_(parser: Parser) -> None:
    """Add the options of `import`: the program, and its output file."""
    graph(parser)
    dtype(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the TEG document here (.json, .json.gz)"
    )
    as_json(parser)


def rewrite(parser: Parser) -> None:
    """Add the options of `rewrite`: the program, the rewriting to do, and its output file."""
    graph(parser)
    dtype(parser)
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
        "--prepare",
        metavar="FILE",
        help="fold into parameters what can be, and write here the part that is computed once; the rest goes to -o",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the TEG document here (.json, .json.gz)"
    )
    as_json(parser)


def train(parser: Parser) -> None:
    """Add the options of `train`: the program, what is trained and how, and the output file."""
    graph(parser)
    dtype(parser)
    parser.add_argument(
        "--loss",
        metavar="cross_entropy|mse|sum|OUTPUT",
        help="the loss, or the output that is it (default: the only output if it is a scalar, else cross_entropy "
        "of the one named logits, else mse of the first)",
    )
    parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam", help="default: adam")
    parser.add_argument(
        "--learning-rate", type=number, metavar="X", help="default: 0.001 with adam, 0.01 with sgd"
    )
    parser.add_argument(
        "--momentum", type=number, default=0.0, metavar="X", help="of sgd, below 1 (default: 0)"
    )
    parser.add_argument(
        "--train",
        action="append",
        default=[],
        metavar="NAME",
        help="train this source, * stands for any text; may be repeated (default: all parameters)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the TEG document here (.json, .json.gz)"
    )
    as_json(parser)


def layout(parser: Parser) -> None:
    """Add the actions of `layout`, each with options of its own."""
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
    as_json(describe)
    draw.add_argument("--elements", action="store_true", help="show elements instead of slots in the cells")
    draw.add_argument("--svg", metavar="FILE", help="write an SVG picture instead")


def calibrate(parser: Parser) -> None:
    """Add the options of `calibrate`: the file to write, and what is measured."""
    parser.add_argument("file", metavar="FILE", help="the mesh file to write (.toml)")
    parser.add_argument(
        "--name", type=name, default="this-machine", metavar="NAME", help="the name of the device in it"
    )
    parser.add_argument("--force", action="store_true", help="replace a file that exists")
    timing(parser, 200.0)
    quiet(parser)
    as_json(parser)


def mesh(parser: Parser) -> None:
    """Add the actions of `mesh`, each with options of its own."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    new = actions.add_parser("new", help="write a commented mesh file to start from")
    new.add_argument("file", metavar="FILE", help="the file to write (.toml)")
    new.add_argument(
        "--from",
        dest="source",
        default="dgx-h100",
        metavar="NAME|FILE",
        help="the mesh to copy (default: dgx-h100)",
    )
    new.add_argument(
        "--with-device", action="store_true", help="write the device's figures out, to change them too"
    )
    new.add_argument("--force", action="store_true", help="replace FILE if it exists")
    check = actions.add_parser("check", help="report all faults of a mesh or device file at once")
    check.add_argument("file", metavar="FILE", help="the file (.toml)")
    show = actions.add_parser("show", help="print a mesh: its axes, their links, and its device")
    show.add_argument("mesh", metavar="NAME|FILE", help="a mesh of the catalog, or a TOML file")
    schema = actions.add_parser("schema", help="print the JSON Schema of mesh files, or of device files")
    schema.add_argument("--device", action="store_true", help="that of device files")
    for action in (new, check, show, schema):
        as_json(action)
