"""Recurrent layers, unrolled: the input's product for all steps at once, then step by step.

Gates are a dimension of their own, so that a split of the hidden state extends through the whole layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Labels, Literal
from tapestry.teg.importers.translate.control import MOST_ITERATIONS
from tapestry.teg.importers.translate.linear import contract
from tapestry.teg.importers.translate.recurrent_functions import ONE, ZERO, Activation, Expr, activations
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation


class _Inputs:
    """The operands of one cell; a call with a value's name returns its place in the expression."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str) -> Expr:
        if name not in self.names:
            self.names.append(name)
        return ("input", self.names.index(name))


@dataclass
class _Way:
    """One direction of a layer while it is unrolled: shapes `(steps, batch, hidden)` and every step's operands."""

    t: Translation
    node: OnnxNode
    name: str
    steps: int
    batch: int
    hidden: int
    dtype: str
    given: str
    """The input's products `(steps, batch, gates, hidden)`, without bias."""
    weights: str
    """Of the state, `(gates, hidden, hidden)`."""
    biases: tuple[str, str] | None
    """Of the input and of the state, `(gates, hidden)` each."""
    peepholes: str | None
    functions: tuple[Activation, ...]
    count: int = 0
    taken: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

    def fresh(self, what: str) -> str:
        """Return a new name for a value of this direction."""
        self.count += 1
        return f"{self.name}.{what}.{self.count}"

    def clipped(self, e: Expr) -> Expr:
        """Return an activation's argument, clipped if the node says so."""
        bound = self.node.get("clip")
        if bound is None:
            return e
        return ("max", ("min", e, ("const", float(bound))), ("const", -float(bound)))

    def picked(self, name: str, what: str, *places: int) -> str:
        """Take the slice at the leading `places` of a value, with these dimensions dropped; -1 takes all of one."""
        if (name, places) not in self.taken:
            self.taken[name, places] = self._picked(name, what, places)
        return self.taken[name, places]

    def _picked(self, name: str, what: str, places: Sequence[int]) -> str:
        shape = self.t.value(name).shape
        full = [*places, *[-1] * (len(shape) - len(places))]
        ranges = [range(n) if p < 0 else range(p, p + 1) for n, p in zip(shape, full, strict=True)]
        part = self.t.slice(f"{self.name}.{what}", name, self.fresh(what), ranges)
        kept = [n for n, p in zip(shape, full, strict=True) if p < 0]
        return self.t.reshape(f"{self.name}.{what}", part, self.fresh(what), kept)

    def cell(self, what: str, inputs: _Inputs, expr: Expr) -> str:
        """Emit an elementwise step `(batch, hidden)`."""
        return self.t.cell(f"{self.name}.{what}", inputs.names, self.fresh(what), expr, self.dtype)

    def state_product(self, state: str, gates: Sequence[int]) -> str:
        """Compute the state's products with the weights of neighboring gates, `(batch, gates, hidden)`."""
        weights = self.t.slice(
            f"{self.name}.weight",
            self.weights,
            self.fresh("weight"),
            [range(gates[0], gates[-1] + 1), range(self.hidden), range(self.hidden)],
        )
        labels = (("b", "k"), ("g", "h", "k"))
        site = f"{self.name}.recurrent"
        return contract(self.t, site, (state, weights), labels, self.fresh("recurrent"), ("b", "g", "h"))

    def gate(
        self, x: _Inputs, step: int, gate: int, product: str | None, place: int, bias: bool = True
    ) -> Expr:
        """Sum the inputs of a gate: products of the input and of the state, and the biases of both."""
        total = x(self.picked(self.given, "input", step, -1, gate))
        if product is not None:
            total = ("add", total, x(self.picked(product, "gate", -1, place)))
        for own in self.biases or () if bias else ():
            total = ("add", total, x(self.picked(own, "bias", gate)))
        return total


State = tuple[str, ...]


def _rnn_step(way: _Way, step: int, state: State) -> State:
    x = _Inputs()
    total = way.gate(x, step, 0, way.state_product(state[0], (0,)), 0)
    return (way.cell("hidden", x, way.functions[0](way.clipped(total))),)


