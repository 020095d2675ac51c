"""Temporary values written inside the one expression that reads them, where that stays a short line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tapestry.teg.exporters.spmd.folding import split_top
from tapestry.teg.exporters.spmd.statements import Statement, apparent_length, is_temporary, variable

# The longest statement that is made, without its indentation; shorter where operators would be folded.
LONGEST, LONGEST_SUM = 80, 74


def nested(statements: Sequence[Statement], kept: Sequence[str] = ()) -> list[Statement]:
    """Put temporary values that are read once into the statements that read them.

    A value is computed where its reader stands, which is the next statement, or a later one if nothing is read for it.
    Variables `kept` are read at the end, too.
    """
    reads = Counter([*(key for s in statements for key, _ in s.marks), *kept])
    done: list[Statement] = []
    for statement in statements:
        outer: Statement | None = statement
        while outer is not None:
            whole, outer = outer, _with_one(outer, done, reads)
        done.append(whole)
    return done


def _with_one(outer: Statement, done: list[Statement], reads: Mapping[str, int]) -> Statement | None:
    """Return a statement with one of the values before it in it, which is taken away; None where none fits."""
    given_up = outer.given_up
    for back in range(len(done) - 1, -1, -1):
        inner = done[back]
        if not is_temporary(inner) or given_up & {key for key, is_source in inner.marks if is_source}:
            return None
        given_up |= inner.given_up
        # Its own assignment mentions it, too.
        if reads[inner.sets[0]] == 2 and (back == len(done) - 1 or not inner.reads):
            merged = _merged(inner, outer)
            if merged is not None:
                del done[back]
                return merged
    return None


def _merged(inner: Statement, outer: Statement) -> Statement | None:
    """Return a statement with another one's value in it; None where that is too long, or not read there."""
    (key,) = inner.sets
    if len(outer.lines) != 1 or key not in outer.reads:
        return None
    ((_, text),) = outer.lines
    value = inner.lines[0][1].partition(" = ")[2]
    before, after = text.split(variable(key))
    alone = before.endswith(("(", ", ", "= ", "=", "[")) and (not after or after[0] in "),]")
    is_compound = len(split_top(value, " ")) > 1 or value.startswith("-")
    if is_compound and not alone:
        value = f"({value})"
    merged = f"{before}{value}{after}"
    is_sum = len(split_top(merged.partition(" = ")[2], " ")) > 1
    if apparent_length(merged) > (LONGEST_SUM if is_sum else LONGEST):
        return None
    return Statement(((0, merged),), outer.sets, outer.comment)
