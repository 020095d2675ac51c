"""The compilation of modules by XLA, and what each of its passes does to collectives.

Collectives are read from the HLO that XLA writes after a pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tapestry.examples.compiler_client.hlo_collectives import CompiledCollective, collectives
from tests.teg.exporters import jax_process
from tests.teg.exporters.loading import load_module

DUMP = re.compile(r"\.(\d{4})\.([^.]+)\.after_(.+?)(?:\.before_[^.]+)?\.txt$")
# The SPMD partitioner's own clean-up: the module before it is nobody's answer.
WITHIN = "spmd-cleanup"


def compile_stablehlo(text: str, dumps: Path | None = None) -> str:
    """Compile a StableHLO module with Shardy attributes; return the compiled HLO.

    `dumps` is the folder for the HLO after each pass that changes it.
    """
    import jax
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir

    devices = tuple(jax.devices())
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    for target in (options, build):
        target.num_replicas, target.num_partitions = 1, len(devices)
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    build.device_assignment = xla_client.DeviceAssignment.create(np.arange(len(devices)).reshape(1, -1))
    if dumps is not None:
        build.debug_options.xla_dump_to = str(dumps)
        build.debug_options.xla_dump_hlo_pass_re = ".*"
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        made = devices[0].client.compile_and_load(module, xla_client.DeviceList(devices), options)
    return str(made.hlo_modules()[0].to_string())


def compile_program(path: Path, dumps: Path, without: str = "") -> tuple[dict[str, int], str]:
    """Compile an exported program without values; return what its StableHLO moves by kind, and its compiled HLO.

    `without` is a pass that XLA is to leave out.
    """
    import jax

    module = load_module(path)
    rows, sources = module.rows(), {}
    for name, (dtype, spec, *_) in (module.SOURCES | module.CONSTANTS).items():
        shape = (module.COUNT, *module.room(spec))
        sources[name] = jax.ShapeDtypeStruct(shape, jax.numpy.dtype(dtype), sharding=rows)
    lowered = module.program().lower(sources)
    options = {"xla_dump_to": str(dumps), "xla_dump_hlo_pass_re": ".*"}
    compiled = lowered.compile(options | ({"xla_disable_hlo_passes": without} if without else {}))
    return jax_process.received_bytes(lowered.compiler_ir("stablehlo")), str(compiled.as_text())


class Kind(NamedTuple):
    """A collective as it is compared, wherever in the program it stands."""

    kind: str
    dtype: str
    received_bytes: int
    operands: int
    group: int


@dataclass(frozen=True)
class Change:
    """The changes of a pass to the collectives of a module: those that are gone, and those that came."""

    name: str
    removed: Counter[Kind]
    added: Counter[Kind]

    @property
    def saved_bytes(self) -> int:
        """The bytes that are received no more."""
        return received_bytes(self.removed) - received_bytes(self.added)


def received_bytes(kinds: Counter[Kind]) -> int:
    """Count the bytes that collectives receive."""
    return sum(kind.received_bytes * count for kind, count in kinds.items())


def kinds_of(text: str) -> Counter[Kind]:
    """Return the collectives of a module that receive anything."""
    return Counter(_kind(own) for own in collectives(text) if own.received_bytes)


def _kind(own: CompiledCollective) -> Kind:
    return Kind(own.kind, own.dtype, own.received_bytes, own.operands, own.group)


def dumps_of(folder: Path) -> list[tuple[str, str]]:
    """Return the names of the passes that changed a module, in order, each with the HLO after it."""
    files = [(m, path) for path in folder.iterdir() if (m := DUMP.search(path.name))]
    found = [(int(m[1]), m[3], path) for m, path in files if m[2] != WITHIN]
    return [(name, path.read_text()) for _, name, path in sorted(found)]


def changes(dumps: list[tuple[str, str]]) -> Iterator[Change]:
    """Yield what passes did to the collectives of a module, from its first dump on."""
    counts = [(name, kinds_of(text)) for name, text in dumps]
    for (_, before), (name, after) in pairwise(counts):
        if before != after:
            yield Change(name, before - after, after - before)
