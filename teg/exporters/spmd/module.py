"""An exported program as one Python module: what it needs of the runtime, its tables, layers and step."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tapestry.teg.exporters.spmd.folding import fold
from tapestry.teg.exporters.spmd.layers import constants_first, with_loops
from tapestry.teg.exporters.spmd.naming import families
from tapestry.teg.exporters.spmd.program import RankProgram, SourceText, write_program
from tapestry.teg.exporters.spmd.scopes import ScopeWriter
from tapestry.teg.exporters.spmd.statements import named, variables_in
from tapestry.teg.exporters.spmd.target import JAX, TORCH, ProgramTarget
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph

# What a program states itself in place of the runtime's own.
STATED = ("MESH", "SOURCES", "CONSTANTS", "OUTPUTS", "CARRIED", "step")


def to_torch(explicit: ExplicitGraph, about: str = "") -> str:
    """Write a plan as a PyTorch module that `torchrun` runs; `about` follows the first line of its docstring.

    Raises:
        ValueError: operators or element types have no text there; all are listed.
    """
    return _module(explicit, TORCH, about)


def to_jax(explicit: ExplicitGraph, about: str = "") -> str:
    """Write a plan as a JAX module of one process; `about` follows the first line of its docstring.

    Raises:
        ValueError: operators or element types have no text there; all are listed.
    """
    return _module(explicit, JAX, about)


def _module(explicit: ExplicitGraph, target: ProgramTarget, about: str) -> str:
    graph = explicit.abstract
    runtime = _Runtime.read(target)
    reserved = {*runtime.parts, *STATED, *target.aliases, *runtime.imports}
    program = write_program(explicit, target, reserved)
    outputs = {site: variables_in(text) for site, text in program.outputs.items()}
    kept = list(dict.fromkeys(key for keys in outputs.values() for key in keys))
    items = with_loops(constants_first(program.statements), kept)
    scopes = ScopeWriter({*reserved, *program.functions.names.values()}, deletes=not target.traced)
    body, names = scopes.step(items, outputs)
    body += _returned(program, names)
    tables = _tables(program, graph)
    tables += [f"NAMES_{k} = {text}" for k, text in enumerate(scopes.tables)]
    top = [line for table in tables for line in fold(0, table)]
    layers = [
        line for function in (*program.functions.written(), *scopes.functions) for line in ("", "", *function)
    ]
    step = [
        "",
        "",
        "def step(w):",
        f'    """Run one step of {graph.name}: from sources `w` to outputs by name."""',
        *body,
    ]
    stated = [f"MESH = {_mesh(explicit)}"]
    used = _words([*top, *layers, *step])
    first = runtime.closure([w for w in _words(top) if w in runtime.parts] + ["RANK"])
    rest = [n for n in runtime.closure([*(w for w in used if w in runtime.parts), "main"]) if n not in first]
    code = [*_joined(runtime.parts[n] for n in first), "", "", *top, *layers, *step]
    code += _joined(runtime.parts[n] for n in rest)
    code += ["", "", 'if __name__ == "__main__":', "    main()"]
    imports = runtime.imports_for(
        _words(code), [text for name, text in target.aliases.items() if name in used]
    )
    document = f'"""{_docstring(explicit, target, about)}"""'
    return "\n".join([document, "", *imports, "", *stated, *code]) + "\n"


def _mesh(explicit: ExplicitGraph) -> str:
    sizes = ", ".join(f'"{s.name}": {s.size}' for s in explicit.mesh_shape.sub_axes)
    return f"{{{sizes}}}"


def _docstring(explicit: ExplicitGraph, target: ProgramTarget, about: str) -> str:
    mesh = ", ".join(f"{name}={size}" for name, size in explicit.mesh_shape.axes)
    count = explicit.mesh_shape.device_count
    lines = [
        f"{explicit.abstract.name} on {count} devices ({mesh}).",
        "",
        f"Run it with: {target.command.format(count=count)}",
        f"It needs: pip install {target.packages}",
        "Arrays have the shapes of their local parts, which comments state.",
    ]
    if any(b.layout for b in explicit.buffers.values()):
        lines.append("The plan's physical layouts of tiles mean nothing here and are left out.")
    if about:
        lines += ["", about.strip()]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return f"{text}\n" if "\n" in text else text


def _joined(parts: Iterable[str]) -> list[str]:
    """Return pieces of source, functions and classes with two blank lines before them."""
    lines: list[str] = []
    plain = False
    for part in parts:
        is_block = part.startswith(("def ", "class ", "@"))
        lines += ["", ""] if is_block or not plain else []
        plain = not is_block
        lines += part.split("\n")
    return [*lines, ""] if plain else lines


def _words(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(re.findall(r"[A-Za-z_]\w*", "\n".join(lines))))


def _tables(program: RankProgram, graph: Graph) -> list[str]:
    """Return the assignments at the top: positions, numbers by rank, specs, sources, outputs, carried state."""
    numbers = program.numbers
    lines = []
    for axes, name in numbers.positions.items():
        listed = ", ".join(f'"{a}"' for a in axes)
        lines.append(f"{name} = position({listed})")
    lines += [f"{name} = {text}" for text, name in numbers.tables.items()]
    lines += [f"{name} = {text}" for text, name in program.specs.names.items()]
    files = {site: s for site, s in program.sources.items() if s.literal is None}
    lines.append(
        f"SOURCES = {{{', '.join(_entries({site: _source(graph, site, s) for site, s in files.items()}))}}}"
    )
    literals = {site: s for site, s in program.sources.items() if s.literal is not None}
    stated = {site: f"({_source(graph, site, s)[1:-1]}, {s.literal})" for site, s in literals.items()}
    lines.append(f"CONSTANTS = {{{', '.join(_entries(stated))}}}")
    results = {site: _result(graph, site, text) for site, text in program.output_specs.items()}
    lines.append(f"OUTPUTS = {{{', '.join(_entries(results))}}}")
    carried = {sink: f'"{source.site}"' for sink, source in graph.carriers.items()}
    lines.append(f"CARRIED = {{{', '.join(_entries(carried))}}}")
    return lines


def _source(graph: Graph, site: str, source: SourceText) -> str:
    """Return a source's element type, spec, and the shape that its user knows, if another."""
    block = graph.by_site[site]
    shape = graph.tensors[block.outputs[0]].shape
    logical = block.definition.get("logical_shape", shape)
    tail = f", {logical}" if logical != shape else ""
    return f'("{source.dtype}", {source.spec}{tail})'


