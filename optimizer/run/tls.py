"""Files by which machines of a cluster prove who they are, and encrypt what they send."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

NOT_INSTALLED = "a cluster needs the package distributed; install it: pip install 'tapestry[dask]'"


class ClusterError(RuntimeError):
    """Error raised for a cluster that cannot be used as it is: the text says what to change."""


@dataclass(frozen=True)
class Tls:
    """Paths of PEM files: the certificate of the authority, and the certificate and key of this machine."""

    ca: str
    cert: str
    key: str

    def security(self) -> Any:
        """Return the `distributed.Security` that accepts encrypted connections of this authority only.

        Raises:
            ClusterError: a file cannot be read, or holds something else; the package `distributed` is missing.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            named = f"{self.ca!r}, {self.cert!r}, {self.key!r}"
            raise ClusterError(
                f"the TLS files {named} cannot be used ({error}); give PEM files of an authority, a certificate and "
                "its key"
            ) from error
        try:
            from distributed.security import Security
        except ImportError as error:
            raise ClusterError(NOT_INSTALLED) from error
        files = {"cert": self.cert, "key": self.key}
        roles = {f"tls_{role}_{kind}": path for role in ("client", "worker") for kind, path in files.items()}
        return Security(require_encryption=True, tls_ca_file=self.ca, **roles)
