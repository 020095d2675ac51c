"""The array operations in which operators' meanings are written, over numpy, torch and jax.numpy.

`arrays_named("torch")` loads torch, `arrays_named("jax")` JAX; numpy's are `NUMPY`, the reference.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from tapestry.teg.arrays.namespace import Array, ArrayNamespace, box_of, is_weak
from tapestry.teg.arrays.numpy_arrays import NUMPY
from tapestry.teg.faults import no_such

__all__ = [
    "LIBRARIES",
    "NUMPY",
    "Array",
    "ArrayNamespace",
    "arrays_named",
    "arrays_of",
    "box_of",
    "is_installed",
    "is_weak",
]

LIBRARIES = ("numpy", "torch", "jax")


def arrays_named(name: str, device: str = "") -> ArrayNamespace:
    """Return the operations of an array library: "numpy", "torch" or "jax".

    `device` is one of torch's, such as "cuda:1"; without it torch computes on a GPU where it finds one, otherwise on
    the host. JAX decides for itself.

    Raises:
        ValueError: there is no such library, or it is not installed.
    """
    if name not in LIBRARIES:
        raise ValueError(no_such("array library", name, LIBRARIES))
    try:
        return _torch(device) if name == "torch" else _jax() if name == "jax" else NUMPY
    except ImportError as error:
        raise ValueError(
            f"{name} is not installed ({error}); run `pip install 'tapestry[{name}]'`, or compute with numpy"
        ) from error


@cache
def _torch(device: str) -> ArrayNamespace:
    from tapestry.teg.arrays.torch_arrays import TorchArrays, default_device

    return TorchArrays(device) if device else _torch(default_device())


@cache
def _jax() -> ArrayNamespace:
    from tapestry.teg.arrays.jax_arrays import JaxArrays

    return JaxArrays()


def is_installed(name: str) -> bool:
    """Return whether an array library can be loaded, without loading it."""
    return find_spec(name) is not None


def arrays_of(array: Array) -> ArrayNamespace:
    """Return the operations of the library that an array belongs to, on the array's device."""
    library = type(array).__module__.partition(".")[0]
    if library == "torch":
        return arrays_named("torch", str(array.device))
    return arrays_named("jax") if library in ("jax", "jaxlib") else NUMPY
