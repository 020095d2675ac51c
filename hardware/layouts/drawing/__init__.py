"""Diagrams of layouts: the element or padding in each slot, for terminals and as SVG."""

from tapestry.hardware.layouts.drawing.diagram import Panel, Picture, picture_of
from tapestry.hardware.layouts.drawing.terminal import text_of
from tapestry.hardware.layouts.drawing.vector import svg_of

__all__ = ["Panel", "Picture", "picture_of", "svg_of", "text_of"]
