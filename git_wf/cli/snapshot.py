"""`git wf snapshot`: a group of verbs of its own."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from git_wf.cli.common import current_host, json_option
from git_wf.cli.group import CONTEXT, VERBS, SubGroup, WfCommand
from git_wf.cli.output import (
    age,
    paged,
    painted,
    table,
    use_colour,
    write,
    write_error,
    write_json,
)
from git_wf.core.trailers import one_line, plain_text
from git_wf.core.values import read_duration
from git_wf.errors import EXIT_FAILED, EXIT_OK, UserError

if TYPE_CHECKING:
    from git_wf.core.snapshot import FileChange
    from git_wf.ops.snapshot import Restored, Saved
    from git_wf.ops.snapshot_view import Difference, Listed, ShownSnapshot
    from git_wf.ops.workspace import Workspace

Decorated = Callable[..., Any]
_LETTER_COLOURS = {"A": "success", "D": "fail", "M": "commit", "R": "running", "T": "waiting"}
workspace_option = click.option(
    "-w", "--workspace", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Another workspace than the one that you are in.",
)  # fmt: skip


@click.group(
    "snapshot",
    cls=SubGroup,
    context_settings=CONTEXT,
    short_help=VERBS["snapshot"],
    no_args_is_help=False,
)
def command() -> None:
    """Save what a workspace holds, and give it back: undo for agents and people.

    A workspace is the worktree that you are in, all of it; outside a repository it is the folder
    itself. Captured is every file that git does not ignore, byte for byte, with permissions,
    symlinks and empty directories. Index, HEAD, branches, stash and an unfinished merge stay as
    they are. Every restore first saves what there is.

    REF is `last`, an id or the begin of one, or `@3`, as list shows it.

    \b
    git wf snapshot save "before the refactoring"
    git wf snapshot diff
    git wf snapshot restore last
    git wf undo-edits
    """


def verb(name: str, help_line: str) -> Callable[[Decorated], click.Command]:
    return command.command(name, cls=WfCommand, context_settings=CONTEXT, short_help=help_line)


@contextlib.contextmanager
def opened(folder: Path | None) -> Iterator[Workspace]:
    from git_wf.ops.workspace import open_workspace

    workspace = open_workspace(current_host(), folder)
    try:
        yield workspace
    finally:
        workspace.close()


@contextlib.contextmanager
def reading(workspace: Workspace) -> Iterator[bool]:
    """stdout through git's pager; gives whether to use colour."""
    env = workspace.host.env
    on_terminal = sys.stdout.isatty() and env.get("TERM", "dumb") != "dumb"
    pager = workspace.store.repo.pager() if on_terminal else ""
    with paged(pager, env):
        yield use_colour(workspace.config, env)


def tell_notices(notices: Sequence[str]) -> None:
    for one in notices:
        write_error(f"notice: {one_line(one)}")


