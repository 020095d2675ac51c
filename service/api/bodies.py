"""Models of request bodies. Unknown members are errors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, WithJsonSchema, field_validator, model_validator

from tapestry.hardware import mesh_names
from tapestry.optimizer.run.options import RunOptions
from tapestry.rewrites.pipelines import PIPELINES
from tapestry.rewrites.rules import FAMILY_NAMES
from tapestry.service.api.mesh_schemas import MESH
from tapestry.service.api.option_models import (
    LARGEST,
    Pairs,
    RequestBody,
    Text,
    Whole,
    with_request_options,
)
from tapestry.service.graphs import priced_resources
from tapestry.service.requests import InvalidRequest, check_request
from tapestry.service.rewriting import HOW, KINDS
from tapestry.service.run_tags import LONGEST_NOTES, LONGEST_TAG, MOST_TAGS, NOTES_PATTERN, TAG_PATTERN
from tapestry.service.scheduling import HIGHEST, LOWEST, USUAL
from tapestry.service.settings import Limits
from tapestry.service.store import NewMeasurement, TenantStore, TensorRequest, UnknownId
from tapestry.teg.faults import Fault

Priority = Annotated[
    int,
    Field(
        ge=LOWEST,
        le=HIGHEST,
        description="which of the waiting runs goes first: one of a higher priority; 0 is usual",
    ),
    Whole,
]


MeshDocument = Annotated[dict[str, Any], WithJsonSchema(MESH)]


@with_request_options
class RunBody(RequestBody):
    """A request for a search."""

    graph_id: str = Field(description="the program", pattern="^[0-9a-f]{32}$")
    mesh: Text | MeshDocument = Field(
        description="the name of a mesh (`/v1/meshes`), `Nx-` and the name of one with a `network` for N such nodes "
        "(`2x-dgx-h100`), or an object with the fields of a mesh file: name, device (a name of `/v1/devices`, or an "
        "object with its fields) and axes",
        examples=list(mesh_names()),
    )
    fresh: bool = Field(
        False,
        description="search even where an equal request was answered before; otherwise that run is returned",
    )
    priority: Priority = USUAL

    @classmethod
    def remaining_faults(
        cls, body: Any, broken: Collection[str], limits: Limits, store: TenantStore
    ) -> tuple[Fault, ...]:
        """Return the faults in the meaning of those members that have the right form; `broken` have not.

        So a client hears of all faults at once. Pins and the run to start from are compared with the stored program
        when the form is right.
        """
        sound = {
            name: value for name, value in body.items() if name in cls.model_fields and name not in broken
        }
        try:
            known = cls.model_validate({"graph_id": "0" * 32, "mesh": mesh_names()[0], **sound})
            check_request(
                known.graph_id, known.mesh, known.options, limits, stored_resources(known.graph_id, store)
            )
        except ValidationError:  # a member whose parts are broken
            return ()
        except InvalidRequest as error:
            return tuple(fault for fault in error.faults if fault.pointer.split("/")[1] in sound)
        return ()

    @property
    def options(self) -> RunOptions:
        """The options of the run, their types checked and nothing else."""
        return RunOptions.from_json(self.model_dump(exclude={"graph_id", "mesh", "fresh", "priority"}))


Tag = Annotated[str, Field(min_length=1, max_length=LONGEST_TAG, pattern=TAG_PATTERN)]
Notes = Annotated[str, Field(max_length=LONGEST_NOTES, pattern=NOTES_PATTERN)]


def _left_out() -> Any:
    """Return the default of a member that is read only where it is given, and may not be null."""
    return None


class RunChangeBody(RequestBody):
    """A change of a run: what is not given stays as it is."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    priority: Priority = Field(default_factory=_left_out, description="of a run that waits")
    tags: list[Tag] = Field(
        default_factory=_left_out,
        max_length=MOST_TAGS,
        json_schema_extra={"uniqueItems": True},
        description="words by which people find it again, in place of those before; without commas",
        examples=[["baseline", "2026-q1"]],
    )
    notes: Notes = Field(
        default_factory=_left_out,
        description="a text about it, in place of the one before; empty for none",
    )

    @model_validator(mode="after")
    def _has_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("expected priority, tags or notes")
        return self

    @field_validator("tags")
    @classmethod
    def _has_none_twice(cls, tags: list[str]) -> list[str]:
        if len(set(tags)) < len(tags):
            raise ValueError("expected different tags")
        return tags


def stored_resources(graph_id: str, store: TenantStore) -> tuple[str, ...]:
    """Return the resources that a stored program prices; none for an unknown one, which is a fault of its own."""
    try:
        return priced_resources(store.graphs.get(graph_id).summary)
    except UnknownId:
        return ()


MOST_TENSORS = 100_000


