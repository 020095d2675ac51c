"""An exported program as one Python module: what it needs of the runtime, its tables, layers and step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set

from tapestry.teg.brief import counted
from tapestry.teg.exporters.spmd.dictionaries import dictionary_lines, dictionary_of_names, range_text
from tapestry.teg.exporters.spmd.folding import INDENT, fold
from tapestry.teg.exporters.spmd.guards import with_joined_guards
from tapestry.teg.exporters.spmd.layers import constants_first, with_loops
from tapestry.teg.exporters.spmd.naming import families
from tapestry.teg.exporters.spmd.nesting import nested
from tapestry.teg.exporters.spmd.per_rank import axes_text
from tapestry.teg.exporters.spmd.program import RankProgram, SourceText, write_programs
from tapestry.teg.exporters.spmd.runtime_source import STATED, RuntimeSource, words_of
from tapestry.teg.exporters.spmd.scopes import ScopeWriter
from tapestry.teg.exporters.spmd.shared_functions import share, with_shared_functions
from tapestry.teg.exporters.spmd.stage_turns import driven
from tapestry.teg.exporters.spmd.statements import named, variables_in
from tapestry.teg.exporters.spmd.target import JAX, JAX_STAGES, TORCH, TORCH_STAGES, ProgramTarget
from tapestry.teg.graph import Graph
from tapestry.teg.python_text import docstring, quoted, template, visible
from tapestry.teg.sharding.expand import ExplicitGraph
from tapestry.teg.sharding.host import HOST


def to_torch(explicit: ExplicitGraph, about: str = "") -> str:
    """Write a plan as a PyTorch module that `torchrun` runs; `about` follows the first line of its docstring.

    Raises:
        ValueError: operators or element types have no text there; all are listed.
    """
    return _module(explicit, TORCH if explicit.stages is None else TORCH_STAGES, about)


def to_jax(explicit: ExplicitGraph, about: str = "") -> str:
    """Write a plan as a JAX module of one process; `about` follows the first line of its docstring.

    Raises:
        ValueError: operators or element types have no text there; all are listed.
    """
    return _module(explicit, JAX if explicit.stages is None else JAX_STAGES, about)


def _module(explicit: ExplicitGraph, target: ProgramTarget, about: str) -> str:
    graph = explicit.abstract
    runtime = RuntimeSource.read(target)
    reserved = {*runtime.parts, *STATED, *target.aliases, *runtime.imports}
    programs = write_programs(explicit, target, reserved)
    has_stages = explicit.stages is not None
    # What one stage sends another is always under way while the program goes on.
    is_early = has_stages or any(program.has_early_copies for program in programs)
    runtime = runtime if is_early else runtime.synchronous()
    runtime = runtime if has_stages else runtime.of_one_stage()
    # A program that is traced reads the table for its arguments, too.
    literals = (s.literal for program in programs for s in program.sources.values())
    has_constants = target.traced or any(literal is not None for literal in literals)
    runtime = runtime if has_constants else runtime.without("CONSTANTS")
    runtime = runtime if has_stages and not target.traced else runtime.without("ALL_SOURCES")
    on_host = () if target.traced else tuple(dict.fromkeys(s for p in programs for s in p.on_host))
    runtime = runtime if on_host else runtime.on_devices()
    top = _numbers(programs[0])
    step: list[str] = []
    own_functions: list[list[str]] = []
    tables: list[str] = []
    is_driven, is_split = has_stages and target.traced, has_stages and not target.traced
    taken = {*reserved, *(f"stage_{k}" for k in range(len(programs)) if is_split)}
    for k, program in enumerate(programs):
        name = f"stage_{k}" if is_split else "step"
        scopes = ScopeWriter(taken, not target.traced, program.sizes, own_functions, tables=tables)
        step += _driven_step(program, graph, scopes) if is_driven else _step(name, program, graph, scopes)
        top += _tables(program, graph, reserved, has_constants, f"_{k}" if is_split else "")
    if is_driven:
        places = {site: str(stack.stage) for site, stack in programs[0].given.items()}
        top += dictionary_lines("PLACES", places, reserved)
    if is_split:
        top += _of_own_stage(len(programs), has_constants)
        names = ", ".join(f"stage_{k}" for k in range(len(programs)))
        step += ["", "", "def step(w):", f'{INDENT}"""Run one step of this rank\'s stage."""']
        step += fold(1, f"return ({names})[STAGE](w)")
    if on_host:
        top += fold(0, f"ON_HOST = ({', '.join(map(quoted, on_host))},)")
    for k, text in enumerate(tables):
        top += fold(0, f"NAMES_{k} = {text}")
    layers = [
        line for lines in (*programs[0].functions.written(), *own_functions) for line in ("", "", *lines)
    ]
    stated = [f"MESH = {_mesh(explicit)}"]
    if explicit.stages is not None:
        stated += [f"STAGES = {explicit.stages.count}"]
    used = words_of([*top, *layers, *step])
    begins = ["RANK", *(["FIRST", "WORLD"] if is_split else ["on_stage"] if is_driven else [])]
    first = runtime.closure([w for w in words_of(top) if w in runtime.parts] + begins)
    rest = [n for n in runtime.closure([*(w for w in used if w in runtime.parts), "main"]) if n not in first]
    code = [*_without_end(_joined(runtime.parts[n] for n in first)), "", "", *top, *layers, *step]
    code += _joined(runtime.parts[n] for n in rest)
    code += ["", "", 'if __name__ == "__main__":', "    main()"]
    imports = runtime.imports_for(
        words_of(code), [text for name, text in target.aliases.items() if name in used]
    )
    document = docstring(_about(explicit, target, about))
    # The runtime begins with what follows from the mesh.
    return "\n".join([document, "", *imports, "", *stated, *code[2:]]) + "\n"


