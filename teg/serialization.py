"""Serialization of a document while its blocks are made: in portions of text, without the graph or the whole text.

The members stand in another order than `teg.document` writes them, which no reader of JSON minds: blocks first, as
they come, then the tensors, which wait in a temporary file, then definitions and data.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile

import numpy as np

from tapestry.teg.document import VERSION
from tapestry.teg.document_members import (
    block_member,
    compact,
    definition_member,
    external_member,
    tensor_member,
)
from tapestry.teg.encoding import array_text
from tapestry.teg.external_data import ExternalData
from tapestry.teg.graph import Block, Definition, Tensor
from tapestry.teg.issues import key_path

PORTION = 2**18
IN_MEMORY = 2**20

Values = Iterable[tuple[str, np.ndarray | ExternalData]]


def stream_document(
    name: str, nodes: Iterable[tuple[Block, Sequence[Tensor]]], data: Values
) -> Generator[str, None, None]:
    """Write the document of blocks with their output tensors, in portions of at most `PORTION` characters or a member.

    `data` is read after all blocks were taken, so it may depend on them. Arrays are written in pieces.

    Raises:
        MalformedError: a value that JSON cannot represent exactly, with its path.
    """
    return _in_portions(_lines(name, nodes, data))


def _lines(name: str, nodes: Iterable[tuple[Block, Sequence[Tensor]]], data: Values) -> Iterator[str]:
    positions: dict[Definition, int] = {}
    tensor_count = block_count = 0
    with SpooledTemporaryFile(IN_MEMORY, "w+", encoding="ascii") as tensors:
        yield f'{{\n"teg": {VERSION},\n"name": {json.dumps(name)},\n"blocks": ['
        for block, outputs in nodes:
            number = positions.setdefault(block.definition, len(positions))
            member = block_member(block, number, f"$.blocks[{block_count}]")
            yield f"{',' if block_count else ''}\n {compact(member)}"
            block_count += 1
            for tensor in outputs:
                member = tensor_member(tensor, f"$.tensors[{tensor_count}]")
                tensors.write(f"{',' if tensor_count else ''}\n {compact(member)}")
                tensor_count += 1
        yield '],\n"tensors": ['
        tensors.seek(0)
        yield from iter(lambda: tensors.read(PORTION), "")
    yield '],\n"definitions": ['
    for k, definition in enumerate(positions):
        yield f"{',' if k else ''}\n {compact(definition_member(definition, f'$.definitions[{k}]'))}"
    yield '],\n"data": {'
    for k, (site, value) in enumerate(data):
        yield f"{',' if k else ''}\n {json.dumps(site)}:"
        path = key_path("$.data", site)
        yield from (
            (compact(external_member(value, path)),)
            if isinstance(value, ExternalData)
            else array_text(value, path)
        )
    yield "}\n}\n"


def _in_portions(texts: Iterable[str]) -> Generator[str, None, None]:
    """Join texts to portions of at most `PORTION` characters; a longer text is a portion of its own."""
    waiting: list[str] = []
    size = 0
    for text in texts:
        if waiting and size + len(text) > PORTION:
            yield "".join(waiting)
            waiting, size = [], 0
        waiting.append(text)
        size += len(text)
    if waiting:
        yield "".join(waiting)
