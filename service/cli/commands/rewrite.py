"""`tapestry rewrite`: the candidate moves of a program, or the program after some of them."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tapestry.rewrites import Move
from tapestry.rewrites.pipelines import Rewritten
from tapestry.rewrites.preparation import Prepared, prepared
from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.searching import read_graph, refuse_one_file, warn_of, write_graph
from tapestry.service.refusals import refusal_documents
from tapestry.service.requests import InvalidRequest
from tapestry.service.rewriting import RewriteRequest, excluded, listing, rewritten, stage_documents
from tapestry.teg.brief import counted
from tapestry.teg.flops import graph_flops
from tapestry.teg.graph import Graph

SHOWN = 3
MOVES_WANTED = "expected a JSON file of moves, such as `tapestry rewrite --list --json` prints"


def run(arguments: Namespace) -> int:
    """List the candidate moves, or apply rules and write the program."""
    request = _request_of(arguments)
    graph = read_graph(arguments.graph, arguments.dim, arguments.external_data, arguments.dtype)
    try:
        if arguments.list:
            reported = listing(graph, request)
            _note_excluded(request)
            return _list(graph, reported, arguments.json)
        done = rewritten(graph, request)
        _note_excluded(request)
    except InvalidRequest as error:
        raise CommandError(_as_options(error, arguments)) from error
    parts = prepared(done.graph) if request.prepare else None
    program = done.graph if parts is None else parts.program
    if arguments.output is not None:
        write_graph(program, arguments.output)
    if parts is not None:
        write_graph(parts.before, arguments.prepare)
    warn_of(refusal_documents(done.refused))
    if arguments.json:
        print_json(_document(graph, done, parts, arguments))
    else:
        _print(graph, done, arguments.output)
        if request.prepare:
            _print_parts(graph, parts, arguments.prepare)
    return OK


def _request_of(arguments: Namespace) -> RewriteRequest:
    ways = {name: getattr(arguments, name) for name in ("mode", "pipeline", "moves", "prepare", "output")}
    given = [f"--{name}" for name, value in ways.items() if value is not None]
    if arguments.list and given:
        raise CommandError(f"--list changes nothing and writes nothing; leave {' and '.join(given)} out")
    if arguments.output is not None and arguments.prepare is not None:
        refuse_one_file({"-o": arguments.output, "--prepare": arguments.prepare})
    return RewriteRequest(
        rules=arguments.rules,
        families=arguments.families,
        kind=arguments.kind,
        mode=arguments.mode,
        pipeline=arguments.pipeline,
        moves=None if arguments.moves is None else _read_moves(arguments.moves),
        prepare=arguments.prepare is not None,
    )


def _read_moves(path: str) -> Sequence[Any]:
    """Read the moves of a file: a list, one alone, or the output of `--list --json`."""
    try:
        document = json.loads(Path(path).read_text())
    except OSError as error:
        message = f"--moves: cannot read {path!r}: {error.strerror or error}"
        raise CommandError(f"{message}; {MOVES_WANTED}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"--moves: {path!r} is no text; {MOVES_WANTED}") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--moves: {path!r} is no JSON document: {error}; {MOVES_WANTED}") from error
    listed = document["moves"] if isinstance(document, dict) and "moves" in document else document
    return listed if isinstance(listed, list) else [listed]


def _as_options(error: InvalidRequest, arguments: Namespace) -> str:
    """Describe the first fault, with the option that it is about."""
    option, _, member = error.faults[0].pointer.removeprefix("/").partition("/")
    where = f" {arguments.moves}, move {int(member) + 1}" if option == "moves" and member else ""
    return f"--{option}{where}: {error.faults[0].detail}"


def _note_excluded(request: RewriteRequest) -> None:
    """Print on standard error which of the named rules do not take part, if any."""
    if message := excluded(request):
        print(f"tapestry: {message}", file=sys.stderr)


def _list(graph: Graph, reported: dict[str, Any], as_json: bool) -> int:
    warn_of(reported["refused"])
    if as_json:
        print_json({"graph": graph.name, **reported})
        return OK
    print(
        f"{graph.name}: {reported['total']:,} moves at {reported['places']:,} places, those of equal layers as one\n"
    )
    _table([Move.from_json(move) for move in reported["moves"]])
    return OK


def _document(graph: Graph, done: Rewritten, parts: Prepared | None, arguments: Namespace) -> dict[str, Any]:
    program = done.graph if parts is None else parts.program
    return {
        "graph": graph.name,
        "blocks": {"before": len(graph.blocks), "after": len(program.blocks)},
        "flops": {"before": graph_flops(graph), "after": graph_flops(program)},
        "stages": stage_documents(done),
        "structural_hash": program.structural_hash,
        "output": arguments.output,
        "prepared": None if parts is None else arguments.prepare,
    }


def _print_parts(graph: Graph, parts: Prepared | None, path: str) -> None:
    if parts is None:
        print(f"\nnothing that is computed depends on parameters alone; {path} was not written")
        return
    once, every = (graph_flops(part) for part in (parts.before, parts.program))
    print(
        f"\ncomputed once: {counted(len(parts.before.blocks), 'block')}, {once:,} flops, written to {path}\n"
        f"in every run: {counted(len(parts.program.blocks), 'block')}, {every:,} flops of {graph_flops(graph):,} before"
    )


def _print(graph: Graph, done: Rewritten, output: str | None) -> None:
    moves = counted(len(done.moves), "move")
    print(f"{graph.name}: {counted(len(graph.blocks), 'block')}, {len(done.graph.blocks):,} after {moves}")
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
    print_table(("rule", "count", "places", "choice"), rows, right=(1,))


def _places(move: Move) -> str:
    more = f" and {len(move.places) - SHOWN} more" if len(move.places) > SHOWN else ""
    return ", ".join(move.places[:SHOWN]) + more
