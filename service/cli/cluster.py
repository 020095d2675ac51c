"""A Dask cluster on the command line: its options, and the executor that commands search on."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tapestry.optimizer.run.cluster import ClusterIslands, check_address
from tapestry.optimizer.run.tls import ClusterError, Tls
from tapestry.service.cli.errors import CommandError


def tls_of(arguments: Namespace) -> Tls | None:
    """Return the files of the options `--tls-ca`, `--tls-cert` and `--tls-key`; None without any.

    Raises:
        CommandError: some are missing, there is no cluster, or its address does not fit them.
    """
    files = {f"--tls-{name}": getattr(arguments, f"tls_{name}") for name in ("ca", "cert", "key")}
    given = {option: path for option, path in files.items() if path is not None}
    address = _address(arguments)
    if given and address is None:
        raise CommandError(f"{' and '.join(given)} are for a cluster: give --cluster tls://host:8786 too")
    if given and len(given) < len(files):
        missing = [option for option in files if option not in given]
        raise CommandError(
            f"TLS needs an authority, a certificate and its key: give {' and '.join(missing)} too"
        )
    tls = Tls(*given.values()) if given else None
    if address is not None:
        try:
            check_address(address, tls)
        except ClusterError as error:
            raise CommandError(str(error)) from error
    return tls


def _address(arguments: Namespace) -> str | None:
    given: str | None = (
        arguments.cluster if arguments.cluster is not None else vars(arguments).get("search_on")
    )
    return given


@contextmanager
def on_cluster(arguments: Namespace, on_change: Callable[[str], None]) -> Iterator[ClusterIslands | None]:
    """Connect to the cluster of `--cluster` or `--search-on`, and leave it at the end; None without either option.

    Raises:
        CommandError: the cluster cannot be used.
    """
    cluster = _connected(arguments, on_change)
    try:
        yield cluster
    finally:
        if cluster is not None:
            cluster.shutdown(wait=False, cancel_futures=True)


def _connected(arguments: Namespace, on_change: Callable[[str], None]) -> ClusterIslands | None:
    tls, address = tls_of(arguments), _address(arguments)
    if address is None:
        return None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what concerns the user is reported here
    try:
        return ClusterIslands(address, tls=tls, on_change=on_change)
    except ClusterError as error:
        raise CommandError(str(error)) from error
