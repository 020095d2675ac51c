"""The error of importers, and its subclasses."""

from __future__ import annotations


class ImportFailure(ValueError):
    """Error raised when a program cannot be imported: the message is one line for the user, naming what and where."""


class WrongProgramError(ImportFailure):
    """Error raised for a program that is itself invalid: no fixed block may replace what was refused."""


class ExternalDataError(ImportFailure):
    """Error raised if data of the program, named by `where`, is in another file and no folder to read was named."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"the data of {where} lies in another file, which is read only from a folder that you name "
            "(external_data=FOLDER, --external-data FOLDER); or put the data into the model itself"
        )
        self.where = where
