"""Plug-ins, third parties' operators, rules and hardware: found by entry points, examined, let in or left out by
name.

A plug-in never takes the process down. Anything that cannot be loaded, is not what it claims to be, or has a name
that is taken is left out; `PlugIn.problems` says what, why and what to do, and one warning names them.

Names. The members that come with Tapestry keep their names. Of two plug-ins that provide one name neither gets it:
which of them were meant would depend on the order of installation, and a stored plan would mean another thing
elsewhere.

Trust. A plug-in is code that somebody installed: it runs with all rights of the process. One that ends the
process from C, or never returns from its import, is beyond what can be caught here.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from importlib.metadata import EntryPoint, distributions, entry_points
from multiprocessing import parent_process
from typing import Any, Generic, TypeVar

from tapestry.teg.faults import value_text

T = TypeVar("T")

log = logging.getLogger("tapestry.plugins")

OWN_NAME = "rename it; a prefix of your package's name keeps it apart from others"
MOST_SHOWN = 300

_lock = threading.RLock()
_reported: set[str] = set()  # plug-ins with faults that this process has named


class PlugInError(ValueError):
    """Error raised when a plug-in provides what its group does not hold; `hint` is what its author should do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class PlugInIssue:
    """A part of a plug-in that was left out: a `member` by name, or all of it (empty name)."""

    member: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.member + ': ' if self.member else ''}{self.message}; {self.hint}"


@dataclass(frozen=True)
class PlugIn:
    """One entry point of an installed distribution: the members it supplied, and what was left out."""

    group: str
    name: str
    value: str
    distribution: str
    version: str
    members: tuple[str, ...] = ()
    faults: tuple[PlugInIssue, ...] = ()

    def __str__(self) -> str:
        return f"{self.distribution or 'a distribution without a name'} {self.version}".rstrip()


@dataclass(frozen=True)
class PlugInGroup(Generic[T]):
    """A kind of thing that plug-ins may add.

    `candidates` lists what the object behind an entry point provides; `member` examines one of these and returns it as
    a member; both raise where it is not what it claims. `names`: the member's own name, then others it answers to.
    """

    name: str
    noun: str
    candidates: Callable[[Any], Sequence[Any]]
    member: Callable[[Any], T]
    names: Callable[[T], Sequence[str]]


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """The members supplied by all plug-ins of a group, by name, and an account of every plug-in."""

    members: Mapping[str, T]
    plug_ins: tuple[PlugIn, ...]

    def left_out(self, name: str) -> str:
        """Return the reason why there is no member of this name although a plug-in provides it; empty where none
        does.
        """
        specified = [f"{p} offers it, but: {f}" for p in self.plug_ins for f in p.faults if f.member == name]
        return "; ".join(specified)


def once(load: Callable[[], T]) -> Callable[[], T]:
    """Wrap a function to run at most once in all threads; requesting its result while it runs is an error."""
    results: list[T] = []
    running: list[bool] = []

    @wraps(load)
    def loaded() -> T:
        with _lock:
            if not results:
                if running:
                    raise PlugInError(
                        "asks for the catalog that it is being added to",
                        "import what you need from its module; look names up later, in a function",
                    )
                running.append(True)
                try:
                    results.append(load())
                finally:
                    running.clear()
            return results[0]

    return loaded


def load(group: PlugInGroup[T], taken: Collection[str]) -> Loaded[T]:
    """Load everything that plug-ins add to a group whose names `taken` are in use already.

    Never raises for a plug-in's sake. The order is that of distributions and entry points by name, so it does
    not depend on the order of installation.
    """
    accounts: list[tuple[PlugIn, list[T]]] = []
    for entry, plug_in in _entries(group.name):
        accounts.append(_load_one(group, entry, plug_in) if entry is not None else (plug_in, []))
    owners: dict[str, list[PlugIn]] = {}
    for plug_in, members in accounts:
        for member in members:
            for name in dict.fromkeys(group.names(member)):
                owners.setdefault(name, []).append(plug_in)
    known: dict[str, T] = {}
    settled = []
    for plug_in, members in accounts:
        faults, let_in = list(plug_in.faults), []
        for member in members:
            name, clash = group.names(member)[0], _clash(group, member, taken, owners)
            if clash is not None:
                faults.append(clash)
            else:
                known[name] = member
                let_in.append(name)
        settled.append(replace(plug_in, members=tuple(let_in), faults=tuple(faults)))
    _warn(settled)
    return Loaded(known, tuple(settled))


def sequence_of(kind: type[T]) -> Callable[[Any], Sequence[Any]]:
    """Build the `candidates` function of a group whose entry points are members, or sequences of members."""

    def candidates(offered: Any) -> Sequence[Any]:
        if isinstance(offered, kind):
            return (offered,)
        if isinstance(offered, Sequence) and not isinstance(offered, (str, bytes)):
            return tuple(offered)
        raise PlugInError(
            f"expected {kind.__name__}, or a tuple of {kind.__name__}, not {_shown(offered)}",
            f"let the entry point name it as 'module:NAME_OF_THE_TUPLE'; {kind.__module__}.{kind.__name__} is meant",
        )

    return candidates


def require(offered: Any, kind: type[T]) -> T:
    """Return the object, if it is of a class.

    Raises:
        Refused: it is not.
    """
    if not isinstance(offered, kind):
        raise PlugInError(
            f"expected {kind.__name__}, not {_shown(offered)}",
            f"offer {kind.__module__}.{kind.__name__} only",
        )
    return offered


