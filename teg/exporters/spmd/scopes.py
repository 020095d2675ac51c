"""Statements and loops as the lines of functions: names are given, and values are deleted after their last reader."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from tapestry.teg.exporters.spmd.folding import INDENT, WIDTH, fold
from tapestry.teg.exporters.spmd.layers import Item, Loop, progression
from tapestry.teg.exporters.spmd.naming import ENDINGS, ScopeNames, identifier, pattern
from tapestry.teg.exporters.spmd.statements import Statement, is_started

_ELEMENT = re.compile(r"(\w+)\[(\d+)\]")


@dataclass
class ScopeWriter:
    """Writes the functions of one module; `reserved` are names of its top level.

    With `deletes`, values are given up after their last readers; a program that is traced keeps nothing alive by names.
    """

    reserved: set[str]
    deletes: bool = True
    functions: list[list[str]] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)

    def step(
        self, items: Sequence[Item], outputs: Mapping[str, Sequence[str]]
    ) -> tuple[list[str], dict[str, str]]:
        """Write the body of the whole step; return its lines and the names of variables at its end.

        `outputs` are the variables that each sink's text reads.
        """
        kept = {key for keys in outputs.values() for key in keys}
        names = ScopeNames({*self.reserved, "w", "i"})
        known: dict[str, str] = {}
        lines: list[str] = []
        dying = _last_reads(items, kept)
        live = {key for item in items for key in (*item.reads, *_made(item))} | kept
        for number, item in enumerate(items):
            live.difference_update(dying[number])
            dying[number] = [key for key in dying[number] if not is_started(key)]
            free = [_holder(known[key]) for key in dying[number] if key in known]
            free = list(dict.fromkeys(name for name in free if name not in _holders(known, live)))
            if isinstance(item, Loop):
                lines += self._loop(item, names, known, free)
            else:
                lines += _statement(item, names, known, _plain_sources(item))
                free += [known[key] for key in dying[number] if key in item.sets]
            gone = [name for name in dict.fromkeys(free) if name not in _holders(known, live)]
            if number + 1 < len(items):
                lines += _deleted(gone)
        return lines, known

    def _loop(self, loop: Loop, names: ScopeNames, known: dict[str, str], free: list[str]) -> list[str]:
        """Write a loop: the function of a round, and the calls.

        Names that are `free` are of no use after it. Those that the loop gives up itself leave the list, those of its
        own that are of no use any more come into it.
        """
        function = self._function_name(loop)
        listed = {q: names.fresh(f"{_base(loop, q)}_all") for q in loop.collected}
        targets: dict[int, str] = {}
        lines: list[str] = []
        for first, q in loop.carried:
            reused = known[first] in free and known[first] not in targets.values()
            targets[q] = known[first] if reused else names.fresh(_base(loop, q))
        carry = names.fresh("carry") if self.deletes and loop.carried else ""
        for q in (*loop.last, *loop.collected):
            if q not in targets:
                targets[q] = names.fresh(_base(loop, q))
        lines += [f"    {name} = []" for name in listed.values()]
        calls, written = self._arguments(loop, names, known, free)
        lines += written
        carried = [targets[q] for _, q in loop.carried]
        begins = [known[first] for first, _ in loop.carried]
        if carry:
            # Only the function of a round holds what it is given, and can give it up.
            lines += fold(1, f"{carry} = [{', '.join(begins)}]")
            lines += _deleted(_withdrawn(free, [name for name in begins if name not in calls]))
            calls = [f"{carry}.pop(0)" for _ in carried] + calls
        else:
            lines += [f"    {a} = {b}" for a, b in zip(carried, begins, strict=True) if a != b]
            calls = carried + calls
        count = len(loop.rounds)
        call = f"{function}({', '.join(['w', 'i', *calls])})"
        lines.append(f"    for i in range({count}):")
        lines += fold(2, _received(call, [*targets.values()], len(carried) if carry else 0, carry))
        elements = {q: f"{carry}[{k}]" for k, (_, q) in enumerate(loop.carried)} if carry else {}
        lines += [f"        {name}.append({elements.get(q, targets[q])})" for q, name in listed.items()]
        if carry and any(q in loop.last for _, q in loop.carried):
            last = f"{carry}.pop()" if len(carried) == 1 else carry
            lines += fold(1, f"{', '.join(carried)} = {last}")
            free += carried
        free += [carry] if carry and lines[-1] != f"    {carried[0]} = {carry}.pop()" else []
        self._round(loop, function, tuple(targets))
        for number in range(count):
            for q, key in enumerate(loop.sets(number)):
                if q in listed:
                    known[key] = f"{listed[q]}[{number}]"
                elif q in targets and number == count - 1:
                    known[key] = targets[q]
        free += [targets[q] for q in listed if q not in elements]
        return lines

    def _arguments(
        self, loop: Loop, names: ScopeNames, known: Mapping[str, str], free: list[str]
    ) -> tuple[list[str], list[str]]:
        """Return what each round is given of what is shared or varies, and the lines that prepare it."""
        calls, lines = [known[key] for key in loop.shared], list[str]()
        varying = [[known[key] for key in keys] for keys in loop.varying]
        uses = Counter(map(_holder, (*calls, *(known[first] for first, _ in loop.carried))))
        uses.update(name for texts in varying for name in set(map(_holder, texts)))
        for keys, texts in zip(loop.varying, varying, strict=True):
            own = [name for name in dict.fromkeys(map(_holder, texts)) if uses[name] == 1]
            found = _element(texts)
            if found is None:
                every = names.fresh(f"{identifier(_site(keys[0]), [_site(k) for k in keys])}_each")
                lines += fold(1, f"{every} = [{', '.join(texts)}]")
                lines += _deleted(_withdrawn(free, own))
                found = f"{every}.pop(0)"
            elif own and own[0] in free:
                # Taken out of its list, a value is free as soon as its round is done with it.
                found = _taken(found, len(texts))
                _withdrawn(free, own if found.endswith(")") else [])
            calls.append(found)
        return calls, lines

    def _function_name(self, loop: Loop) -> str:
        name = "layer"
        number = 2
        while name in self.reserved:
            name, number = f"layer_{number}", number + 1
        self.reserved.add(name)
        return name

    def _round(self, loop: Loop, function: str, returned: tuple[int, ...]) -> None:
        """Write the function of one round."""
        names = ScopeNames({*self.reserved, "w", "i"})
        known: dict[str, str] = {}
        parameters = []
        own = loop.sets(0)
        outside = [first for first, _ in loop.carried]
        outside += [*loop.shared, *(keys[0] for keys in loop.varying)]
        for key in outside:
            known[key] = names.fresh(identifier(_site(key)))
            parameters.append(known[key])
        body: list[str] = []
        kept = {own[q] for q in returned}
        dying = _last_reads(loop.rounds[0], kept)
        for number, statement in enumerate(loop.rounds[0]):
            others = [r[number] for r in loop.rounds]
            like = [(*s.sets, *s.inner) for s in others]
            body += _statement(statement, names, known, self._sources(others), like)
            if number + 1 < len(loop.rounds[0]):
                body += _deleted([known[key] for key in dying[number] if not is_started(key)])
        if returned:
            body += fold(1, f"return {', '.join(known[own[q]] for q in returned)}")
        head = fold(0, f"def {function}({', '.join(['w', 'i', *parameters])}):")
        doc = f'    """Compute layer `i` of {len(loop.rounds)}."""'
        self.functions.append([*head, doc, *body])

    def _sources(self, statements: Sequence[Statement]) -> list[str]:
        """Return the texts of the sources that a round's statement reads, by their order of appearance."""
        columns = zip(*([key for key, is_source in s.marks if is_source] for s in statements), strict=True)
        texts = []
        for column in columns:
            if len(set(column)) == 1:
                texts.append(f'w["{column[0]}"]')
                continue
            even = pattern(column)
            if even is not None:
                texts.append(f'w[f"{even}"]')
                continue
            table = f"({', '.join(_quoted(name) for name in column)})"
            if table not in self.tables:
                self.tables.append(table)
            texts.append(f"w[NAMES_{self.tables.index(table)}[i]]")
        return texts


