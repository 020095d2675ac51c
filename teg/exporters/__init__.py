"""Exporters of programs to other formats."""

from tapestry.teg.exporters.loom import to_loom

__all__ = ["to_loom"]
