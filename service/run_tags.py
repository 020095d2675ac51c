"""The form of tags and notes of runs, for the HTTP API and the command line alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tapestry.teg.printable import HIDDEN

MOST_TAGS, LONGEST_TAG, LONGEST_NOTES = 20, 60, 10_000
TAG_PATTERN = f"^[^ ,{HIDDEN}]([^,{HIDDEN}]*[^ ,{HIDDEN}])?$"
# Ends of lines are no harm in notes.
NOTES_PATTERN = "^[^" + HIDDEN.replace("\\u0000-\\u001f", "\\u0000-\\u0009\\u000b-\\u001f") + "]*$"


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a run.

    Raises:
        ValueError: one has another form than tags have, or there are too many.
    """
    for tag in tags:
        if len(tag) > LONGEST_TAG or not re.fullmatch(TAG_PATTERN, tag):
            raise ValueError(
                f"a tag has 1 to {LONGEST_TAG} printable characters, no comma and no space at its ends; "
                f"{tag[:80]!r} is none"
            )
    if len(tags) > MOST_TAGS:
        raise ValueError(f"a run has at most {MOST_TAGS} tags, not {len(tags)}")
    return tuple(tags)


def checked_notes(notes: str) -> str:
    """Return the notes of a run.

    Raises:
        ValueError: they are too long, or have characters that are not printable.
    """
    if len(notes) > LONGEST_NOTES or not re.fullmatch(NOTES_PATTERN, notes):
        raise ValueError(f"notes have at most {LONGEST_NOTES:,} printable characters, and ends of lines")
    return notes
