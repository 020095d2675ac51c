"""Bounding box of an object in an image, by index tensors: `python -m tapestry.examples.bounding_box [SECONDS]`.

The whitepaper's example: coordinates become values, so that each shard has the positions of its elements in the image.
The index tensor is generated where it is needed, and each device generates its own part.
"""

import tapestry
from tapestry.examples.printing import show
from tapestry.teg.programs import Program


def bounding_box(rows: int = 4096, columns: int = 4096, threshold: float = 0.5) -> Program:
    """Build a program of the first and last row and column where the image is at least `threshold`; -1 if nowhere."""
    with tapestry.program("bounding_box") as p:
        image = p.input("image", row=rows, column=columns)
        cat = image >= threshold
        places = p.coordinates(row=rows, column=columns)
        first = p.where(cat, places, max(rows, columns)).min("row", "column")
        last = p.where(cat, places, -1).max("row", "column")
        p.output("first", p.where(last < 0, -1, first))
        p.output("last", last)
    return p


if __name__ == "__main__":
    show(bounding_box().graph)
