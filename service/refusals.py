"""Rules that a search or a pass has disabled, with reasons and remedies, for all who report them."""

from __future__ import annotations

from collections.abc import Mapping

from tapestry.rewrites.rules import plug_ins

LONGEST_REASON = 1000


def refusal_documents(refused: Mapping[str, str]) -> list[dict[str, str]]:
    """Build `{"rule", "reason", "hint"}` of each, in order of refusal; a reason is one line of printable text."""
    return [
        {"rule": rule, "reason": one_line(reason), "hint": hint_of(rule)} for rule, reason in refused.items()
    ]


def hint_of(rule: str) -> str:
    """Describe the remedy for a rule that misbehaves: a hint to its author, and how to search without it."""
    for plug_in in plug_ins().plug_ins:
        if rule in plug_in.members:
            return (
                f"it comes with the plug-in {plug_in}: its author should see `tapestry plugins --check`; "
                "to search without it, name the others in `rules`"
            )
    return "its author should see the reason; to search without it, name the others in `rules`"


def one_line(text: str, longest: int = LONGEST_REASON) -> str:
    """Convert a text to one line of printable characters, cut where it is longer."""
    line = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
