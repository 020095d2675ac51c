"""Graphs of plans, for the API and the command line: written as a stream; explicit ones are refused beyond limits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from tapestry.hardware import Mesh
from tapestry.optimizer import Plan
from tapestry.teg.external_data import ExternalData
from tapestry.teg.serialization import stream_document
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.explicit_document import explicit_document
from tapestry.teg.sharding.explicit_parts import GraphPart, PartError
from tapestry.teg.sharding.explicit_size import ExplicitSize, explicit_size
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.nodes import TooManyNodes


class ExplicitRefusal(ValueError):
    """Error raised for an explicit graph that is not written.

    `option` is device, layer or block where that is at fault; `size` and `limit` are set where it is too large.
    """

    def __init__(
        self,
        message: str,
        option: str = "",
        size: ExplicitSize | None = None,
        limit: ExplicitSize | None = None,
    ) -> None:
        super().__init__(message)
        self.option, self.size, self.limit = option, size, limit


def explicit_portions(
    plan: Plan, mesh: Mesh, part: GraphPart, limit: ExplicitSize | None = None
) -> Iterator[str]:
    """Expand a plan and return the document of a part of its explicit graph, in portions to be taken.

    Raises:
        ExplicitRefusal: before the first portion: it is larger than `limit`, or cannot be written.
    """
    try:
        explicit = expand(plan.graph, plan.placements, MeshShape(mesh.axis_sizes))
        explicit.check_no_rounds("an explicit graph")
        size = explicit_size(explicit, part)
        if limit is not None and (size.nodes > limit.nodes or size.size_bytes > limit.size_bytes):
            raise ExplicitRefusal(_too_large(size, limit), size=size, limit=limit)
        return explicit_document(explicit, part)
    except PartError as error:
        raise ExplicitRefusal(str(error), error.option) from None
    except TooManyNodes as error:
        raise ExplicitRefusal(
            f"the explicit graph has at least {error.nodes:,} nodes, and more than {error.limit:,} are never written: "
            "take a smaller mesh",
            size=ExplicitSize(error.nodes, 0),
            limit=ExplicitSize(error.limit, 0),
        ) from None
    except ExplicitRefusal:
        raise
    except ValueError as error:
        raise ExplicitRefusal(" ".join(str(error).split())) from None


def rewritten_portions(plan: Plan) -> Iterator[str]:
    """Return the document of the graph that a plan shards, values and all, in portions to be taken."""
    graph = plan.graph
    nodes = ((block, [graph.tensors[t] for t in block.outputs]) for block in graph.blocks)
    values = chain[tuple[str, np.ndarray | ExternalData]](graph.data.items(), graph.external.items())
    return stream_document(graph.name, nodes, values)


def _too_large(size: ExplicitSize, limit: ExplicitSize) -> str:
    return (
        f"the explicit graph would have about {size.nodes:,} nodes in {size.size_bytes:,} bytes; at most "
        f"{limit.nodes:,} nodes in {limit.size_bytes:,} bytes are sent: ask for a part, by device, layer or block"
    )