def _gru_step(way: _Way, step: int, state: State) -> State:
    """Compute one GRU step; gates are in ONNX's order: update, reset, hidden."""
    f, g = way.functions
    linear_first = bool(way.node.get("linear_before_reset", 0))
    product = way.state_product(state[0], (0, 1, 2) if linear_first else (0, 1))
    gates = []
    for k, what in enumerate(("update", "reset")):
        x = _Inputs()
        gates.append(way.cell(what, x, f(way.clipped(way.gate(x, step, k, product, k)))))
    x = _Inputs()
    if linear_first:
        inner: Expr = x(way.picked(product, "gate", -1, 2))
        if way.biases is not None:
            inner = ("add", inner, x(way.picked(way.biases[1], "bias", 2)))
        total: Expr = ("add", way.gate(x, step, 2, None, 2, bias=False), ("mul", x(gates[1]), inner))
        if way.biases is not None:
            total = ("add", total, x(way.picked(way.biases[0], "bias", 2)))
    else:
        reset = _Inputs()
        product_expr: Expr = ("mul", reset(gates[1]), reset(state[0]))
        kept = way.cell("kept", reset, product_expr)
        total = way.gate(x, step, 2, way.state_product(kept, (2,)), 0)
    update = x(gates[0])
    mixed = ("add", ("mul", ("sub", ONE, update), g(way.clipped(total))), ("mul", update, x(state[0])))
    return (way.cell("hidden", x, mixed),)


def _lstm_step(way: _Way, step: int, state: State) -> State:
    """Compute one LSTM step; gates in ONNX's order: input, output, forget, cell; peepholes: input, output, forget."""
    f, g, h = way.functions
    hidden, memory = state
    product = way.state_product(hidden, (0, 1, 2, 3))

    def gate(x: _Inputs, k: int, peek: str) -> Expr:
        total = way.gate(x, step, k, product, k)
        if way.peepholes is not None and k < 3:
            total = ("add", total, ("mul", x(way.picked(way.peepholes, "peephole", k)), x(peek)))
        return way.clipped(total)

    x = _Inputs()
    entering = f(gate(x, 0, memory))
    forgetting = ("sub", ONE, entering) if way.node.get("input_forget", 0) else f(gate(x, 2, memory))
    fresh = ("add", ("mul", forgetting, x(memory)), ("mul", entering, g(gate(x, 3, memory))))
    memory = way.cell("cell", x, fresh)
    y = _Inputs()
    leaving = f(gate(y, 1, memory))
    return way.cell("hidden", y, ("mul", leaving, h(y(memory)))), memory


@dataclass(frozen=True)
class _Kind:
    gates: int
    activations: tuple[str, ...]
    states: int
    step: Callable[[_Way, int, State], State]


KINDS = {
    "RNN": _Kind(1, ("Tanh",), 1, _rnn_step),
    "GRU": _Kind(3, ("Sigmoid", "Tanh"), 1, _gru_step),
    "LSTM": _Kind(4, ("Sigmoid", "Tanh", "Tanh"), 2, _lstm_step),
}


def _recurrent(t: Translation, node: OnnxNode) -> None:
    kind, turned = KINDS[node.op], bool(node.get("layout", 0))
    if (steps := t.value(node.inputs[0]).shape[1 if turned else 0]) > MOST_ITERATIONS:
        raise ImportFailure(f"{node.where} runs {steps:,} steps; at most {MOST_ITERATIONS} are unrolled")
    x = _by_step(t, node, node.inputs[0]) if turned else node.inputs[0]
    given = [n if k < len(node.inputs) and (n := node.inputs[k]) else None for k in range(8)]
    ways = t.value(node.inputs[1]).shape[0]
    direction = str(node.get("direction", "forward"))
    if ways != (2 if direction == "bidirectional" else 1):
        raise ImportFailure(f"{node.where} is {direction} but brings the weights of {ways} directions")
    names = node.get("activations") or kind.activations * ways
    functions = list(activations(node, names))
    if len(functions) != len(kind.activations) * ways:
        raise ImportFailure(f"{node.where} has {len(functions)} activations for {ways} directions")
    starts = [_by_step(t, node, n) if n and turned else n for n in (given[5], given[6])]
    outputs, finals = [], []
    for k in range(ways):
        own = functions[k * len(kind.activations) : (k + 1) * len(kind.activations)]
        way = _way(t, node, kind, x, given, tuple(own), k)
        state = tuple(_start(way, starts[j], k) for j in range(kind.states))
        backwards = direction == "reverse" or k == 1
        output, state = _unroll(way, kind, state, given[4], backwards)
        outputs.append(output)
        finals.append(state)
    _finish(t, node, outputs, finals, turned)


def _by_step(t: Translation, node: OnnxNode, name: str) -> str:
    """Permute a value `(batch, a, features)` to `(a, batch, features)`."""
    a, b, c = t.value(name).shape
    labels = ("b", "a", "f")
    return t.relabel(
        f"{node.name}.layout",
        name,
        f"{node.outputs[0] or node.name}.{name}",
        labels,
        ("a", "b", "f"),
        (b, a, c),
    )


