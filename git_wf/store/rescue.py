"""Keeping half-done work: the whole state of a worktree as a commit under `refs/wf/rescue/`.

And a commit of the same kind that a run begins with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from git_wf.core.names import Names, Oid, RefName
from git_wf.core.trailers import message
from git_wf.store.excludes import Excludes
from git_wf.store.identity import Identity
from git_wf.store.objects import Commit, ObjectReader, encode_commit
from git_wf.store.packs import Pack, quarantine
from git_wf.store.refs import RefUpdate, move_refs
from git_wf.store.repo import Repo
from git_wf.store.staging import Staging, changes, snapshot_tree, stage_apart


@dataclass(frozen=True)
class Rescue:
    """Where the state of a worktree is to be kept, and on what it was based."""

    ref: RefName
    parent: Oid
    run: str

    def text(self, names: Names) -> str:
        """The message of the commit."""
        return message(
            f"rescue of the worktree of run {self.run}", [(names.trailer("Run"), self.run)]
        )

    def reason(self, names: Names) -> str:
        """The reflog message."""
        return f"{names.namespace}: rescue the worktree of run {self.run}"


def rescue_worktree(
    repo: Repo, names: Names, rescue: Rescue, identity: Identity, moment: datetime
) -> Oid | None:
    """Keeps what differs from HEAD in the worktree that `repo` stands in, excluded files too.

    None, and no ref, where nothing differs. The worktree and its index stay as they are.
    """
    if not changes(repo):
        return None
    pack = Pack(repo)
    with ObjectReader(repo) as reader:
        with quarantine(repo) as place:
            tree = snapshot_tree(repo, place.env)
            pack.add_quarantine(place.path)
        before = reader.read_commit(rescue.parent).tree
        if tree == before:
            pack.discard()
            return None
        pack.complete(reader, tree, before)
        commit = Commit(
            tree=tree,
            parents=(rescue.parent,),
            author=identity.author_line(moment),
            committer=identity.committer_line(moment),
            message=rescue.text(names),
        )
        made = pack.add("commit", encode_commit(commit))
        kept = pack.write()
    try:
        update = RefUpdate(rescue.ref, made, None)
        move_refs(repo, [update], rescue.reason(names), identity.env(moment))
    finally:
        if kept is not None:
            kept.release()
    return made


@contextmanager
def uncommitted(
    repo: Repo, head: Oid, text: str, excludes: Excludes, identity: Identity, moment: datetime
) -> Iterator[tuple[Oid, Staging]]:
    """A commit on `head`, with the message `text`, of what is not committed but for the excluded.

    `head` itself where nothing differs. The worktree and its index stay as they are. No ref holds
    the commit: inside the block it is safe from gc.
    """
    pack = Pack(repo)
    with ObjectReader(repo) as reader:
        with quarantine(repo) as place:
            staging = stage_apart(repo, excludes, place.env)
            pack.add_quarantine(place.path)
        before = reader.read_commit(head).tree
        if staging.tree == before:
            pack.discard()
            yield head, staging
            return
        pack.complete(reader, staging.tree, before)
        commit = Commit(
            tree=staging.tree,
            parents=(head,),
            author=identity.author_line(moment),
            committer=identity.committer_line(moment),
            message=text,
        )
        made = pack.add("commit", encode_commit(commit))
        kept = pack.write()
    try:
        yield made, staging
    finally:
        if kept is not None:
            kept.release()
