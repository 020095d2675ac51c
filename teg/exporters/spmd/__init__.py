"""Exporters of expanded plans as SPMD programs: readable modules that every device runs."""

from tapestry.teg.exporters.spmd.module import to_jax, to_torch
from tapestry.teg.exporters.spmd.program import file_sources

__all__ = ["file_sources", "to_jax", "to_torch"]
