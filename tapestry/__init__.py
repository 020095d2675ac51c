"""Search the equivalent programs of a tensor graph on a mesh of devices for a Pareto frontier of sharded plans.

`tapestry.optimize("model.onnx", "dgx-h100", seconds=10)` is the way in. The names below are the public interface;
each is loaded when it is first used, so `import tapestry` takes a few milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapestry.hardware import load_mesh
    from tapestry.optimizer import Budget, Constraint
    from tapestry.optimizer.analysis.frontier_verification import verify_frontier
    from tapestry.optimizer.api import optimize, sharding_table, simulate, verify
    from tapestry.optimizer.placement.toolbox import default_toolbox
    from tapestry.teg import program
    from tapestry.teg.importers import from_jax, from_onnx, from_stablehlo, from_torch
    from tapestry.teg.importers.files import read_program
    from tapestry.teg.training import training_step

__all__ = [
    "Budget",
    "Constraint",
    "default_toolbox",
    "from_jax",
    "from_onnx",
    "from_stablehlo",
    "from_torch",
    "load_mesh",
    "optimize",
    "program",
    "read_program",
    "sharding_table",
    "simulate",
    "training_step",
    "verify",
    "verify_frontier",
]

_HOMES = {
    "Budget": ("tapestry.optimizer", "Budget"),
    "Constraint": ("tapestry.optimizer", "Constraint"),
    "default_toolbox": ("tapestry.optimizer.placement.toolbox", "default_toolbox"),
    "from_jax": ("tapestry.teg.importers", "from_jax"),
    "from_onnx": ("tapestry.teg.importers", "from_onnx"),
    "from_stablehlo": ("tapestry.teg.importers", "from_stablehlo"),
    "from_torch": ("tapestry.teg.importers", "from_torch"),
    "load_mesh": ("tapestry.hardware", "load_mesh"),
    "optimize": ("tapestry.optimizer.api", "optimize"),
    "program": ("tapestry.teg", "program"),
    "read_program": ("tapestry.teg.importers.files", "read_program"),
    "sharding_table": ("tapestry.optimizer.api", "sharding_table"),
    "simulate": ("tapestry.optimizer.api", "simulate"),
    "training_step": ("tapestry.teg.training", "training_step"),
    "verify": ("tapestry.optimizer.api", "verify"),
    "verify_frontier": ("tapestry.optimizer.analysis.frontier_verification", "verify_frontier"),
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name == "__version__":
        return import_module("importlib.metadata").version("tapestry")
    if name not in _HOMES:
        raise AttributeError(f"module 'tapestry' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = globals()[name] = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})
