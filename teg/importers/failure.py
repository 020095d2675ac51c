"""The error of importers, and its subclasses."""

from __future__ import annotations

from pathlib import Path

from tapestry.teg.faults import near_names

IN_PYTHON = (
    " (in Python "  # what follows in a message is for callers of functions, not for users of a command
)


class ImportFailure(ValueError):
    """Error raised when a program cannot be imported: the message is one line for the user, naming what and where."""


class WrongProgramError(ImportFailure):
    """Error raised for a program that is itself invalid: no fixed block may replace what was refused."""


class ExternalDataError(ImportFailure):
    """Error raised if data of the program, named by `where`, is in another file and no folder to read was named.

    `location` is the file that the program names, relative to that folder; `beside` is the folder of the program's
    own file, where there is one: then the message says whether the data lies there, and how to read it.
    """

    def __init__(self, where: str, location: str = "", beside: Path | None = None) -> None:
        super().__init__(
            f"the data of {where} lies in another file{f', {location!r},' if location else ''} which is read only "
            f"from a folder that you name {_located_file(location, beside)}; or put the data into the model itself"
        )
        self.where, self.location = where, location

    def at(self, file: Path) -> ExternalDataError:
        """Return the error with a hint at what lies beside the program's file."""
        return ExternalDataError(self.where, self.location, file.parent)


def _located_file(location: str, beside: Path | None) -> str:
    """Return which folder to name: the program's own where the data lies in it, else what lies there instead."""
    plain = "(external_data=FOLDER, --external-data FOLDER)"
    if beside is None or not location or "\0" in location:
        return plain
    named = (beside / location).resolve()
    if named.is_relative_to(beside.resolve()) and named.is_file():
        return f"- it lies beside the model: give its folder, external_data={str(beside)!r}, --external-data {beside}"
    return f"{plain} - and it does not lie beside the model{near_files(location, beside)}"


def near_files(location: str, folder: Path) -> str:
    """Return which files of a folder could be the one named, as the end of a message."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError:
        return ""
    near = near_names(Path(location).name, names, cutoff=0.5)
    return f", where there is {' and '.join(map(repr, near))}" if near else ""
