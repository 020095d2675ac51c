"""The exit codes of commands, and the error that is shown as one line to the user."""

from __future__ import annotations

OK = 0
FAILED = 1  # something that was checked does not hold
WRONG = 2  # the request cannot be carried out as it was given
INTERNAL = 70  # a fault of this program
INTERRUPTED = 130  # Ctrl-C; what was found until then has been kept


class CommandError(Exception):
    """Error raised to end a command with one clear line: what is wrong and what to do."""

    def __init__(self, message: str, code: int = WRONG) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code
