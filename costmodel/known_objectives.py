"""All objectives that one search knows: the catalog's, the resources of its program, and expressions over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tapestry.costmodel.expression_parser import FUNCTIONS, ExpressionError, parse
from tapestry.costmodel.expressions import (
    NamedTerm,
    NumberTerm,
    Term,
    affine_weights,
    names_in,
    quoted,
    substitute,
)
from tapestry.costmodel.kernel_arrays import COLUMNS
from tapestry.costmodel.objective import COLUMN_FIGURES, DEVICE_FIGURES, MESH_COUNTS, QUANTITIES, Objective
from tapestry.costmodel.objectives import catalog, plug_ins
from tapestry.costmodel.resources import PEAK, Resource, check_names, resources_of
from tapestry.hardware.device import Device
from tapestry.hardware.mesh import Mesh
from tapestry.teg.faults import near_hint, no_such
from tapestry.teg.graph import Graph


@dataclass(frozen=True)
class KnownObjectives:
    """The objectives that a search knows: the catalog's, its program's `resources` and, where asked for, expressions.

    `columns` names the integer costs of a plan that they are computed from.
    """

    resources: tuple[Resource, ...] = ()
    expressions: tuple[Objective, ...] = ()
    _of: dict[str, Objective] = field(default_factory=catalog, repr=False, compare=False)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of a plan's integer costs, in order: the kernel's, then two per resource."""
        return (*COLUMNS, *(name for resource in self.resources for name in resource.columns))

    @cached_property
    def by_name(self) -> Mapping[str, Objective]:
        """All objectives that have values for every plan, by name."""
        priced = [objective for resource in self.resources for objective in resource_objectives(resource)]
        return self._of | {objective.name: objective for objective in (*priced, *self.expressions)}

    def named(self, text: str) -> Objective:
        """Return the objective of this name, or the one that an expression over costs defines.

        Raises:
            ValueError: no such name (near ones are listed), no such expression, or one that rewards higher costs.
        """
        if text in self.by_name:
            return self.by_name[text]
        term = parse(text)
        for name in names_in(term):
            if name not in self.by_name:
                raise self._unknown(name, text, term)
        if isinstance(term, NamedTerm) and term.name in self.by_name:
            return self.by_name[term.name]
        affine = affine_weights(term)
        if not names_in(term) or (affine is not None and not any(w > 0 for w in affine[1].values())):
            raise ValueError(
                f"objective {text!r} grows with no cost: less is better, so name one it grows with"
            )
        expression = str(term)
        return Objective(
            expression, self._unit(term), "an expression over costs", expression, title=expression
        )

    def require(self, names: Sequence[str], device: Device) -> tuple[Objective, ...]:
        """Return the objectives called `names`, checked against the known figures of the device.

        Raises:
            ValueError: as `named`; or a name is there twice, none is there, or the device lacks a figure.
        """
        chosen: list[Objective] = []
        for name in names:
            objective = self.named(name)
            figure = self.missing(objective, device)
            if figure is not None:
                raise ValueError(
                    f"objective {name!r} cannot be computed: device {device.name!r} has no {figure}; "
                    "give it in the device file, or name other objectives"
                )
            if objective in chosen:
                raise ValueError(f"objective {name!r} is named twice")
            chosen.append(objective)
        if not chosen:
            raise ValueError(f"name at least one objective of {', '.join(self.by_name)}")
        return tuple(chosen)

    def including(self, objectives: Sequence[Objective]) -> KnownObjectives:
        """Return these and the expressions among `objectives`, so that plans have values for them too."""
        new = (o for o in dict.fromkeys(objectives) if o.name not in self.by_name)
        return KnownObjectives(self.resources, (*self.expressions, *new), self._of)

    def missing(self, objective: Objective, device: Device) -> str | None:
        """Return the first figure that the device lacks for an objective; None if it lacks none."""
        for name in names_in(self._open(objective.term)):
            if name in COLUMN_FIGURES and device.missing_energy_figure is not None:
                return device.missing_energy_figure
            if name in DEVICE_FIGURES and getattr(device, name) is None:
                return name
        return None

    def figures(self, objective: Objective) -> tuple[str, ...]:
        """Return the figures of a device without which an objective is refused, never taken as zero."""
        named = names_in(self._open(objective.term))
        of_columns = [figure for name in named for figure in COLUMN_FIGURES.get(name, ())]
        optional = [
            f for f in DEVICE_FIGURES if f in named and Device.__dataclass_fields__[f].default is None
        ]
        return tuple(dict.fromkeys((*of_columns, *optional)))

    def term_on(self, objective: Objective, mesh: Mesh) -> Term:
        """Return an objective's expression on a mesh: a term over `columns` and numbers.

        Raises:
            MissingFigureError: the device lacks a figure.
        """

        def bound(name: str) -> Term:
            if name in self.columns:
                return NamedTerm(name)
            if name in MESH_COUNTS:
                return NumberTerm(MESH_COUNTS[name](mesh))
            number = mesh.device.require(name)
            return NumberTerm(int(number) if isinstance(getattr(mesh.device, name), int) else number)

        return substitute(self._open(objective.term), bound)

    def _open(self, term: Term) -> Term:
        """Replace the objectives that a term names by their expressions, down to columns and figures."""

        def opened(name: str) -> Term:
            if name in self.columns or name in QUANTITIES:
                return NamedTerm(name)
            return self._open(self.by_name[name].term)

        return substitute(term, opened)

    def _unknown(self, name: str, text: str, term: Term) -> ValueError:
        if isinstance(term, NamedTerm):
            return ValueError(no_such("objective", name, self.by_name, hint=plug_ins().left_out(name)))
        at = max(text.find(name), 0)
        return ExpressionError(
            text, at, f"there is an unknown cost {name!r}; {near_hint(name, self.by_name)}"
        )

    def _unit(self, term: Term) -> str:
        """Return the unit of an expression: the one that all its costs share where they are only added or scaled."""
        if isinstance(term, NumberTerm):
            return ""
        if isinstance(term, NamedTerm):
            return self.by_name[term.name].unit if term.name in self.by_name else ""
        units = [self._unit(operand) for operand in term.operands]
        if term.operator in ("*", "/"):
            is_scaled = not names_in(term.operands[1]) or (
                term.operator == "*" and not names_in(term.operands[0])
            )
            return "".join(units) if is_scaled else ""
        bare = [u for u, operand in zip(units, term.operands, strict=True) if names_in(operand)]
        return bare[0] if term.operator != "^" and len(set(bare)) == 1 else ""


