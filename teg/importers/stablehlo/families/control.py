"""Calls, loops, conditions, and operations that only annotate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter
from tapestry.teg.importers.stablehlo.families.lapack import LAPACK, LAPACK_CALLS
from tapestry.teg.importers.stablehlo.module import Operation
from tapestry.teg.importers.stablehlo.unrolling import HloTranslator, RegionTranslator, Runner, decided

# Annotations: the value is what they are applied to.
TRANSPARENT_CALLS = frozenset(
    (
        "Sharding",
        "annotate_device_placement",
        "LayoutConstraint",
        "MoveToHost",
        "MoveToDevice",
        "xla.sdy.FuncResultSharding",
    )
)
SPLITTING = ("SPMDFullToShardShape", "SPMDShardToFullShape")
# Custom calls that are operations of the dialect chlo by another name.
RENAMED_CALLS = {
    "mhlo.topk": "chlo.top_k",
    **{
        f"mhlo.{name}": f"chlo.{name}"
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "erf_inv", "sinh", "tan"),
        )
    },
}
REASONS = {
    "stablehlo.custom_call": "calls code that the module does not hold",
    "stablehlo.rng_bit_generator": "draws bits that each compiler makes its own way; use keys of threefry2x32",
    "stablehlo.rng": "draws numbers that are different at every run; use keys (jax.random)",
}
COLLECTIVES = ("collective_broadcast", "cross-replica-sum", "replica_id")
DYNAMIC = (
    *("dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota", "dynamic_pad"),
    *("dynamic_reshape", "real_dynamic_slice", "set_dimension_size"),
)
OUTSIDE = ("infeed", "outfeed", "send", "recv")


def _call(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    return runner.call(operation.get("callee"), operands)


def _composite(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    return runner.call(operation.get("decomposition"), operands)


def _while(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    """Unroll a loop trip by trip, while the condition is known and holds."""
    condition, body = operation.regions
    values, trips = list(operands), 0
    while True:
        (found,) = runner.inner(condition, values)
        if not decided(runner.emitter, found, "number of trips").all():
            return values
        trips += 1
        runner.count(body, trips)
        values = runner.inner(body, values)


def _case(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    """Translate a conditional: a known branch is taken; otherwise all are computed and the results selected."""
    e = runner.emitter
    known = e.known(operands[0])
    branches = operation.regions
    last = len(branches) - 1
    truth = operation.name == "stablehlo.if"
    if known is not None:
        index = (0 if known.all() else 1) if truth else int(known.reshape(-1)[0])
        return runner.inner(branches[index if 0 <= index <= last else last], ())
    results = [runner.inner(branch, ()) for branch in branches]
    if truth:
        return [_chosen(e, ("input", 0), operands[0], a, b) for a, b in zip(*results, strict=True)]
    chosen = results[last]
    for k in range(last):
        chosen = [
            _chosen(e, ("eq", ("input", 0), ("const", k)), operands[0], a, b)
            for a, b in zip(results[k], chosen, strict=True)
        ]
    return chosen


def _chosen(e: Emitter, condition: tuple[object, ...], index: Value, a: Value, b: Value) -> Value:
    if a.dtype == "token":
        return a
    return e.cell(("where", condition, ("input", 1), ("input", 2)), index, a, b, dtype=a.dtype)


def _map(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    return runner.elementwise(operation.regions[0], operands)


def _same(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    return operands


def _custom_call(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    target = str(operation.get("call_target_name"))
    if target in TRANSPARENT_CALLS and len(operands) == len(operation.results):
        return operands
    if target in RENAMED_CALLS:
        given = operation.get("mhlo.attributes") or {}
        named = replace(operation, name=RENAMED_CALLS[target], attributes={**operation.attributes, **given})
        translator = runner.translators[named.name]
        assert isinstance(translator, HloTranslator)
        results = translator.translate(runner.emitter, named, operands)
        return [results] if isinstance(results, Value) else results
    if target in SPLITTING:
        raise runner.emitter.refuse(
            f"to {target!r} splits a program by hand (shard_map) for GSPMD; lower it with Shardy, or import it without"
        )
    if (found := LAPACK.fullmatch(target)) is not None:
        return LAPACK_CALLS[found.group(1)](runner.emitter, operation, operands)
    raise runner.emitter.refuse(f"to {target!r} is unsupported: it {REASONS['stablehlo.custom_call']}")


def _tuple(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return e.bundle(operands)


def _element(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return e.bundles[operands[0].name][int(operation.get("index"))]


def _token(e: Emitter, operation: Operation, _: Sequence[Value]) -> Value:
    return Value(e.fresh(), (), "token")


def _refused(e: Emitter, operation: Operation, _: Sequence[Value]) -> Value:
    if operation.short in COLLECTIVES:
        raise e.refuse(
            "is unsupported in programs that are split over devices; import it before partitioning"
        )
    if operation.short in DYNAMIC:
        raise e.refuse("makes a shape that is known only at run time; only static shapes are supported")
    if operation.short in OUTSIDE:
        raise e.refuse("talks to the host, which a graph cannot")
    raise e.refuse(REASONS[operation.name])


CONTROL: tuple[HloTranslator | RegionTranslator, ...] = (
    RegionTranslator(("func.call",), _call),
    RegionTranslator(("stablehlo.composite",), _composite),
    RegionTranslator(("stablehlo.while",), _while),
    RegionTranslator(("stablehlo.case", "stablehlo.if"), _case),
    RegionTranslator(("stablehlo.map",), _map),
    RegionTranslator(("stablehlo.custom_call",), _custom_call),
    HloTranslator(("stablehlo.optimization_barrier", "sdy.sharding_constraint", "sdy.reshard"), _same),
    HloTranslator(("stablehlo.tuple",), _tuple),
    HloTranslator(("stablehlo.get_tuple_element",), _element),
    HloTranslator(("stablehlo.after_all", "stablehlo.create_token"), _token),
    HloTranslator(
        tuple(f"stablehlo.{n}" for n in (*COLLECTIVES, *DYNAMIC, *OUTSIDE, "rng", "rng_bit_generator")),
        _refused,
    ),
)
