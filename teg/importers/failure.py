"""The error of importers, and its stronger form."""

from __future__ import annotations


class ImportFailure(ValueError):
    """A program cannot be imported: the message is one line for the user, naming what and where."""


class WrongProgramError(ImportFailure):
    """The program is wrong, so that nobody could compute it: no fixed block takes the place of what was refused."""


class ExternalDataError(ImportFailure):
    """Data of the program, told by `where`, lies in another file, and no folder to read from was named."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"the data of {where} lies in another file, which is read only from a folder that you name "
            "(external_data=FOLDER, --external-data FOLDER); or put the data into the model itself"
        )
        self.where = where
