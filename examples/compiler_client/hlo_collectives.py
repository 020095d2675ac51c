"""The collectives of a compiled HLO module: of each one its kind, and the bytes that devices receive in it.

    compiled = jax.jit(step, in_shardings=...).lower(x).compile()
    pathlib.Path("step.hlo").write_text(compiled.as_text())
    python -m tapestry.examples.compiler_client.hlo_collectives step.hlo

The text is all that is read: what `compiled.as_text()` gives, or a file of `--xla_dump_hlo_as_text` after any pass.
A collective in a loop counts as often as the loop runs.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
UNKNOWN = ("collective-broadcast", "ragged-all-to-all", "send", "recv")

COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.+?) ([a-z][\w\-]*)\((.*)$")
ARRAY = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]")
NAME = re.compile(r"%([\w.\-]+)")
# Attributes that name other computations which the instruction runs once.
CALLED = re.compile(
    r"\b(?:to_apply|calls|branch_computations|true_computation|false_computation)=(\{[^}]*\}|%?[\w.\-]+)"
)
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


@dataclass(frozen=True)
class CompiledCollective:
    """A collective as often as it runs: the bytes that all devices together receive, of elements of `dtype`.

    `operands` counts the arrays that it carries: XLA joins collectives of several arrays. `group` is the number of
    devices of a group, and `op_name` what the program calls the operation that it comes from.
    """

    kind: str
    dtype: str
    received_bytes: int
    times: int
    operands: int
    group: int
    op_name: str


@dataclass(frozen=True)
class Instruction:
    """One line of a computation; `rest` is what follows the operands."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    rest: str


@dataclass
class HloModule:
    """A parsed module: the instructions of each computation, and how many devices run it."""

    devices: int
    entry: str = ""
    computations: dict[str, dict[str, Instruction]] = field(default_factory=dict)


def collectives(text: str) -> list[CompiledCollective]:
    """List the collectives that a module runs.

    Raises:
        ValueError: a loop of unknown length holds one, or it is of a kind that is not counted here.
    """
    module = parsed(text)
    return list(_of(module, module.entry, 1))


def received(text: str) -> Counter[str]:
    """Count the bytes that all devices receive, by kind of collective."""
    found: Counter[str] = Counter()
    for own in collectives(text):
        found[own.kind] += own.received_bytes
    return +found


def parsed(text: str) -> HloModule:
    """Split the text of a module into computations and instructions."""
    head = text[: text.find("\n")]
    sizes = [int(n) for n in re.findall(r"\b(?:num_partitions|replica_count)=(\d+)", head)]
    module = HloModule(prod(sizes))
    own: dict[str, Instruction] = {}
    for line in text.splitlines():
        if (opened := COMPUTATION.match(line)) is not None:
            own = module.computations[opened[2]] = {}
            module.entry = opened[2] if opened[1] else module.entry
        elif (found := INSTRUCTION.match(line)) is not None:
            operands, rest = _operands(found[4])
            own[found[1]] = Instruction(found[1], found[2], found[3], tuple(NAME.findall(operands)), rest)
    return module


def _operands(text: str) -> tuple[str, str]:
    """Split what follows the parenthesis of an operation at the one that closes it."""
    depth = 1
    for k, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return text[:k], text[k + 1 :]
    raise ValueError(f"this line has no end: {text[:80]}")


def _of(module: HloModule, computation: str, times: int) -> Iterator[CompiledCollective]:
    own = module.computations[computation]
    for instruction in own.values():
        kind = instruction.opcode.removesuffix("-start")
        if kind in KINDS:
            yield _collective(module, own, instruction, kind, times)
        elif kind in UNKNOWN:
            raise ValueError(f"{instruction.name} is a {kind}, which is not counted here")
        elif instruction.opcode == "while":
            yield from _of_loop(module, instruction, times)
        elif instruction.opcode not in ("async-update", "async-done"):
            for names in CALLED.findall(instruction.rest):
                for name in re.findall(r"[\w.\-]+", names):
                    yield from _of(module, name, times)


def _of_loop(module: HloModule, loop: Instruction, times: int) -> Iterator[CompiledCollective]:
    (body,) = re.findall(r"\bbody=%?([\w.\-]+)", loop.rest)
    known = TRIPS.search(loop.rest)
    inside = list(_of(module, body, times * (int(known[1]) if known else 1)))
    if inside and known is None:
        raise ValueError(f"{loop.name} holds {inside[0].kind} and does not say how often it runs")
    yield from inside


def _collective(
    module: HloModule, own: Mapping[str, Instruction], instruction: Instruction, kind: str, times: int
) -> CompiledCollective:
    arrays = [array for name in instruction.operands for array in ARRAY.findall(own[name].type)]
    given = sum(array_bytes(dtype, shape) for dtype, shape in arrays)
    count, members = _groups(instruction.rest, module.devices)
    if kind == "collective-permute":
        pairs = re.findall(
            r"\{(\d+),(\d+)\}", instruction.rest.partition("source_target_pairs=")[2].partition("}}")[0] + "}"
        )
        bytes_ = given * sum(source != target for source, target in pairs)
    else:
        bytes_ = {
            "all-reduce": 2 * count * (members - 1) * given,
            "all-gather": count * members * (members - 1) * given,
            "reduce-scatter": count * (members - 1) * given,
            "all-to-all": count * (members - 1) * given,
        }[kind]
    op_name = re.search(r'op_name="([^"]*)"', instruction.rest)
    dtypes = "+".join(sorted({dtype for dtype, _ in arrays}))
    return CompiledCollective(
        kind, dtypes, times * bytes_, times, len(arrays), members, op_name[1] if op_name else ""
    )


def array_bytes(dtype: str, shape: str) -> int:
    """Compute the bytes of an array such as `f32`, `8,16`."""
    digits = re.match(r"\D+(\d+)", dtype)
    bits = 8 if dtype == "pred" else int(digits[1]) if digits else 0
    return -(-prod(int(n) for n in shape.split(",") if n) * bits // 8)


def _groups(rest: str, devices: int) -> tuple[int, int]:
    """Return how many groups of devices take part, and how many devices are in each.

    Groups are written as lists, as a grid that counts through the devices, or as axes of a mesh.
    """
    if grid := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", rest):
        return int(grid[1]), int(grid[2])
    if mesh := re.search(r"replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}", rest):
        sizes = {name: int(size) for name, size in re.findall(r"'([^']*)'=(\d+)", mesh[1])}
        axes = re.findall(r"'([^']*)'(?::\(\d+\)(\d+))?", mesh[2])
        members = prod(int(part) if part else sizes[axis] for axis, part in axes)
        return prod(sizes.values()) // members, members
    listed = re.search(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}", rest)
    if listed is None and "replica_groups=" in rest:
        raise ValueError(f"these groups of devices are written in a way that is not known: {rest[:200]}")
    groups = re.findall(r"\{([\d,]*)\}", listed[1]) if listed else []
    if len({len(group.split(",")) for group in groups}) > 1:
        raise ValueError(f"groups of devices differ in size: {rest[:200]}")
    return (len(groups), len(groups[0].split(","))) if groups else (1, devices)


def main() -> int:
    for path in sys.argv[1:]:
        for own in sorted(collectives(Path(path).read_text()), key=lambda c: -c.received_bytes):
            times = f"{own.times} x " if own.times > 1 else ""
            print(
                f"{own.received_bytes:>16,} B  {times}{own.kind} of {own.dtype} among {own.group}  {own.op_name}"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
