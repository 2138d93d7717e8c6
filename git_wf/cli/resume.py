"""`git wf resume`."""

from __future__ import annotations

from pathlib import Path

import click

from git_wf.cli.ask import answering_options, make_answering
from git_wf.cli.common import current_host, run_argument
from git_wf.cli.group import verb
from git_wf.cli.report import Reporter, interruptible, tell_end
from git_wf.cli.run import level_of


@verb("resume")
@run_argument
@answering_options
@click.option("--keep-worktree", is_flag=True, help="Leave the run's worktree where it is.")
@click.option(
    "--no-claim", is_flag=True,
    help="Do not ask the run's remote whether another machine goes on with it.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON Lines.")
@click.option("-q", "--quiet", is_flag=True, help="Tell nothing but notices and errors.")
@click.option("-v", "--verbose", is_flag=True, help="Tell every edge, checkpoint and output.")
def command(
    run: str | None,
    auto_approve: bool,
    answers_file: Path | None,
    answer: str | None,
    keep_worktree: bool,
    no_claim: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Go on with a run that was interrupted, rewound or forked, or that waits for a person.

    RUN is a run id, the beginning of one, or a run branch. Without it, the run whose branch you
    are on, else the newest. It goes on from what git has of it, in another clone as well. What a
    killed node left in the worktree is kept under refs/wf/rescue/, and told. A run that was pushed
    or fetched is claimed at its remote: two machines do not go on with it at the same time.

    \b
    git wf resume
    git wf rewind plan@2 && git wf resume
    git wf resume 01JK --answer A
    """
    from git_wf.ops.resume import ResumeOptions, resume

    level = level_of(quiet, verbose)
    host = current_host()
    answering = make_answering(host.clock, auto_approve, answers_file, answer)
    options = ResumeOptions(keep_worktree, not no_claim, answering)
    with interruptible() as interruption:
        ended = resume(host, run, options, Reporter(level, as_json), interruption.cancel)
        return tell_end(ended, level, interruption)