def _received(call: str, targets: Sequence[str], carried: int, carry: str) -> str:
    """Return the assignment of what a round returns; the first values, those `carried`, become a list."""
    if carried == len(targets) == 1:
        return f"{carry} = [{call}]"
    if carried == len(targets) and carry:
        return f"{carry} = [*{call}]"
    names = [f"*{carry}", *targets[carried:]] if carry else targets
    return f"{', '.join(names)} = {call}" if names else call


def _deleted(names: Sequence[str]) -> list[str]:
    """Return the statements that give up names, as many of them in one line as it has room for."""
    lines: list[str] = []
    for name in names:
        if lines and len(lines[-1]) + len(name) + 2 <= WIDTH:
            lines[-1] += f", {name}"
        else:
            lines.append(f"{INDENT}del {name}")
    return lines


def _holder(text: str) -> str:
    """Return the variable that holds a value, alone or in a list."""
    return text.partition("[")[0]


def _withdrawn(free: list[str], names: Sequence[str]) -> list[str]:
    """Take names out of those that are free; return those that were."""
    found = [name for name in names if name in free]
    free[:] = [name for name in free if name not in found]
    return found


def _holders(known: Mapping[str, str], live: Set[str]) -> set[str]:
    return {_holder(text) for key, text in known.items() if key in live}


