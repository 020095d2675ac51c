"""Statements and loops as the lines of functions: names are given, and values are deleted after their last reader."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice

from tapestry.teg.exporters.spmd.deletions import BufferBytes, delayed, dying_inside, may_be_held
from tapestry.teg.exporters.spmd.dictionaries import SHARED, prefix_name, range_text
from tapestry.teg.exporters.spmd.folding import INDENT, fold
from tapestry.teg.exporters.spmd.layers import Item, Loop
from tapestry.teg.exporters.spmd.naming import ScopeNames, identifier, number_text, pattern
from tapestry.teg.exporters.spmd.shared_functions import (
    MOST_ARGUMENTS,
    FunctionScope,
    SharedFunction,
    arguments_text,
    sources_read,
)
from tapestry.teg.exporters.spmd.statements import Statement, is_started
from tapestry.teg.exporters.spmd.variable_names import (
    VariableNames,
    deletion_lines,
    last_reads,
    made_by,
    site_of,
    wanted_name,
)
from tapestry.teg.python_text import quoted, template

_ELEMENT = re.compile(r"(\w+)\[(\d+)\]")
# What comes first in a source's name up to the number of the layer.
_NUMBERED = re.compile(r'w\[f"((?:[^"\\{]|\\.)*\{[^}]*\})')
# The list in which values are passed on to a function that gives them up, and parameters of all functions.
PASSED = "given"
OWN_NAMES = ("w", "i", PASSED)


@dataclass
class ScopeWriter:
    """Writes the functions of one module; `reserved` are names of its top level.

    With `deletes`, values are given up after their last readers, as late as those of `sizes` may be; a program that is
    traced keeps nothing alive by names. Callers of functions that are `undemanding` may hold what they give.
    """

    reserved: set[str]
    deletes: bool = True
    sizes: BufferBytes = field(default_factory=dict)
    functions: list[list[str]] = field(default_factory=list)
    undemanding: set[str] = field(default_factory=set)
    tables: list[str] = field(default_factory=list)

    def step(
        self, items: Sequence[Item], outputs: Mapping[str, Sequence[str]]
    ) -> tuple[list[str], dict[str, str]]:
        """Write the body of the whole step; return its lines and the names of variables at its end.

        `outputs` are the variables that each sink's text reads.
        """
        kept = {key for keys in outputs.values() for key in keys}
        names = ScopeNames({*self.reserved, *OWN_NAMES})
        known: dict[str, str] = {}
        naming = VariableNames.of(names, known, [items], kept)
        texts = [_plain_sources(item) if isinstance(item, Statement) else [] for item in items]
        return self._body(items, naming, [(each, ()) for each in texts], kept), known

    def _body(
        self,
        items: Sequence[Item],
        naming: VariableNames,
        texts: Sequence[tuple[Sequence[str], Sequence[str]]],
        kept: set[str],
        outside: Sequence[str] = (),
    ) -> list[str]:
        """Write items, each with the texts of its sources and numbers; variables `kept` are read at the end."""
        known, lines = naming.known, list[str]()
        dying = self._dying(items, kept, outside)
        live = {key for item in items for key in (*item.reads, *made_by(item))} | kept
        for number, (item, gone) in enumerate(zip(items, dying, strict=True)):
            live.difference_update(gone)
            before = [_holder(known[key]) for key in gone if key in known]
            free = [name for name in dict.fromkeys(before) if name not in _holders(known, live)]
            if isinstance(item, Loop):
                lines += self._loop(item, naming.names, known, free)
            else:
                sources, numbers = texts[number]
                taken = zip(sources, item.taken, strict=True)
                free += [name for name, is_taken in taken if is_taken and name.isidentifier()]
                lines += self._written(item, naming, sources, numbers, free)
                free += [known[key] for key in gone if key in item.sets]
            if number + 1 < len(items):
                # Temporary values share names with those that are made of them.
                held = _holders(known, live)
                lines += self._deleted([name for name in dict.fromkeys(free) if name not in held])
        return lines

    def _dying(self, items: Sequence[Item], kept: set[str], given: Sequence[str] = ()) -> list[list[str]]:
        """Return the variables that are given up after each item; those `given` come from outside."""
        dying = last_reads(items, kept)
        if self.deletes:
            return delayed(items, dying, given, self.sizes)
        return [[key for key in keys if not is_started(key)] for keys in dying]

    def _written(
        self,
        statement: Statement,
        naming: VariableNames,
        sources: Sequence[str],
        numbers: Sequence[str],
        free: list[str],
    ) -> list[str]:
        """Write a statement; what is `free`, and leaves that list with it, is passed on or given up early."""
        naming.add(statement)
        if statement.guard and self.deletes:
            made = {naming.known[key] for key in (*statement.sets, *statement.inner)}
            gone = [key for key in statement.reads if naming.known[key] in {*free} - made]
            dying = delayed(statement.guard.body, dying_inside(statement, gone), statement.reads, self.sizes)
            gone = [key for keys in dying[:-1] for key in keys if key in gone]
            _withdrawn(free, [naming.known[key] for key in gone])
            return naming.lines(statement.guard.statement(dying, gone), sources, numbers)
        given = [key for key in statement.reads if _holder(naming.known[key]) in free]
        if not statement.calls or not self.deletes or not given or statement.calls in self.undemanding:
            return naming.lines(statement, sources, numbers)
        passed = [naming.known[key] for key in given]
        # Only the function holds what it is given, and can give it up.
        lines = fold(1, f"{PASSED} = [{', '.join(passed)}]")
        lines += self._deleted(_withdrawn(free, list(dict.fromkeys(map(_holder, passed)))))
        texts = [f"{PASSED}.pop(0)"] * (len(given) - 1) + [f"{PASSED}.pop()"]
        return lines + naming.lines(statement, sources, numbers, dict(zip(given, texts, strict=True)))

    def _deleted(self, names: Sequence[str]) -> list[str]:
        """Return the statements that give up names."""
        return deletion_lines(names, 1) if self.deletes else []

    def _loop(self, loop: Loop, names: ScopeNames, known: dict[str, str], free: list[str]) -> list[str]:
        """Write a loop: the function of a round, and the calls.

        Names that are `free` are of no use after it. Those that the loop gives up itself leave the list, those of its
        own that are of no use any more come into it.
        """
        listed = {q: names.fresh(f"{_base(loop, q)}_all") for q in loop.collected}
        targets: dict[int, str] = {}
        lines: list[str] = []
        for first, q in loop.carried:
            reused = known[first] in free and known[first] not in targets.values()
            targets[q] = known[first] if reused else names.fresh(_base(loop, q))
        carry = names.fresh("carry") if self._passes_on(loop) else ""
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
            lines += self._deleted(_withdrawn(free, [name for name in begins if name not in calls]))
            calls = [f"{carry}.pop(0)" for _ in carried] + calls
        else:
            lines += [f"    {a} = {b}" for a, b in zip(carried, begins, strict=True) if a != b]
            calls = carried + calls
        count = len(loop.rounds)
        numbers, call = self._call(loop, names, tuple(targets), calls)
        lines.append(f"    for i in {range_text(numbers)}:")
        lines += fold(2, _received(call, [*targets.values()], len(carried) if carry else 0, carry))
        elements = {q: f"{carry}[{k}]" for k, (_, q) in enumerate(loop.carried)} if carry else {}
        lines += [f"        {name}.append({elements.get(q, targets[q])})" for q, name in listed.items()]
        if carry and any(q in loop.last for _, q in loop.carried):
            last = f"{carry}.pop()" if len(carried) == 1 else carry
            lines += fold(1, f"{', '.join(carried)} = {last}")
            free += carried
        free += [carry] if carry and lines[-1] != f"    {carried[0]} = {carry}.pop()" else []
        for number in range(count):
            for q, key in enumerate(loop.sets(number)):
                if q in listed:
                    known[key] = f"{listed[q]}[{number}]"
                elif q in targets and number == count - 1:
                    known[key] = targets[q]
        free += [targets[q] for q in listed if q not in elements]
        return lines

    def _passes_on(self, loop: Loop) -> bool:
        """Return whether the function of a round has to give up what is carried before it ends."""
        carried = [first for first, _ in loop.carried]
        given = [*carried, *loop.shared, *(keys[0] for keys in loop.varying)]
        places = (*(q for _, q in loop.carried), *loop.last, *loop.collected)
        items = loop.rounds[0]
        dying = last_reads(items, {loop.sets(0)[q] for q in places})
        if not self.deletes or not carried:
            return False
        return not may_be_held(items, dying, given, carried, self.sizes, self.undemanding)

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
                every = names.fresh(f"{identifier(site_of(keys[0]), [site_of(k) for k in keys])}_each")
                lines += fold(1, f"{every} = [{', '.join(texts)}]")
                lines += self._deleted(_withdrawn(free, own))
                found = f"{every}.pop(0)"
            elif own and own[0] in free:
                # Taken out of its list, a value is free as soon as its round is done with it.
                found = _taken(found, len(texts))
                _withdrawn(free, own if found.endswith(")") else [])
            calls.append(found)
        return calls, lines

    def _call(
        self, loop: Loop, names: ScopeNames, returned: tuple[int, ...], arguments: Sequence[str]
    ) -> tuple[list[int], str]:
        """Write the function of a round, unless it is but a call itself; return the numbers of rounds, and the call."""
        outside = [*(first for first, _ in loop.carried), *loop.shared, *(keys[0] for keys in loop.varying)]
        kept = [loop.sets(0)[q] for q in returned]
        rounds = list(range(len(loop.rounds)))
        first = loop.rounds[0][0]
        popped = [key for key, _ in loop.carried]
        in_order = [key for key in first.reads if key in popped] == popped
        if len(loop.rounds[0]) == 1 and first.calls and list(first.sets) == kept and in_order:
            numbers = [r[0].numbers[0] for r in loop.rounds] if first.numbers else rounds
            # Lists have an element for each round, which `i` has to be.
            counted = rounds if any("[" in text for text in arguments) else numbers
            formula = number_text(numbers, counted)
            even = formula is not None and range_text(counted).startswith("range")
            if even and not sources_read([first]):
                known = dict(zip(outside, arguments, strict=True)) | dict.fromkeys(kept, "_")
                ((_, text),) = first.rendered(known, [], [str(formula)])
                return counted, text.rpartition(" = ")[2]
        name = names.fresh("layer")
        self.reserved.add(name)
        scope = FunctionScope([list(r) for r in loop.rounds], rounds, set())
        doc, leading = f"Compute layer `i` of {len(rounds)}.", ["w", "i"]
        self._function(name, leading, doc, scope, outside, (), kept)
        return rounds, f"{name}({arguments_text(leading, arguments)})"

    def shared(self, function: SharedFunction, doc: str = "", decorator: str = "") -> None:
        """Write a function that several places call."""
        leading = [*(["w"] if function.reads_sources else []), *(["i"] if function.is_numbered else [])]
        doc = doc or f"Compute what {len(function.body.rounds)} layers have in common."
        outside, given = function.parameters, function.source_parameters
        items = function.body.rounds[0]
        dying = last_reads(items, set(function.returned))
        if may_be_held(items, dying, outside, outside, self.sizes, self.undemanding):
            self.undemanding.add(function.name)
        self._function(function.name, leading, doc, function.body, outside, given, function.returned)
        if decorator:
            self.functions[-1].insert(0, decorator)

    def _function(
        self,
        name: str,
        leading: Sequence[str],
        doc: str,
        scope: FunctionScope,
        outside: Sequence[str],
        given: Sequence[int],
        returned: Sequence[str],
    ) -> None:
        """Write a function of variables `outside`, and of `given` sources, by their positions."""
        names = ScopeNames({*self.reserved, *OWN_NAMES})
        known = {key: names.fresh(identifier(site_of(key))) for key in outside}
        rounds = [[s for s in r if isinstance(s, Statement)] for r in scope.rounds]
        columns = list(zip(*(sources_read(r) for r in rounds), strict=True))
        parameters = {k: names.fresh(identifier(columns[k][0], columns[k])) for k in given}
        texts = [parameters.get(k) or self._source(column, scope.numbers) for k, column in enumerate(columns)]
        listed = [*(known[key] for key in outside), *parameters.values()]
        body: list[str] = []
        if len(leading) + len(listed) > MOST_ARGUMENTS:
            body += [*fold(1, f"{', '.join(listed)} = {PASSED}"), f"{INDENT}del {PASSED}"]
            listed = [PASSED]
        body += self._prefixed(texts, names)
        waiting = iter(texts)
        arguments = [
            (list(islice(waiting, len(sources_read([same[0]])))), _numbers(same, scope.numbers))
            for same in zip(*rounds, strict=True)
        ]
        naming = VariableNames.of(names, known, rounds, set(returned))
        last = rounds[0][-1]
        naming.result = (
            returned[0] if last.sets == tuple(returned) and len(last.lines) == 1 == len(returned) else ""
        )
        body += self._body(rounds[0], naming, arguments, set(returned), outside)
        if returned and not naming.result:
            body += fold(1, f"return {', '.join(known[key] for key in returned)}")
        signature = fold(0, f"def {name}({', '.join([*leading, *listed])}):")
        self.functions.append([*signature, f'    """{doc}"""', *body])

    def _prefixed(self, texts: list[str], names: ScopeNames) -> list[str]:
        """Give the prefixes that many names of sources share a name, in place; return the lines that set it."""
        lines: list[str] = []
        begins = Counter(m.group(1) for text in texts if (m := _NUMBERED.match(text)))
        for prefix, count in begins.items():
            if count >= SHARED and len(prefix) > len("{i}"):
                name = names.fresh(prefix_name(prefix.partition("{")[0]))
                lines += fold(1, f'{name} = f"{prefix}"')
                texts[:] = [text.replace(f'w[f"{prefix}', f'w[f"{{{name}}}', 1) for text in texts]
                texts[:] = [f"w[{name}]" if text == f'w[f"{{{name}}}"]' else text for text in texts]
        return lines

    def _source(self, column: Sequence[str], numbers: Sequence[int]) -> str:
        """Return the text of a source by its names in all rounds."""
        if len(set(column)) == 1:
            return f"w[{quoted(column[0])}]"
        even = pattern(column, numbers)
        if even is not None:
            return f"w[{template(even)}]"
        table = f"({', '.join(quoted(name) for name in column)})"
        if table not in self.tables:
            self.tables.append(table)
        return f"w[NAMES_{self.tables.index(table)}[i]]"


def _numbers(statements: Sequence[Statement], numbers: Sequence[int]) -> list[str]:
    """Return the texts of the numbers of layers that a statement's calls are given."""
    columns = zip(*(s.numbers for s in statements), strict=True)
    return [number_text(column, numbers) or str(column[0]) for column in columns]


def _received(call: str, targets: Sequence[str], carried: int, carry: str) -> str:
    """Return the assignment of what a round returns; the first values, those `carried`, become a list."""
    if carried == len(targets) == 1:
        return f"{carry} = [{call}]"
    if carried == len(targets) and carry:
        return f"{carry} = [*{call}]"
    names = [f"*{carry}", *targets[carried:]] if carry else targets
    return f"{', '.join(names)} = {call}" if names else call


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
    even = number_text([int(m.group(2)) for m in elements if m], range(len(elements)))
    return None if even is None else f"{texts[0].partition('[')[0]}[{even}]"


def _plain_sources(statement: Statement) -> list[str]:
    return [f"w[{quoted(key)}]" for key, is_source in statement.marks if is_source]


def _base(loop: Loop, q: int) -> str:
    return wanted_name(loop.rounds[0], loop.sets(0)[q], [loop.sets(k)[q] for k in range(len(loop.rounds))])
