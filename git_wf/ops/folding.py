"""How runs go into `refs/wf/archive`, and how they leave it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from git_wf.core.names import Oid, RunId
from git_wf.errors import StateUnreadable
from git_wf.ops.change import refuse_checked_out
from git_wf.ops.log import recorded_status, summarize
from git_wf.ops.project import Project
from git_wf.ops.shares import (
    Belongings,
    Share,
    leaving_updates,
    metadata_commit,
    removed_worktrees,
)
from git_wf.store.archive import (
    Archive,
    ArchivedRun,
    archive_message,
    archive_parents,
    entry_tree,
    is_archive_commit,
    with_entries,
)
from git_wf.store.objects import Commit, Tree
from git_wf.store.plans import NewObject, new_blob, new_commit, new_tree
from git_wf.store.refs import RefUpdate
from git_wf.store.runs import RunRefs

_SUMMARY = (
    "workflow", "status", "created_at", "updated_at", "checkpoints", "current_node", "labels",
    "forked_from", "parent",
)  # fmt: skip
Folding = tuple[list[RefUpdate], list[NewObject]]


def archived_share(
    project: Project,
    refs: RunRefs,
    belongings: Belongings,
    operation: str,
    moment: datetime,
    redone: str = "",
) -> tuple[Share, ArchivedRun]:
    """All refs of a run go, once its metadata says so; its entry in the archive has their tips.

    `redone` is the operation that is made once more; without it this is the first time.
    """
    names, run = project.settings.names, refs.run_id
    refuse_checked_out(project, run, belongings.worktrees)
    assert refs.meta_tip is not None, refs
    told = summarize(project, refs).to_json()
    told["status"] = recorded_status(project.store.load(refs))  # we hold its lock
    made = metadata_commit(
        project, run, project.store.reader.read_commit(refs.meta_tip).tree, [refs.meta_tip],
        moment, f"redo {redone}" if redone else "archive", Op=operation,
    )  # fmt: skip
    branches = belongings.branches_of(project, run)
    tips = {names.meta_ref(run): made.oid, **branches}
    if refs.run_tip is not None:
        tips[names.run_branch(run)] = refs.run_tip
    worktrees, rescues = removed_worktrees(project, refs, belongings, operation)
    share = Share(
        updates=(*leaving_updates(project, refs, branches), *rescues),
        objects=(made,),
        worktrees=worktrees,
        rescued=tuple(update.ref for update in rescues),
    )
    summary = {key: told[key] for key in _SUMMARY}
    return share, ArchivedRun(run, redone or operation, tips, summary)


def folded(
    project: Project,
    archive: Archive,
    entries: Sequence[ArchivedRun],
    operation: str,
    moment: datetime,
) -> Folding:
    """One more commit on the archive, which reaches the refs of the runs that go into it."""
    form = project.repo.object_format
    objects: list[NewObject] = []
    added = {}
    for entry in entries:
        blob = new_blob(f"the entry of run {entry.run_id}", entry.encode(), form)
        tree = new_tree("its tree", entry_tree(blob.oid), form)
        objects += [blob, tree]
        added[entry.run_id] = tree.oid
    root = new_tree("the tree of the archive", with_entries(archive.tree, added), form)
    parents = archive_parents(archive.tip, [tip for one in entries for tip in one.refs.values()])
    made = _commit(project, root, parents, operation, moment, with_entries(archive.tree, added))
    update = RefUpdate(project.settings.names.archive_ref, made.oid, archive.tip)
    return [update], [*objects, root, made]


def unfolded(
    project: Project,
    archive: Archive,
    runs: Sequence[RunId],
    operation: str,
    moment: datetime,
) -> Folding:
    """The archive without some of its runs.

    It goes back to the archive before where that is just this one. Else it is begun anew with the
    runs that are left: what is removed from the repository must not live on in its past.
    """
    if not runs:
        return [], []
    assert archive.tip is not None, runs
    ref, left = project.settings.names.archive_ref, with_entries(archive.tree, {}, runs)
    if not left:
        return [RefUpdate(ref, None, archive.tip)], []
    before = _before(project, archive)
    if before.tree == left:
        return [RefUpdate(ref, before.tip, archive.tip)], []
    gone = set(runs)
    entries = archive.entries(project.store.reader)
    tips: list[Oid] = []
    for run, entry in entries.items():
        if run in gone:
            continue
        if isinstance(entry, StateUnreadable):
            raise entry
        tips += entry.refs.values()
    root = new_tree("the tree of the archive", left, project.repo.object_format)
    made = _commit(project, root, archive_parents(None, tips), operation, moment, left)
    return [RefUpdate(ref, made.oid, archive.tip)], [root, made]


def _before(project: Project, archive: Archive) -> Archive:
    """The archive as it was before its last commit; an empty one where that was the first."""
    reader, names = project.store.reader, project.settings.names
    assert archive.tip is not None
    parents = reader.read_commit(archive.tip).parents
    if not parents or not is_archive_commit(names, reader.read_commit(parents[0])):
        return Archive(names)
    return Archive.read(reader, names, parents[0])


def _commit(
    project: Project,
    root: NewObject,
    parents: tuple[Oid, ...],
    operation: str,
    moment: datetime,
    tree: Tree,
) -> NewObject:
    commit = Commit(
        tree=root.oid,
        parents=parents,
        author=project.identity.author_line(moment),
        committer=project.identity.committer_line(moment),
        message=archive_message(project.settings.names, "archive", operation, len(tree)),
    )
    return new_commit("the archive", commit, project.repo.object_format)
