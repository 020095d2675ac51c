"""Control flow of ONNX that is known at import: branches are selected, loops and scans are unrolled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.literals import literal
from tapestry.teg.importers.onnx_names import reads_of
from tapestry.teg.importers.onnx_reader import OnnxNode, nodes_of
from tapestry.teg.importers.onnx_tensors import to_array
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation, normal_axis

# Longer loops, and programs whose bodies come to more nodes than this when they are unrolled, are refused.
MOST_ITERATIONS = 4096
MOST_NODES = 16_384


def run_body(
    t: Translation,
    node: OnnxNode,
    body: Any,
    given: Mapping[str, str],
    prefix: str,
    stored: str | None = None,
) -> list[str]:
    """Translate the nodes of a body, within the limit of nodes; return the names of its outputs.

    `given` maps the body's inputs to the values outside. The values that the body holds are named with `stored`, by
    default with `prefix`.

    Raises:
        ImportFailure: a node of the body is refused, or the program grows too long.
    """
    t.unrolled_nodes += len(body.node)
    if t.unrolled_nodes > MOST_NODES:
        raise ImportFailure(f"{node.where}: the bodies of loops unroll to more than {MOST_NODES} nodes")
    return inline(t, body, given, prefix, stored)


def inline(
    t: Translation, body: Any, given: Mapping[str, str], prefix: str, stored: str | None = None
) -> list[str]:
    """Translate the nodes of a body; return the names of its outputs. The arguments are those of `run_body`.

    Raises:
        ImportFailure: a node of the body is refused.
    """
    values = _values_of(body)
    nodes = [n for n in body.node if not (len(n.output) == 1 and n.output[0] in values)]
    names = {**given, **{name: f"{stored or prefix}/{name}" for name in values}}
    names.update((o, f"{prefix}/{o}") for n in nodes for o in n.output if o)
    for name, tensor in values.items():
        if names[name] not in t.known:
            t.know(names[name], literal(to_array(tensor, f"initializer {names[name]!r}", None)))
    copy = onnx.GraphProto(node=nodes, output=body.output)
    _rename(copy, names)
    return _translated(t, copy, prefix)


def _values_of(body: Any) -> dict[str, Any]:
    """Return the tensors that a body holds, by name: its initializers and constants."""
    constants = (n for n in body.node if n.op_type == "Constant" and n.domain in ("", "ai.onnx"))
    held = {n.output[0]: a.t for n in constants for a in n.attribute if a.name == "value" and a.HasField("t")}
    return held | {tensor.name: tensor for tensor in body.initializer}


def _translated(t: Translation, copy: Any, prefix: str) -> list[str]:
    """Translate the nodes of a body that has the names of the program; return the names of its outputs."""
    nodes = nodes_of(copy, prefix, t.versions)
    read = {o.name for o in copy.output}.union(*(reads_of(inner.proto) for inner in nodes))
    for inner in nodes:
        t.translate_node(inner, read)
    return [o.name for o in copy.output]


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    """Rename values, also in nested bodies where these do not define them themselves."""
    for node in graph.node:
        for k, name in enumerate(node.input):
            node.input[k] = names.get(name, name)
        for k, name in enumerate(node.output):
            node.output[k] = names.get(name, name)
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                own = {i.name for i in (*inner.input, *inner.initializer)}
                own.update(o for n in inner.node for o in n.output)
                _rename(inner, {k: v for k, v in names.items() if k not in own})
    for value in (*graph.initializer, *graph.output):
        value.name = names.get(value.name, value.name)


def _if(t: Translation, node: OnnxNode) -> None:
    """Translate the branch of a known condition, else both, selecting between values of equal shapes."""
    known = t.literal(node.inputs[0])
    if known is not None:
        chosen = "then_branch" if bool(known.full.reshape(-1)[0]) else "else_branch"
        for output, made in zip(
            node.outputs, run_body(t, node, node.get(chosen), {}, node.name), strict=True
        ):
            if output:
                t.alias(output, made)
        return
    yes, no = (
        run_body(t, node, node.get(branch), {}, f"{node.name}/{branch}")
        for branch in ("then_branch", "else_branch")
    )
    for output, a, b in zip(node.outputs, yes, no, strict=True):
        if not output:
            continue
        one, other = t.value(a), t.value(b)
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            raise ImportFailure(
                f"{node.where}: its branches give {list(one.shape)} of {one.dtype} and "
                f"{list(other.shape)} of {other.dtype}, and which is taken depends on the data"
            )
        condition = t.reshape(f"{node.name}.condition", node.inputs[0], f"{output}.condition", ())
        expr = ("where", ("input", 0), ("input", 1), ("input", 2))
        t.cell(node.name, (condition, a, b), output, expr, one.dtype)


def _loop(t: Translation, node: OnnxNode) -> None:
    """Unroll a loop with a known number of iterations; it may end earlier by a condition that is known each time."""
    body, carried = node.get("body"), [t.resolve(n) for n in node.inputs[2:]]
    trips, running = t.constant(node, 0, "trip count"), t.constant(node, 1, "condition")
    count = None if trips is None else int(trips.reshape(-1)[0])
    goes_on = running is None or bool(running.reshape(-1)[0])
    if count is not None and count > MOST_ITERATIONS:
        raise ImportFailure(f"{node.where} runs {count} times; at most {MOST_ITERATIONS} are unrolled")
    inputs = [i.name for i in body.input]
    rows: list[list[str]] = [[] for _ in body.output[1 + len(carried) :]]
    k, stored = 0, _stored(node)
    while goes_on and (count is None or k < count):
        prefix = f"{node.name}/{k}"
        number = t.add_literal(f"{prefix}/{inputs[0]}", np.asarray(k, np.int64))
        always = t.add_literal(f"{prefix}/{inputs[1]}", np.asarray(True))
        given = dict(zip(inputs, (number, always, *carried), strict=True))
        made = run_body(t, node, body, given, prefix, stored)
        condition = t.literal(made[0])
        if condition is None or k >= MOST_ITERATIONS:
            reason = (
                "depends on the data" if condition is None else f"comes after {MOST_ITERATIONS} iterations"
            )
            raise ImportFailure(f"{node.where} is supported only where its end is known; it {reason}")
        goes_on = bool(condition.full.reshape(-1)[0])
        carried = [t.resolve(name) for name in made[1 : 1 + len(carried)]]
        for row, name in zip(rows, made[1 + len(carried) :], strict=True):
            row.append(name)
        k += 1
    _finish(t, node, carried, rows, [0] * len(rows))


def _scan(t: Translation, node: OnnxNode) -> None:
    """Unroll a scan: one iteration for each slice of the scanned inputs."""
    if t.opset < 9:
        raise ImportFailure(f"{node.where} is supported from opset 9 on, where it has no batch of its own")
    body, scanned = node.get("body"), int(node.attributes["num_scan_inputs"])
    states = len(node.inputs) - scanned
    carried, lines = [t.resolve(n) for n in node.inputs[:states]], node.inputs[states:]
    axes = node.get("scan_input_axes") or (0,) * scanned
    axes = [normal_axis(node, int(a), len(t.value(n).shape)) for a, n in zip(axes, lines, strict=True)]
    backward = node.get("scan_input_directions") or (0,) * scanned
    count = t.value(lines[0]).shape[axes[0]]
    if count > MOST_ITERATIONS:
        raise ImportFailure(f"{node.where} runs {count} times; at most {MOST_ITERATIONS} are unrolled")
    inputs = [i.name for i in body.input]
    rows: list[list[str]] = [[] for _ in body.output[states:]]
    for k in range(count):
        prefix = f"{node.name}/{k}"
        parts = [
            _slice(t, prefix, n, f"{prefix}/{i}", axis, count - 1 - k if b else k)
            for n, i, axis, b in zip(lines, inputs[states:], axes, backward, strict=True)
        ]
        given = dict(zip(inputs, (*carried, *parts), strict=True))
        made = run_body(t, node, body, given, prefix, _stored(node))
        carried = [t.resolve(name) for name in made[:states]]
        for row, name in zip(rows, made[states:], strict=True):
            row.append(name)
    directions = node.get("scan_output_directions") or (0,) * len(rows)
    rows = [row[::-1] if b else row for row, b in zip(rows, directions, strict=True)]
    _finish(t, node, carried, rows, node.get("scan_output_axes") or [0] * len(rows))


def _stored(node: OnnxNode) -> str:
    """Return the prefix of the values that the body of a loop holds: all its iterations have the same."""
    return f"{next(filter(None, node.outputs), node.name)}/body"


def _slice(t: Translation, site: str, name: str, output: str, axis: int, position: int) -> str:
    """Take one slice along `axis`, which is removed."""
    shape = t.value(name).shape
    ranges = [range(position, position + 1) if k == axis else range(s) for k, s in enumerate(shape)]
    part = t.slice(f"{site}.slice", name, f"{output}.slice", ranges)
    return t.reshape(f"{site}.slice", part, output, (*shape[:axis], *shape[axis + 1 :]))


def _finish(
    t: Translation, node: OnnxNode, carried: Sequence[str], rows: Sequence[Sequence[str]], axes: Sequence[int]
) -> None:
    """Name the last values of the carried state, and concatenate the values of each iteration."""
    for output, name in zip(node.outputs, carried, strict=False):
        if output:
            t.alias(output, name)
    for output, row, axis in zip(node.outputs[len(carried) :], rows, axes, strict=False):
        if not output:
            continue
        if not row:
            raise ImportFailure(f"{node.where} never runs, so that the shape of {output!r} is unknown")
        shape = t.value(row[0]).shape
        place = normal_axis(node, int(axis), len(shape) + 1)
        wide = (*shape[:place], 1, *shape[place:])
        parts = [t.reshape(f"{node.name}.row", name, f"{output}.{k}", wide) for k, name in enumerate(row)]
        t.concat(node.name, parts, output, place)


CONTROL: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("If",), _if),
    OnnxTranslator(("Loop",), _loop),
    OnnxTranslator(("Scan",), _scan),
)
