"""`tapestry explain`: the derivation of a plan by its moves; the moves behind one block; the times of its blocks."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from tapestry.costmodel.device_memory import device_memory_terms
from tapestry.costmodel.known_objectives import known_objectives
from tapestry.costmodel.version import cost_model_note
from tapestry.hardware import Mesh
from tapestry.optimizer import canonicalize, explain
from tapestry.optimizer.analysis.marginal import marginal_times
from tapestry.rewrites import Move, Provenance, RuleError, StaleMove, replay_plan
from tapestry.service.cli.errors import FAILED, OK, CommandError
from tapestry.service.cli.frontier import memory_text, unit_of
from tapestry.service.cli.history import History, is_file, read_history
from tapestry.service.cli.marginal import print_marginal
from tapestry.service.cli.output import paint, print_json, print_table
from tapestry.service.cli.progress import Reporter, reporter
from tapestry.service.cli.searching import open_store, read_graph, read_mesh
from tapestry.service.explaining import block_history_document, explanation_document, moves_of, unlike
from tapestry.service.presentation import title_of
from tapestry.service.store import Store, StoreError, mesh_of
from tapestry.teg.brief import counted
from tapestry.teg.graph import Graph
from tapestry.teg.readable import column, quantity
from tapestry.teg.sharding.mesh_shape import MeshShape

PATIENCE_S = 2.0
NAMED = 3
MOST_PERCENT = 1000
EFFECTS = {
    "made": "makes",
    "remade": "makes anew",
    "rebound": "gives another input to",
    "took over": "lets stand for others",
    "placed": "places",
    "removed": "removes",
}


@dataclass(frozen=True)
class ExplainedPlan:
    """A history, the program it starts from, and the mesh."""

    history: History
    graph: Graph
    mesh: Mesh


def run(arguments: Namespace) -> int:
    """Find the plan, replay it, print its history or that of one block."""
    subject = _given(arguments) if is_file(arguments.plan) else _stored(arguments)
    if arguments.site is not None:
        _print_history(subject, arguments)
        return OK
    if arguments.marginal:
        _print_marginal(subject, arguments)
        return OK
    history = subject.history
    try:
        names = arguments.objectives or history.objectives or tuple(history.cost)[:4]
        names = names or ("time_s", "peak_memory_bytes")
        chosen = known_objectives(subject.graph).require(names, subject.mesh.device)
        with reporter(arguments.quiet) as progress:
            explanation = explain(
                subject.graph,
                history.moves,
                subject.mesh,
                compute_dtype=history.compute_dtype,
                single=arguments.single,
                ablation=True,
                objectives=names,
                on_step=_delayed_progress(progress),
            )
    except ValueError as error:
        raise CommandError(f"plan {history.plan}: {error}") from error
    objectives = [objective.name for objective in chosen]
    document = {
        "plan": history.plan,
        "graph": subject.graph.name,
        "mesh": subject.mesh.name,
        **explanation_document(explanation, objectives, history.cost or None, history.cost_model),
        "memory": device_memory_terms(explanation.cost, subject.mesh.device),
    }
    if arguments.json:
        print_json(document)
    else:
        _print(document)
    return _compared(history, explanation.cost)


def _compared(history: History, cost: Mapping[str, float]) -> int:
    """Compare the costs with those that the plan's search reported; return the exit code and warn of a difference.

    Costs of another version of the cost model may differ.
    """
    others = unlike(cost, history.cost)
    note = cost_model_note(history.cost_model)
    if others and note:
        first = others[0]
        print(
            f"tapestry: plan {history.plan}: it was {note}, by which {first} = {history.cost[first]!r}; its history "
            f"ends at {cost[first]!r} by this model",
            file=sys.stderr,
        )
        return OK
    if others:
        first = others[0]
        print(
            f"tapestry: plan {history.plan}: its history ends at {first} = {cost[first]!r}, but it is said to cost "
            f"{history.cost[first]!r}: was it found with another --compute-dtype, release or mesh?",
            file=sys.stderr,
        )
    return FAILED if others else OK


def _given(arguments: Namespace) -> ExplainedPlan:
    """Read a plan from a file; the program is another file, the mesh is named there or by an option."""
    history = read_history(arguments.plan)
    if arguments.run is not None:
        raise CommandError(f"{arguments.plan!r} is a file; --run is for stored plans")
    if arguments.graph is None:
        raise CommandError("a plan's file does not hold its program; name that by --graph FILE")
    if arguments.mesh is None and not history.mesh:
        raise CommandError(f"{arguments.plan!r} names no mesh; give one by --mesh")
    mesh = read_mesh(arguments.mesh or history.mesh).launched(history.launch).at_quantile(history.robust)
    dtype = arguments.dtype or history.dtype
    graph = canonicalize(read_graph(arguments.graph, arguments.dim, arguments.external_data, dtype))
    compute_dtype = arguments.compute_dtype or history.compute_dtype
    return ExplainedPlan(replace(history, compute_dtype=compute_dtype), graph, mesh)


def _stored(arguments: Namespace) -> ExplainedPlan:
    if arguments.mesh is not None:
        raise CommandError("a stored plan brings its mesh along; leave --mesh out")
    store = open_store(arguments.database_url)
    try:
        return _found(store, arguments)
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()


def _found(store: Store, arguments: Namespace) -> ExplainedPlan:
    reference = arguments.plan if arguments.run is None else f"{arguments.run}/{arguments.plan}"
    plan = store.plans.find(reference)
    run = store.runs.find(plan.run_id)
    graph = store.graphs.load(run.summary.graph_id)
    if arguments.graph is not None:
        given = read_graph(arguments.graph, arguments.dim, arguments.external_data, arguments.dtype)
        if given.structural_hash != graph.structural_hash:
            raise CommandError(
                f"plan {plan.id} was found for {graph.name!r}, which is not what {arguments.graph!r} holds"
            )
    history = History(
        plan.id,
        moves_of(plan.moves),
        plan.cost,
        run.summary.options.objectives,
        run.summary.mesh_name,
        arguments.compute_dtype or run.summary.options.compute_dtype,
        plan.cost_model,
    )
    return ExplainedPlan(history, canonicalize(graph), mesh_of(run.mesh))


def _delayed_progress(reported: Reporter) -> Callable[[int, int], None]:
    """Build a callback that reports progress once the work takes long."""
    began_s = time.monotonic()

    def report(done: int, total: int) -> None:
        if time.monotonic() - began_s > PATIENCE_S:
            reported.explaining(done, total)

    return report


def _print_history(subject: ExplainedPlan, arguments: Namespace) -> None:
    """Print the moves that made one block."""
    history = subject.history
    try:
        block_history = Provenance(subject.graph, history.moves).block_history(arguments.site)
    except (StaleMove, RuleError) as error:
        raise _stale(history, error) from error
    except ValueError as error:
        raise CommandError(f"plan {history.plan}: {error}") from error
    document = {"plan": history.plan, "graph": subject.graph.name, **block_history_document(block_history)}
    if arguments.json:
        print_json(document)
        return
    if block_history.is_there:
        print(
            f"block {block_history.site} of plan {history.plan} stems from "
            f"{_listed(block_history.origins) or 'no given block'}\n"
        )
    else:
        heirs = _listed(block_history.became)
        print(
            f"block {block_history.site} is not in plan {history.plan}; {heirs or 'nothing'} stems from it\n"
        )
    if not block_history.events:
        print("no move changed it: it is as imported")
        return
    rows = [
        (str(e.number + 1), e.move.rule, e.move.choice, f"{EFFECTS[e.effect]} {e.site}")
        for e in block_history.events
    ]
    print_table(("move", "rule", "choice", "what it does"), rows, right=(0,))


def _print_marginal(subject: ExplainedPlan, arguments: Namespace) -> None:
    """Print what the plan's blocks take at least, and per step of their index dimensions."""
    history = subject.history
    try:
        graph, placements = replay_plan(subject.graph, history.moves, MeshShape(subject.mesh.axis_sizes))
    except (StaleMove, RuleError) as error:
        raise _stale(history, error) from error
    times = marginal_times(graph, placements, subject.mesh, history.compute_dtype)
    if arguments.json:
        blocks = [each.to_json() for each in times]
        print_json(
            {"plan": history.plan, "graph": subject.graph.name, "mesh": subject.mesh.name, "blocks": blocks}
        )
    else:
        print_marginal(times)


