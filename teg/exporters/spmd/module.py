"""An exported program as one Python module: what it needs of the runtime, its tables, layers and step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set

from tapestry.teg.exporters.spmd.dictionaries import dictionary_lines, dictionary_of_names, range_text
from tapestry.teg.exporters.spmd.folding import INDENT, fold
from tapestry.teg.exporters.spmd.guards import with_joined_guards
from tapestry.teg.exporters.spmd.layers import constants_first, with_loops
from tapestry.teg.exporters.spmd.naming import families
from tapestry.teg.exporters.spmd.nesting import nested
from tapestry.teg.exporters.spmd.per_rank import axes_text
from tapestry.teg.exporters.spmd.program import RankProgram, SourceText, write_program
from tapestry.teg.exporters.spmd.runtime_source import STATED, RuntimeSource, words_of
from tapestry.teg.exporters.spmd.scopes import ScopeWriter
from tapestry.teg.exporters.spmd.shared_functions import with_shared_functions
from tapestry.teg.exporters.spmd.statements import named, variables_in
from tapestry.teg.exporters.spmd.target import JAX, TORCH, ProgramTarget
from tapestry.teg.graph import Graph
from tapestry.teg.python_text import docstring, quoted, template, visible
from tapestry.teg.sharding.expand import ExplicitGraph


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
    runtime = RuntimeSource.read(target)
    reserved = {*runtime.parts, *STATED, *target.aliases, *runtime.imports}
    program = write_program(explicit, target, reserved)
    runtime = runtime if program.has_early_copies else runtime.synchronous()
    # A program that is traced reads the table for its arguments, too.
    has_constants = target.traced or any(s.literal is not None for s in program.sources.values())
    runtime = runtime if has_constants else runtime.without("CONSTANTS")
    outputs = {site: variables_in(text) for site, text in program.outputs.items()}
    kept = list(dict.fromkeys(key for keys in outputs.values() for key in keys))
    statements = nested(with_joined_guards(program.statements, kept), kept)
    items = with_loops(constants_first(statements), kept)
    items, functions = with_shared_functions(items, kept)
    called = (*program.functions.names.values(), *(function.name for function in functions))
    scopes = ScopeWriter({*reserved, *called}, not target.traced, program.sizes)
    for function in functions:
        scopes.shared(function)
    body, names = scopes.step(items, outputs)
    body += _returned(program, names)
    top = _tables(program, graph, reserved, has_constants)
    for k, text in enumerate(scopes.tables):
        top += fold(0, f"NAMES_{k} = {text}")
    layers = [
        line for lines in (*program.functions.written(), *scopes.functions) for line in ("", "", *lines)
    ]
    step = [
        "",
        "",
        "def step(w):",
        INDENT + docstring(f"Run one step of {visible(graph.name)}: from sources `w` to outputs by name."),
        *body,
    ]
    stated = [f"MESH = {_mesh(explicit)}"]
    used = words_of([*top, *layers, *step])
    first = runtime.closure([w for w in words_of(top) if w in runtime.parts] + ["RANK"])
    rest = [n for n in runtime.closure([*(w for w in used if w in runtime.parts), "main"]) if n not in first]
    code = [*_joined(runtime.parts[n] for n in first), "", "", *top, *layers, *step]
    code += _joined(runtime.parts[n] for n in rest)
    code += ["", "", 'if __name__ == "__main__":', "    main()"]
    imports = runtime.imports_for(
        words_of(code), [text for name, text in target.aliases.items() if name in used]
    )
    document = docstring(_about(explicit, target, about))
    # The runtime begins with what follows from the mesh.
    return "\n".join([document, "", *imports, "", *stated, *code[2:]]) + "\n"


def _mesh(explicit: ExplicitGraph) -> str:
    sizes = ", ".join(f"{quoted(s.name)}: {s.size}" for s in explicit.mesh_shape.sub_axes)
    return f"{{{sizes}}}"


def _about(explicit: ExplicitGraph, target: ProgramTarget, about: str) -> str:
    mesh = ", ".join(f"{visible(name)}={size}" for name, size in explicit.mesh_shape.axes)
    count = explicit.mesh_shape.device_count
    lines = [
        f"{visible(explicit.abstract.name)} on {count} devices ({mesh}).",
        "",
        f"Run it with: {target.command.format(count=count)}",
        f"It needs: pip install {target.packages}",
        "Arrays have the shapes of their local parts, which comments state.",
    ]
    if any(b.layout for b in explicit.buffers.values()):
        lines.append("The plan's physical layouts of tiles mean nothing here and are left out.")
    if about:
        lines += ["", about.strip()]
    return "\n".join(lines)


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


def _tables(program: RankProgram, graph: Graph, reserved: Set[str], has_constants: bool) -> list[str]:
    """Return the lines at the top: positions, numbers by rank, specs, sources, outputs, carried state."""
    numbers = program.numbers
    stated = [
        f"{name} = int(position({axes_text(axes, numbers.mesh_shape)})[RANK])"
        for axes, name in numbers.positions.items()
    ]
    stated += [f"{name} = {text}" for text, name in numbers.tables.items()]
    stated += [f"{name} = {text}" for text, name in program.specs.names.items()]
    lines = [line for text in stated for line in fold(0, text)]
    files = {
        site: _source(graph, site, s, program.given[site].shape)
        for site, s in program.sources.items()
        if s.literal is None
    }
    constants = {
        site: f'("{s.dtype}", {s.spec}, {s.literal})'
        for site, s in program.sources.items()
        if s.literal is not None
    }
    results = {
        site: _result(graph, site, text, program.observed[site].shape)
        for site, text in program.output_specs.items()
    }
    carried = {sink: source.site for sink, source in graph.carriers.items()}
    lines += dictionary_lines("SOURCES", files, reserved)
    lines += dictionary_lines("CONSTANTS", constants, reserved) if has_constants else []
    lines += dictionary_lines("OUTPUTS", results, reserved)
    return [*lines, *dictionary_of_names("CARRIED", carried, reserved)]


def _source(graph: Graph, site: str, source: SourceText, shape: tuple[int, ...]) -> str:
    """Return a source's element type, spec, and the shape that its user knows, if it is not this one."""
    block = graph.by_site[site]
    logical = block.definition.get("logical_shape", graph.tensors[block.outputs[0]].shape)
    tail = f", {logical}" if logical != shape else ""
    return f'("{source.dtype}", {source.spec}{tail})'


def _result(graph: Graph, site: str, spec: str, shape: tuple[int, ...]) -> str:
    block = graph.by_site[site]
    logical = block.definition.get("logical_shape", graph.tensors[block.inputs[0]].shape)
    return f"({spec}, {logical})" if logical != shape else f"({spec},)"


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
        (form, numbers, _), *others = families(names)
        elements = [re.sub(r".*\[(\d+)\]$", r"\1", values[name]) for name in names]
        if not others and form is not None and elements == list(map(str, range(len(names)))):
            pairs = f"zip({range_text(numbers)}, {text[:-2]}, strict=True)"
            lines.append(f"**{{{template(form.replace('{}', '{i}'))}: x for i, x in {pairs}}}")
        else:
            lines += [f"{quoted(name)}: {values[name]}" for name in names]
    return lines
