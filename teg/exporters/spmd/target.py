"""Libraries for which programs are written: their texts, and the functions that their modules begin with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tapestry.teg.exporters.spmd.array_text import ArrayText
from tapestry.teg.exporters.spmd.jax_text import JaxText, TracedNumberTexts
from tapestry.teg.exporters.spmd.per_rank import NumberTexts
from tapestry.teg.exporters.spmd.torch_text import TorchText


@dataclass(frozen=True)
class ProgramTarget:
    """A library: how arrays and numbers are written, and the modules of `runtime` it takes functions from.

    `aliases` are imports under names of their own; `packages` are installed with pip, `command` runs the module on
    `{count}` devices. `traced` is true where one trace serves all devices: their parts have one size, and the compiler
    may join copies.
    """

    text: type[ArrayText]
    numbers: type[NumberTexts]
    runtime: tuple[str, ...]
    aliases: dict[str, str]
    packages: str
    command: str
    traced: bool = False


TORCH = ProgramTarget(
    TorchText,
    NumberTexts,
    (
        "mesh",
        "transfers",
        "shared_transfers",
        "script",
        "torch_async",
        "torch_collectives",
        "torch_exchange",
        "torch_shared_exchange",
        "torch_random",
        "torch_host",
        "torch_script",
    ),
    {"F": "import torch.nn.functional as F"},
    "torch numpy",
    "torchrun --nproc-per-node {count} FILE --inputs IN --outputs OUT",
)

# Where programs have stages, functions of the last module take the places of others.
TORCH_STAGES = replace(TORCH, runtime=(*TORCH.runtime, "torch_stages"))

JAX = ProgramTarget(
    JaxText,
    TracedNumberTexts,
    (
        "mesh",
        "transfers",
        "shared_transfers",
        "script",
        "jax_arrays",
        "jax_collectives",
        "jax_parts",
        "jax_exchange",
        "jax_shared_exchange",
        "jax_operators",
        "jax_random",
        "jax_host",
        "jax_script",
    ),
    {},
    "jax numpy",
    "python FILE --inputs IN --outputs OUT, on {count} devices; --cpu makes virtual ones",
    traced=True,
)
JAX_STAGES = replace(JAX, runtime=(*JAX.runtime, "jax_stages"))