def _taken(found: str, count: int) -> str:
    """Return the text that takes a round's value out of its list, if it is the first or the last one there."""
    name = _holder(found)
    taken = {f"{name}[i]": f"{name}.pop(0)", f"{name}[{count - 1} - i]": f"{name}.pop()"}
    return taken.get(found, found)


def _element(texts: Sequence[str]) -> str | None:
    """Return the text of the element of one list that each round reads; None where they are no such elements."""
    elements = [_ELEMENT.fullmatch(text) for text in texts]
    if not all(elements) or len({m.group(1) for m in elements if m}) > 1:
        return None
    even = progression([int(m.group(2)) for m in elements if m])
    return None if even is None else f"{texts[0].partition('[')[0]}[{even}]"


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain_sources(statement: Statement) -> list[str]:
    return [f"w[{_quoted(key)}]" for key, is_source in statement.marks if is_source]


def _site(key: str) -> str:
    """Return the tensor that a variable holds a part of."""
    return key.partition(">")[0]


def _base(loop: Loop, q: int) -> str:
    return _wanted(loop.rounds[0], loop.sets(0)[q], [loop.sets(k)[q] for k in range(len(loop.rounds))])


def _wanted(statements: Sequence[Statement], key: str, like: Sequence[str]) -> str:
    """Return the name that a variable should have: its tensor's, and what was done to it."""
    if key.startswith("~"):
        return "t"
    name = identifier(_site(key), [_site(k) for k in like])
    if ">" not in key:
        return name
    maker = next(text for s in statements if key in s.sets for _, text in reversed(s.lines))
    function = maker.partition(" = ")[2].partition("(")[0].rpartition(".")[2]
    return f"{name}_{ENDINGS.get(function, 'part')}"


def _statement(
    statement: Statement,
    names: ScopeNames,
    known: dict[str, str],
    sources: Sequence[str],
    like: Sequence[Sequence[str]] = (),
) -> list[str]:
    """Write a statement, and name what it sets."""
    for k, key in enumerate((*statement.sets, *statement.inner)):
        if key not in known:
            known[key] = names.fresh(_wanted([statement], key, [sets[k] for sets in like]))
    lines: list[str] = []
    rendered = statement.rendered(known, sources)
    for number, (indent, text) in enumerate(rendered):
        lines += fold(indent + 1, text, statement.comment if number + 1 == len(rendered) else "")
    return lines


def _last_reads(items: Sequence[Item], kept: set[str]) -> list[list[str]]:
    """Return, for each item, the variables that nobody reads after it."""
    seen = set(kept)
    result: list[list[str]] = []
    for item in reversed(items):
        touched = dict.fromkeys((*item.reads, *_made(item)))
        result.append([key for key in touched if key not in seen])
        seen.update(touched)
    return result[::-1]


def _made(item: Item) -> list[str]:
    """Return the variables that are known after an item, and not before it."""
    if not isinstance(item, Loop):
        return list(item.sets)
    return [k for n in range(len(item.rounds)) for q, k in enumerate(item.sets(n)) if _leaves(item, n, q)]


def _leaves(loop: Loop, number: int, q: int) -> bool:
    """Return whether a variable of a round is known outside the loop."""
    leaving = (*loop.last, *(q for _, q in loop.carried))
    return q in loop.collected or (number == len(loop.rounds) - 1 and q in leaving)
