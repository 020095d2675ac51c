"""Recurrent layers, unrolled: the input's product for all steps at once, then step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.linear import linear
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import call


class Direction(NamedTuple):
    """The weights of one layer in one direction: of the input, of the state, and of its projection."""

    input: Value
    state: Value
    input_bias: Value | None
    state_bias: Value | None
    projection: Value | None


State = tuple[Value, ...]
RecurrentStep = Callable[[Tracer, Value, Value, State], State]


def _directions(
    t: Tracer, params: Sequence[Value], biases: bool, count: int, projected: bool
) -> list[Direction]:
    size = 2 + 2 * biases + projected
    if len(params) != size * count:
        raise t.refuse(f"has {len(params)} weights where {size * count} were expected")
    groups: Iterator[Sequence[Value]] = (params[k * size : (k + 1) * size] for k in range(count))
    return [
        Direction(
            g[0], g[1], g[2] if biases else None, g[3] if biases else None, g[-1] if projected else None
        )
        for g in groups
    ]


def _parts(t: Tracer, value: Value, count: int) -> list[Value]:
    width = value.shape[-1] // count
    axis = len(value.shape) - 1
    return [t.part(value, axis, range(k * width, (k + 1) * width)) for k in range(count)]


def _sigmoid_sum(t: Tracer, a: Value, b: Value) -> Value:
    return t.cells(lambda x, y: call("sigmoid", x + y), a, b, dtype=a.dtype)


def _lstm_step(t: Tracer, given: Value, recurrent: Value, state: State) -> State:
    """Compute one LSTM step; gates are in torch's order: input, forget, cell, output."""
    pairs = list(zip(_parts(t, given, 4), _parts(t, recurrent, 4), strict=True))
    flat = [v for pair in pairs for v in pair]
    memory = t.cells(
        lambda c, ia, ib, fa, fb, ga, gb: (
            call("sigmoid", fa + fb) * c + call("sigmoid", ia + ib) * call("tanh", ga + gb)
        ),
        state[1],
        *flat[:6],
        dtype=given.dtype,
    )
    hidden = t.cells(
        lambda c, a, b: call("sigmoid", a + b) * call("tanh", c), memory, *flat[6:], dtype=given.dtype
    )
    return hidden, memory


def _gru_step(t: Tracer, given: Value, recurrent: Value, state: State) -> State:
    """Compute one GRU step; gates are in torch's order: reset, update, new."""
    (ra, za, na), (rb, zb, nb) = _parts(t, given, 3), _parts(t, recurrent, 3)
    reset, update = _sigmoid_sum(t, ra, rb), _sigmoid_sum(t, za, zb)
    fresh = t.cells(lambda a, r, b: call("tanh", a + r * b), na, reset, nb, dtype=given.dtype)
    return (t.cells(lambda n, z, h: (1 - z) * n + z * h, fresh, update, state[0], dtype=given.dtype),)


def _plain_step(function: str) -> RecurrentStep:
    def step(t: Tracer, given: Value, recurrent: Value, state: State) -> State:
        return (t.cells(lambda a, b: call(function, a + b), given, recurrent, dtype=given.dtype),)

    return step


def _run(
    t: Tracer, x: Value, weights: Direction, state: State, step: RecurrentStep, backwards: bool
) -> tuple[Value, State]:
    """Run all steps of one direction over `x` (time, batch, features); return the outputs and the final state."""
    products = linear(t, x, weights.input, weights.input_bias)
    order = range(x.shape[0])[::-1] if backwards else range(x.shape[0])
    outputs: dict[int, Value] = {}
    for k in order:
        given = t.squeeze(t.part(products, 0, range(k, k + 1)), 0)
        recurrent = linear(t, state[0], weights.state, weights.state_bias)
        state = step(t, given, recurrent, state)
        if weights.projection is not None:
            state = (linear(t, state[0], weights.projection), *state[1:])
        outputs[k] = t.unsqueeze(state[0], 0)
    return t.concat([outputs[k] for k in range(x.shape[0])], 0), state


