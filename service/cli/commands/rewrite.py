"""`tapestry rewrite`: the moves that a program offers, or the program after some of them."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optimizer.rules import choose_rules
from rewrites import Move, Offers, Rule, replay
from rewrites.pipelines import PIPELINES, Rewritten, Stage, StageReport, run_pipeline
from service.cli.errors import OK, CommandError
from service.cli.output import print_json, print_table
from service.cli.searching import read_graph, warn_of_rules, write_graph
from service.refusals import refusal_documents
from teg.graph import Graph

SHOWN = 3


def run(arguments: Namespace) -> int:
    """List what fits, or apply rules and write the program."""
    rules = _rules(arguments)
    graph = read_graph(arguments.graph, arguments.dim, arguments.external_data)
    if arguments.list:
        return _list(graph, rules, arguments.json)
    if arguments.moves is not None:
        done = _made(graph, arguments.moves)
    else:
        done = run_pipeline(graph, _stages(arguments, rules))
    if arguments.output is not None:
        write_graph(done.graph, arguments.output)
    warn_of_rules(done.refused)
    if arguments.json:
        print_json(_document(graph, done, arguments.output))
    else:
        _print(graph, done, arguments.output)
    return OK


def _rules(arguments: Namespace) -> tuple[Rule, ...]:
    if arguments.pipeline is not None and (arguments.rules is not None or arguments.mode is not None):
        raise CommandError("--pipeline brings its own rules and modes along; leave --rules and --mode out")
    ways = {name: getattr(arguments, name) for name in ("mode", "pipeline", "moves", "output")}
    given = [f"--{name}" for name, value in ways.items() if value is not None]
    if arguments.list and given:
        raise CommandError(f"--list changes nothing and writes nothing; leave {' and '.join(given)} out")
    if arguments.moves is not None and (arguments.rules, arguments.mode, arguments.pipeline) != (None,) * 3:
        raise CommandError("--moves says what is done; leave --rules, --mode and --pipeline out")
    try:
        return choose_rules(arguments.rules)
    except ValueError as error:
        raise CommandError(str(error)) from error


def _stages(arguments: Namespace, rules: tuple[Rule, ...]) -> Sequence[Stage]:
    if arguments.pipeline is not None:
        if arguments.pipeline not in PIPELINES:
            raise CommandError(f"unknown pipeline {arguments.pipeline!r}; known are {', '.join(PIPELINES)}")
        return PIPELINES[arguments.pipeline]()
    mode = arguments.mode or "fixpoint"
    if arguments.rules is None:
        # Rules that need not end are chosen by name, or by a search.
        rules = tuple(rule for rule in rules if rule.saturating)
    return (Stage(mode, rules, mode),)


def _made(graph: Graph, path: str) -> Rewritten:
    """The program after the moves of a file, one after the other."""
    try:
        document = json.loads(Path(path).read_text())
        listed = document["moves"] if isinstance(document, dict) and "moves" in document else document
        moves = tuple(Move.from_json(m) for m in (listed if isinstance(listed, list) else [listed]))
        return Rewritten(replay(graph, moves), (StageReport("moves", moves, {}, ()),))
    except (OSError, ValueError, RecursionError) as error:
        raise CommandError(f"--moves {path}: {error}") from error


def _list(graph: Graph, rules: Sequence[Rule], as_json: bool) -> int:
    offers = Offers.of(graph, rules)
    refused = {failure.rule: failure.message for failure in offers.failures}
    warn_of_rules(refused)
    moves = offers.tied()
    if as_json:
        told = {"graph": graph.name, "moves": [m.to_json() for m in moves]}
        print_json({**told, "refused": refusal_documents(refused)})
        return OK
    places = sum(len(move.places) for move in moves)
    print(f"{graph.name}: {len(moves):,} moves at {places:,} places, those of equal layers as one\n")
    _table(moves)
    return OK


def _document(graph: Graph, done: Rewritten, output: str | None) -> dict[str, Any]:
    return {
        "graph": graph.name,
        "blocks": {"before": len(graph.blocks), "after": len(done.graph.blocks)},
        "stages": [
            {
                "stage": stage.stage,
                "moves": [move.to_json() for move in stage.moves],
                "refused": refusal_documents(stage.refused),
                "unfinished": list(stage.unfinished),
            }
            for stage in done.stages
        ],
        "structural_hash": done.graph.structural_hash,
        "output": output,
    }


def _print(graph: Graph, done: Rewritten, output: str | None) -> None:
    moves = "1 move" if len(done.moves) == 1 else f"{len(done.moves):,} moves"
    print(f"{graph.name}: {len(graph.blocks):,} blocks, {len(done.graph.blocks):,} after {moves}")
    for stage in done.stages:
        if stage.moves:
            print(f"\n{stage.stage}")
            _table(stage.moves)
        if stage.unfinished:
            print(f"\nstopped before its end, {', '.join(stage.unfinished)} would go on")
    if output is not None:
        print(f"\nwritten to {output}")


def _table(moves: Sequence[Move]) -> None:
    rows = [(m.rule, str(len(m.places)), _places(m), m.choice) for m in moves]
    print_table(("rule", "places", "where", "choice"), rows, right=(1,))


def _places(move: Move) -> str:
    more = f" and {len(move.places) - SHOWN} more" if len(move.places) > SHOWN else ""
    return ", ".join(move.places[:SHOWN]) + more
