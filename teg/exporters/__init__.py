"""Programs in the formats of others."""

from tapestry.teg.exporters.loom import to_loom

__all__ = ["to_loom"]
