"""A process group that records what one rank sends, receives and waits for, and moves nothing.

Nothing here needs the project: this runs in the process that runs a user's module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

LIBRARY = torch.library.Library("tapestry", "FRAGMENT")
# What a message brings, as an operator: in the recorded program it stands for the value that another rank sent.
LIBRARY.define("received(Tensor place, int message) -> Tensor")
WORDS = (torch.ops.aten.view.dtype, torch.ops.aten.view_as_real.default)
# Collectives of process groups that are not recorded.
REFUSED = (
    *("allgather", "allgather_coalesced", "allreduce_coalesced", "alltoall", "gather", "recv_anysource"),
    *("reduce", "reduce_scatter", "scatter", "monitored_barrier"),
)


LIBRARY.impl("received", lambda place, message: torch.empty_like(place), "CompositeExplicitAutograd")


class Recording:
    """The messages and waits of a rank, in order; `sent` are the values of its messages when it issues them."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.sent: list[torch.Tensor] = []
        # What messages under way read and what they write.
        self.under_way: dict[int, tuple[torch.Tensor | None, torch.Tensor | None]] = {}

    def message(
        self, kind: str, given: torch.Tensor | None, place: torch.Tensor | None, **facts: Any
    ) -> RecordedWork:
        """Record a message: what is given to it is read now, the place that it fills is written at the wait."""
        given, place = (None if x is None else elements(x) for x in (given, place))
        event = {"event": kind, "message": len(self.events), "sent": None, **facts}
        if given is not None:
            event["sent"] = len(self.sent)
            self.sent.append(given.clone(memory_format=torch.contiguous_format))
        self.events.append(event)
        self.under_way[event["message"]] = given, place
        return RecordedWork(self, event["message"])

    def end(self, number: int) -> None:
        """Record the wait for a message, and fill the place with what it brings."""
        if number in self.under_way:
            _, place = self.under_way.pop(number)
            self.events.append({"event": "wait", "message": number})
            if place is not None:
                place.copy_(torch.ops.tapestry.received(place, number))

    def check(self, x: torch.Tensor, writes: bool) -> None:
        """Check that memory which an operator uses is free.

        Raises:
            RuntimeError: a message under way reads what is written, or writes what is used.
        """
        for number, (given, place) in self.under_way.items():
            peer = self.events[number].get("peer", "others")
            if place is not None and overlap(x, place):
                raise RuntimeError(f"uses what a message from rank {peer} fills, before the wait for it")
            if writes and given is not None and overlap(x, given):
                raise RuntimeError(f"writes what a message to rank {peer} reads, before the wait for it")


class RecordedWork:
    """A message under way, as a module gets it to wait for."""

    def __init__(self, recording: Recording, number: int) -> None:
        self.recording, self.number = recording, number

    def wait(self, timeout: Any = None) -> bool:
        """Wait for the message."""
        self.recording.end(self.number)
        return True

    def is_completed(self) -> bool:
        """Return that the message may be under way."""
        return self.number not in self.recording.under_way


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors have elements in the same memory."""
    if a.untyped_storage()._cdata != b.untyped_storage()._cdata or not (a.numel() and b.numel()):
        return False
    unit = min(a.element_size(), b.element_size())
    spans = [_span(x, unit) for x in (a, b)]
    start, stop = min(start for start, _ in spans), max(stop for _, stop in spans)
    if stop - start >= sum(last - first for first, last in spans):
        return False
    memory = np.zeros(stop - start, bool)
    places = [_places(memory[first - start :], x, unit) for x, (first, _) in zip((a, b), spans, strict=True)]
    places[0][...] = True
    return bool(places[1].any())


def _span(x: torch.Tensor, unit: int) -> tuple[int, int]:
    """Return where the elements of a tensor begin and end in its memory, in words of `unit` bytes."""
    words = x.element_size() // unit
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    start = x.storage_offset() * words
    return start, start + (last + 1) * words


def _places(memory: np.ndarray, x: torch.Tensor, unit: int) -> np.ndarray:
    """Return the words of a tensor, in memory that begins with its first one."""
    words = x.element_size() // unit
    shape, strides = (*x.shape, words), (*(stride * words for stride in x.stride()), 1)
    return np.lib.stride_tricks.as_strided(memory, shape, strides)


def elements(x: torch.Tensor) -> torch.Tensor:
    """Return the tensor of which these are the bytes: modules send elements as bytes."""
    found: torch.Tensor = getattr(x, "_elements", x)
    return found


class RecordingMode(TorchDispatchMode):  # type: ignore[misc]
    """A mode that checks what operators use, and remembers of which tensor bytes are a view."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator."""
        if self.recording.under_way and not _is_of_shapes(func):
            named = kwargs or {}
            for k, argument in enumerate(func._schema.arguments):
                writes = argument.alias_info is not None and argument.alias_info.is_write
                for x in tree_leaves(args[k] if k < len(args) else named.get(argument.name)):
                    if isinstance(x, torch.Tensor):
                        self.recording.check(x, writes)
        result = _run(func, args, kwargs or {})
        if func in WORDS or (func is torch.ops.aten.detach.default and hasattr(args[0], "_elements")):
            result._elements = elements(args[0])
        return result


