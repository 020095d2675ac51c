"""Training steps made from programs of inference: loss, gradients, and the next values of parameters."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from tapestry.teg.arguments import NUMBER, TEXT, a_value_of, check_arguments, optional, several
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import is_float
from tapestry.teg.faults import near_hint, no_such
from tapestry.teg.graph import Block, Graph
from tapestry.teg.programs.program import Program
from tapestry.teg.pruning import prune
from tapestry.teg.training.gradients import differentiate
from tapestry.teg.training.losses import Loss, add_loss
from tapestry.teg.training.optimizers import (
    LEARNING_RATES,
    OPTIMIZERS,
    OptimizerSettings,
    Parameter,
    needs_master,
)
from tapestry.teg.training.rule import NotDifferentiable
from tapestry.teg.training.writing import GradientWriter
from tapestry.teg.validate import check


@dataclass(frozen=True)
class TrainingStep:
    """A training step: its graph, the loss in words and the sink of it, the parameters that it trains.

    `constant` are those that it could train and leaves as they are: the loss does not depend on them. `inputs` are the
    sources that the loss adds to those of the program.
    """

    graph: Graph
    loss: str
    output: str
    optimizer: str
    trained: tuple[str, ...]
    constant: tuple[str, ...]
    inputs: tuple[str, ...]
    mixed_precision: bool

    @property
    def state_bytes(self) -> int:
        """The bytes of what the optimizer keeps from step to step, copies of parameters included."""
        types = (self.graph.tensors[b.outputs[0]].type for b in self.graph.sources if b.site in self._states)
        return sum(kind.size_bytes for kind in types)

    @property
    def _states(self) -> set[str]:
        carried = _carried(self.graph)
        return {b.site for b in self.graph.sources if b.site in carried} - set(self.trained)


KINDS = {
    "program": a_value_of((Graph, Program), "a graph or a program of the builder"),
    "loss": optional(TEXT),
    "optimizer": TEXT,
    "learning_rate": optional(NUMBER),
    "momentum": NUMBER,
    "train": several(TEXT, "a name, or a list of names"),
}


def training_step(
    program: Graph | Program,
    *,
    loss: str | None = None,
    optimizer: str = "adam",
    learning_rate: float | None = None,
    momentum: float = 0.0,
    train: str | Sequence[str] = (),
) -> TrainingStep:
    """Build the training step of a program: it computes the loss, and carries the next values of what is trained.

    `loss` is `cross_entropy`, `mse`, `sum` or the name of an output that is a scalar; by default it is what `add_loss`
    says. `optimizer` is `adam` or `sgd`. `train` are names of sources, or patterns with `*`; by default all parameters
    of floats. Parameters of fewer than 32 bits are updated in copies of float32.

    Raises:
        ArgumentError: arguments of another type.
        InvalidGraphError: the graph breaks a rule of the language.
        NotDifferentiable: the program has no such loss or optimizer, nothing to train, or a block without a rule.
    """
    given = {"program": program, "loss": loss, "optimizer": optimizer, "learning_rate": learning_rate}
    check_arguments(KINDS, {**given, "momentum": momentum, "train": train})
    graph = program.graph if isinstance(program, Program) else program
    check(graph)
    if optimizer not in OPTIMIZERS:
        raise NotDifferentiable(f"optimizer: {no_such('optimizer', optimizer, OPTIMIZERS)}")
    rate = LEARNING_RATES[optimizer] if learning_rate is None else learning_rate
    _check_numbers(optimizer, rate, momentum)
    sources = _trained_sources(graph, (train,) if isinstance(train, str) else train)
    shown = {sink.site for sink in graph.sinks if not sink.definition.carries}
    builder = GraphBuilder.of(graph, (block for block in graph.blocks if block.site not in shown))
    writer = GradientWriter(builder)
    made = add_loss(writer, graph, loss)
    gradients = _gradients(builder, writer, made, [b.outputs[0] for b in sources])
    used = [b for b in sources if b.outputs[0] in gradients]
    if not used:
        raise NotDifferentiable(f"the loss ({made.text}) depends on no parameter that is trained")
    settings = OptimizerSettings(rate, momentum)
    parameters = [_parameter(writer, b, gradients[b.outputs[0]]) for b in used]
    values = OPTIMIZERS[optimizer](writer, parameters, settings)
    for block, parameter, value in zip(used, parameters, values, strict=True):
        _carry(writer, block, parameter, value)
    output = builder.free_site("loss")
    builder.sink(made.tensor, site=output)
    step = prune(builder.build())
    if graph.external:
        step = replace(step, external={t: v for t, v in graph.external.items() if t in step.tensors})
    check(step)
    names = tuple(b.site for b in used)
    return TrainingStep(
        step,
        made.text,
        output,
        optimizer,
        names,
        tuple(b.site for b in sources if b.site not in names),
        tuple(b.site for b in step.sources if b.site not in graph.by_site and b.site not in _carried(step)),
        any(p.master != p.tensor for p in parameters),
    )


def _check_numbers(optimizer: str, rate: float, momentum: float) -> None:
    if not 0 < rate < math.inf:
        raise NotDifferentiable(f"learning_rate: expected a number above 0, not {rate}")
    if not 0 <= momentum < 1:
        raise NotDifferentiable(f"momentum: expected a number from 0 to below 1, not {momentum}")
    if momentum and optimizer != "sgd":
        raise NotDifferentiable(f"momentum: {optimizer} has none; use sgd")


def _trained_sources(graph: Graph, patterns: Sequence[str]) -> list[Block]:
    """Return the sources that are trained."""
    floats = [b for b in graph.sources if is_float(graph.tensors[b.outputs[0]].dtype)]
    carried = _carried(graph)
    if not patterns:
        found = [b for b in floats if b.definition["role"] == "parameter" and b.site not in carried]
        if not found:
            raise NotDifferentiable(
                "the program has no parameter of floats to train; name what is trained, as with --train NAME"
            )
        return found
    for pattern in patterns:
        if not any(fnmatchcase(b.site, pattern) for b in floats):
            raise NotDifferentiable(
                f"no source of floats is called {pattern!r}; {near_hint(pattern, [b.site for b in floats])}"
            )
    found = [b for b in floats if any(fnmatchcase(b.site, pattern) for pattern in patterns)]
    taken = [b.site for b in found if b.site in carried]
    if taken:
        raise NotDifferentiable(
            f"{taken[0]!r} is carried state already: the program is a step that updates it"
        )
    return found


def _carried(graph: Graph) -> Collection[str]:
    return {sink.definition["carries"] for sink in graph.sinks if sink.definition.carries}


def _gradients(
    builder: GraphBuilder, writer: GradientWriter, loss: Loss, wanted: Sequence[str]
) -> dict[str, str]:
    writer.site = "loss.grad"
    one = writer.filled(1.0, (), writer.dtype(loss.tensor))
    blocks = list(builder.blocks)
    return differentiate(builder, blocks, {loss.tensor: one}, wanted)


def _parameter(w: GradientWriter, block: Block, gradient: str) -> Parameter:
    (tensor,) = block.outputs
    shape, dtype = w.type_of(tensor)
    if not needs_master(dtype):
        return Parameter(tensor, gradient, tensor)
    site = w.builder.free_site(f"{tensor}.master")
    return Parameter(tensor, gradient, w.builder.source(site, shape, "float32", "optimizer_state"))


def _carry(w: GradientWriter, block: Block, parameter: Parameter, value: str) -> None:
    """Carry the next value of a parameter, and of its copy."""
    builder = w.builder
    if parameter.master != parameter.tensor:
        builder.sink(value, site=builder.free_site(f"{parameter.master}.next"), carries=parameter.master)
        w.site = f"{parameter.tensor}.rounded"
        value = w.cast(value, w.dtype(parameter.tensor))
    builder.sink(value, site=builder.free_site(f"{block.site}.next"), carries=block.site)
