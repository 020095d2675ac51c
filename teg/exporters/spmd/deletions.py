"""Deletions of variables, as late as leaves the most that a function holds at a time as it is.

A deletion matters where much is held. Others wait for one that does, or for the end of the function.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from tapestry.teg.exporters.spmd.layers import Item, Loop
from tapestry.teg.exporters.spmd.naming import ENDINGS
from tapestry.teg.exporters.spmd.statements import Statement, is_started, is_temporary_key
from tapestry.teg.exporters.spmd.variable_names import last_reads, made_by

BufferBytes = Mapping[str, np.ndarray]
"""The bytes `(devices,)` that devices hold of a buffer of the plan, or of a source."""


def delayed(
    items: Sequence[Item], dying: Sequence[Sequence[str]], given: Collection[str], sizes: BufferBytes
) -> list[list[str]]:
    """Return the variables to delete after each item; those `dying` are of no use after it.

    Variables that are `given` to a function may be held by its caller, too.
    """
    least, most = _held(items, dying, given, sizes)
    peak = np.max(least, axis=0)
    result: list[list[str]] = []
    waiting: list[str] = []
    for number, (item, keys) in enumerate(zip(items, dying, strict=True)):
        waiting = [*waiting, *(key for key in keys if not is_started(key))]
        passed = [key for key in waiting if _is_passed(item, key)]
        later = [key for key in waiting if key not in passed]
        if _may_wait(later, items[number + 1 :], most[number + 1 :], peak, sizes):
            result.append(passed)
            waiting = later
        else:
            result.append(waiting)
            waiting = []
    return result


def may_be_held(
    items: Sequence[Item],
    dying: Sequence[Sequence[str]],
    given: Collection[str],
    passed: Collection[str],
    sizes: BufferBytes,
    undemanding: Collection[str],
) -> bool:
    """Return whether the caller of a function may hold what it has passed on, without more being held at a time.

    Variables `passed` are some of those `given`; functions that are `undemanding` let their callers hold all.
    """
    least, most = _held(items, dying, given, sizes)
    peak, is_read = np.max(least, axis=0), True
    for item, held, gone in zip(items, most, dying, strict=True):
        if not is_read and not _fits(item, held, peak, sizes):
            return False
        last = [key for key in gone if key in passed]
        if last and _calls(item) and not (isinstance(item, Statement) and item.calls in undemanding):
            return False
        is_read = is_read and not last
    return all(key in sizes for key in passed)


def _may_wait(
    keys: Sequence[str],
    items: Sequence[Item],
    held: Sequence[np.ndarray],
    peak: np.ndarray,
    sizes: BufferBytes,
) -> bool:
    """Return whether variables may be held while the next of the items runs, at which so much else is `held`."""
    if not items or not all(key in sizes for key in keys):
        return False
    return _fits(items[0], held[0] + sum(sizes[key] for key in keys), peak, sizes)


def _fits(item: Item, held: np.ndarray, peak: np.ndarray, sizes: BufferBytes) -> bool:
    """Return whether an item makes no more than the peak of what is `held`, with what it reads and sets."""
    if not isinstance(item, Statement) or item.calls or item.inner:
        return False
    if any(f"{function}(" in text for _, text in item.lines for function in ENDINGS):
        # A copy may pack what it sends, and what it receives.
        moved = [key for key, _ in item.marks]
        if not all(key in sizes for key in moved):
            return False
        held = held + sum(sizes[key] for key in moved)
    return bool((held <= peak).all())


def _is_passed(item: Item, key: str) -> bool:
    """Return whether an item passes a variable on to a function, or a condition, for it to give up."""
    return key not in item.shared if isinstance(item, Loop) else bool(item.calls or item.guard)


def _calls(item: Item) -> bool:
    """Return whether an item calls functions of the program, which give up what they are given."""
    return not isinstance(item, Statement) or bool(item.calls)


def _held(
    items: Sequence[Item], dying: Sequence[Sequence[str]], given: Collection[str], sizes: BufferBytes
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return what devices hold `(devices,)` at each item at least, and at most."""
    none = np.zeros_like(next(iter(sizes.values()), np.zeros(1, np.int64)))

    def total(keys: Iterable[str]) -> np.ndarray:
        return sum((sizes[key] for key in keys if key in sizes), none)

    sources = total({site for item in items for site in item.given_up})
    live, ended, held, counted = set(given), none, total(given), total(given)
    least, most = list[np.ndarray](), list[np.ndarray]()
    for item, gone in zip(items, dying, strict=True):
        made, before = [key for key in made_by(item) if key not in live], counted
        live.update(made)
        lost = live.intersection(gone)
        live -= lost
        # Plans do not count values between the operators of a block.
        held, counted = held + total(made), counted + total(_firm(made))
        after = counted - total(_firm(lost))
        most.append(held + ended + sources)
        remaining = sources - total(item.given_up)
        # Functions may give up what they are given before they make their results, and so may conditions.
        if isinstance(item, Statement) and item.guard:
            read = _firm(item.reads)
            inside, _ = _held(item.guard.body, dying_inside(item, gone), read, sizes)
            least.append(before - total(read) + np.max(inside, axis=0) + remaining)
        else:
            least.append(
                np.maximum(before + sources, after + remaining) if _calls(item) else counted + remaining
            )
        sources = remaining
        held, counted, ended = held - total(lost), after, ended + total(lost.intersection(given))
    return least, most


def dying_inside(statement: Statement, gone: Collection[str]) -> list[list[str]]:
    """Return what is of no use after each statement of a condition; what is `gone` is of no use after it."""
    assert statement.guard is not None
    kept = {key for key in (*statement.sets, *statement.reads) if key not in gone}
    return last_reads(statement.guard.body, kept)


def _firm(keys: Iterable[str]) -> list[str]:
    return [key for key in keys if not is_temporary_key(key)]
