"""What a run does about uncommitted changes: `--dirty`, and `wf.dirty`.

`head` starts from HEAD without them, `include` from a commit that holds them, `in-place` runs in
the checkout that has them, and `refuse` does not start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from git_wf.core.clock import milliseconds
from git_wf.core.names import Oid, RunId, operation_id
from git_wf.core.trailers import message
from git_wf.errors import UserError
from git_wf.ops.project import Project
from git_wf.store.excludes import Excludes
from git_wf.store.opened import Checkout
from git_wf.store.rescue import Rescue, rescue_worktree, uncommitted
from git_wf.store.staging import Staging

Notice = tuple[str, str]  # code, message


@dataclass(frozen=True)
class Base:
    """Where a run starts from, and what there is to say about it."""

    commit: Oid
    branch: str | None  # short name; None where HEAD is detached
    uncommitted_on: Oid | None = None  # HEAD, where `commit` is one of ours on it
    notices: tuple[Notice, ...] = ()


def refuse_dirty(checkout: Checkout, mode: str) -> None:
    """Raises `UserError` where a run cannot start from a checkout like this."""
    if mode == "refuse" and not checkout.is_clean:
        raise UserError(
            f"uncommitted changes: {some_of(changed_paths(checkout))}",
            hint=[
                "git stash, git commit, or --dirty head to start from HEAD without them",
                "--dirty include starts with them",
            ],
        )
    if mode == "include" and checkout.unmerged:
        raise UserError(
            f"unmerged files: {some_of(checkout.unmerged)}",
            hint="finish the merge, or --dirty head to start from HEAD without it",
        )


@contextmanager
def start_base(
    project: Project, checkout: Checkout, mode: str, run: RunId, excludes: Excludes
) -> Iterator[Base]:
    """The commit to start from; one that is made here is safe from gc inside the block."""
    assert checkout.head is not None
    branch = checkout.branch.removeprefix("refs/heads/") if checkout.branch else None
    if checkout.is_clean:
        yield Base(checkout.head, branch)
    elif mode != "include":
        left = some_of(changed_paths(checkout))
        told = ("dirty_checkout", f"starting from HEAD: left out are {left}")
        yield Base(checkout.head, branch, notices=(told,))
    else:
        names = project.settings.names
        text = message(
            f"{names.namespace}({run}): uncommitted changes", [(names.trailer("Run"), run)]
        )
        moment = project.clock.now()
        with uncommitted(project.repo, checkout.head, text, excludes, project.identity, moment) as (
            made,
            staging,
        ):
            notices = tuple(_included_notices(staging))
            on = checkout.head if made != checkout.head else None
            yield Base(made, branch, on, notices)


def _included_notices(staging: Staging) -> Iterator[Notice]:
    if staging.changed:
        told = f"starting from HEAD and the uncommitted changes: {some_of(staging.changed)}"
        yield "dirty_checkout", told
    left = [*staging.held_back, *staging.left_out_builtin, *staging.unreadable]
    if left:
        yield "left_out", f"left out of the base: {some_of(left)}"
    if staging.nested:
        yield (
            "nested_repository",
            (f"nested repositories stored as plain files: {some_of(staging.nested)}"),
        )


def keep_checkout(project: Project, head: Oid, run: RunId) -> list[Notice]:
    """Keeps the uncommitted changes of the checkout before a run in it changes them."""
    names, moment = project.settings.names, project.clock.now()
    ref = names.rescue_ref(run, operation_id(milliseconds(moment), "in place", run, head))
    rescue = Rescue(ref, head, run)
    if rescue_worktree(project.repo, names, rescue, project.identity, moment) is None:
        return []
    told = f"the uncommitted changes, as they are now, are kept at {ref}"
    command = f"git restore --source={ref} :/"
    left = "files made since, the index and ignored files stay as they are then"
    return [("rescued", f"{told}: {command} brings them back ({left})")]


def changed_paths(checkout: Checkout) -> tuple[str, ...]:
    return (*checkout.changed, *checkout.untracked)


def some_of(paths: Sequence[str], limit: int = 10) -> str:
    shown = ", ".join(paths[:limit])
    return shown if len(paths) <= limit else f"{shown} and {len(paths) - limit} more"
