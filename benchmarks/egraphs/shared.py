"""Rules shared by both sides of the comparison, and the normalization both apply to single expressions at once."""

from __future__ import annotations

from tapestry.rewrites import Rule, catalog
from tapestry.rewrites.rule import Op

# Laws over several blocks: rewrites of the e-graph, moves or simplifications of our search.
LAWS = (
    "merge_contracts",
    "factor_contracts",
    "flatten_contract",
    "order_contract",
    "scale_out_of_contract",
    "scale_into_contract",
    "contract_of_product",
    "reduce_of_reduce",
    "scale_into_reduce",
    "view_of_view",
    "identity_view",
    "view_into_cell",
    "view_into_contract",
    "view_into_reduce",
    "slice_of_concat",
    "concat_of_concat",
    "concat_of_one",
    "concat_of_slices",
    "fuse_cells",
    "fuse_broadcast_cell",
    "fuse_generator",
    "merge_reads",
)

# What these say, an e-graph does anyway: there `fuse_cells` takes in cells that others read too.
IMPLIED = ("fuse_shared_cell",)


def shared_rules() -> tuple[Rule, ...]:
    """Return the laws over several blocks."""
    known = catalog()
    return tuple(known[name] for name in LAWS)


def searched_rules() -> tuple[str, ...]:
    """Return the names of all rules that our search gets for the comparison."""
    return tuple(dict.fromkeys((*LAWS, *IMPLIED, *(r.name for r in normal_rules()))))


def normal_rules() -> tuple[Rule, ...]:
    """Return the terminating laws of a single cell: both sides bring every new expression to their normal form."""
    return tuple(rule for rule in catalog().values() if rule.saturating and _is_of_one_cell(rule))


def _is_of_one_cell(rule: Rule) -> bool:
    (first, *others) = rule.roots
    inner = any(isinstance(operand, Op) for operand in first.operands)
    return first.operator == "cell" and not others and not inner