def known_objectives(graph: Graph) -> KnownObjectives:
    """Return the objectives that a search of this program knows.

    Raises:
        ResourceError: a resource's name, or that of its peak, means something else already.
    """
    meanings = {name: f"an objective of every program ({o.description})" for name, o in catalog().items()}
    meanings |= dict.fromkeys(
        (*(q for q in QUANTITIES if q not in meanings), *FUNCTIONS), "a word of expressions"
    )
    resources = resources_of(graph)
    meanings |= {column: f"the column of resource {r.name!r}" for r in resources for column in r.columns}
    check_names(graph, meanings)
    return KnownObjectives(resources)


def resource_objectives(resource: Resource) -> tuple[Objective, Objective]:
    """Return the two objectives of a resource: its sum over devices, and the largest of one device."""
    expressions = [
        quoted(column) + (f" / {resource.scale}" if resource.scale > 1 else "") for column in resource.columns
    ]
    name = resource.name
    return (
        Objective(name, "", f"the program's own cost {name!r}, summed over devices", expressions[0], name),
        Objective(
            PEAK + name,
            "",
            f"the program's own cost {name!r}, largest sum of one device",
            expressions[1],
            f"peak {name}",
        ),
    )


def objective_called(name: str) -> Objective:
    """Return the objective of a stored name: of the catalog, an expression, or a resource of a program.

    What is not known any more is described as a resource without unit.
    """
    known = KnownObjectives()
    try:
        return known.named(name)
    except ValueError:
        pass
    try:
        words = names_in(parse(name))
    except ValueError:
        words = ()
    others = tuple(Resource(w.removeprefix(PEAK)) for w in words if w not in known.by_name)
    try:
        return KnownObjectives(tuple(dict.fromkeys(others or (Resource(name.removeprefix(PEAK)),)))).named(
            name
        )
    except ValueError:
        return Objective(name, "", "not known any more", "0", name)
