"""Models of response bodies about stored tensors."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from tapestry.service.api.models import Answer


class TensorPlaceAnswer(Answer):
    """The place of a tensor on a simulated mesh."""

    mesh: str
    mesh_digest: str = Field(description="names all that the mesh is: two of one name may differ")
    devices: str = Field(description="the part of the mesh, such as gpu:4; empty for all of it")
    shape: list[int] = Field(description="the shape in which the program had it, perhaps factored")
    spec: str = Field(description="how each dimension of that shape is split")
    layout: str = Field(description="the physical layout; empty for the device's default")


class LoadCostAnswer(Answer):
    """The cost of bringing a tensor that lies on no mesh to the devices."""

    seconds: float
    bytes_per_s: float | None = Field(description="the rate of its bytes; null: they take no time")
    device: str = Field(
        description="the device that holds it then, such as gpu:3; empty: each device loads its part"
    )


class TensorAnswer(Answer):
    """A stored tensor without its value."""

    name: str
    dtype: str
    shape: list[int]
    size_bytes: int
    digest: str = Field(description="a hash of type, shape and elements")
    place: TensorPlaceAnswer | None = Field(description="where it lies; null: on no mesh, it was loaded")
    load: LoadCostAnswer | None = Field(description="what loading it costs; null: no time")
    stored_at: datetime
    links: dict[str, str]


class TensorsAnswer(Answer):
    """All stored tensors, sorted by name."""

    items: list[TensorAnswer]
