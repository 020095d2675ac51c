"""Diagrams of layouts: the element or padding in each slot, for terminals and as SVG."""

from tapestry.hardware.layouts.drawing.diagram import Diagram, Panel, diagram_of
from tapestry.hardware.layouts.drawing.terminal import text_of
from tapestry.hardware.layouts.drawing.vector import svg_of

__all__ = ["Diagram", "Panel", "diagram_of", "svg_of", "text_of"]
