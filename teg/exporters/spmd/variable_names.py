"""Names of the variables of one function, given when its statements are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tapestry.teg.exporters.spmd.folding import INDENT, WIDTH, fold
from tapestry.teg.exporters.spmd.layers import Item, Loop
from tapestry.teg.exporters.spmd.naming import ENDINGS, ScopeNames, identifier
from tapestry.teg.exporters.spmd.statements import Statement, is_temporary, is_temporary_key


@dataclass
class VariableNames:
    """The names of one function's variables: given out by `names`, `known` by their keys.

    `alike` are the keys of the same variable in all rounds, `successors` the statements that use temporary values up.
    What sets the variable `result` returns it.
    """

    names: ScopeNames
    known: dict[str, str]
    alike: Mapping[str, Sequence[str]]
    successors: Mapping[str, Statement]
    result: str = ""

    @staticmethod
    def of(
        names: ScopeNames, known: dict[str, str], rounds: Sequence[Sequence[Item]], kept: set[str]
    ) -> VariableNames:
        """Return the names for the first one of the rounds."""
        alike: dict[str, Sequence[str]] = {}
        for same in zip(*rounds, strict=True):
            statements = [s for s in same if isinstance(s, Statement)]
            for keys in zip(*((*s.sets, *s.inner) for s in statements), strict=True):
                alike[keys[0]] = keys
        return VariableNames(names, known, alike, _successors(rounds[0], last_reads(rounds[0], kept)))

    def add(self, statement: Statement) -> None:
        """Name what a statement sets: temporary values that are made of each other share a name."""
        for key in (*statement.sets, *statement.inner):
            if key not in self.known:
                chain, maker = [key], statement
                while is_temporary_key(chain[-1]) and chain[-1] in self.successors:
                    maker = self.successors[chain[-1]]
                    chain += maker.sets
                wanted = wanted_name([maker], chain[-1], self.alike[chain[-1]])
                self.known.update(dict.fromkeys(chain, self.names.fresh(wanted)))

    def lines(
        self,
        statement: Statement,
        sources: Sequence[str],
        numbers: Sequence[str] = (),
        given: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Write a statement, and name what it sets; `given` are texts in place of the names that it reads."""
        self.add(statement)
        commented = statement.commented({**self.known, **(given or {})}, sources, numbers)
        if self.result in statement.sets:
            ((_, text, comment),) = commented
            return fold(1, f"return {text.partition(' = ')[2]}", comment)
        lines: list[str] = []
        for indent, text, comment in commented:
            # A source that the function was given as a parameter is given up after the condition.
            done = "pass" if text.isidentifier() else text
            deleted = text.removeprefix("del ").split(", ") if text.startswith("del ") else []
            lines += deletion_lines(deleted, indent + 1) or fold(indent + 1, done, comment)
        return lines


def deletion_lines(names: Sequence[str], indent: int) -> list[str]:
    """Return the statements that give up names, as many of them in one line as it has room for."""
    lines: list[str] = []
    for name in names:
        if lines and len(lines[-1]) + len(name) + 2 <= WIDTH:
            lines[-1] += f", {name}"
        else:
            lines.append(f"{INDENT * indent}del {name}")
    return lines


def _successors(items: Sequence[Item], dying: Sequence[Sequence[str]]) -> dict[str, Statement]:
    """Return, for temporary values, the statement that reads them last and sets another one in their stead."""
    found: dict[str, Statement] = {}
    for item, gone in zip(items, dying, strict=True):
        temporary = [key for key in gone if is_temporary_key(key)]
        if isinstance(item, Statement) and is_temporary(item) and temporary:
            found[temporary[0]] = item
    return found


def wanted_name(statements: Sequence[Statement], key: str, like: Sequence[str]) -> str:
    """Return the name that a variable should have: its tensor's, and what was done to it."""
    if is_temporary_key(key):
        return "t"
    name = identifier(site_of(key), [site_of(k) for k in like])
    if ">" not in key:
        return name
    maker = next(s for s in statements if key in s.sets)
    if maker.calls:
        return name
    function = maker.lines[-1][1].partition(" = ")[2].partition("(")[0].rpartition(".")[2]
    return f"{name}_{ENDINGS.get(function, 'part')}"


def site_of(key: str) -> str:
    """Return the tensor that a variable holds a part of."""
    return key.partition(">")[0]


def last_reads(items: Sequence[Item], kept: set[str]) -> list[list[str]]:
    """Return, for each item, the variables that nobody reads after it."""
    seen = set(kept)
    result: list[list[str]] = []
    for item in reversed(items):
        touched = dict.fromkeys((*item.reads, *made_by(item)))
        result.append([key for key in touched if key not in seen])
        seen.update(touched)
    return result[::-1]


def made_by(item: Item) -> list[str]:
    """Return the variables that are known after an item, and not before it."""
    if not isinstance(item, Loop):
        return list(item.sets)
    return [k for n in range(len(item.rounds)) for q, k in enumerate(item.sets(n)) if _leaves(item, n, q)]


def _leaves(loop: Loop, number: int, q: int) -> bool:
    """Return whether a variable of a round is known outside the loop."""
    leaving = (*loop.last, *(q for _, q in loop.carried))
    return q in loop.collected or (number == len(loop.rounds) - 1 and q in leaving)
