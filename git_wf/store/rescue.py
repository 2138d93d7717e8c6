"""Keeping half-done work: the whole state of a worktree as a commit under `refs/wf/rescue/`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from git_wf.core.names import Names, Oid, RefName
from git_wf.core.trailers import message
from git_wf.store.identity import Identity
from git_wf.store.objects import Commit, ObjectReader, encode_commit
from git_wf.store.packs import Pack, quarantine
from git_wf.store.refs import RefUpdate, move_refs
from git_wf.store.repo import Repo
from git_wf.store.staging import changes, snapshot_tree


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
