"""Tests of the allowed imports between packages."""

from collections.abc import Iterator

import networkx as nx
import pytest

from tests.project.source import PACKAGES, Module, direct_module, modules, package_of, resolve, under

# service -> client -> optimizer -> rewrites | costmodel -> hardware -> teg
MAY_IMPORT = {
    "teg": set(),
    "hardware": {"teg"},
    "rewrites": {"teg", "hardware"},
    "costmodel": {"teg", "hardware"},
    "optimizer": {"teg", "hardware", "rewrites", "costmodel"},
    "client": {"teg", "optimizer"},
    "service": {"teg", "hardware", "rewrites", "costmodel", "optimizer", "client"},
}

WEB_AND_DATABASE = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "psycopg", "jinja2"}

# Inside `service`: who may not import whom. The API never computes, so it knows no worker; workers know no web.
APART = (
    (
        "tapestry.service.store",
        (
            "tapestry.service.api",
            "tapestry.service.worker",
            "tapestry.service.dashboard",
            "tapestry.service.cli",
            "tapestry.service.serving",
        ),
    ),
    (
        "tapestry.service.worker",
        (
            "tapestry.service.api",
            "tapestry.service.dashboard",
            "tapestry.service.cli",
            "tapestry.service.serving",
        ),
    ),
    ("tapestry.service.api", ("tapestry.service.worker", "tapestry.service.cli", "tapestry.service.serving")),
    (
        "tapestry.service.dashboard",
        (
            "tapestry.service.worker",
            "tapestry.service.cli",
            "tapestry.service.serving",
            "tapestry.service.store",
        ),
    ),
)

# Modules that nobody imports: their text is copied into exported programs, whose own imports these are.
COPIED = "tapestry.teg.exporters.spmd.runtime."
# Not installed with the base package, so loaded by the function that needs them.
OPTIONAL = {
    "torch",
    "jax",
    "jaxlib",
    "distributed",
    "dask",
    "httpx",
    "pandas",
    "psycopg",
    "pyarrow",
    "opentelemetry",
}

# The array libraries themselves, each loaded by the one function that is asked for its arrays.
ARRAY_LIBRARIES = tuple(
    f"tapestry.teg.arrays.{name}"
    for name in ("torch_arrays", "torch_elements", "torch_functions", "jax_arrays", "jax_functions")
)
# What a process of its own runs, with PyTorch: nothing else imports it.
OWN_PROCESS = tuple(f"tapestry.teg.importers.torch.ranks.{name}" for name in ("recorder", "recording_group"))

# What the cost model and the simulator may have in common inside `hardware`. Each counts bytes and memory by
# its own code: an agreement between them says something only while neither can call the other.
SHARED_HARDWARE = (
    "tapestry.hardware.catalog",
    "tapestry.hardware.device",
    "tapestry.hardware.mesh",
    "tapestry.hardware.stage_meshes",
    "tapestry.hardware.tables",
    "tapestry.hardware.layouts",
    "tapestry.hardware.timing",
)
SIMULATOR = "tapestry.hardware.simulator"

# Who sends which elements to whom: what really moves. The cost model counts by closed formulas of its own.
EXPLICIT_TRANSFERS = "tapestry.teg.sharding.transfers"


def in_simulator(name: str) -> bool:
    return name == SIMULATOR or name.startswith((SIMULATOR + ".", SIMULATOR + "_"))


def is_shared(name: str) -> bool:
    return any(under(name, prefix) for prefix in SHARED_HARDWARE)


def in_our_packages(target: str) -> bool:
    return package_of(target) in PACKAGES


def enclosing(name: str) -> Iterator[str]:
    """Yield the packages below `tapestry` that a module lies in, the outermost first."""
    parts = name.split(".")
    return (".".join(parts[:k]) for k in range(2, len(parts)))


def may_import_late(module: Module, target: str) -> str | None:
    """Return the reason why a function of `module` may import `target`, or None if it may not."""
    if target.partition(".")[0] in OPTIONAL:
        return "an optional library: present only with its extra"
    if module.name == "tapestry.teg.importers" and under(target, "tapestry.teg.importers"):
        return "a front end loads the library of its format when it is called"
    if module.name == "tapestry.teg.arrays" and target.startswith(ARRAY_LIBRARIES):
        return "an array library is loaded when its arrays are asked for"
    if module.name == "tapestry.teg" and under(target, "tapestry.teg.programs"):
        return "the builder is loaded when it is asked for: `import tapestry.teg` stays light"
    if module.name == "tapestry.teg.graph" and target == "networkx":
        return "networkx is loaded when a graph is asked for in its form"
    if module.name == "tapestry.hardware.layouts" and target == "tapestry.hardware.layouts.notations":
        return "the device catalog needs sizes and orders only: the notations are loaded when asked for"
    if module.name == "tapestry.teg.operators.onnx_fallback" and under(
        target, "tapestry.teg.operators.onnx_reference"
    ):
        return "a graph with rare operators loads ONNX when it is evaluated, others never"
    if module.name == "tapestry.optimizer.run.views" and under(target, "plotly"):
        return "a figure loads plotly when it is asked for: a search never does"
    if module.name == "tapestry.optimizer":
        return (
            "programs that do not search read the options of a run: the search is loaded when it is asked for"
        )
    if module.name == "tapestry.service.store.schema" and under(target, "tapestry.service.store.migrations"):
        return "Alembic is loaded only for a database whose tables are not up to date"
    if under(module.name, "tapestry.service.cli"):
        return "the command line answers --help at once: a command loads what it needs"
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_run_one_way(package: str) -> None:
    wrong = [
        f"{module.relative_path}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports
        if module.package == package
        and (target := package_of(found.target)) in PACKAGES
        and target not in MAY_IMPORT[package] | {package}
    ]
    assert not wrong, f"{package} may import {sorted(MAY_IMPORT[package]) or 'nobody'}:\n" + "\n".join(wrong)


