"""Answers with files of tensors."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import Query, Response

from tapestry.service.api.answers import REVALIDATE
from tapestry.service.api.openapi_parts import Answers
from tapestry.service.api.problems import Problem
from tapestry.service.store import TensorValue
from tapestry.teg.faults import Fault
from tapestry.teg.tensor_files import TensorFileError, dump_tensors

MEDIA_TYPE = "application/octet-stream"
FileFormat = Annotated[Literal["npz", "safetensors"], Query(description="the format of the file")]


def file_answer(description: str) -> Answers:
    """Return the documented success response of an endpoint that answers with a file of tensors."""
    schema = {"type": "string", "format": "binary"}
    content = {MEDIA_TYPE: {"schema": schema, "example": "the content of the file"}}
    return {200: {"description": description, "content": content}}


def tensor_file(values: Mapping[str, TensorValue], form: str, name: str) -> Response:
    """Build the response with tensors in a file; `name` is for downloads.

    Raises:
        Problem: 422, the format cannot hold these tensors.
    """
    file = io.BytesIO()
    try:
        dump_tensors(file, f".{form}", {key: value.array for key, value in values.items()})
    except TensorFileError as error:
        fault = Fault("#query/format", str(error))
        raise Problem(422, "invalid", fault.detail, (fault,)) from None
    headers = {
        "Cache-Control": REVALIDATE,
        "Content-Disposition": f'attachment; filename="{name}.{form}"',
    }
    return Response(file.getvalue(), headers=headers, media_type=MEDIA_TYPE)
