"""The options of a run in the models of the API: fields of request and response bodies made from their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from tapestry.costmodel.objectives import NAMES
from tapestry.optimizer.run.option_fields import LARGEST_INTEGER, SHARE, Option
from tapestry.optimizer.run.options import OPTIONS
from tapestry.service.api.openapi_parts import PRINTABLE, Printable

M = TypeVar("M", bound=type[BaseModel])

LARGEST = LARGEST_INTEGER
LONGEST_TEXT = 1000
Text = Annotated[str, Field(max_length=LONGEST_TEXT, json_schema_extra=dict(PRINTABLE)), Printable]


def _whole(value: Any) -> Any:
    """Return a number without a fraction as a whole one: to JSON, `2.0` is the number 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Stands after the bounds of a number: those before it would not be in the document.
Whole = BeforeValidator(_whole)
_TEXT = {"type": "string", "maxLength": LONGEST_TEXT, **PRINTABLE}
Pairs = Annotated[
    dict[Text, Text],
    WithJsonSchema({"type": "object", "additionalProperties": _TEXT, "propertyNames": _TEXT}),
]
# Catalogs that fit into a document.
ENUMERATED: Mapping[str, tuple[str, ...]] = {"objectives": NAMES}


class RequestBody(BaseModel):
    """A request body: unknown members are errors, and `1` is no text."""

    model_config = ConfigDict(extra="forbid", strict=True)


def with_request_options(model: M) -> M:
    """Return a request's model with a field for every option; values are checked later, with all that has a meaning."""
    return _extended(model, _fields(RequestBody, _request_field))


def with_response_options(model: M) -> M:
    """Return a response's model with a field for every option of the run that it is about."""
    return _extended(model, _fields(model.__mro__[1], _response_field))


def _extended(model: M, fields: dict[str, Any]) -> M:
    made: Any = create_model(
        model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **fields
    )
    return made  # type: ignore[no-any-return]


def _fields(base: type[BaseModel], field_of: Any) -> dict[str, Any]:
    """Make the fields of a model; options with a common place in JSON are fields of a model of their own."""
    fields: dict[str, Any] = {}
    for option in OPTIONS:
        if len(option.path) == 1:
            fields[option.name] = field_of(option)
        elif option.path[0] not in fields:
            fields[option.path[0]] = _group(base, option.path[0], field_of)
    return fields


def _group(base: type[BaseModel], name: str, field_of: Any) -> Any:
    members = {option.path[1]: field_of(option) for option in OPTIONS if option.path[0] == name}
    is_request = base is RequestBody
    model = create_model(
        f"{name.capitalize()}{'Body' if is_request else 'Answer'}",
        __base__=base,
        __doc__=f"The {name} of a run: {', '.join(members)}.",
        **members,
    )
    if not is_request:
        return model, Field()
    nothing = {option.path[1]: option.default for option in OPTIONS if option.path[0] == name}
    return model, Field(model(**nothing), description=f"{', '.join(members)}")


def _request_field(option: Option) -> Any:
    bounds = {"minimum": option.least, "exclusiveMinimum": option.above, "maximum": option.most}
    if option.is_share:
        bounds = {}
    schema: dict[str, Any] = {name: bound for name, bound in bounds.items() if bound is not None}
    if option.choices:
        schema["enum"] = [*option.choices, *([None] if option.is_optional else [])]
    if option.kind == "pairs":
        schema["maxProperties"] = option.at_most
    if option.at_least:
        schema |= {"minItems": option.at_least, "uniqueItems": True}
    default = option.to_json(option.default)
    field = Field(
        default, max_length=option.at_most, description=option.description, json_schema_extra=schema
    )
    return _share(option) if option.is_share else _type(
        option, _text(option), Annotated[int, Whole], Pairs
    ), field


def _response_field(option: Option) -> Any:
    return _type(option, str, int, dict[str, str]), Field(description=option.description)


def _text(option: Option) -> Any:
    """Return the type of an option's texts; where the catalog of their names is short, the document lists it.

    The document says their form, too. What has another one is a fault of the options, in their words.
    """
    if option.pattern:
        return Annotated[Text, Field(json_schema_extra={"pattern": option.pattern})]
    if option.names in ENUMERATED and option.kind == "texts":
        return Annotated[Text, Field(examples=list(ENUMERATED[option.names]))]
    return Text


def _share(option: Option) -> Any:
    """Return the type of a share: a number, or a text in percent. What else it may be is a fault of the options."""
    number = {"type": "number", "minimum": option.least, "maximum": option.most}
    text = {"type": "string", "pattern": f"^{SHARE}$"}
    return Annotated[Any, WithJsonSchema({"anyOf": [number, text, {"type": "null"}]})]


def _type(option: Option, text: Any, whole: Any, pairs: Any) -> Any:
    types: Mapping[str, Any] = {
        "text": text,
        "choice": text,
        "integer": whole,
        "number": float,
        "texts": list[text],
        "pairs": pairs,
    }
    return types[option.kind] | None if option.is_optional else types[option.kind]