def test_packages_import_no_tests_benchmarks_or_examples() -> None:
    outside = {"tests", "benchmarks", "examples", "docs"}
    wrong = [
        f"{module.relative_path}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports
        if found.target.partition(".")[0] in outside or package_of(found.target) in outside
    ]
    assert not wrong, "\n".join(wrong)


def test_web_and_database_libraries_appear_in_service_only() -> None:
    wrong = [
        f"{module.relative_path}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports
        if module.package != "service" and found.target.partition(".")[0] in WEB_AND_DATABASE
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("part", "others"), APART)
def test_parts_of_the_service_stay_apart(part: str, others: tuple[str, ...]) -> None:
    wrong = [
        f"{module.relative_path}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports
        if under(module.name, part) and any(under(found.target, other) for other in others)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_cycles() -> None:
    """Check all imports: those for type checkers, those of functions, and those of the packages that a module lies in.

    `from tapestry.rewrites.algebra.affine import summed` also runs the `__init__` of `algebra`, and what that imports.
    Packages that the importing module lies in itself run before it in any case.
    """
    graph = nx.DiGraph()
    for module in modules():
        requested = (*(found.target for found in module.imports), *module.packages_requested)
        for target in map(direct_module, filter(in_our_packages, requested)):
            run = (package for package in enclosing(target) if not under(module.name, package))
            graph.add_edges_from((module.name, name) for name in (*run, target) if name != module.name)
    cycles = [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1]
    assert not cycles, "move what they share down a layer: " + "; ".join(
        " <-> ".join(names) for names in cycles
    )


def test_functions_import_nothing_but_the_stated_exceptions() -> None:
    wrong = [
        f"{module.relative_path}:{found.line} imports {found.target} inside a function"
        for module in modules()
        for found in module.imports
        if found.inner and may_import_late(module, found.target) is None
    ]
    assert not wrong, "\n".join(wrong)


def test_optional_libraries_are_never_needed_to_import_a_module() -> None:
    wrong = [
        f"{module.relative_path}:{found.line} imports {found.target} at the top"
        for module in modules()
        for found in module.imports
        if not found.inner
        and module.name not in ARRAY_LIBRARIES
        and not module.name.startswith(COPIED)
        and module.name not in OWN_PROCESS
        and (
            found.target.partition(".")[0] in OPTIONAL
            or resolve(found.target) in (*ARRAY_LIBRARIES, *OWN_PROCESS)
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_cost_model_and_simulator_share_only_what_is_stated() -> None:
    wrong = []
    for module in modules():
        if not (module.package == "costmodel" or in_simulator(module.name)):
            continue
        for found in module.imports:
            target = resolve(found.target)
            own = in_simulator(module.name) and in_simulator(target)
            if under(target, "tapestry.hardware") and not own and not is_shared(target):
                wrong.append(f"{module.relative_path}:{found.line} imports {found.target} (from {target})")
    assert not wrong, f"only teg and {', '.join(SHARED_HARDWARE)} are shared:\n" + "\n".join(wrong)


def test_cost_model_does_not_read_the_explicit_transfers() -> None:
    wrong = [
        f"{module.relative_path}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports
        if module.package == "costmodel" and under(resolve(found.target), EXPLICIT_TRANSFERS)
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_command_line_runs_plans_on_processes() -> None:
    package = "tapestry.hardware.processes"
    wrong = [
        f"{module.relative_path}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports
        if under(resolve(found.target), package)
        and not (under(module.name, package) or under(module.name, "tapestry.service.cli"))
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_shared_knows_neither_side() -> None:
    wrong = [
        f"{module.relative_path}:{found.line} imports {found.target}"
        for module in modules(("hardware",))
        for found in module.imports
        if is_shared(module.name) and in_simulator(resolve(found.target))
    ]
    assert not wrong, "\n".join(wrong)