def _result(graph: Graph, site: str, spec: str) -> str:
    block = graph.by_site[site]
    shape = graph.tensors[block.inputs[0]].shape
    logical = block.definition.get("logical_shape", shape)
    return f"({spec}, {logical})" if logical != shape else f"({spec},)"


def _entries(values: Mapping[str, str]) -> list[str]:
    """Return the entries of a dictionary; names that differ in a number only, with equal values, stand together."""
    alike: dict[str, list[str]] = {}
    for name, text in values.items():
        alike.setdefault(text, []).append(name)
    lines = []
    for text, names in alike.items():
        for form, numbers, members in families(names):
            if form is None:
                lines.append(f'"{members[0]}": {text}')
            else:
                lines.append(f'**each("{form}", {_range(numbers)}, {text})')
    return lines


def _returned(program: RankProgram, names: Mapping[str, str]) -> list[str]:
    values = {site: named(text, names) for site, text in program.outputs.items()}
    return fold(1, f"return {{{', '.join(_output_entries(values))}}}")


def _output_entries(values: Mapping[str, str]) -> list[str]:
    """Return the entries of the results; all elements of one list stand together."""
    lists: dict[str, list[str]] = {}
    for name, text in values.items():
        lists.setdefault(re.sub(r"\[\d+\]$", "[]", text), []).append(name)
    lines = []
    for text, names in lists.items():
        found = families(names)
        (form, numbers, _) = found[0]
        elements = [re.sub(r".*\[(\d+)\]$", r"\1", values[name]) for name in names]
        if len(found) == 1 and form is not None and elements == [str(k) for k in range(len(names))]:
            lines.append(f'**listed("{form}", {_range(numbers)}, {text[:-2]})')
        else:
            lines += [f'"{name}": {values[name]}' for name in names]
    return lines


def _range(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return f"range({last + 1})" if first == 0 else f"range({first}, {last + 1})"


class _Runtime:
    """The source of the runtime, cut into its definitions."""

    def __init__(self, imports: dict[str, tuple[str | None, str]], parts: dict[str, str]) -> None:
        self.imports, self.parts = imports, parts

    @staticmethod
    def read(target: ProgramTarget) -> _Runtime:
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
        return _Runtime(imports, parts)

    def closure(self, wanted: Iterable[str]) -> list[str]:
        """Return the definitions that the wanted ones need, themselves included, in the runtime's order."""
        found: set[str] = set()
        waiting = list(wanted)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [w for w in _words([self.parts[name]]) if w in self.parts]
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
        return ["from __future__ import annotations", "", *standard, "", *others]


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