def _stale(history: History, error: Exception) -> CommandError:
    return CommandError(
        f"plan {history.plan}: its history cannot be replayed: {error}; is this the program it was found for, "
        "and are the plug-ins installed that it uses (`tapestry rules`)?"
    )


def _print(document: Mapping[str, Any]) -> None:
    steps, objectives = document["steps"], document["objectives"]
    count = sum(len(step["moves"]) for step in steps)
    print(f"plan {document['plan']} of {document['graph']} on {document['mesh']}: {counted(count, 'move')}\n")
    headers, columns = ["move", "rule", "place", "choice"], [["", *map(_number, steps), ""]]
    columns.append(["as imported", *(_rules(step["moves"]) for step in steps), "this plan"])
    columns.append(["", *(_where(step["moves"]) for step in steps), ""])
    columns.append(["", *(_choice(step["moves"]) for step in steps), ""])
    for name in objectives:
        unit, texts = _effects(document, name)
        headers.append(f"{title_of(name)} {unit}".rstrip())
        columns.append(texts)
    first = objectives[0]
    unit, texts = column([(step["without"] or {}).get(first, 0.0) for step in steps] or [0.0], unit_of(first))
    lost = [
        "" if step["without"] is None else _signed(text) if step["without"][first] else "0"
        for step, text in zip(steps, texts, strict=False)
    ]
    headers.append(f"without it {unit}")
    columns.append(["", *lost, ""])
    if any(step["gone_with"] for step in steps):
        headers.append("nor")
        columns.append(["", *(_listed(_ranges(step["gone_with"])) for step in steps), ""])
    print_table(headers, list(zip(*columns, strict=True)), right=(0, *range(4, len(headers))))
    known = {rule: summary for rule, summary in document["rules"].items() if summary}
    if known:
        print()
    for rule, summary in known.items():
        print(f"{paint(rule, 'bold')}: {summary}")
    print(
        "\nThe first line costs the program with every device computing everything, the last is the plan; in between, "
        "what each move changed.\n'without it': what the finished plan would lose without the move "
        f"({title_of(first)}) nor those that build on it, which stand behind it by their numbers."
    )
    if document["stages"] is not None:
        print(_pipeline_text(document["stages"], document["devices"], document["stage_devices"]))
    if document["offload"] is not None:
        print(_host_text(document["offload"]))
    if document["memory"]:
        print(f"The fullest device holds {memory_text(document['memory'])}.")