def _run(func: Any, args: Any, named: Mapping[str, Any]) -> Any:
    """Run an operator; one that writes into a given tensor leaves that tensor's strides as they are.

    Functionalization would give it the strides that the operator's own result has.
    """
    if (out := named.get("out")) is None:
        return func(*args, **named)
    return out.copy_(func(*args, **{**named, "out": torch.empty_like(out)}))


def _is_of_shapes(func: Any) -> bool:
    """Return whether an operator reads no elements: a view, a question about a tensor, a new one like it."""
    name = func._schema.name.partition("::")[2]
    makes = any("Tensor" in str(r.type) for r in func._schema.returns)
    return func.is_view or not makes or name.startswith("new_") or name.endswith("_like")


class RecordingGroup(dist.ProcessGroup):  # type: ignore[misc]
    """The process group that a module gets; `backend` is the one whose way of matching messages it keeps to."""

    def __init__(self, recording: Recording, backend: str, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.recording, self.backend = recording, backend

    def _members(self) -> dict[str, Any]:
        return {"group": dist.get_process_group_ranks(self)}

    def _pair(self, peer: int, tag: int) -> dict[str, Any]:
        # NCCL has no tags.
        return {
            "peer": dist.get_global_rank(self, peer),
            "tag": tag if self.backend == "gloo" else 0,
            **self._members(),
        }

    def send(self, tensors: list[torch.Tensor], target: int, tag: int) -> RecordedWork:
        """Record a send to a member."""
        return self.recording.message("send", tensors[0], None, **self._pair(target, tag))

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int) -> RecordedWork:
        """Record a receive from a member."""
        return self.recording.message("receive", None, tensors[0], **self._pair(source, tag))

    def allreduce(self, tensors: list[torch.Tensor], options: Any = None) -> RecordedWork:
        """Record an all-reduce."""
        (x,) = tensors
        return self.recording.message("all_reduce", x, x, **self._members(), **_reduction(options))

    def all_gather_single(self, place: torch.Tensor, x: torch.Tensor, options: Any = None) -> RecordedWork:
        """Record an all-gather of rows."""
        return self.recording.message("all_gather", x, place, **self._members())

    def reduce_scatter_single(
        self, place: torch.Tensor, x: torch.Tensor, options: Any = None
    ) -> RecordedWork:
        """Record a reduce-scatter of rows."""
        return self.recording.message("reduce_scatter", x, place, **self._members(), **_reduction(options))

    def broadcast(self, tensors: list[torch.Tensor], options: Any) -> RecordedWork:
        """Record a broadcast."""
        (x,) = tensors
        root = dist.get_global_rank(self, options.rootRank)
        return self.recording.message("broadcast", x, x, root=root, **self._members())

    def barrier(self, options: Any = None) -> RecordedWork:
        """Record a barrier."""
        return self.recording.message("barrier", None, None, **self._members())


def _reduction(options: Any) -> dict[str, Any]:
    """Return the name of the operation of a reduction, as `SUM`."""
    return {"op": str(options.reduceOp.op).rpartition(".")[2]}


def _refused(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(f"the collective {name!r} of a process group is not read back in")

    return refuse


for _name in REFUSED:
    setattr(RecordingGroup, _name, _refused(_name))