class ExecutionBody(RequestBody):
    """A request to run a plan on the device simulator."""

    backend: Literal["numpy", "torch"] = Field(
        "numpy", description="what computes; torch takes a GPU where it finds one"
    )
    values: bool = Field(True, description="compute with values, seeded or given; false: count alone")
    seed: Annotated[int, Field(ge=0, le=LARGEST), Whole] = Field(
        0, description="seed of inputs and weights, where none are given"
    )
    tensors: Pairs = Field(
        {},
        max_length=MOST_TENSORS,
        json_schema_extra={"maxProperties": MOST_TENSORS},
        description="inputs that are stored tensors (`/v1/tensors`), by their names; they start where these lie",
        examples=[{"tokens": "batch_7"}],
    )
    save: Pairs = Field(
        {},
        max_length=MOST_TENSORS,
        json_schema_extra={"maxProperties": MOST_TENSORS},
        description="outputs to store as tensors of these names, in the place where the plan leaves them",
        examples=[{"logits": "logits_7"}],
    )
    outputs: bool = Field(False, description="keep the outputs, to be fetched when the execution has ended")

    @property
    def request(self) -> TensorRequest:
        """The stored tensors that it reads and writes."""
        return TensorRequest(tensors=self.tensors, save=self.save, outputs=self.outputs)


class MeasurementBody(RequestBody):
    """A time of a plan that was measured where it really ran."""

    seconds: float = Field(
        gt=0,
        le=1e9,
        allow_inf_nan=False,
        description="of one step, the median over the repeats",
        examples=[0.00107],
    )
    measured_on: Annotated[Text, Field(min_length=1)] = Field(
        description="where it ran, in words", examples=["4 x H100 SXM, PyTorch 2.11"]
    )
    repeats: Annotated[int, Field(ge=1, le=1_000_000_000), Whole] | None = Field(
        None, description="how often it was measured"
    )
    repeat_error: float | None = Field(
        None,
        ge=0,
        le=1e9,
        allow_inf_nan=False,
        description="how far repeats lie apart: half the distance of the quartiles, over the median",
    )

    @property
    def measurement(self) -> NewMeasurement:
        """The measured time, to be stored."""
        return NewMeasurement(**self.model_dump())


LayoutText = Annotated[str, Field(max_length=20_000)]


class DrawingBody(RequestBody):
    """A request to draw a layout."""

    text: LayoutText = Field(description="a layout in any notation", examples=["f32[3,5]{1,0:T(2,2)}"])
    dtype: Text | None = Field(None, description="the element's type, for texts that do not say it")


class LayoutBody(DrawingBody):
    """A request to describe a layout."""

    at: list[Annotated[int, Field(ge=0, le=LARGEST), Whole]] | None = Field(
        None, max_length=1000, description="coordinates: where does this element lie?"
    )
    offset: Annotated[int, Field(ge=0, le=LARGEST), Whole] | None = Field(
        None, description="slots through all buffers: what lies there?"
    )


Place = Annotated[str, Field(max_length=20_000)]


class MoveBody(RequestBody):
    """A rule at a place, or at several tied places, with a choice, as in a list of moves."""

    rule: Text
    place: Place | Annotated[list[Place], Field(min_length=1, max_length=100_000)]
    choice: Text = ""


CHOOSING = ("rules", "families", "kind", "mode")


def _without(*names: str) -> dict[str, Any]:
    return {"properties": {name: {"type": "null"} for name in names}}


class RewriteBody(RequestBody):
    """A request to rewrite a program. With no members, it is simplified by all rules that end by themselves."""

    # Rules, a pipeline or moves: what says what is done stands alone.
    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                _without("pipeline", "moves"),
                _without(*CHOOSING, "moves"),
                _without(*CHOOSING, "pipeline"),
            ]
        }
    )

    rules: list[Text] | None = Field(
        None,
        max_length=1000,
        description="rules to apply (`/v1/rules`); default: those that end by themselves",
    )
    families: list[Annotated[Text, Field(json_schema_extra={"enum": list(FAMILY_NAMES)})]] | None = Field(
        None, max_length=100, description="only rules of these families"
    )
    kind: Text | None = Field(
        None, description="only rules of this kind", json_schema_extra={"enum": [*KINDS, None]}
    )
    mode: Text | None = Field(
        None,
        description="once: one pass per rule in the order given; fixpoint (default): until nothing fits",
        json_schema_extra={"enum": [*HOW, None]},
    )
    pipeline: Text | None = Field(
        None,
        description="stages with rules of their own, in place of rules, families, kind and mode",
        json_schema_extra={"enum": [*PIPELINES, None]},
    )
    moves: list[MoveBody] | None = Field(
        None, max_length=10_000, description="make these moves one after the other, and nothing else"
    )
    prepare: bool = Field(
        False,
        description="fold into parameters what can be, and divide the result: what depends on parameters alone becomes "
        "a program of its own, computed once",
    )
    name: Text | None = Field(
        None, description="the new program's name; default: the old one's", min_length=1
    )
