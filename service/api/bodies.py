"""Models of request bodies. Unknown members are errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tapestry.costmodel.objectives import NAMES
from tapestry.hardware import mesh_names
from tapestry.optimizer.run.optimize import DEFAULT_OBJECTIVES, DEVICES, LAYOUTS
from tapestry.rewrites.pipelines import PIPELINES
from tapestry.rewrites.rules import FAMILY_NAMES
from tapestry.service.api.openapi_parts import Printable
from tapestry.service.checking import MODES
from tapestry.service.rewriting import HOW, KINDS
from tapestry.teg.sharding.check import INPUT_OPTIONS, OUTPUT_OPTIONS

LARGEST = 2**63 - 1

Text = Annotated[str, Field(max_length=1000), Printable]


def _choice(default: str, known: tuple[str, ...], description: str) -> Any:
    """Build a field for a text of few values, which are checked with everything else that has a meaning."""
    return Field(default, description=description, json_schema_extra={"enum": list(known)})


def _figure(description: str, **schema: float) -> Any:
    """Build a field for an optional number; its bounds are specified here and checked with everything else."""
    return Field(None, description=description, json_schema_extra={**schema})


class RequestBody(BaseModel):
    """A request body: unknown members are errors, and `1` is no text."""

    model_config = ConfigDict(extra="forbid", strict=True)


class BudgetBody(RequestBody):
    """The budget of a search, which ends at the first limit reached. Without any, after ten seconds."""

    seconds: float | None = _figure("seconds of searching", exclusiveMinimum=0)
    evaluations: int | None = _figure("plans to evaluate", minimum=1)


class RunBody(RequestBody):
    """A request for a search."""

    graph_id: str = Field(description="the program", pattern="^[0-9a-f]{32}$")
    mesh: Text | dict[str, Any] = Field(
        description="the name of a machine (`/v1/meshes`), or an object with the fields of a mesh file: name, "
        "device (a name of `/v1/devices`, or an object with its fields) and axes",
        examples=list(mesh_names()),
    )
    objectives: list[Annotated[Text, Field(examples=list(NAMES))]] = Field(
        list(DEFAULT_OBJECTIVES),
        max_length=100,
        description="the costs that the search minimizes: names of `/v1/objectives`, resources that the program "
        "prices itself (`objectives` of the graph), or expressions over them such as `0.7*time_s + 0.3*energy_j`",
        json_schema_extra={"minItems": 1, "uniqueItems": True},
    )
    constraints: list[Text] = Field(
        [],
        max_length=32,
        description="bounds such as `time_s<=5ms`, or `time_s<=110%` of the best that the run has found",
    )
    budget: BudgetBody = Field(BudgetBody(seconds=None, evaluations=None), description="when the search ends")
    seed: int = Field(
        0, description="seed of all randomness", json_schema_extra={"minimum": 0, "maximum": LARGEST}
    )
    islands: int | None = _figure("searches side by side; default: the worker's cores", minimum=1)
    rules: list[Text] | None = Field(
        None, max_length=1000, description="structural rules (`/v1/rules`); default: all"
    )
    pins: dict[Text, Text] = Field({}, max_length=10_000, description="site: spec of a block's output")
    start_from: Text | None = Field(None, description="a run of the same graph whose frontier is the start")
    compute_dtype: Text | None = Field(None, description="precision of contractions, such as bf16")
    devices: Text = _choice("any", DEVICES, "any: part of the machine may stay idle; all: every device works")
    inputs: Text = _choice(
        "chosen",
        INPUT_OPTIONS,
        "chosen: inputs are born as the plan wants them; replicated: whole everywhere",
    )
    outputs: Text = _choice(
        "sharded", OUTPUT_OPTIONS, "sharded: outputs stay as the plan leaves them; gathered: whole everywhere"
    )
    layouts: Text = _choice(
        "chosen",
        LAYOUTS,
        "chosen: plans choose physical layouts; native: every tensor in its device's default layout",
    )
    verify: Text = _choice(
        "auto",
        MODES,
        "auto: every plan is proven and counted, and representative ones are executed where that takes seconds; "
        "dry: none is executed; execute: all are; none: nothing is checked",
    )


class ExecutionBody(RequestBody):
    """A request to run a plan on the device simulator."""

    backend: Literal["numpy"] = Field("numpy", description="what computes")
    values: bool = Field(True, description="compute with seeded values; false: count alone")
    seed: int = Field(0, ge=0, le=LARGEST, description="seed of inputs and weights")


LayoutText = Annotated[str, Field(max_length=20_000)]


class DrawingBody(RequestBody):
    """A request to draw a layout."""

    text: LayoutText = Field(description="a layout in any notation", examples=["f32[3,5]{1,0:T(2,2)}"])
    dtype: Text | None = Field(None, description="the element's type, for texts that do not say it")


class LayoutBody(DrawingBody):
    """A request to describe a layout."""

    at: list[Annotated[int, Field(ge=0, le=LARGEST)]] | None = Field(
        None, max_length=1000, description="coordinates: where does this element lie?"
    )
    offset: int | None = Field(
        None, ge=0, le=LARGEST, description="slots through all buffers: what lies there?"
    )


Place = Annotated[str, Field(max_length=20_000)]


class MoveBody(RequestBody):
    """A rule at a place, or at several tied places, with a choice, as in a list of moves."""

    rule: Text
    place: Place | Annotated[list[Place], Field(min_length=1, max_length=100_000)]
    choice: Text = ""


class RewriteBody(RequestBody):
    """A request to rewrite a program. With no members, it is simplified by all rules that end by themselves."""

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