@verb("save", "Save the workspace")
@click.argument("message")
@click.option("--allow-empty", is_flag=True, help="Also where nothing has changed.")
@click.option("--step", type=int, metavar="N", help="A number to restore it by.")
@click.option("--session", metavar="S", help="The session that it belongs to.")
@workspace_option
@json_option
def save_command(
    message: str,
    allow_empty: bool,
    step: int | None,
    session: str | None,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Save the workspace. The last word that is printed is the id.

    Where nothing has changed since the current snapshot, nothing is made, and that one is told.

    \b
    git wf snapshot save "tests pass"
    git wf snapshot save turn --session S1 --step 4
    """
    from git_wf.ops.snapshot import Asked, save

    asked = Asked(message, session, step, allow_empty=allow_empty)
    with opened(workspace) as place:
        _tell_saved(save(place, asked), as_json)


def _tell_saved(done: Saved, as_json: bool) -> None:
    if as_json:
        write_json(done.to_json())
        return
    tell_notices(done.notices)
    write(f"saved as {done.short}" if done.is_new else f"nothing has changed since {done.short}")


@verb("list", "List the snapshots")
@click.option("-n", "limit", type=click.IntRange(min=1), metavar="N", help="The newest N only.")
@workspace_option
@json_option
def list_command(limit: int | None, workspace: Path | None, as_json: bool) -> None:
    """List the snapshots, the newest first. A star marks the one that the workspace was last
    saved as, or restored to.

    The counts are against the state before each. Snapshots that git-wf made by itself, such as
    before a restore, are listed, and no steps for rewind.
    """
    from git_wf.core.checkpoint import FORMAT
    from git_wf.ops.snapshot_view import list_snapshots

    with opened(workspace) as place:
        found = list_snapshots(place, limit)
        if as_json:
            write_json({"format": FORMAT, "snapshots": [one.to_json() for one in found]})
            return
        tell_notices(place.notices)
        with reading(place) as colour:
            now = place.host.clock.now()
            for line in table([_row(one, now) for one in found], right=(1,)):
                write(_painted_row(line, found, colour))


def _row(one: Listed, now: datetime) -> tuple[str, ...]:
    record = one.snapshot.record
    message = one_line(record.message)
    notes = f"({', '.join(one.notes)})" if one.notes else ""
    return (
        "*" if one.is_current else " ",
        f"@{one.snapshot.ordinal}",
        one.short,
        age(record.created_at, now),
        _counts(one.files_changed, one.insertions, one.deletions),
        f"{message} {notes}".strip(),
    )


def _painted_row(line: str, found: Sequence[Listed], colour: bool) -> str:
    for one in found:
        if f" {one.short} " in line:
            return line.replace(one.short, painted(one.short, "commit", colour), 1)
    return line


def _counts(files: int, insertions: int, deletions: int) -> str:
    return f"{files} file{'' if files == 1 else 's'} +{insertions} -{deletions}"


@verb("show", "Show one snapshot")
@click.argument("ref", metavar="[REF]", default="last")
@workspace_option
@json_option
def show_command(ref: str, workspace: Path | None, as_json: bool) -> None:
    """Show one snapshot: when and where it was made, what it changed, what it does not cover."""
    from git_wf.ops.snapshot_view import show_snapshot

    with opened(workspace) as place:
        shown = show_snapshot(place, ref)
        if as_json:
            write_json(shown.to_json())
            return
        tell_notices(place.notices)
        with reading(place) as colour:
            for line in _shown_lines(shown, colour):
                write(line)


def _shown_lines(shown: ShownSnapshot, colour: bool) -> Iterator[str]:
    one, record = shown.listed, shown.listed.snapshot.record
    yield f"{painted('snapshot ' + one.snapshot.id, 'commit', colour)}  @{one.snapshot.ordinal}"
    yield f"saved     {record.created_at}"
    if record.head:
        yield f"on        {one_line(record.branch or 'a detached HEAD')} {record.head}"
    if one.notes:
        yield f"notes     {', '.join(one_line(note) for note in one.notes)}"
    yield ""
    yield from (f"    {line}" for line in plain_text(record.message).split("\n"))
    if shown.files:
        yield ""
        yield from _file_lines(shown.files, colour)
        yield _counts(one.files_changed, one.insertions, one.deletions)
    yield from _left_out_lines(record.left_out)


def _left_out_lines(left_out: Any) -> Iterator[str]:
    if left_out:
        yield ""
        yield "not saved:"
        yield from (f"  {one_line(path)}: {why}" for path, why in sorted(left_out.items()))


def _file_lines(files: Sequence[FileChange], colour: bool) -> Iterator[str]:
    rows = [_file_row(one) for one in files]
    for one, line in zip(files, table(rows, right=(2, 3)), strict=True):
        yield painted(line[:1], _LETTER_COLOURS.get(line[:1], ""), colour) + line[1:]
        if one.mode is not None:
            yield f"   permissions {_mode_text(one.mode[0])} -> {_mode_text(one.mode[1])}"


def _file_row(one: FileChange) -> tuple[str, ...]:
    name = one_line(one.path)
    path = f"{one_line(one.old_path)} -> {name}" if one.old_path else name
    if one.insertions is None:
        return one.status, path, "binary", ""
    return one.status, path, f"+{one.insertions}", f"-{one.deletions}"


def _mode_text(mode: int | None) -> str:
    return "as usual" if mode is None else f"{mode:o}"


@verb("diff", "Compare a snapshot with the workspace, or two snapshots")
@click.argument("refs", nargs=-1, metavar="[REF [REF]]")
@click.option("-p", "--patch", is_flag=True, help="What changed, line by line.")
@click.option("--stat", is_flag=True, help="How much changed, as git draws it.")
@click.option("--exit-code", is_flag=True, help="Status 1 where there is a difference.")
@workspace_option
@json_option
def diff_command(
    refs: tuple[str, ...],
    patch: bool,
    stat: bool,
    exit_code: bool,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Compare a snapshot with the workspace as it is now, or with another snapshot.

    Without REF the current snapshot is compared: the one that the workspace was last saved as, or
    restored to.

    \b
    git wf snapshot diff
    git wf snapshot diff @2 @5 -p
    """
    from git_wf.ops.snapshot_view import compare

    if len(refs) > 2:
        raise click.UsageError("diff takes two snapshots at most")
    with opened(workspace) as place:
        with reading(place) as colour:
            words = [f"--{name}" for name, given in (("patch", patch), ("stat", stat)) if given]
            words = [*words, "--color=always" if colour else "--color=never"] if words else []
            found = compare(place, refs, words or None)
            if as_json:
                write_json(found.to_json())
            elif words:
                sys.stdout.flush()
                sys.stdout.buffer.write(found.text)
                sys.stdout.buffer.flush()
            else:
                _write_difference(found, colour)
        return EXIT_FAILED if exit_code and found.is_different else EXIT_OK


def _write_difference(found: Difference, colour: bool) -> None:
    for line in _file_lines(found.files, colour):
        write(line)
    for path, word in found.directories.items():
        write(f"{word[0].upper()}  {one_line(path)}/  empty directory")
    if found.files:
        write(_counts(
            len(found.files),
            sum(one.insertions or 0 for one in found.files),
            sum(one.deletions or 0 for one in found.files),
        ))  # fmt: skip
    for line in _left_out_lines(found.left_out):
        write_error(line)


@verb("restore", "Give the workspace back what a snapshot holds")
@click.argument("ref", required=False, metavar="REF")
@click.option("--step", type=int, metavar="N", help="The newest one that was saved as step N.")
@click.option(
    "--path", "paths", multiple=True, metavar="PATH", help="This file or directory only; several."
)
@workspace_option
@json_option
def restore_command(
    ref: str | None,
    step: int | None,
    paths: tuple[str, ...],
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Give the workspace back what a snapshot holds: bytes, permissions, symlinks.

    What there is now is saved first. Files made since go; ignored files, and empty directories
    made since, stay. Where something that was never saved is in the way, nothing is changed.

    \b
    git wf snapshot restore last
    git wf snapshot restore 3f2a9c1 --path src/main.py
    """
    from git_wf.ops.snapshot import restore

    if (ref is None) == (step is None):
        raise click.UsageError("name a snapshot, or --step N")
    with opened(workspace) as place:
        tell_restored(restore(place, ref, step=step, paths=paths), as_json)


def tell_restored(done: Restored, as_json: bool) -> None:
    if as_json:
        write_json(done.to_json())
        return
    tell_notices(done.notices)
    message = one_line(done.snapshot.record.message)
    only = f" in {', '.join(one_line(path) or '.' for path in done.paths)}" if done.paths else ""
    if not done.is_changed:
        write(f"already at {done.short}{only}: {message}")
        return
    counts = f"{done.written} written, {done.removed} removed"
    write(f"restored {done.short}{only}: {message} ({counts})")
    if done.before_short is not None:
        write_error(f"hint: git wf snapshot restore {done.before_short} takes that back")


@verb("rewind", "Go back a step, or several")
@click.argument("count", type=click.IntRange(min=1), default=1, metavar="[N]")
@workspace_option
@json_option
def rewind_command(count: int, workspace: Path | None, as_json: bool) -> None:
    """Go back N steps (1), as you would count them: edits since the current snapshot are the
    first step, every snapshot that you made is one, those that git-wf made by itself are none.
    """
    go_back(count, workspace, as_json)


def go_back(count: int, workspace: Path | None, as_json: bool) -> None:
    from git_wf.ops.snapshot import rewind

    with opened(workspace) as place:
        tell_restored(rewind(place, count), as_json)


@verb("delete", "Delete snapshots")
@click.argument("refs", nargs=-1, metavar="[REF...]")
@click.option("--all", "every", is_flag=True, help="All snapshots of the workspace.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@workspace_option
@json_option
def delete_command(
    refs: tuple[str, ...], every: bool, yes: bool, workspace: Path | None, as_json: bool
) -> None:
    """Delete snapshots for good. The workspace stays as it is."""
    from git_wf.ops.snapshot import chosen_snapshots, delete

    if every == bool(refs):
        raise click.UsageError("name snapshots, or --all")
    with opened(workspace) as place:
        chosen = chosen_snapshots(place, refs)
        count = f"{len(chosen)} snapshot{'' if len(chosen) == 1 else 's'}"
        if chosen and not yes and not _agrees(f"delete {count} for good?"):
            raise UserError(f"{count} not deleted", hint="-y deletes without asking")
        done = delete(place, [one.id for one in chosen])
        _tell_deleted(done, as_json)


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    return click.confirm(question, err=True)


@verb("prune", "Delete old snapshots")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="All but the newest N.")
@click.option("--older-than", metavar="AGE", help="Those that are older: 30d.")
@workspace_option
@json_option
def prune_command(
    keep: int | None, older_than: str | None, workspace: Path | None, as_json: bool
) -> None:
    """Delete the snapshots that meet all that is given. The current one always stays.

    N counts those that you made; what git-wf made by itself goes with those around it.

    \b
    git wf snapshot prune --keep 20
    git wf snapshot prune --older-than 30d
    """
    from git_wf.ops.snapshot import prune

    if keep is None and older_than is None:
        raise click.UsageError("give --keep or --older-than")
    duration = read_duration(older_than) if older_than is not None else None
    if older_than is not None and duration is None:
        raise click.UsageError(f"--older-than: '{older_than}' is not a duration, such as 30d")
    with opened(workspace) as place:
        _tell_deleted(prune(place, keep, duration.seconds if duration else None), as_json)


def _tell_deleted(done: Any, as_json: bool) -> None:
    if as_json:
        write_json(done.to_json())
        return
    tell_notices(done.notices)
    for one, short in zip(done.snapshots, done.shorts, strict=True):
        write(f"deleted {short}: {one_line(one.record.message)}")
    if not done.snapshots:
        write_error("nothing to delete")
