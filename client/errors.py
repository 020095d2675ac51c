"""Errors of the client: what the service refused, and where it could not be reached."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tapestry.teg.faults import Fault


class ServiceError(Exception):
    """Error raised where the service did not do what was asked for."""


class UnreachableError(ServiceError):
    """Error raised where no answer came, after all attempts."""


class ProblemError(ServiceError):
    """Error raised for an answer that is a problem document (RFC 9457).

    `status` is that of HTTP, `code` names the kind for programs, `faults` have the place of each fault, as a JSON
    pointer into the request, and the allowed values. `document` is the whole document.
    """

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        self.status, self.document = status, document
        self.code = str(document.get("code", ""))
        self.title = str(document.get("title", f"the service answered {status}"))
        self.detail = str(document.get("detail", ""))
        self.faults = tuple(
            Fault(f["pointer"], f["detail"], tuple(f.get("allowed", ())))
            for f in document.get("errors") or ()
        )
        super().__init__(": ".join(filter(None, (self.title, self.detail))))

    @classmethod
    def of_content(cls, status: int, content: bytes) -> ProblemError:
        """Build the error for an answer's body; one that is no problem document is quoted."""
        try:
            document = json.loads(content)
            return cls(status, document if isinstance(document, Mapping) else {})
        except (ValueError, KeyError, TypeError):
            return cls(status, {"detail": content[:200].decode(errors="replace")})


class RunFailedError(ServiceError):
    """Error raised where a run has failed; `problem` is its problem document."""

    def __init__(self, run_id: str, problem: Mapping[str, Any] | None) -> None:
        self.run_id, self.problem = run_id, dict(problem or {})
        reason = ": ".join(str(self.problem[name]) for name in ("title", "detail") if name in self.problem)
        super().__init__(f"run {run_id} has failed: {reason}")


class ImportCancelledError(ServiceError):
    """Error raised where the import of a program was cancelled before it was read."""

    def __init__(self, import_id: str) -> None:
        self.import_id = import_id
        super().__init__(f"import {import_id} was cancelled; send the program again")


class WaitTimeoutError(ServiceError, TimeoutError):
    """Error raised where a run has not ended within the time that its client waits; the run goes on."""

    def __init__(self, run_id: str, seconds: float) -> None:
        self.run_id, self.seconds = run_id, seconds
        super().__init__(
            f"run {run_id} has not ended within {seconds:g} s; it goes on: wait for it again, or cancel it"
        )


class NoPlanError(ServiceError, LookupError):
    """Error raised where no plan of a frontier is within the bounds of a policy."""
