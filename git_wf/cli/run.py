"""`git wf run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from git_wf.cli.ask import answering_options, make_answering
from git_wf.cli.common import current_host
from git_wf.cli.group import verb
from git_wf.cli.output import write, write_error
from git_wf.cli.report import NORMAL, QUIET, VERBOSE, Reporter, interruptible, tell_end
from git_wf.core.settings import DIRTY_MODES
from git_wf.errors import EXIT_OK, UserError

if TYPE_CHECKING:
    from git_wf.ops.host import Host


def _pairs(kind: str, words: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{kind} '{word}' is not KEY=VALUE")
        pairs[key] = value
    return pairs


def level_of(quiet: bool, verbose: bool) -> int:
    if quiet:
        return QUIET
    return VERBOSE if verbose else NORMAL


@verb("run")
@click.argument("workflow", required=False, type=click.Path(path_type=Path))
@click.option("--goal", metavar="TEXT", help="What the run is for; before run.toml and graph.")
@click.option(
    "--goal-file", type=click.Path(path_type=Path), metavar="FILE", help="Read the goal from it."
)
@click.option("--input", "inputs", multiple=True, metavar="K=V", help="Set an input; repeatable.")
@click.option("--label", "labels", multiple=True, metavar="K=V", help="Label the run; repeatable.")
@click.option("--id", "run_id", metavar="ULID", help="The id of the new run.")
@click.option(
    "--dirty", type=click.Choice(DIRTY_MODES),
    help="With uncommitted changes: start from HEAD without them (default) or from a commit that "
    "includes them, run in place, or refuse.",
)  # fmt: skip
@click.option(
    "--in-place", is_flag=True,
    help="Run in this folder: no worktree, no checkpoints, state on disk only.",
)  # fmt: skip
@answering_options
@click.option("--keep-worktree", is_flag=True, help="Leave the run's worktree where it is.")
@click.option("--dry-run", is_flag=True, help="Simulate all nodes; touch neither refs nor files.")
@click.option(
    "--resume", "resume_file", type=click.Path(path_type=Path), metavar="PATH/checkpoint.json",
    help="Go on with the run that this file is of.",
)  # fmt: skip
@click.option("--run-branch", metavar="REF", help="Go on with the run of this branch.")
@click.option("--no-snapshot", is_flag=True, help="Save no snapshot first.")
@click.option(
    "--restore", metavar="REF",
    help="Run nothing; restore a snapshot of the workspace here, or of WORKFLOW's.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON Lines.")
@click.option("-q", "--quiet", is_flag=True, help="Tell nothing but notices and errors.")
@click.option("-v", "--verbose", is_flag=True, help="Tell every edge, checkpoint and output.")
def command(
    workflow: Path | None,
    goal: str | None,
    goal_file: Path | None,
    inputs: tuple[str, ...],
    labels: tuple[str, ...],
    run_id: str | None,
    dirty: str | None,
    in_place: bool,
    auto_approve: bool,
    answers_file: Path | None,
    answer: str | None,
    keep_worktree: bool,
    dry_run: bool,
    resume_file: Path | None,
    run_branch: str | None,
    no_snapshot: bool,
    restore: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Walk a workflow, in a worktree of its own, recording a checkpoint after every node.

    WORKFLOW is a graph (.dot, .fabro, .gv) or a run.toml that names one. The files of each node
    are committed to the branch wf/run/ID, the state beside it; your checkout, index and HEAD are
    not touched. The id of the run is printed. What is not committed is saved as a snapshot first;
    `git wf run --restore last` brings it back.

    A human node asks on the terminal. Without one, the run records what it waits for and ends with
    status 3; `git wf resume RUN --answer A` goes on.

    Ends with status 0 after a success, 1 after a failure, 130 when it was interrupted.

    \b
    git wf run workflow.dot --goal "make the tests pass"
    git wf run run.toml --input name=world --label ticket=42
    """
    from git_wf.ops.resume import ResumeOptions, resume, resume_from_file
    from git_wf.ops.run import RunOptions, run

    resumed = (resume_file is not None) + (run_branch is not None)
    if restore is not None:
        return _restore(restore, workflow, resumed > 0, as_json)
    if (workflow is not None) + resumed != 1:
        raise click.UsageError("give a WORKFLOW, or --resume, or --run-branch")
    _refuse_together(goal, goal_file, dry_run, answers_file)
    if workflow is None:
        _refuse_with_resume(
            goal=goal, goal_file=goal_file, inputs=inputs, labels=labels, run_id=run_id,
            dirty=dirty, in_place=in_place, dry_run=dry_run, no_snapshot=no_snapshot,
        )  # fmt: skip
    elif in_place and dirty is not None:
        raise click.UsageError("give --in-place or --dirty, not both")
    elif answer is not None:
        raise click.UsageError("--answer is for a run that waits: with --resume or --run-branch")
    host = current_host()
    answering = make_answering(host.clock, auto_approve, answers_file, answer)
    on = ResumeOptions(keep_worktree, answering=answering)
    level = level_of(quiet, verbose)
    reporter = Reporter(level, as_json)
    with interruptible() as interruption:
        if workflow is not None:
            options = RunOptions(
                goal=_goal(goal, goal_file),
                inputs=_pairs("input", inputs),
                labels=_pairs("label", labels),
                dirty=dirty,
                in_place=in_place,
                dry_run=dry_run,
                keep_worktree=keep_worktree,
                no_snapshot=no_snapshot,
                run_id=run_id,
                answering=answering,
            )
            ended = run(host, workflow, options, reporter, interruption.cancel)
        elif resume_file is not None:
            ended = resume_from_file(host, resume_file, on, reporter, interruption.cancel)
        else:
            ended = resume(host, _ours(host, run_branch), on, reporter, interruption.cancel)
        if not as_json and not dry_run and workflow is not None:
            write(ended.run_id)
        return tell_end(ended, level, interruption)


