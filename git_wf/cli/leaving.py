"""What push and export share: nothing leaves in which a secret is found."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from git_wf.cli.output import write_error

no_scan_option = click.option("--no-scan", is_flag=True, help="Do not look for secrets first.")


@contextlib.contextmanager
def telling_secrets() -> Iterator[None]:
    """Where something was found, each place is told before the error."""
    from git_wf.ops.push import SecretsFound

    try:
        yield
    except SecretsFound as err:
        for finding in err.findings:
            write_error(f"error: {finding}")
        raise