def _way(
    t: Translation,
    node: OnnxNode,
    kind: _Kind,
    x: str,
    given: Sequence[str | None],
    functions: tuple[Activation, ...],
    k: int,
) -> _Way:
    """Build one direction: its weights split by gate, and the input's products for all steps."""
    steps, batch, features = t.value(x).shape
    assert given[1] is not None and given[2] is not None
    hidden = t.value(given[2]).shape[-1]
    way = _Way(
        t, node, f"{node.name}.{k}", steps, batch, hidden, t.value(x).dtype, "", "", None, None, functions
    )
    shape = (kind.gates, hidden)

    def shaped(name: str, what: str, wanted: Sequence[int]) -> str:
        return t.reshape(f"{way.name}.{what}", way.picked(name, what, k), way.fresh(what), wanted)

    weights = shaped(given[1], "input_weight", (*shape, features))
    way.weights = shaped(given[2], "state_weight", (*shape, hidden))
    if given[3] is not None:
        both = shaped(given[3], "bias", (2, *shape))
        way.biases = (way.picked(both, "bias", 0), way.picked(both, "bias", 1))
    if given[7] is not None:
        way.peepholes = shaped(given[7], "peephole", (3, hidden))
    labels = (("t", "b", "i"), ("g", "h", "i"))
    way.given = contract(
        t, f"{way.name}.products", (x, weights), labels, way.fresh("products"), ("t", "b", "g", "h")
    )
    return way


def _start(way: _Way, name: str | None, k: int) -> str:
    if name is not None:
        return way.picked(name, "start", k)
    zero = way.fresh("zero")
    way.t.know(zero, Literal(np.zeros((1, 1), numpy_dtype(way.dtype)), (way.batch, way.hidden)))
    return zero


def _unroll(way: _Way, kind: _Kind, state: State, lengths: str | None, backwards: bool) -> tuple[str, State]:
    """Run all steps; return the outputs `(steps, 1, batch, hidden)` in order of time, and the final state.

    Sequences that have ended keep their state and give zero; backwards they have not started yet.
    """
    t = way.t
    known = t.literal(lengths) if lengths else None
    if lengths and known is not None and (known.array == way.steps).all():
        lengths = None
    limits = (
        t.reshape(f"{way.name}.lengths", lengths, way.fresh("lengths"), (way.batch, 1)) if lengths else None
    )
    outputs: dict[int, str] = {}
    for step in range(way.steps)[:: -1 if backwards else 1]:
        made = kind.step(way, step, state)
        output = made[0]
        if limits is not None:
            going: Expr = ("lt", ("const", step), ("input", 0))

            def masked(what: str, new: str, old: str | None, going: Expr = going) -> str:
                x = _Inputs()
                x(limits)
                other = ZERO if old is None else x(old)
                return way.cell(what, x, ("where", going, x(new), other))

            output = masked("output", made[0], None)
            made = tuple(masked("state", new, old) for new, old in zip(made, state, strict=True))
        state = made
        outputs[step] = t.reshape(
            f"{way.name}.output", output, way.fresh("output"), (1, 1, way.batch, way.hidden)
        )
    joined = [outputs[step] for step in range(way.steps)]
    return t.concat(f"{way.name}.outputs", joined, way.fresh("outputs"), 0), state


def _finish(
    t: Translation, node: OnnxNode, outputs: Sequence[str], finals: Sequence[State], turned: bool
) -> None:
    """Emit Y `(steps, directions, batch, hidden)` and the final states `(directions, batch, hidden)`.

    If `turned`, the batch is first.
    """
    for k, name in enumerate(node.outputs):
        if not name:
            continue
        labels: Labels
        target: Labels
        if k == 0:
            labels, target = ("t", "d", "b", "h"), ("b", "t", "d", "h")
            parts = list(outputs)
        else:
            labels, target = ("d", "b", "h"), ("b", "d", "h")
            parts = []
            for state in finals:
                shape = t.value(state[k - 1]).shape
                parts.append(
                    t.reshape(f"{node.name}.final", state[k - 1], f"{state[k - 1]}.final", (1, *shape))
                )
        axis = 1 if k == 0 else 0
        joined = t.concat(node.name, parts, f"{name}.joined" if turned else name, axis)
        if turned:
            sizes = dict(zip(labels, t.value(joined).shape, strict=True))
            t.relabel(f"{node.name}.layout", joined, name, labels, target, [sizes[d] for d in target])


RECURRENT: tuple[OnnxTranslator, ...] = (OnnxTranslator(tuple(KINDS), _recurrent),)
