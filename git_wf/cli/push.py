"""`git wf push`."""

from __future__ import annotations

import click

from git_wf.cli.common import json_option, open_here
from git_wf.cli.group import verb
from git_wf.cli.leaving import no_scan_option, telling_secrets
from git_wf.cli.output import write, write_error, write_json


@verb("push")
@click.argument("words", nargs=-1, metavar="[REMOTE] [RUN...]")
@click.option("--all", "every", is_flag=True, help="All runs that are not archived.")
@no_scan_option
@json_option
def command(words: tuple[str, ...], every: bool, no_scan: bool, as_json: bool) -> None:
    """Send runs to a remote: branch, state, open parallel branches and what rewinds left.

    Nothing is overwritten that is not known here. Before anything leaves, it is searched for
    secrets: those that the run declares, and tokens and keys of known forms.

    \b
    git wf push
    git wf push origin 01JK
    """
    from git_wf.ops.push import push

    done = []
    with open_here() as project, telling_secrets():
        for one in push(project, words, every=every, scan=not no_scan):
            done.append(one)
            if not as_json:
                told = f"pushed run {one.run_id} to {one.remote}"
                write(told if one.updates else f"run {one.run_id} is at {one.remote} already")
            for ref in one.left:
                write_error(f"warning: '{one.remote}' does not let '{ref}' go")
            if one.is_hosted and one.updates:
                write_error(
                    f"warning: '{one.remote}' takes branches only: the state of run "
                    f"{one.run_id} is on a branch there"
                )
    if as_json:
        write_json({"format": 1, "runs": [one.to_json() for one in done]})
