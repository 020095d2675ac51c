"""A process with eight virtual JAX devices that runs exported modules, and counts what their collectives move.

Counts are taken from the lowered StableHLO, by operation. This module imports nothing of the project: what the process
runs is the exported text alone. Values do not depend on how much XLA optimizes, so it does not.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import traceback
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from tests.teg.exporters.loading import load_module

DEVICES = 8
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
T = TypeVar("T")


class Failed(Exception):
    """An error in the process, or a message with which the program refused its input."""


class JaxProcess:
    """The process; `run` hands it a module, and `do` any function."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start the process."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()

    def run(self, module: Path, inputs: Path, outputs: Path, steps: int = 1) -> Counter[str]:
        """Run an exported module on a file; return the bytes that devices receive in a step, by kind."""
        return self.do(_run, module, inputs, outputs, steps)

    def drive(self, module: Path, inputs: Path, outputs: Path, steps: int = 1) -> int:
        """Run an exported module with stages on a file; return the bytes that the process hands over."""
        return self.do(_drive, module, inputs, outputs, steps)

    def lower(self, module: Path, lowered: Path) -> None:
        """Let an exported module write what its step lowers to."""
        self.do(_lower, module, lowered)

    def execute(self, module: Path, lowered: Path, inputs: Path, outputs: Path) -> None:
        """Let XLA run a lowered step, perhaps changed, on a file for the exported module; write rows of devices."""
        self.do(_execute, module, lowered, inputs, outputs)

    def do(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the process; return its result."""
        self.pipe.send((function, arguments))
        if not self.pipe.poll(600):
            self.process.kill()
            self.start()
            raise Failed("the process hangs")
        result, failure = self.pipe.recv()
        if failure:
            raise Failed(failure)
        return cast("T", result)

    def close(self) -> None:
        self.pipe.send(None)
        self.process.join(10)
        self.process.kill()


def _serve(pipe: Any) -> None:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    jax.config.update("jax_enable_x64", True)
    while (task := pipe.recv()) is not None:
        try:
            function, arguments = task
            pipe.send((function(*arguments), ""))
        except BaseException:
            pipe.send((None, traceback.format_exc()))


def _lower(path: Path, lowered: Path) -> None:
    module = load_module(path)
    module.lower(str(lowered))


def _execute(path: Path, lowered: Path, inputs: Path, outputs: Path) -> None:
    import jax
    from jax._src.lib import _jax, xla_client

    module, text = load_module(path), lowered.read_text()
    given = {"inputs": str(inputs), "weights": "", "outputs": str(outputs)}
    mesh, (rows, _) = module.rows().mesh, module.load(Namespace(**given, steps=1))
    (signature,) = (line for line in text.splitlines() if " @main(" in line)
    devices = list(mesh.devices.flat)
    options = xla_client.CompileOptions()
    options.executable_build_options.num_partitions = options.num_partitions = len(devices)
    options.executable_build_options.use_spmd_partitioning = True
    options.executable_build_options.use_shardy_partitioner = True
    options.executable_build_options.debug_options.xla_backend_optimization_level = 0
    options.executable_build_options.debug_options.xla_llvm_disable_expensive_passes = True
    places = np.array([[device.id for device in devices]])
    options.device_assignment = xla_client.DeviceAssignment.create(places)
    compiled = jax.devices()[0].client.compile_and_load(
        text.encode(), _jax.DeviceList(tuple(devices)), options
    )
    given = [rows[name] for name in re.findall(r"loc\(\"w\['(.*?)'\]\"", signature)]
    made = compiled.execute_sharded(given).disassemble_into_single_device_arrays()
    names = re.findall(r"jax\.result_info = \"result\['(.*?)'\]", signature)
    np.savez(
        outputs,
        **{name: np.concatenate([*map(np.asarray, own)]) for name, own in zip(names, made, strict=True)},
    )


def _run(path: Path, inputs: Path, outputs: Path, steps: int) -> Counter[str]:
    module = load_module(path)
    given = {"inputs": str(inputs), "weights": "", "outputs": str(outputs)}
    sources, faults = module.load(Namespace(**given, steps=steps))
    if faults:
        raise Failed("\n".join(faults))
    lowered = module.program().lower(sources)
    module.save(module.run_steps(lowered.compile(QUICKLY), sources, steps), str(outputs))
    return received_bytes(lowered.compiler_ir("stablehlo"))


def _drive(path: Path, inputs: Path, outputs: Path, steps: int) -> int:
    import jax

    module, moved, put = load_module(path), [0], jax.device_put
    given = {"inputs": str(inputs), "weights": "", "outputs": str(outputs)}
    sources, faults = module.load(Namespace(**given, steps=steps))
    if faults:
        raise Failed("\n".join(faults))
    sources = module.placed(sources)

    def counted(x: Any, device: Any) -> Any:
        moved[0] += x.nbytes if x.devices() != {device} else 0
        return put(x, device)

    jax.device_put = counted
    try:
        module.save(module.run_steps(module.step, sources, steps), str(outputs))
    finally:
        jax.device_put = put
    return moved[0]


def received_bytes(module: Any) -> Counter[str]:
    """Count the bytes that all devices receive from others, by kind of collective."""
    found: Counter[str] = Counter()

    def visit(operation: Any) -> Any:
        from jax._src.lib.mlir import ir

        name = operation.name.removeprefix("stablehlo.")
        count = RECEIVED.get(name)
        if count is not None:
            assert _is_once(operation), "functions and loops may run several times, branches never"
            (result,) = operation.results
            sizes = [_bytes(v.type, ir) for v in (operation.operands[0], result)]
            found[name] += count(operation.attributes, *sizes)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _is_once(operation: Any) -> bool:
    """Return whether an operation runs exactly once with the program."""
    while operation.name not in ("func.func", "stablehlo.while", "stablehlo.case", "stablehlo.if"):
        operation = operation.parent
    return operation.name == "func.func" and str(operation.attributes["sym_name"]) == '"main"'


def _bytes(kind: Any, ir: Any) -> int:
    tensor = ir.RankedTensorType(kind)
    element = str(tensor.element_type)
    digits = "".join(c for c in element if c.isdigit())
    bits = 8 if element == "i1" else int(digits) * (2 if "complex" in element else 1)
    return int(np.prod(tensor.shape, dtype=np.int64)) * bits // 8


def _groups(attributes: Any) -> tuple[int, int]:
    groups = np.array(attributes["replica_groups"])
    return groups.shape[0], groups.shape[1]


def _gathered(attributes: Any, given: int, result: int) -> int:
    count, members = _groups(attributes)
    assert result == members * given
    return count * members * (result - given)


def _exchanged(attributes: Any, given: int, result: int) -> int:
    count, members = _groups(attributes)
    return count * (members - 1) * result


def _scattered(attributes: Any, given: int, result: int) -> int:
    count, members = _groups(attributes)
    assert given == members * result
    return count * members * (members - 1) * result


def _reduced(attributes: Any, given: int, result: int) -> int:
    """Count an all-reduce: each slice is combined by one member, and gathered by the others."""
    count, members = _groups(attributes)
    return 2 * count * (members - 1) * result


def _permuted(attributes: Any, given: int, result: int) -> int:
    pairs = np.array(attributes["source_target_pairs"])
    return int((pairs[:, 0] != pairs[:, 1]).sum()) * result


RECEIVED = {
    "all_gather": _gathered,
    "all_to_all": _exchanged,
    "reduce_scatter": _scattered,
    "all_reduce": _reduced,
    "collective_permute": _permuted,
}
