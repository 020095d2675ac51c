"""The source of a target's runtime, cut into its definitions, of which a program copies those that it needs."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tapestry.teg.exporters.spmd.folding import WIDTH
from tapestry.teg.exporters.spmd.target import ProgramTarget

# What a program states itself in place of the runtime's own.
STATED = (
    "MESH",
    "STAGES",
    "SOURCES",
    "CONSTANTS",
    "OUTPUTS",
    "CARRIED",
    "ALL_SOURCES",
    "ON_HOST",
    "PLACES",
    "step",
)

# What the source says of several stages, and what is left of it in a program of one.
_ONE_STAGE = (
    (r"\[FIRST \+ rank for rank in (.*)\]", r"\1"),
    (r"\bFIRST \+ ", ""),
    (r"\bWORLD\b", "COUNT"),
    (r"^(RANK = .*) % COUNT$", r"\1"),
)

# What the source says of sources in the memory of the host, and what is left of it in a program without.
_ON_DEVICES = (
    (r"\n +value = (value\.reshape.*)\n(.*)part\(value, (.*), name in ON_HOST\)", r"\n\2part(\1, \3)"),
    (r"\(\n    (value: .*), is_on_host: bool = False\n\) ->", r"(\1) ->"),
    (
        r"outputs = (run_steps\(.*\))\n +if arguments\.backend .*\n +torch\.cuda\.synchronize\(\)"
        r"\n +save\(outputs, (.*)\)",
        r"save(\1, \2)",
    ),
    (r"\n    place = .*\n(.*)\(place, kind\)", r"\n\1(torch.get_default_device(), kind)"),
)

# What makes a function of steps a collective that can be started.
_ASYNCHRONOUS = "@AsyncCollective"


def words_of(lines: Iterable[str]) -> list[str]:
    """Return the names in lines of code, each once."""
    tree = ast.walk(ast.parse("\n".join(lines)))
    return list(dict.fromkeys(n.id for n in tree if isinstance(n, ast.Name)))


class RuntimeSource:
    """The source of the runtime, cut into its definitions."""

    def __init__(self, imports: dict[str, tuple[str | None, str]], parts: dict[str, str]) -> None:
        self.imports, self.parts = imports, parts

    @staticmethod
    def read(target: ProgramTarget) -> RuntimeSource:
        imports: dict[str, tuple[str | None, str]] = {}
        parts: dict[str, str] = {}
        for name in target.runtime:
            text = (Path(__file__).parent / "runtime" / f"{name}.py").read_text()
            lines = text.split("\n")
            for node in ast.parse(text).body:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    imports |= _bound(node)
                    continue
                defined = _defined(node)
                if defined is None or defined in STATED:
                    continue
                decorators = getattr(node, "decorator_list", [])
                first = min([node.lineno, *(d.lineno for d in decorators)])
                parts[defined] = "\n".join(lines[first - 1 : node.end_lineno])
        return RuntimeSource(imports, parts)

    def synchronous(self) -> RuntimeSource:
        """Return the source with collectives that wait for each of their steps."""
        return RuntimeSource(self.imports, {name: _waiting(text) for name, text in self.parts.items()})

    def of_one_stage(self) -> RuntimeSource:
        """Return the source without what is about several stages."""
        return RuntimeSource(
            self.imports, {name: _replaced(text, _ONE_STAGE) for name, text in self.parts.items()}
        )

    def on_devices(self) -> RuntimeSource:
        """Return the source without what is about sources in the memory of the host."""
        return RuntimeSource(
            self.imports, {name: _replaced(text, _ON_DEVICES) for name, text in self.parts.items()}
        )

    def without(self, table: str) -> RuntimeSource:
        """Return the source without the loops over a table of which a program has no entries."""
        loops = re.compile(rf"\n    for [^\n]* in {table}\b[^\n]*:(\n {{8}}[^\n]*)+")
        return RuntimeSource(self.imports, {name: loops.sub("", text) for name, text in self.parts.items()})

    def closure(self, wanted: Iterable[str]) -> list[str]:
        """Return the definitions that the wanted ones need, themselves included, in the runtime's order."""
        found: set[str] = set()
        waiting = list(wanted)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [w for w in words_of([self.parts[name]]) if w in self.parts]
        return [name for name in self.parts if name in found]

    def imports_for(self, words: Sequence[str], aliases: Sequence[str]) -> list[str]:
        """Return the imports that the words need: the standard library's, then the others."""
        plain = list(aliases)
        named: dict[str, list[str]] = {}
        for name, (module, text) in sorted(self.imports.items()):
            if name in words and module is None:
                plain.append(text)
            elif name in words and module is not None:
                named.setdefault(module, []).append(name)
        texts = sorted(plain, key=_import_order)
        texts += [f"from {module} import {', '.join(names)}" for module, names in sorted(named.items())]
        standard = [t for t in texts if _import_order(t).partition(".")[0] in sys.stdlib_module_names]
        others = [t for t in texts if t not in standard]
        return [*standard, "", *others]


def _replaced(text: str, patterns: Iterable[tuple[str, str]]) -> str:
    for pattern, left in patterns:
        text = re.sub(pattern, left, text)
    return text


def _waiting(text: str) -> str:
    """Return the source of a function of steps as one that waits for each of them; others as they are."""
    result = "Tensor" if text.startswith(f"{_ASYNCHRONOUS}\n") else "None"
    text = text.removeprefix(f"{_ASYNCHRONOUS}\n").replace(") -> Steps:", f") -> {result}:")
    text = re.sub(r"yield \[(dist\..*), async_op=True\)\]", r"\1)", text.replace("yield from ", ""))
    head, _, body = text.partition("\n")
    if len(head) > WIDTH:
        text = re.sub(r"^def (\w+)\((.*)\) -> ", r"def \1(\n    \2\n) -> ", head) + f"\n{body}"
    return re.sub(r"^( *)yield (\w+)$", r"\1while \2:\n\1    \2.pop().wait()", text, flags=re.M)


def _import_order(text: str) -> str:
    return text.split()[1]


def _bound(node: ast.Import | ast.ImportFrom) -> dict[str, tuple[str | None, str]]:
    """Return the names that an import binds: the module that a name comes from, if it is one of it, and the text."""
    if isinstance(node, ast.Import):
        return {
            (a.asname or a.name): (None, f"import {a.name}" + (f" as {a.asname}" if a.asname else ""))
            for a in node.names
        }
    module = node.module or ""
    return {} if module.startswith(("__future__", "tapestry")) else {a.name: (module, "") for a in node.names}


def _defined(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else None
