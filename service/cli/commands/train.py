"""`tapestry train`: the training step of a program of inference, as a program of its own."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json
from tapestry.service.cli.searching import read_graph, write_graph
from tapestry.teg.brief import counted
from tapestry.teg.flops import graph_flops
from tapestry.teg.graph import Graph
from tapestry.teg.readable import quantity
from tapestry.teg.training import NotDifferentiable, TrainingStep, training_step
from tapestry.teg.validate import InvalidGraphError

SHOWN = 6


def run(arguments: Namespace) -> int:
    """Build the training step, write it if requested, and print what it trains by which loss."""
    graph = read_graph(arguments.graph, arguments.dim, arguments.external_data, arguments.dtype)
    try:
        step = training_step(
            graph,
            loss=arguments.loss,
            optimizer=arguments.optimizer,
            learning_rate=arguments.learning_rate,
            momentum=arguments.momentum,
            train=arguments.train,
        )
    except (NotDifferentiable, InvalidGraphError) as error:
        raise CommandError(str(error)) from error
    if arguments.output is not None:
        write_graph(step.graph, arguments.output)
    if arguments.json:
        print_json(_document(graph, step, arguments.output))
    else:
        _print(graph, step, arguments.output)
    return OK


def _document(graph: Graph, step: TrainingStep, output: str | None) -> dict[str, Any]:
    return {
        "graph": graph.name,
        "loss": step.loss,
        "loss_output": step.output,
        "optimizer": step.optimizer,
        "trained": list(step.trained),
        "constant": list(step.constant),
        "mixed_precision": step.mixed_precision,
        "inputs": list(step.inputs),
        "blocks": {"before": len(graph.blocks), "after": len(step.graph.blocks)},
        "flops": {"before": graph_flops(graph), "after": graph_flops(step.graph)},
        "state_bytes": step.state_bytes,
        "structural_hash": step.graph.structural_hash,
        "output": output,
    }


def _print(graph: Graph, step: TrainingStep, output: str | None) -> None:
    before, after = (quantity(graph_flops(g), "flop") for g in (graph, step.graph))
    print(
        f"{graph.name}: {counted(len(graph.blocks), 'block')}, {len(step.graph.blocks):,} in the training step"
    )
    print(f"loss             {step.loss}")
    print(f"new inputs       {', '.join(step.inputs) or 'none'}")
    copies = "; parameters of few bits are updated in copies of float32" if step.mixed_precision else ""
    print(f"optimizer        {step.optimizer}, {quantity(step.state_bytes, 'B')} of states{copies}")
    print(f"trained          {_listed(step.trained)}")
    if step.constant:
        print(f"left constant    {_listed(step.constant)}: the loss does not depend on them")
    print(f"work             {after}, {before} before")
    if output is not None:
        print(f"\nwritten to {output}")


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{counted(len(names), 'parameter')}: {', '.join(names[:SHOWN])}{more}"