def _layers(
    t: Tracer,
    input: Value,
    hx: Sequence[Value],
    directions: Sequence[Direction],
    step: RecurrentStep,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Value, ...]:
    """Run all layers; return the last layer's outputs, and the final states of all layers and directions."""
    alone = len(input.shape) == 2
    x = t.unsqueeze(input, 1) if alone else t.permute(input, [1, 0, 2]) if batch_first else input
    starts = [t.unsqueeze(h, 1) if alone else h for h in hx]
    ways = 2 if bidirectional else 1
    finals: list[list[Value]] = [[] for _ in starts]
    for layer in range(len(directions) // ways):
        outputs = []
        for way in range(ways):
            place = layer * ways + way
            state = tuple(t.squeeze(t.part(h, 0, range(place, place + 1)), 0) for h in starts)
            output, state = _run(t, x, directions[place], state, step, backwards=way == 1)
            outputs.append(output)
            for kept, final in zip(finals, state, strict=True):
                kept.append(t.unsqueeze(final, 0))
        x = t.concat(outputs, 2)
    states = [t.concat(kept, 0) for kept in finals]
    if alone:
        return (t.squeeze(x, 1), *(t.squeeze(s, 1) for s in states))
    return (t.permute(x, [1, 0, 2]) if batch_first else x, *states)


def _lstm(
    t: Tracer,
    input: Value,
    hx: Sequence[Value],
    params: Sequence[Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Value, ...]:
    _check_dropout(t, dropout, train, num_layers)
    projected = hx[0].shape[-1] != hx[1].shape[-1]
    count = num_layers * (2 if bidirectional else 1)
    directions = _directions(t, params, has_biases, count, projected)
    return _layers(t, input, hx, directions, _lstm_step, bidirectional, batch_first)


def _single_state(step: RecurrentStep) -> Callable[..., tuple[Value, ...]]:
    def layer(
        t: Tracer,
        input: Value,
        hx: Value,
        params: Sequence[Value],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Value, ...]:
        """Translate a layer whose only state is its output."""
        _check_dropout(t, dropout, train, num_layers)
        count = num_layers * (2 if bidirectional else 1)
        directions = _directions(t, params, has_biases, count, projected=False)
        return _layers(t, input, [hx], directions, step, bidirectional, batch_first)

    return layer


def _check_dropout(t: Tracer, dropout: float, train: bool, layers: int) -> None:
    if dropout and train and layers > 1:
        raise t.refuse("draws random numbers (dropout); export the program in evaluation mode")


def _lstm_cell(
    t: Tracer,
    input: Value,
    hx: Sequence[Value],
    w_ih: Value,
    w_hh: Value,
    b_ih: Value | None = None,
    b_hh: Value | None = None,
) -> State:
    given, recurrent = linear(t, input, w_ih, b_ih), linear(t, hx[0], w_hh, b_hh)
    return _lstm_step(t, given, recurrent, tuple(hx))


def _cell(step: RecurrentStep) -> Callable[..., Value]:
    def cell(
        t: Tracer,
        input: Value,
        hx: Value,
        w_ih: Value,
        w_hh: Value,
        b_ih: Value | None = None,
        b_hh: Value | None = None,
    ) -> Value:
        """Translate one step of a layer."""
        return step(t, linear(t, input, w_ih, b_ih), linear(t, hx, w_hh, b_hh), (hx,))[0]

    return cell


RECURRENT: tuple[TorchOperator, ...] = (
    TorchOperator(aten("lstm.input"), _lstm),
    TorchOperator(aten("gru.input"), _single_state(_gru_step)),
    TorchOperator(aten("rnn_tanh.input"), _single_state(_plain_step("tanh"))),
    TorchOperator(aten("rnn_relu.input"), _single_state(_plain_step("relu"))),
    TorchOperator(aten("lstm_cell"), _lstm_cell),
    TorchOperator(aten("gru_cell"), _cell(_gru_step)),
    TorchOperator(aten("rnn_tanh_cell"), _cell(_plain_step("tanh"))),
    TorchOperator(aten("rnn_relu_cell"), _cell(_plain_step("relu"))),
)
