"""Models of response bodies: these members and no others."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tapestry.service.lifecycle import Status


class Answer(BaseModel):
    """A response body: these members and no others."""

    model_config = ConfigDict(extra="forbid")


class FaultAnswer(Answer):
    """One fault of a request."""

    pointer: str = Field(description="JSON pointer into the body, or #query/name, #header/name, #path/name")
    detail: str
    allowed: list[str] | None = None


class ProblemAnswer(Answer):
    """A description of an error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FaultAnswer] | None = None
    size: dict[str, int] | None = Field(None, description="what is too large: its amounts by name")
    limit: dict[str, float] | None = Field(None, description="what these, or a quota, may be at most")
    used: dict[str, float] | None = Field(None, description="how much of a quota is used")


class ObjectiveAnswer(Answer):
    """An objective by which plans are evaluated."""

    name: str
    unit: str
    direction: Literal["minimize"]
    title: str
    description: str = Field(description="what it is, in words")
    expression: str = Field(
        description="how it is computed: an expression over what is counted for every plan, figures of the device, "
        "`device_count` and other objectives"
    )


class GraphAnswer(Answer):
    """A program without its document."""

    id: str
    name: str
    blocks: int
    lacks_values: bool = Field(description="its weights were too large to keep")
    created_at: datetime
    summary: dict[str, Any] | None
    objectives: list[ObjectiveAnswer] = Field(description="those of the resources that it prices itself")
    links: dict[str, str]


class GraphsAnswer(Answer):
    """Programs, newest first."""

    items: list[GraphAnswer]
    next: str | None = Field(description="the cursor of the next page")


class ImportAnswer(Answer):
    """A program that was uploaded and is read by a worker."""

    id: str
    status: Status
    name: str = Field(description="the program's name; empty for a TEG document, which has its own")
    size_bytes: int = Field(description="of what was uploaded")
    attempt: int
    position: int | None = Field(
        description="1 for the import that is read next, as things are; null once it is read"
    )
    graph_id: str | None = Field(
        description="the program, once the import has succeeded, unless it was deleted"
    )
    problem: dict[str, Any] | None = Field(
        description="why it failed: the problem document, with the same `errors`, of an upload that is read at once"
    )
    cancel_requested: bool
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    links: dict[str, str]


class ImportsAnswer(Answer):
    """Imports, newest first."""

    items: list[ImportAnswer]
    next: str | None = Field(description="the cursor of the next page")


class AcceptedAnswer(Answer):
    """A job that waits for a worker."""

    id: str
    status: Status
    links: dict[str, str]


class CatalogAnswer(Answer):
    """All members of a catalog."""

    items: list[dict[str, Any]]


class ElementPositionAnswer(Answer):
    """An element, or padding, at its place in a layout."""

    coordinates: list[int] | None = Field(description="null where there is padding")
    is_padding: bool
    offset: int = Field(description="slots through all buffers laid end to end")
    buffer: int
    buffer_name: str
    slot: int = Field(description="counted in its buffer")
    byte: int | None = Field(description="counted in its buffer; null where elements share exponents")
    bit: int | None = Field(description="counted in that byte")


class LayoutAnswer(Answer):
    """A layout of a tensor: shapes, buffers and bytes, padding included."""

    text: str = Field(description="as its project prints it")
    notation: str
    title: str
    shape: list[int]
    element_bits: int
    element_count: int
    physical_shape: list[int] = Field(description="padded, most major first")
    buffer_count: int
    buffer_elements: int = Field(description="slots of each buffer")
    size_bytes: int
    padding_bytes: int
    padding_share: float
    element: ElementPositionAnswer | None = Field(description="where the element at the coordinates lies")
    slot: ElementPositionAnswer | None = Field(description="what lies at the offset")
    value: str | None = Field(
        description="the element at the coordinates, of a layout that computes its elements and has no buffers"
    )


class HealthAnswer(Answer):
    """The answer of a health check."""

    status: Literal["ok"]


class ReadyAnswer(Answer):
    """Readiness of the service; `workers` are those heard of in the last seconds.

    `clock_skew_s` is the largest difference of one of their clocks from the database's, 0 where that is a file.
    """

    status: Literal["ok"]
    workers: int
    clock_skew_s: float
