"""The kernels that libraries have for what operators mean, by name: where there is one, it computes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple


class LibraryKernel(NamedTuple):
    """A function of a library, by the operation of the namespace that it computes; `{rank}`: of so many dimensions."""

    operation: str
    library: str
    function: str


KERNELS = (
    LibraryKernel("attention", "torch", "torch.nn.functional.scaled_dot_product_attention"),
    LibraryKernel("contract", "torch", "torch.einsum"),
    LibraryKernel("softmax", "torch", "torch.nn.functional.softmax"),
    LibraryKernel("log_softmax", "torch", "torch.nn.functional.log_softmax"),
    LibraryKernel("layer_norm", "torch", "torch.nn.functional.layer_norm"),
    LibraryKernel("convolve", "torch", "torch.nn.functional.conv{rank}d"),
    LibraryKernel("reduce_windows", "torch", "torch.nn.functional.max_pool{rank}d"),
    LibraryKernel("attention", "jax", "jax.nn.dot_product_attention"),
    LibraryKernel("contract", "jax", "jax.numpy.einsum"),
    LibraryKernel("softmax", "jax", "jax.nn.softmax"),
    LibraryKernel("log_softmax", "jax", "jax.nn.log_softmax"),
    LibraryKernel("convolve", "jax", "jax.lax.conv_general_dilated"),
    LibraryKernel("reduce_windows", "jax", "jax.lax.reduce_window"),
)


@cache
def library_kernel(library: ModuleType, operation: str, rank: int = 0) -> Callable[..., Any]:
    """Return the function of a library that `KERNELS` names for an operation.

    Raises:
        KeyError: it names none.
    """
    names = {(kernel.library, kernel.operation): kernel.function for kernel in KERNELS}
    _, *path = names[library.__name__, operation].format(rank=rank).split(".")
    found: Any = library
    for name in path:
        found = getattr(found, name)
    function: Callable[..., Any] = found
    return function
