"""A compiler pass for PyTorch: a module is exported, a service finds how to shard it, and it runs as DTensors.

    tapestry serve &
    python -m tapestry.examples.compiler_client.torch_pass --under 40GiB

The ranks are processes of this machine. `pip install 'tapestry[client,torch]'`
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from tapestry.client import Client, EventRecord

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


def rank_main(rank, ranks, placements, batch, width, folder):
    """Run the module as one rank, its parameters and input placed by the exported module of placements."""
    store = dist.FileStore(str(Path(folder) / "store"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    try:
        names = {}
        exec(compile(placements, "placements", "exec"), names)
        mesh = names["make_mesh"]()
        module, x = network_and_input(batch, width)
        names["distribute_parameters"](mesh, module)
        with torch.no_grad():
            output = module(names["distribute"](mesh, "x", x)).full_tensor()
        if rank == 0:
            parts = {name: tuple(p.to_local().shape) for name, p in module.named_parameters()}
            torch.save((output, parts), Path(folder) / "output.pt")
    finally:
        dist.destroy_process_group()


def run_on_ranks(placements, ranks, batch, width):
    """Return the output, and the shapes of the parameters' parts on the first rank."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (ranks, placements, batch, width, folder), nprocs=ranks)
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
        placements = client.export(plan, "dtensor").decode()
    how = "was there" if found.reused else "was searched"
    print(f"run {found.run.id} {how}: {len(found.frontier.plans)} plans in {took_s:.3f} s")
    print(f"plan {plan.plan}: {plan.cost['time_s']:.3g} s, {plan.cost['peak_memory_bytes']:,} B per device")

    output, parts = run_on_ranks(placements, RANKS, given.batch, given.width)
    with torch.no_grad():
        expected = module(x)
    error = float((output - expected).abs().max() / expected.abs().max())
    for name, part in parts.items():
        print(f"  {name}: {part} of {tuple(module.get_parameter(name).shape)} on each of {RANKS} ranks")
    print(f"largest relative error {error:.1e}")
    return 0 if error < 1e-4 else 1


if __name__ == "__main__":
    raise SystemExit(main())
