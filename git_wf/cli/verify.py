"""`git wf verify`."""

from __future__ import annotations

import click

from git_wf.cli.common import json_option, open_here
from git_wf.cli.group import verb
from git_wf.cli.output import write, write_error, write_json
from git_wf.core.checkpoint import FORMAT
from git_wf.core.trailers import one_line
from git_wf.errors import EXIT_FAILED, EXIT_OK


@verb("verify")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@json_option
def command(runs: tuple[str, ...], as_json: bool) -> int:
    """Check that what runs have recorded is whole and fits together. Changes nothing.

    Of every commit of a run: its subject, its trailers, and that its checkpoint is there and names
    just this tree and parent; of every metadata commit, that all of it can be read. Of a run of
    Fabro's or Arc's, what is missing. Prints a line `RUN commit problem` for what is wrong, and
    ends with status 1 then.

    \b
    git wf verify
    git wf verify 01JK --json
    """
    from git_wf.ops.verify import verify

    with open_here() as project:
        found = verify(project, runs)
    problems = sum(len(one.problems) for one in found)
    if as_json:
        write_json({"format": FORMAT, "runs": [one.to_json() for one in found]})
    else:
        for one in found:
            for problem in one.problems:
                write(one_line(f"{one.run} {problem.commit} {problem.text}"))
            for expired in one.expired:
                write_error(f"notice: {one.run} {expired.commit} expired: {expired.text}")
        commits = sum(one.commits for one in found)
        told = f"{problems} problem{'' if problems == 1 else 's'}" if problems else "no problems"
        write_error(f"{len(found)} run{'' if len(found) == 1 else 's'}, {commits} commits: {told}")
    return EXIT_FAILED if problems else EXIT_OK
