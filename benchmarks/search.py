"""Quality of the search by CPU seconds: against other optimizers, against its own parts, and without each of them.

    python -m benchmarks.search --json FILE [--graphs NAME ...] [--meshes NAME ...] [--seconds 1,10] [--seeds 5]

A cell is a contender on a graph and a mesh from one seed. It runs in a process of its own for the most of `--seconds`,
CPU seconds of all its processes from the program in memory on; at each of them its front counts as it is by then.
Fronts of an instance share one box: from their best values to 1.1 times the nadir of their union, on logarithmic axes;
the hypervolume is the share of it that the best 256 plans of a front dominate.

Our whole search, also with a deadline, runs on every instance from `--seeds` seeds; the other contenders run on `--few`
instances, from `--other-seeds`.
FILE is written after every cell, and cells that it has are not run again. `--figures` writes it without the fronts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from benchmarks.contenders.catalog import CONTENDERS, GROUPS, Contender, named
from benchmarks.contenders.cells import CellError, apart, cell
from benchmarks.contenders.document import ContinuationError, Document, is_done, seconds_with
from benchmarks.contenders.ours import WHOLE
from benchmarks.contenders.page import page, picture, table_of
from benchmarks.contenders.peers import PEERS
from benchmarks.contenders.recorder import cpu_seconds
from benchmarks.setting import MODELS, find_models
from tapestry.costmodel.compiled import compile_seconds
from tapestry.hardware import CatalogError, Mesh, load_mesh
from tapestry.teg.faults import ArgumentError, no_such
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

DEFAULT_GRAPHS = (
    "gpt2_small_b1_s1024",
    "llama2_7b_1layer_b1_s2048",
    "resnet50_b16_224",
    "taso_bert_8layer_s64",
    "light_resnet50",
    "taso_nasrnn_h512_t5",
    "tiny_train_gpt2_small_b8_s1024_adam",
    "llama2_7b_32layer_b1_s2048",
)
DEFAULT_MESHES = ("dgx-h100", "2x-dgx-h100", "8x-dgx-h100", "tpu-v4-4x4x4")
# CPU seconds of loading what is compiled, without compiling it: our search uses all loops only after some rounds.
WARM_UP_S, PEER_WARM_UP_S = 6.0, 3.0
WARM_UP = ("tiny_llama2_7b_1layer_b1_s2048.winputs", "dgx-h100")


class SearchInstance(NamedTuple):
    """A program on a mesh."""

    name: str
    graph: Graph
    mesh: Mesh


def main(argv: Sequence[str] | None = None) -> None:
    """Run the cells that are not in the file yet, print a table, store figures, page and picture."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        document = Document(given.json)
        instances = list(_instances(given.graphs, given.meshes))
        contenders = _usable(_contenders(given.contenders), document)
        _run(document, instances, contenders, given)
    except (ArgumentError, CatalogError, ContinuationError) as error:
        parser.error(str(error))
    document.write()
    Console(width=120).print(table_of(document.instances))
    if given.figures is not None:
        document.write(given.figures, has_fronts=False)
    if given.page is not None:
        given.page.write_text(page(document.instances, document.left_out))
    if given.picture is not None:
        given.picture.write_text(picture(document.instances))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="figures, kept after every cell")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="figures without fronts")
    parser.add_argument("--page", type=Path, metavar="FILE", help="the page of figures to write")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="the picture to write")
    parser.add_argument(
        "--graphs", nargs="+", default=DEFAULT_GRAPHS, metavar="NAME", help="models of ours, or files of ONNX"
    )
    parser.add_argument("--meshes", nargs="+", default=DEFAULT_MESHES, metavar="NAME")
    parser.add_argument("--seconds", type=seconds_in, default=[1.0, 10.0], metavar="A,B", help="of CPU")
    parser.add_argument("--seeds", type=count_in, default=5, help="of our whole search")
    parser.add_argument("--other-seeds", type=count_in, default=1, help="of the other contenders")
    parser.add_argument("--few", type=count_in, default=8, help="instances of the other contenders")
    parser.add_argument(
        "--contenders",
        nargs="+",
        default=list(GROUPS),
        metavar="NAME",
        help=f"or a group: {', '.join(GROUPS)}",
    )
    return parser


