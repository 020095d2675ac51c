"""The commands: the name, help text, options and module of each."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from tapestry.service.cli.options import plans, programs, searching, service, shared
from tapestry.service.cli.options.shared import Parser

Options = Callable[[Parser], None]


class Command(NamedTuple):
    """A command; `module` is loaded when the command is chosen, and its `run` carries it out."""

    name: str
    help: str
    options: Options
    module: str


COMMANDS: tuple[Command, ...] = (
    Command(
        "demo",
        "serve, and search, execute and check plans of GPT-2 small on eight H100",
        searching.demo,
        "demo",
    ),
    Command(
        "optimize",
        "search the Pareto frontier of a program on a mesh, verify it and store it",
        searching.optimize,
        "optimize",
    ),
    Command(
        "tune",
        "search every entry of a batch of models, meshes, sizes and seeds, and report all of them",
        searching.tune,
        "tune",
    ),
    Command(
        "submit",
        "send programs, or a batch of them, to a service, which searches them",
        service.submit,
        "submit",
    ),
    Command(
        "import",
        "read a program, say what is in it, and write it as a TEG document",
        programs.import_,
        "import_graph",
    ),
    Command(
        "rewrite",
        "list the moves that rules offer on a program, or apply rules and write the result",
        programs.rewrite,
        "rewrite",
    ),
    Command(
        "train",
        "make the training step of a program: loss, gradients and an optimizer",
        programs.train,
        "train",
    ),
    Command(
        "simulate",
        "run a plan on the device simulator: counts against predictions, values",
        plans.simulate,
        "simulate",
    ),
    Command(
        "verify",
        "read a plan's module for PyTorch or from JAX back in, and compare it with the program",
        plans.verify,
        "verify",
    ),
    Command(
        "calibrate",
        "measure this machine, and write its mesh file",
        programs.calibrate,
        "calibrate",
    ),
    Command(
        "validate",
        "run programs or a plan by PyTorch on this machine, and print measured beside predicted time",
        plans.validate,
        "validate",
    ),
    Command(
        "tensors",
        "load, list, copy, export or drop tensors with names, which stay between programs",
        plans.tensors,
        "tensors",
    ),
    Command(
        "serve", "serve the HTTP API and the dashboard, with a worker beside them", service.serve, "serve"
    ),
    Command(
        "worker",
        "search and execute what is queued in the database, until asked to end",
        service.worker,
        "worker",
    ),
    Command("compare", "compare two to four stored runs, or plans", plans.compare, "compare"),
    Command("backup", "copy the whole database into one file, while others use it", service.backup, "backup"),
    Command("doctor", "check the installation, the database and the service", service.doctor, "doctor"),
    Command("restore", "restore a copy of a database into an empty one", service.restore, "restore"),
    Command(
        "downgrade",
        "take a database back to the tables of an earlier release, losing nothing unasked",
        service.downgrade,
        "downgrade",
    ),
    Command("tenants", "list tenants, or show and set their quotas", service.tenants, "tenants"),
    Command("audit", "print who did what with a service, and what was refused", service.audit, "audit"),
    Command("keys", "make, list or revoke keys with names for a service", service.keys, "keys"),
    Command("runs", "list stored runs: search, filter and sort them", service.runs, "runs"),
    Command("label", "give stored runs tags and notes", service.label, "label"),
    Command("priority", "set which of the waiting runs goes first", service.priority, "priority"),
    Command("delete", "delete stored runs, batches, programs or executions", service.delete, "delete"),
    Command("gc", "delete what has ended long ago, or exceeds a size", service.gc, "gc"),
    Command("show", "show stored runs, a run's frontier, or a plan", plans.show, "show"),
    Command(
        "explain",
        "show how a plan was made: its moves, and what each changed of its costs",
        plans.explain,
        "explain",
    ),
    Command("export", "write a stored plan in a form for other programs", plans.export, "export"),
    Command(
        "layout", "describe or draw where the elements of a tensor lie in memory", programs.layout, "layout"
    ),
    Command("mesh", "start, check or show a mesh file, or print what may be in one", programs.mesh, "mesh"),
    Command(
        "completion",
        "print a script by which a shell completes commands, options and names",
        shared.shell,
        "completion",
    ),
    Command("devices", "list the devices of the catalog", shared.as_json, "meshes"),
    Command("meshes", "list the meshes of the catalog", shared.as_json, "meshes"),
    Command("rules", "list the rules by which programs and placements are changed", service.rules, "rules"),
    Command("objectives", "list the costs that a search can minimize", shared.as_json, "objectives"),
    Command("version", "print the versions of Tapestry and of what it builds on", shared.as_json, "version"),
    Command(
        "plugins",
        "list installed plug-ins: what they add, and what was left out and why",
        service.plugins,
        "plugins",
    ),
)


class _Version(argparse.Action):
    """An action that prints the version and ends; the library that knows it is loaded only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"tapestry {version('tapestry')}")
        parser.exit()


def build_parser() -> Parser:
    """Build the parser of the whole command line."""
    parser = Parser(
        prog="tapestry", description="Search the equivalent programs of a tensor graph on a mesh."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and end")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, help_, options, _ in COMMANDS:
        options(commands.add_parser(name, help=help_, description=help_[0].upper() + help_[1:] + "."))
    return parser
