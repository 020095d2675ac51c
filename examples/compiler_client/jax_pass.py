"""A compiler pass for JAX: a function is lowered, a service finds how to shard it, XLA compiles it so, and it runs.

    tapestry serve &
    python -m tapestry.examples.compiler_client.jax_pass --under 40GiB

The devices are virtual ones of this machine. `pip install 'tapestry[client,jax]'`
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.sharding_impls import GSPMDSharding
from jaxlib.mlir import ir

from tapestry.client import Client, EventRecord
from tapestry.examples.compiler_client.hlo_collectives import received

MESH = "dgx-h100"


def network(x, up, down):
    """Return `x` with the result of two layers added."""
    return x + jnp.tanh(x @ up) @ down


def arguments_of(batch, width, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(batch, width), (width, 4 * width), (4 * width, width)]
    return [rng.normal(0, 0.05, shape).astype(np.float32) for shape in shapes]


class Compiled:
    """A StableHLO module with Shardy attributes, compiled by XLA for as many devices as it names."""

    def __init__(self, text, results):
        with mlir.make_ir_context():
            self._compile(ir.Module.parse(text))
        self.results = results

    def _compile(self, module):
        device_count = module.operation.attributes["mhlo.num_partitions"].value
        self.devices = tuple(jax.devices()[:device_count])
        options = xla_client.CompileOptions()
        build = options.executable_build_options
        for target in (options, build):
            target.num_replicas, target.num_partitions = 1, device_count
        build.use_spmd_partitioning = build.use_shardy_partitioner = True
        build.device_assignment = xla_client.DeviceAssignment.create(np.arange(device_count).reshape(1, -1))
        devices = xla_client.DeviceList(self.devices)
        self.executable = self.devices[0].client.compile_and_load(module, devices, options)

    @property
    def hlo(self):
        """The text of the compiled module."""
        return self.executable.hlo_modules()[0].to_string()

    def __call__(self, *arguments):
        """Run it: arguments are split, and results put together, as XLA was told."""
        pairs = zip(arguments, self._shardings(self.executable.get_parameter_shardings()), strict=True)
        placed = [jax.device_put(argument, sharding) for argument, sharding in pairs]
        parts = self.executable.execute_sharded(placed).disassemble_into_single_device_arrays()
        shardings = self._shardings(self.executable.get_output_shardings())
        return [
            jax.make_array_from_single_device_arrays(result.shape, sharding, own)
            for result, sharding, own in zip(self.results, shardings, parts, strict=True)
        ]

    def _shardings(self, found):
        return [GSPMDSharding(self.devices, sharding) for sharding in found]


def report(event: EventRecord) -> None:
    if event.kind == "progress":
        print(f"  {event.data['fraction']:4.0%}  {event.data['front']} plans", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--service", default="http://127.0.0.1:8000")
    options.add_argument("--under", default="40GiB", help="most memory of a device")
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--batch", type=int, default=512)
    options.add_argument("--width", type=int, default=256)
    given = options.parse_args()

    arguments = arguments_of(given.batch, given.width)
    lowered = jax.jit(network).lower(*arguments)
    program = lowered.as_text()

    with Client(given.service) as client:
        began = time.perf_counter()
        found = client.optimize(program, MESH, name="network", seconds=given.seconds, on_event=report)
        took_s = time.perf_counter() - began
        plan = found.frontier.fastest(under={"peak_memory_bytes": given.under})
        sharded = client.export(plan, "shardy", program=program).decode()
    how = "was there" if found.reused else "was searched"
    print(f"run {found.run.id} {how}: {len(found.frontier.plans)} plans in {took_s:.3f} s")
    print(f"plan {plan.plan}: {plan.cost['time_s']:.3g} s, {plan.cost['peak_memory_bytes']:,} B per device")

    results = jax.tree.leaves(lowered.out_info)
    compiled = Compiled(sharded, results)
    moved = ", ".join(f"{count:,} B by {kind}" for kind, count in received(compiled.hlo).items()) or "nothing"
    print(f"the plan moves {plan.cost['traffic_bytes']:,} B; XLA moves {moved}")
    (output,) = compiled(*arguments)
    expected = np.asarray(jax.jit(network)(*arguments))
    error = float(np.abs(np.asarray(output) - expected).max() / np.abs(expected).max())
    parts = {shard.data.shape for shard in output.addressable_shards}
    print(
        f"on {len(compiled.devices)} devices, each with {' or '.join(map(str, sorted(parts)))} of {output.shape}"
    )
    print(f"largest relative error {error:.1e}")
    return 0 if error < 1e-4 else 1


if __name__ == "__main__":
    raise SystemExit(main())
