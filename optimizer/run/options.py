"""The options of a run, each described in one place.

`optimize()`, the API's models, the command line, the dashboard's form, the stored runs and what a stored run says was
asked of it are made from `RunOptions`. This module loads nothing heavy: the command line reads it at every start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from tapestry.optimizer.run.option_fields import LARGEST_INTEGER, SHARE, Option, option, options_of
from tapestry.teg.faults import ArgumentError, Fault, expected, near_hint, unescape
from tapestry.teg.known_fields import known_fields
from tapestry.teg.printable import HIDDEN

if TYPE_CHECKING:
    from tapestry.hardware.mesh import Mesh
    from tapestry.optimizer.archive.constraints import Constraint
    from tapestry.optimizer.run.plan import Budget

# Of the stored form. In version 1 `seconds` were those of the rounds alone.
VERSION, READABLE = 2, (1, 2)
DEFAULT_SECONDS = 20.0
# The word of `start_from` for runs that are looked up.
AUTO = "auto"
# The words of a prior that is no number: the newest snapshot, and none.
LATEST, NO_SNAPSHOT = "latest", "none"
SNAPSHOT = "[1-9][0-9]{0,8}"
# A bound, as far as its form goes: which objectives and units there are depends on the program.
BOUND = f" *[^<>={HIDDEN}]*[^ <>={HIDDEN}] *<= *(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][-+]?[0-9]+)? *(?:[A-Za-z]*|%) *"
# The ids of runs, or what they begin with.
RUNS = " *[0-9a-f]{1,12} *(?:, *[0-9a-f]{1,12} *)*"
LONGEST_EXECUTION_S = 60.0
# Of two rented cores, at about 0.10 USD each.
USD_PER_HOUR = 0.2
DEFAULT_OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j")


# What to write instead of keywords that look like options of a search.
INSTEAD = {
    "verify": "the checks come after the search: call tapestry.verify(result) or tapestry.verify_frontier(result)",
    "execution_seconds": "the checks come after the search: call tapestry.verify(result, execute=True)",
}


class OptionError(ArgumentError):
    """Error raised for options that a search cannot have; `faults` are all of them."""


@known_fields(OptionError)
@dataclass(frozen=True)
class RunOptions:
    """The options of a run.

    Without `seconds`, `evaluations` and `deadline_seconds` a search takes twenty seconds. `start_from` and `verify` are
    carried out by the service and the command line: a stored run whose frontier is the start, and the checks of the
    frontier found. Those of a request are made by `as_given`, and may be wrong: `faults` are reported with those of
    program and mesh.

    Raises:
        OptionError: unknown names, and values that a search cannot have; all of them.
    """

    objectives: tuple[str, ...] = option(
        DEFAULT_OBJECTIVES,
        "the costs that the search minimizes: objectives, the program's own resources, or expressions over them, such "
        "as `0.7*time_s + 0.3*energy_j`",
        metavar="A,B,C",
        is_advanced=False,
        names="objectives",
        at_least=1,
        at_most=100,
    )
    constraints: tuple[str, ...] = option(
        (),
        "bounds such as `peak_memory_bytes<=60GiB`, or `time_s<=110%` of the best found; a device's capacity is one by "
        "itself",
        flag="--constraint",
        metavar="BOUND",
        pattern=f"^{BOUND}$",
        is_advanced=False,
        is_repeated=True,
        at_most=32,
        unset="the devices' memory",
    )
    seconds: float | None = option(
        None,
        "seconds of searching, preparation included; 20 without any limit",
        title="Seconds of searching",
        path=("budget", "seconds"),
        is_advanced=False,
        above=0,
        unset="any number",
    )
    evaluations: int | None = option(
        None,
        "plans to evaluate, plus seeds if these are few; with seconds too, the first limit reached ends the search",
        path=("budget", "evaluations"),
        is_advanced=False,
        least=1,
        most=LARGEST_INTEGER,
        unset="any number",
    )
    deadline_seconds: float | None = option(
        None,
        "seconds for everything: reading, searching, checking, storing; plans that are not verified by then are marked",
        title="Deadline in seconds",
        flag="--deadline",
        path=("budget", "deadline_seconds"),
        is_advanced=False,
        above=0,
        unset="none",
    )
    gap: float | None = option(
        None,
        "stop once the best plan by the first objective is proven to be within this share of all that the kept "
        "structures allow, such as 0.005 or 0.5%",
        title="Proven gap",
        metavar="SHARE",
        is_share=True,
        least=0,
        most=1,
        unset="any",
    )
    worth: Mapping[str, str] = option(
        {},
        "what a decrease of an objective is worth, such as `time_s=120usd/s`; stop once another minute is not expected "
        "to gain the price of searching",
        title="Worth of an objective",
        metavar="OBJECTIVE=MONEY",
        example="time_s=120usd/s",
        is_repeated=True,
        at_most=100,
        unset="not given",
    )
    search_price: float = option(
        USD_PER_HOUR,
        "price of an hour of searching in USD, which `worth` is compared with; by default that of two cores at 0.10",
        title="USD per hour of searching",
        metavar="USD",
        above=0,
    )
    seed: int = option(0, "seed of all randomness", metavar="S", least=0, most=LARGEST_INTEGER)
    islands: int | None = option(
        None,
        "searches side by side, one process each; default: the number of cores",
        least=1,
        unset="one per core",
    )
    rules: tuple[str, ...] | None = option(
        None,
        "structural rules that may be used; default: all",
        metavar="A,B,C",
        names="rules",
        at_most=1000,
        unset="all",
    )
    pins: Mapping[str, str] = option(
        {},
        "keep a block's output sharded so, such as `linear=[gpu.0, -]`",
        flag="--pin",
        metavar="SITE=SPEC",
        example="linear=[gpu.0*gpu.1*gpu.2, -]",
        is_repeated=True,
        at_most=10_000,
        unset="none",
    )
    start_from: str | None = option(
        None,
        "stored runs whose frontiers are the start, of this program or one of other sizes or depth; auto looks for the "
        "nearest",
        metavar="RUN[,RUN]|auto",
        pattern=f"^(?:{AUTO}|{RUNS})$",
        unset="seeds",
    )
    prior: str | None = option(
        None,
        "what earlier runs have learned of moves: none, latest, or the number of a snapshot; default: latest, but none "
        "where evaluations limit the run, so that it repeats",
        title="Prior",
        metavar="none|latest|ID",
        pattern=f"^(?:{LATEST}|{NO_SNAPSHOT}|{SNAPSHOT})$",
        unset="latest, unless evaluations are given",
    )
    compute_dtype: str | None = option(
        None,
        "precision of contractions, such as bf16; default: the program's",
        title="Precision",
        metavar="DTYPE",
        unset="the program's",
    )
    dtype: Literal["bf16", "fp16", "fp8"] | None = option(
        None,
        "store the program's parameters and activations in this precision; default: as the program has them",
        title="Storage precision",
        unset="the program's",
    )
    launch: Literal["captured", "eager", "unfused"] | None = option(
        None,
        "how kernels are launched: in a graph, one by one by the host, or so with each function of a cell as one; "
        "default: as the mesh's device has it, mostly captured",
        title="Launch of kernels",
        unset="the device's",
    )
    robust: float | None = option(
        None,
        "rank plans by a quantile of their time, such as 0.9, in place of the median: uncertain times count as longer",
        title="Quantile of the time",
        metavar="Q",
        least=0.5,
        most=0.999,
        unset="the median",
    )
    devices: Literal["any", "all"] = option(
        "any", "any: plans may leave part of the mesh idle; all: every device works"
    )
    inputs: Literal["chosen", "replicated"] = option(
        "chosen", "chosen: inputs are created as the plan wants them; replicated: whole on every device"
    )
    outputs: Literal["sharded", "gathered"] = option(
        "sharded", "sharded: outputs stay as the plan leaves them; gathered: whole on every device"
    )
    layouts: Literal["chosen", "native"] = option(
        "chosen", "chosen: plans choose physical layouts; native: every tensor in its device's default layout"
    )
    micro_batches: int | None = option(
        None,
        "rounds in which every plan runs its program, each on a slice of the data; 1: none; default: plans choose",
        title="Micro-batches",
        metavar="N",
        least=1,
        most=4096,
        unset="plans choose",
    )
    stages: int | None = option(
        None,
        "stages of every plan, equal parts of the mesh that run parts of the program (a pipeline); 1: none; "
        "default: plans choose",
        title="Stages",
        metavar="N",
        least=1,
        most=4096,
        unset="plans choose",
    )
    data_parallel: int | None = option(
        None,
        "parts into which every plan splits the batch (data parallelism); default: plans choose",
        title="Data parallelism",
        metavar="N",
        least=1,
        most=1 << 20,
        unset="plans choose",
    )
    tensor_parallel: int | None = option(
        None,
        "parts into which every plan splits matrix products beside their batch (tensor parallelism); default: plans "
        "choose",
        title="Tensor parallelism",
        metavar="N",
        least=1,
        most=1 << 20,
        unset="plans choose",
    )
    epsilon: float = option(
        0.005, "relative distance in every objective below which plans count as equal", least=1e-9, most=1
    )
    verify: Literal["auto", "none", "dry", "execute"] = option(
        "auto",
        "auto: prove and count every plan, execute knee, fastest and smallest peak while that takes seconds; "
        "dry: execute none; execute: execute every plan; none: check nothing",
        title="Checks",
    )
    execution_seconds: float = option(
        LONGEST_EXECUTION_S,
        "auto executes plans while that takes no more seconds in all, as estimated from measurements on the spot",
        title="Seconds of execution",
        least=0,
    )

    def __post_init__(self) -> None:
        self._complete()
        if faults := tuple(self.faults()):
            raise OptionError(*map(fault_line, faults))

    def _complete(self) -> None:
        """Read shares that are texts, and limit the seconds where nothing limits the search."""
        for known in OPTIONS:
            value = getattr(self, known.name)
            if known.is_share and isinstance(value, str) and re.fullmatch(SHARE, value):
                object.__setattr__(self, known.name, known.parse(value))
        if self.seconds is None and self.evaluations is None and self.deadline_seconds is None:
            object.__setattr__(self, "seconds", DEFAULT_SECONDS)

    @staticmethod
    def as_given(values: Mapping[str, Any]) -> RunOptions:
        """Return options by name as a request gives them: nothing is checked, `faults` says what is wrong."""
        made = object.__new__(RunOptions)
        for known in OPTIONS:
            object.__setattr__(made, known.name, values.get(known.name, known.default))
        made._complete()
        return made

    def changed(self, **values: Any) -> RunOptions:
        """Return these options with other values, unchecked as in `as_given`."""
        return RunOptions.as_given({**vars(self), **values})

    def faults(self, limits: Mapping[str, float] | None = None) -> Iterator[Fault]:
        """Yield every fault that needs no catalog, graph or mesh.

        `limits` are the greatest numbers that a service allows, by option.
        """
        for known in OPTIONS:
            yield from known.faults(getattr(self, known.name), (limits or {}).get(known.name))

    def on(self, mesh: Mesh) -> Mesh:
        """Return the mesh as the options have it: how it launches kernels, and by which quantile of its times."""
        return mesh.launched(self.launch).at_quantile(self.robust)

    def to_json(self) -> dict[str, Any]:
        """Convert all options to JSON, in the form that requests and answers of the API have."""
        return _nested(OPTIONS, self)

    def to_stored(self) -> dict[str, Any]:
        """Convert all options to JSON with the version of this form, for a database."""
        return {"version": VERSION, **self.to_json()}

    def to_request(self) -> dict[str, Any]:
        """Convert what a request must say to have these options to JSON; the usual advanced ones are left out."""
        shown = [known for known in OPTIONS if self._is_shown(known)]
        return _nested(shown, self)

    def _is_shown(self, known: Option) -> bool:
        value = getattr(self, known.name)
        return value != known.default or (not known.is_advanced and value not in (None, ()))

    def described(self) -> tuple[tuple[str, str], ...]:
        """Return the title and the value of every option as texts, for people."""
        return tuple((known.title, known.text(getattr(self, known.name))) for known in OPTIONS)

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> RunOptions:
        """Convert options from JSON; those that are missing have their defaults.

        Raises:
            OptionError: a member that is no option, or a version of this form that is not known.
        """
        version = document.get("version", VERSION)
        members = {known.path[0] for known in OPTIONS} | {"version"}
        unknown = sorted(document.keys() - members)
        if version not in READABLE or unknown:
            found = f"of version {version}" if version not in READABLE else f"with {', '.join(unknown)}"
            raise OptionError(
                f"options {found} are not known here; a newer release of Tapestry wrote them, use that one"
            )
        return RunOptions.as_given({o.name: o.from_json(o.value_in(document)) for o in OPTIONS})


OPTIONS: tuple[Option, ...] = options_of(RunOptions)
MAPPINGS = frozenset(option.name for option in OPTIONS if option.kind == "pairs")
LISTS = frozenset(option.name for option in OPTIONS if option.kind == "texts")


class OptionKeywords(TypedDict, total=False):
    """The options that `optimize()` takes as keywords; `budget` holds those of `LIMITS` in one value."""

    budget: Budget
    seconds: float | None
    evaluations: int | None
    deadline_seconds: float | None
    gap: float | str | None
    worth: Mapping[str, str] | None
    search_price: float
    seed: int
    islands: int | None
    rules: Sequence[str] | None
    pins: Mapping[str, str] | None
    constraints: Sequence[str | Constraint]
    compute_dtype: str | None
    dtype: str | None
    launch: str | None
    robust: float | None
    devices: str
    inputs: str
    outputs: str
    layouts: str
    micro_batches: int | None
    stages: int | None
    data_parallel: int | None
    tensor_parallel: int | None
    epsilon: float


KEYWORDS = frozenset(OptionKeywords.__annotations__) | {"objectives"}
LIMITS = ("seconds", "evaluations", "deadline_seconds")


def names_snapshot(prior: str) -> bool:
    """Return whether a prior is the number of a snapshot, as databases count them."""
    return re.fullmatch(SNAPSHOT, prior) is not None


def options_and_faults(
    options: object, keywords: Mapping[str, Any], parameters: Sequence[str] = ()
) -> tuple[RunOptions, tuple[Fault, ...]]:
    """Return `options` with the changes that keywords make, and the faults of the keywords themselves.

    `parameters` are names that a caller takes beside options: near names are looked for among them too. The faults of
    the values are those of `RunOptions.faults`.
    """
    known = sorted({*KEYWORDS, *parameters})
    faults = [_unknown(name, known) for name in keywords if name not in KEYWORDS]
    changes = {name: _plain(value, name in LISTS) for name, value in keywords.items() if name in KEYWORDS}
    if not isinstance(options, RunOptions | None):
        faults.append(Fault("", expected("options", "RunOptions", options)))
    usual = options if isinstance(options, RunOptions) else RunOptions()
    if (budget := changes.pop("budget", None)) is not None:
        if not hasattr(budget, "evaluations"):
            faults.append(Fault("", expected("budget", "a Budget", budget, "write seconds= or evaluations=")))
        elif changes.keys() & set(LIMITS):
            faults.append(
                Fault("", "give seconds=, evaluations= and deadline_seconds=, or a budget=, not both")
            )
        else:
            changes |= {name: getattr(budget, name) for name in LIMITS}
    elif changes.keys() & set(LIMITS):
        changes = dict.fromkeys(LIMITS) | changes
    changes |= {name: {} for name in MAPPINGS if changes.get(name, ...) is None}
    return usual.changed(**changes), tuple(faults)


def _plain(value: Any, is_list: bool) -> Any:
    """Return the value of an option for one that may stand for it: lists, scalars of numpy, constraints."""
    if is_list and isinstance(value, (list, tuple)):
        return tuple(str(each) if hasattr(each, "bound") else each for each in value)
    return (
        value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value
    )


def _unknown(name: str, known: Sequence[str]) -> Fault:
    """Word the fault of a keyword that is no option: the near ones, or what to do instead."""
    return Fault("", f"optimize() has no option {name!r}; {INSTEAD.get(name) or near_hint(name, known)}")


def fault_line(fault: Fault) -> str:
    """Return a fault as a caller of `optimize()` reads it: its place is a keyword, with index or key."""
    if not fault.pointer:
        return fault.detail
    for known in OPTIONS:
        if fault.pointer == known.pointer:
            return f"{known.name}: {fault.detail}"
        if fault.pointer.startswith(f"{known.pointer}/"):
            key = unescape(fault.pointer[len(known.pointer) + 1 :])
            return f"{known.name}[{repr(key) if known.kind == 'pairs' else key}]: {fault.detail}"
    return f"{fault.pointer[1:].replace('/', '.')}: {fault.detail}"


def _nested(known: Sequence[Option], options: RunOptions) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for each in known:
        place = document
        for part in each.path[:-1]:
            place = place.setdefault(part, {})
        place[each.path[-1]] = each.to_json(getattr(options, each.name))
    return document
