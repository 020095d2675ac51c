"""Exporters of expanded plans as SPMD programs: readable modules that every device runs."""

from tapestry.teg.exporters.spmd.module import to_torch

__all__ = ["to_torch"]