def _step(name: str, program: RankProgram, graph: Graph, scopes: ScopeWriter) -> list[str]:
    """Write the function of a stage, and into `scopes` those that it calls."""
    outputs = {site: variables_in(text) for site, text in program.outputs.items()}
    kept = list(dict.fromkeys(key for keys in outputs.values() for key in keys))
    statements = nested(with_joined_guards(program.statements, kept), kept)
    items = with_loops(constants_first(statements), kept)
    items, functions = with_shared_functions(items, kept, "block" if name == "step" else f"{name}_block")
    scopes.reserved |= {*program.functions.names.values(), *(function.name for function in functions)}
    for function in functions:
        scopes.shared(function)
    body, names = scopes.step(items, outputs)
    of_what = "step" if name == "step" else f"stage {name.rpartition('_')[2]} in a step"
    about = f"Run one {of_what} of {visible(graph.name)}: from sources `w` to outputs by name."
    about = about.replace("Run one stage", "Run stage")
    return ["", "", f"def {name}(w):", INDENT + docstring(about), *body, *_returned(program, names)]


def _driven_step(program: RankProgram, graph: Graph, scopes: ScopeWriter) -> list[str]:
    """Write the step of a process that drives all stages, and into `scopes` the turns that it calls."""
    outputs = {site: variables_in(text) for site, text in program.outputs.items()}
    kept = list(dict.fromkeys(key for keys in outputs.values() for key in keys))
    statements, turns = driven(program.turns, kept)
    bodies = [turn.function.body for turn in turns]
    functions = share(bodies, "block")
    called = [*(turn.function.name for turn in turns), *(function.name for function in functions)]
    scopes.reserved |= {*program.functions.names.values(), *called}
    for function in functions:
        scopes.shared(function)
    for turn in turns:
        count = len(turn.function.body.rounds)
        doc = f"Run a turn of stage {turn.stage}, which has it {counted(count, 'time')}."
        scopes.shared(turn.function, doc, f"@on_stage({turn.stage})")
    written = {turn.function.name for turn in turns}  # by the compiler, which holds all that they are given
    scopes = ScopeWriter(scopes.reserved, True, {}, scopes.functions, written, scopes.tables)
    body, names = scopes.step(statements, outputs)
    about = f"Run one step of {visible(graph.name)}: from rows of sources `w` to rows of outputs by name."
    return ["", "", "def step(w):", INDENT + docstring(about), *body, *_returned(program, names)]