def require_name(name: Any) -> str:
    """Return a member's name, if it can be typed, stored and printed.

    Raises:
        Refused: it cannot.
    """
    if not (isinstance(name, str) and 0 < len(name) <= 100 and name.isprintable() and name == name.strip()):
        raise PlugInError(f"its name is {_shown(name)}", "give it a name of 1 to 100 printable characters")
    return name


def _load_one(group: PlugInGroup[T], entry: EntryPoint, plug_in: PlugIn) -> tuple[PlugIn, list[T]]:
    """Load one entry point's members as far as they pass the examination, and record what did not."""
    faults: list[PlugInIssue] = []
    members: list[T] = []
    with _caught("", faults, "repair or uninstall it"):
        for offered in group.candidates(entry.load()):
            with _caught(_name_of(offered), faults, f"repair it, or leave it out of {entry.value!r}"):
                members.append(group.member(offered))
    return replace(plug_in, faults=tuple(faults)), members


@contextlib.contextmanager
def _caught(member: str, faults: list[PlugInIssue], hint: str) -> Iterator[None]:
    """Turn whatever a plug-in raises, its exit too, into a fault; send what it prints to standard error."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (KeyboardInterrupt, MemoryError):
        raise
    except PlugInError as error:
        faults.append(PlugInIssue(member, _line(str(error)), error.hint))
    except SystemExit as end:
        faults.append(PlugInIssue(member, f"it tried to end the process (exit {end.code!r})", hint))
    except BaseException as error:
        faults.append(PlugInIssue(member, f"{type(error).__name__}: {_line(str(error))}", hint))


def _clash(
    group: PlugInGroup[T], member: T, taken: Collection[str], owners: Mapping[str, list[PlugIn]]
) -> PlugInIssue | None:
    """Return the fault that says why a member cannot have its names; None if it can."""
    own = group.names(member)[0]
    for name in dict.fromkeys(group.names(member)):
        if name in taken:
            article = "an" if group.noun[0] in "aeiou" else "a"
            return PlugInIssue(
                own, f"{article} {group.noun} {name!r} comes with Tapestry, which keeps the name", OWN_NAME
            )
        if len(owners[name]) > 1:
            others = " and ".join(sorted({f"{p} ({p.value})" for p in owners[name]}))
            message = f"the name {name!r} is offered more than once, by {others}: nobody has it"
            return PlugInIssue(own, message, "uninstall all but one of them, or rename it")
    return None


def _entries(group: str) -> list[tuple[EntryPoint | None, PlugIn]]:
    """Return the entry points of a group in order; a distribution whose list cannot be read is there without one."""
    try:
        return _sorted(group, list(entry_points(group=group)))
    except Exception:  # one distribution's damaged metadata hides all: find out whose
        readable: list[EntryPoint] = []
        damaged = []
        for distribution in distributions():
            try:
                readable += distribution.entry_points.select(group=group)
            except Exception as error:
                fault = PlugInIssue(
                    "", f"its list of entry points cannot be read: {error!r}", "install it anew"
                )
                damaged.append((None, PlugIn(group, "", "", *_origin(distribution), faults=(fault,))))
        return [*_sorted(group, readable), *damaged]


def _sorted(group: str, entries: list[EntryPoint]) -> list[tuple[EntryPoint | None, PlugIn]]:
    found = [(e, PlugIn(group, e.name, e.value, *_origin(getattr(e, "dist", None)))) for e in entries]
    return [*sorted(found, key=lambda pair: (pair[1].distribution, pair[1].name, pair[1].value))]


def _origin(distribution: Any) -> tuple[str, str]:
    """Return the name and version of a distribution, empty where its metadata do not state them."""
    try:
        return str(distribution.metadata["Name"] or ""), str(distribution.version or "")
    except Exception:
        return "", ""


def _name_of(offered: Any) -> str:
    try:
        name = offered.name
    except Exception:
        return ""
    return _line(name) if isinstance(name, str) else ""


def _shown(value: Any) -> str:
    try:
        return value_text(value)
    except Exception:
        return type(value).__name__


def _line(text: str) -> str:
    """Convert untrusted text to one line without terminal control characters, cut where it is long."""
    joined = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return joined if len(joined) <= MOST_SHOWN else joined[: MOST_SHOWN - 3] + "..."


def _warn(plug_ins: Sequence[PlugIn]) -> None:
    """Log one line naming plug-ins with faults, each once whatever its groups; their first faults as information.

    Child processes log nothing, because their parent has.
    """
    if parent_process() is not None:
        return
    broken = [plug_in for plug_in in plug_ins if plug_in.faults]
    new = [name for name in dict.fromkeys(map(str, broken)) if name not in _reported]
    _reported.update(new)
    if new:
        log.warning(
            "plug-ins left out in part or whole: %s; `tapestry plugins` says why and what to do",
            ", ".join(new),
        )
    for plug_in in broken:
        more = f" (and {len(plug_in.faults) - 1} more)" if len(plug_in.faults) > 1 else ""
        entry = (plug_in, plug_in.group, plug_in.name, plug_in.value)
        log.info("plug-in %s, %s %r (%s): %s%s", *entry, plug_in.faults[0], more)