def _pipeline_text(stages: Mapping[str, Any], devices: str, kinds: Sequence[str]) -> str:
    """Say in how many stages a plan runs, on which kinds of devices, by which schedule, and the blocks of each part."""
    *others, last = map(str, stages["blocks"])
    blocks = f"{', '.join(others)} and {last}" if others else last
    where = "all devices" if devices == "all" else f"{devices} each"
    return (
        f"It runs in {counted(stages['count'], 'stage')} ({where}), which take turns by the schedule "
        f"{stages['schedule']}; the parts of this pipeline have {blocks} blocks.{_kinds_text(kinds)}"
    )


def _kinds_text(kinds: Sequence[str]) -> str:
    """Say which stages have which devices, where they differ."""
    if not kinds:
        return ""
    runs = [(name, [k for k, _ in run]) for name, run in groupby(enumerate(kinds), key=lambda pair: pair[1])]
    spans = ", ".join(
        f"{name} in {'stage' if len(run) == 1 else 'stages'} {run[0]}{f' to {run[-1]}' if len(run) > 1 else ''}"
        for name, run in runs
    )
    return f" Devices are {spans}."


def _host_text(offload: Mapping[str, int]) -> str:
    """Say what of a plan lies in the memory of the hosts."""
    values, states = counted(offload["values"], "value"), counted(offload["states"], "tensor")
    return (
        f"The hosts hold {quantity(offload['bytes'], 'B')}, unsharded: {values} until late readers need them, and "
        f"{states} of state between steps."
    )


def _effects(document: Mapping[str, Any], name: str) -> tuple[str, list[str]]:
    """Format a column: the first cost, the change by each step, absolutely and in percent, and the last cost."""
    steps = document["steps"]
    values = [document["start"][name], *(step["effect"][name] for step in steps), document["cost"][name]]
    unit, (first, *changes, last) = column(values, unit_of(name))
    texts = []
    for step, change in zip(steps, changes, strict=True):
        effect = step["effect"][name]
        before = step["cost"][name] - effect
        share = f" ({_share(effect / before)})" if before else ""
        texts.append(f"{_signed(change)}{share}" if effect else "0")
    return unit, [first, *texts, last]


def _share(change: float) -> str:
    """Format a relative change: in percent, or as a factor where that reads better."""
    return f"{change:+.1%}" if change < MOST_PERCENT / 100 else f"x{1 + change:,.3g}"


def _signed(text: str) -> str:
    return text if text.startswith("-") else f"+{text}"


def _number(step: Mapping[str, Any]) -> str:
    first, count = step["first"], len(step["moves"])
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def _ranges(numbers: Sequence[int]) -> tuple[str, ...]:
    """Format sorted numbers, consecutive ones as a range: `5-7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return tuple(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _rules(moves: Sequence[Mapping[str, Any]]) -> str:
    return _listed(tuple(dict.fromkeys(move["rule"] for move in moves)))


def _where(moves: Sequence[Mapping[str, Any]]) -> str:
    places = [place for move in moves for place in Move.from_json(move).places]
    return places[0] + (f" and {len(places) - 1} more" if len(places) > 1 else "")


def _choice(moves: Sequence[Mapping[str, Any]]) -> str:
    return str(moves[0]["choice"]) if len(moves) == 1 else ""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