def seconds_in(text: str) -> list[float]:
    """Return the seconds of a list such as `1,10`, in ascending order."""
    try:
        found = sorted({float(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or not 0 < found[0] <= found[-1] < float("inf"):
        raise argparse.ArgumentTypeError(f"expected CPU seconds above 0, such as 1,10, not {text!r}")
    return found


def count_in(text: str) -> int:
    """Return a count of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a count of at least 1, not {text!r}")
    return int(text)


def _instances(graphs: Sequence[str], meshes: Sequence[str]) -> Iterator[SearchInstance]:
    """Yield every graph on every mesh.

    Raises:
        ArgumentError: an unknown graph or mesh, a file that is no graph, or two of one name.
    """
    paths = [_path(name) for name in graphs]
    names = [path.stem for path in paths]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ArgumentError(f"--graphs: {', '.join(twice)} is named twice; rename one of the files")
    loaded = [load_mesh(mesh) for mesh in meshes]
    for name, path in zip(names, paths, strict=True):
        try:
            graph = from_onnx(path)
        except (ValueError, OSError) as error:
            raise ArgumentError(f"--graphs: {path}: {error}; expected an ONNX file") from error
        for mesh in loaded:
            yield SearchInstance(name, graph, mesh)


def _path(name: str) -> Path:
    """Return the path of a model of ours, or of a file."""
    if name.endswith(".onnx"):
        if not Path(name).is_file():
            raise ArgumentError(f"--graphs: there is no file {name!r}; name an ONNX file, or a model of ours")
        return Path(name)
    try:
        return find_models([name])[0]
    except FileNotFoundError:
        known = [path.stem for folder in MODELS for path in folder.rglob("*.onnx")]
        hint = f"or the path of an ONNX file; by default {', '.join(DEFAULT_GRAPHS)}"
        raise ArgumentError(f"--graphs: {no_such('model', name, known, hint=hint)}") from None


def _contenders(names: Sequence[str]) -> list[Contender]:
    known = [*GROUPS, *CONTENDERS]
    for name in names:
        if name not in known:
            raise ArgumentError(f"--contenders: {no_such('contender', name, known)}")
    return named(names)


def _usable(contenders: Sequence[Contender], document: Document) -> list[Contender]:
    """Return the contenders whose library is there; note the others as left out, with the reason."""
    reasons = {contender.name: contender.missing for contender in contenders}
    document.left_out = [{"name": name, "reason": reason} for name, reason in reasons.items() if reason]
    for each in document.left_out:
        print(f"left out: {each['name']}: {each['reason']}", flush=True)
    return [contender for contender in contenders if reasons[contender.name] is None]


def few(instances: Sequence[SearchInstance], most: int) -> list[SearchInstance]:
    """Return at most so many instances: the graphs in turn, each on another mesh than the one before."""
    graphs = list(dict.fromkeys(i.name for i in instances))
    meshes = list(dict.fromkeys(i.mesh.name for i in instances))

    def turn(instance: SearchInstance) -> tuple[int, int]:
        graph, mesh = graphs.index(instance.name), meshes.index(instance.mesh.name)
        return (mesh - graph) % len(meshes), graph

    return sorted(instances, key=turn)[:most]


def _run(
    document: Document,
    instances: Sequence[SearchInstance],
    contenders: Sequence[Contender],
    given: argparse.Namespace,
) -> None:
    """Run every cell that the document lacks, and write it after each."""
    chosen = few(instances, given.few)
    tasks = [
        (instance, contender, seed)
        for instance in instances
        for contender in contenders
        for seed in range(_seeds(contender, instance in chosen, given))
    ]
    entries = [document.instance(i.name, i.mesh.name, i.graph.structural_hash[:16]) for i, _, _ in tasks]
    left = [
        (entry, task)
        for entry, task in zip(entries, tasks, strict=True)
        if not is_done(entry, task[1].name, task[2], given.seconds)
    ]
    if left:
        warm_up(contenders)
    for number, (entry, (instance, contender, seed)) in enumerate(left, start=1):
        where = (
            f"{number} of {len(left)}: {instance.name} on {instance.mesh.name}, {contender.name}, seed {seed}"
        )
        seconds = seconds_with(entry, contender.name, seed, given.seconds)
        try:
            run = partial(cell, contender, instance.graph, instance.mesh, seed, seconds)
            found = apart(run)
        except CellError as error:
            print(f"{where}: failed, run again to repeat it: {error}", flush=True)
            continue
        document.add(entry, found)
        document.write()
        shares = ", ".join(f"{c['hypervolume']:.4f} at {c['cpu_s']:g} s" for c in found["checkpoints"])
        print(f"{where}: {shares}", flush=True)


def _seeds(contender: Contender, is_chosen: bool, given: argparse.Namespace) -> int:
    """Return the number of seeds from which a contender runs on an instance."""
    return int(given.seeds if contender in GROUPS["ours"] else given.other_seeds * is_chosen)


def warm_up(contenders: Sequence[Contender]) -> None:
    """Load compiled code and libraries in this process, from which those of the cells are forked."""
    name, mesh = WARM_UP
    graph = from_onnx(find_models([name])[0])
    cell(WHOLE, graph, load_mesh(mesh), 0, [WARM_UP_S], loading_seconds)
    for contender in contenders:
        if contender in PEERS:
            cell(contender, graph, load_mesh(mesh), 0, [PEER_WARM_UP_S], loading_seconds)


def loading_seconds() -> float:
    """Return the CPU seconds of this process without those of compiling loops, which takes minutes the first time."""
    return cpu_seconds() - compile_seconds()


if __name__ == "__main__":
    main()