def _mesh(explicit: ExplicitGraph) -> str:
    sizes = ", ".join(f"{quoted(s.name)}: {s.size}" for s in explicit.mesh_shape.sub_axes)
    return f"{{{sizes}}}"


def _about(explicit: ExplicitGraph, target: ProgramTarget, about: str) -> str:
    mesh = ", ".join(f"{visible(name)}={size}" for name, size in explicit.mesh_shape.axes)
    count, stages = explicit.device_count, explicit.stages
    lines = [
        f"{visible(explicit.abstract.name)} on {count} devices ({mesh}).",
        "",
        f"Run it with: {target.command.format(count=count)}",
        f"It needs: pip install {target.packages}",
        "Arrays have the shapes of their local parts, which comments state.",
    ]
    if stages is not None:
        lines[0] = f"{lines[0].partition(' (')[0]}, in {stages.count} stages of {mesh}."
        lines.append(f"{'Devices' if target.traced else 'Ranks'} are numbered by stages.")
        places = stages.devices.ravel().tolist()
        if places != list(range(count)):
            lines.append(f"Of the mesh, these are devices {', '.join(map(str, places))}.")
    layouts = {buffer.layout for buffer in explicit.buffers.values()} - {""}
    if HOST in layouts and target.traced:
        lines.append("State that the plan keeps on the host stays on the devices here.")
    if layouts - {HOST}:
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


def _numbers(program: RankProgram) -> list[str]:
    """Return the lines at the top that all stages share: positions, numbers by rank, specs."""
    numbers = program.numbers
    stated = [
        f"{name} = int(position({axes_text(axes, numbers.mesh_shape)})[RANK])"
        for axes, name in numbers.positions.items()
    ]
    stated += [f"{name} = {text}" for text, name in numbers.tables.items()]
    stated += [f"{name} = {text}" for text, name in program.specs.names.items()]
    return [line for text in stated for line in fold(0, text)]


def _without_end(lines: list[str]) -> list[str]:
    """Return lines without the empty ones at their end."""
    return lines if lines[-1] else _without_end(lines[:-1])


def _tables(
    program: RankProgram, graph: Graph, reserved: Set[str], has_constants: bool, end: str
) -> list[str]:
    """Return the lines about sources, outputs and carried state of a stage; names of tables have an `end`."""
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
    carried = {sink: source.site for sink, source in graph.carriers.items() if sink in results}
    lines = dictionary_lines(f"SOURCES{end}", files, reserved)
    lines += dictionary_lines(f"CONSTANTS{end}", constants, reserved) if has_constants else []
    lines += dictionary_lines(f"OUTPUTS{end}", results, reserved)
    return [*lines, *dictionary_of_names(f"CARRIED{end}", carried, reserved)]


def _of_own_stage(count: int, has_constants: bool) -> list[str]:
    """Return the lines that choose the tables of a rank's own stage."""
    lines = fold(0, f"ALL_SOURCES = {{{', '.join(f'**SOURCES_{k}' for k in range(count))}}}")
    lines += fold(0, f"OUTPUTS = {{{', '.join(f'**OUTPUTS_{k}' for k in range(count))}}}")
    for name in ("SOURCES", *(["CONSTANTS"] if has_constants else []), "CARRIED"):
        lines += fold(0, f"{name} = ({', '.join(f'{name}_{k}' for k in range(count))})[STAGE]")
    return lines


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
