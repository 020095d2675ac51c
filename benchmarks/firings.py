"""Counts of the places where rules match and fire, per graph: the figures of `docs/generated/firings.md`.

    python -m benchmarks.firings GRAPH... --json benchmarks/results/firings.json [--only RULE...]

A graph is an ONNX file, StableHLO text (`.mlir`, also `.gz`) or a PyTorch node list. Per graph and rule: at how many
places the rule fits the graph as imported, how often it fires while the graph is saturated, at how many places it fits
then, and at how many once spelled out operators are found again (`rewrites.algebra.recomposition`, to the end).
Figures of graphs that are not named stay in the file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.setting import surroundings
from tapestry.rewrites import RULES, Rule, apply_all, find, find_tied, saturate
from tapestry.rewrites.algebra.recomposition import RECOMPOSITION
from tapestry.teg.faults import near_names, no_such
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx, from_stablehlo, from_torch

SATURATING = tuple(r for r in RULES if r.saturating)

# Recompositions that may follow each other on one graph; each makes it smaller.
MOST_STEPS = 200


def read(path: Path) -> Graph:
    """Import the graph of a file in the format of its suffixes."""
    if path.suffix == ".onnx":
        return from_onnx(path)
    if ".mlir" in path.suffixes:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return from_stablehlo(text.decode())
    return from_torch(path)


def places(graph: Graph, rules: Sequence[Rule]) -> Counter[str]:
    """Count the places where each rule fits; a place counts once per way to match there, whatever the choices."""
    found = {(m.rule, p, m.choice.partition("@")[2]) for m in find(graph, rules) for p in m.places}
    return Counter(rule for rule, *_ in found)


def recomposed(graph: Graph) -> tuple[Graph, Counter[str]]:
    """Recompose every spelled-out operator of a saturated graph; return the graph and how often each rule did that."""
    fired: Counter[str] = Counter()
    for _ in range(MOST_STEPS):
        moves = find_tied(graph, RECOMPOSITION)
        if not moves:
            break
        applied = apply_all(graph, moves[:1])
        fired[moves[0].rule] += len(moves[0].places)
        graph = saturate(applied.graph, SATURATING, changes=applied.changes).graph
    return graph, fired


def firings(graph: Graph, rules: Sequence[Rule] = RULES) -> dict[str, Any]:
    """Count the blocks at each stage and, per rule, the matches and firings that are not all zero."""
    done = saturate(graph, SATURATING)
    fired: Counter[str] = Counter()
    for move in done.moves:
        fired[move.rule] += len(move.places)
    last, again = recomposed(done.graph)
    stages = {
        "imported": places(graph, rules),
        "fired": fired + again,
        "saturated": places(done.graph, rules),
        "recomposed": places(last, rules),
    }
    counts = {r.name: [stages[s][r.name] for s in stages] for r in rules}
    return {
        "blocks": [len(g.blocks) for g in (graph, done.graph, last)],
        "operators": dict(sorted(Counter(b.operator for b in last.blocks).items())),
        "rules": {name: row for name, row in counts.items() if any(row)},
    }


def name_of(path: Path) -> str:
    """Return the file's name without its suffixes; for formats other than ONNX, the format follows in parentheses."""
    stem = path.name.partition(".")[0]
    return (
        stem if path.suffix == ".onnx" else f"{stem} ({'StableHLO' if '.mlir' in path.suffixes else 'torch'})"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="+", type=Path, metavar="GRAPH")
    parser.add_argument("--json", type=Path, help="file that takes up the figures")
    parser.add_argument("--only", nargs="*", help="names of rules (default: the whole catalog)")
    options = parser.parse_args(arguments)
    rules = RULES if options.only is None else chosen(options.only, parser)
    for path in options.graphs:
        if not path.is_file():
            parser.error(f"there is no file {str(path)!r}; expected ONNX, StableHLO text or a node list")
    known = json.loads(options.json.read_text())["graphs"] if options.json and options.json.exists() else {}
    for path in options.graphs:
        try:
            graph = read(path)
        except (ValueError, OSError, EOFError) as error:
            parser.error(
                f"{path}: {' '.join(str(error).split())}; expected ONNX, StableHLO text or a node list"
            )
        known[name_of(path)] = result = firings(graph, rules)
        sys.stdout.write(f"{name_of(path)}: blocks {result['blocks']}, rules {len(result['rules'])}\n")
        sys.stdout.flush()
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(document(known))


def chosen(names: Sequence[str], parser: argparse.ArgumentParser) -> tuple[Rule, ...]:
    """Return the rules of the catalog with these names; exit with an error if one does not exist or none are named."""
    known = {rule.name: rule for rule in RULES}
    for name in names:
        if name not in known:
            hint = "" if near_names(name, known) else "`tapestry rules` lists them"
            parser.error(f"--only: {no_such('rule', name, known, hint=hint)}")
    if not names:
        parser.error("--only: expected at least one rule; leave it out for all")
    return tuple(known[name] for name in dict.fromkeys(names))


def document(known: dict[str, Any]) -> str:
    """Format the figures as JSON, one line per graph."""
    around = "".join(f"{json.dumps(k)}: {json.dumps(v)},\n" for k, v in surroundings().items() if k != "load")
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known))
    return f'{{{around}"graphs": {{\n{rows}\n}}}}\n'


if __name__ == "__main__":
    main()