def _restore(reference: str, workflow: Path | None, resumed: bool, as_json: bool) -> int:
    from git_wf.cli.snapshot import opened, tell_restored
    from git_wf.ops.snapshot import restore

    if resumed:
        raise click.UsageError("--restore is for a workspace: --resume goes on with a run")
    with opened(None if workflow is None else workflow.parent) as workspace:
        tell_restored(restore(workspace, reference), as_json)
    return EXIT_OK


def _refuse_together(
    goal: str | None, goal_file: Path | None, dry_run: bool, answers_file: Path | None
) -> None:
    if goal is not None and goal_file is not None:
        raise click.UsageError("give --goal or --goal-file, not both")
    if dry_run and answers_file is not None:
        raise click.UsageError("--answers is not for a dry run, which takes the first choice")


def _refuse_with_resume(**options: object) -> None:
    for name, value in options.items():
        if value:
            option = {"inputs": "input", "labels": "label", "run_id": "id"}.get(name, name)
            raise click.UsageError(f"--{option.replace('_', '-')} is for a new run")


def _ours(host: Host, branch: str | None) -> str | None:
    """The run to go on with: for one of Fabro's or Arc's a run of ours that is forked from it."""
    from git_wf.ops.fork import fork_of_theirs

    made = fork_of_theirs(host, branch) if branch else None
    if made is None:
        return branch
    for notice in made.notices:
        write_error(f"notice: {notice}")
    write_error(f"run {made.new_run_id} goes on from {made.entry.name} of {made.run_id}")
    return made.new_run_id


def _goal(goal: str | None, goal_file: Path | None) -> str | None:
    if goal_file is None:
        return goal
    try:
        return goal_file.read_text(encoding="utf-8")
    except UnicodeDecodeError as err:
        told = f"goal file '{goal_file}' is not UTF-8 at byte {err.start}"
        raise UserError(told, hint="save it as UTF-8") from err
    except OSError as err:
        why = f": {err.strerror}" if err.strerror else ""
        raise UserError(
            f"cannot read goal file '{goal_file}'{why[:3].lower()}{why[3:]}",
            hint="--goal TEXT gives the goal itself",
        ) from err
