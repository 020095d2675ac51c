"""A compiler pass for PyTorch: a module is exported, a service finds how to shard it, and it runs as DTensors.

    tapestry serve &
    python -m tapestry.examples.compiler_client.torch_pass --under 40GiB

The ranks are processes of this machine. `pip install 'tapestry[client,torch]'`
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor

from tapestry.client import Client, EventRecord
from tapestry.teg.exporters.tables.document import table_of_document
from tapestry.teg.exporters.tables.verdicts import OK, verdicts

RANKS = 4
MESH = {
    "name": "four-h100",
    "device": "h100-sxm5-80gb",
    "axes": [
        {
            "name": "gpu",
            "size": RANKS,
            "topology": "switch",
            "bandwidth_bytes_per_s": 4.5e11,
            "latency_s": 7e-6,
        }
    ],
}


class Residual(nn.Module):
    """Two layers whose result is added to their input."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


def network_and_input(batch, width):
    torch.manual_seed(0)
    return Residual(width), torch.randn(batch, width)


def exported(module, x):
    """Return the program of a module as the bytes of a .pt2 file."""
    content = io.BytesIO()
    torch.export.save(torch.export.export(module, (x,)), content)
    return content.getvalue()


def placements_of(table, tensor):
    """Return how DTensor places a tensor on each axis of the mesh: whole where it cannot do as the plan does."""
    if verdicts(table, tensor)["dtensor"] != OK:
        return [Replicate()] * len(table.axes)
    split = {axis: k for k, dim in enumerate(tensor.dims) for axis in dim.axes}
    return [Shard(split[axis]) if axis in split else Replicate() for axis in table.sizes]


def distributed(module, mesh, placements):
    """Replace the parameters of a module by DTensors, placed by name."""

    def place(prefix, owner, mesh):
        for leaf, parameter in list(owner.named_parameters(recurse=False)):
            placed = placements[f"{prefix}.{leaf}" if prefix else leaf]
            owner.register_parameter(
                leaf,
                nn.Parameter(distribute_tensor(parameter.detach(), mesh, placed), parameter.requires_grad),
            )

    return distribute_module(module, mesh, place)


def rank_main(rank, ranks, document, batch, width, folder):
    """Run the module as one rank, its parameters and input placed as the table of shardings says."""
    store = dist.FileStore(str(Path(folder) / "store"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    table = table_of_document(document)
    mesh = init_device_mesh("cpu", tuple(table.sizes.values()), mesh_dim_names=tuple(table.sizes))
    placements = {tensor.name: placements_of(table, tensor) for tensor in table.tensors}
    module, x = network_and_input(batch, width)
    module = distributed(module, mesh, placements)
    with torch.no_grad():
        output = module(distribute_tensor(x, mesh, placements["x"])).full_tensor()
    if rank == 0:
        parts = {name: tuple(p.to_local().shape) for name, p in module.named_parameters()}
        torch.save((output, parts), Path(folder) / "output.pt")
    dist.barrier()  # no rank closes its connections while another still uses them
    dist.destroy_process_group()


def run_on_ranks(document, ranks, batch, width):
    """Return the output, and the shapes of the parameters' parts on the first rank."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (ranks, document, batch, width, folder), nprocs=ranks)
        return torch.load(Path(folder) / "output.pt")


def report(event: EventRecord) -> None:
    if event.kind == "progress":
        print(f"  {event.data['fraction']:4.0%}  {event.data['front']} plans", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--service", default="http://127.0.0.1:8000")
    options.add_argument("--under", default="40GiB", help="most memory of a device")
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--width", type=int, default=512)
    given = options.parse_args()

    module, x = network_and_input(given.batch, given.width)
    program = exported(module, x)
    with Client(given.service) as client:
        began = time.perf_counter()
        found = client.optimize(
            program, MESH, name="network", devices="all", seconds=given.seconds, on_event=report
        )
        took_s = time.perf_counter() - began
        plan = found.frontier.fastest(under={"peak_memory_bytes": given.under})
        document = json.loads(client.export(plan, "table"))
    how = "was there" if found.reused else "was searched"
    print(f"run {found.run.id} {how}: {len(found.frontier.plans)} plans in {took_s:.3f} s")
    print(f"plan {plan.plan}: {plan.cost['time_s']:.3g} s, {plan.cost['peak_memory_bytes']:,} B per device")

    output, parts = run_on_ranks(document, RANKS, given.batch, given.width)
    with torch.no_grad():
        expected = module(x)
    error = float((output - expected).abs().max() / expected.abs().max())
    for name, part in parts.items():
        print(f"  {name}: {part} of {tuple(module.get_parameter(name).shape)} on each of {RANKS} ranks")
    print(f"largest relative error {error:.1e}")
    return 0 if error < 1e-4 else 1


if __name__ == "__main__":
    raise SystemExit(main())
