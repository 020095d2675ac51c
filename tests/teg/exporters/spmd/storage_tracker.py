"""A record of the storages that a rank's tensors hold while an exported module runs, from what PyTorch itself says.

This module imports nothing of the project.
"""

from __future__ import annotations

import ast
import re
import sys
import weakref
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Functions of a module that the plan's statements stand in.
STATED = re.compile(r"step|(layer|block)(_\d+)?")
# The names of values that are nothing but steps of a block.
INSIDE = re.compile(r"t(_\d+)?")
SENT = "pieces that are no runs of memory, packed to be sent"
PADDED = "margins that windows read"
COPIED = "inputs that an operator copies"
BETWEEN = "values between the operators of a block"
TERMS = (SENT, PADDED, COPIED, BETWEEN)


@dataclass
class Allocation:
    """A storage of `size_bytes`; `term` says what it is for, where the plan does not count it."""

    size_bytes: int
    operator: str
    place: tuple[int, int, str] | None
    term: str = ""


class StorageTracker(TorchDispatchMode):
    """The storages that operators make inside the mode, and those it is told of, from their making to their end."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path, self.ends, self.names = path, *_statements(Path(path).read_text())
        self.live: dict[int, tuple[Allocation, Any]] = {}
        self.events: list[tuple[int, Allocation]] = []

    def watch(self, value: torch.Tensor, operator: str) -> None:
        """Count the storage of a tensor until it is freed."""
        storage = value.untyped_storage()
        number = storage._cdata
        if number in self.live or not storage.nbytes():
            return
        frame, function = self._frames()
        place = None if frame is None else self._place(frame)
        made = Allocation(storage.nbytes(), operator, place)
        if frame is not None and function not in (None, frame.f_code.co_name) and _packs(operator):
            made.term = SENT
        self.live[number] = made, weakref.ref(storage, lambda _: self._forget(number))
        self.events.append((1, made))

    def _forget(self, number: int) -> None:
        """Note that a storage was freed; one that its own statement frees lay between operators."""
        made, _ = self.live.pop(number)
        self.events.append((-1, made))
        frame, function = self._frames()
        if made.place is None or made.term or frame is None or function != frame.f_code.co_name:
            return
        if made.place == self._place(frame) or INSIDE.fullmatch(made.place[2]):
            made.term = _term(made.operator)

    def _frames(self) -> tuple[FrameType | None, str | None]:
        """Return the frame of the statement that runs, and the innermost of the module's functions in it."""
        frame: FrameType | None = sys._getframe(2)
        innermost = None
        while frame is not None:
            if frame.f_code.co_filename == self.path:
                innermost = innermost or frame.f_code.co_name
                if STATED.fullmatch(frame.f_code.co_name):
                    return frame, innermost
            frame = frame.f_back
        return None, innermost

    def _place(self, frame: FrameType) -> tuple[int, int, str]:
        """Return the call and the statement that run, and the name that the statement sets."""
        line = self.ends.get(frame.f_lineno, frame.f_lineno)
        return id(frame), line, self.names.get(line, "")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and count what it makes."""
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.watch(leaf, str(func))
        return result

    def peak(self, *without: str) -> tuple[int, dict[str, int]]:
        """Return the most bytes at a time but for those of some terms, and what they were for."""
        live: dict[int, Allocation] = {}
        total = most = 0
        held: list[Allocation] = []
        for sign, made in self.events:
            if made.term in without:
                continue
            total += sign * made.size_bytes
            if sign > 0:
                live[id(made)] = made
            else:
                del live[id(made)]
            if total > most:
                most, held = total, list(live.values())
        terms = dict.fromkeys(TERMS, 0)
        for made in held:
            if made.term:
                terms[made.term] += made.size_bytes
        return most, terms


def _packs(operator: str) -> bool:
    return operator.startswith(("aten.clone", "aten.index_select"))


def _term(operator: str) -> str:
    """Return what a storage is for that the statement that makes it frees, or that only a block's statements read."""
    if operator.startswith("aten.constant_pad_nd"):
        return PADDED
    return COPIED if operator.startswith("aten.clone") else BETWEEN


def _statements(text: str) -> tuple[dict[int, int], dict[int, str]]:
    """Return the first line of the simple statement that each line belongs to, and the name that it sets."""
    first: dict[int, int] = {}
    names: dict[int, str] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign | ast.Return | ast.Delete | ast.Expr):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                first[line] = node.lineno
            if isinstance(node, ast.Assign):
                names[node.lineno] = ast.unparse(node.targets[0])
    return first, names
