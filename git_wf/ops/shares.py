"""What an operation on several runs does to each of them: its share of the plan."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from git_wf.core.names import Oid, RefName, RunId, operation_id, ulid_milliseconds
from git_wf.core.trailers import metadata_message
from git_wf.ops.change import refuse_checked_out
from git_wf.ops.project import Project
from git_wf.ops.select import matching_runs
from git_wf.store.objects import Commit
from git_wf.store.plans import NewObject, RefPlan, WorktreeStep, new_commit, new_tree
from git_wf.store.refs import RefUpdate, list_refs
from git_wf.store.rescue import Rescue
from git_wf.store.runs import RunIndex, RunRefs
from git_wf.store.worktree import Registration, Worktree, list_worktrees, registrations, run_of_slot


@dataclass(frozen=True)
class Share:
    """One run's part of a plan."""

    updates: tuple[RefUpdate, ...] = ()
    objects: tuple[NewObject, ...] = ()
    kept: tuple[RefName, ...] = ()
    worktrees: tuple[WorktreeStep, ...] = ()
    rescued: tuple[RefName, ...] = ()  # commits of worktrees that nothing else holds


@dataclass(frozen=True)
class Belongings:
    """What runs have beside their two refs: worktrees, and refs of open parallel branches."""

    worktrees: Sequence[Worktree]
    registered: Sequence[Registration]
    branches: Mapping[RefName, Oid]

    @classmethod
    def read(cls, project: Project) -> Belongings:
        names = project.settings.names
        return cls(
            list_worktrees(project.repo, project.state_dir),
            registrations(project.repo),
            list_refs(project.repo, names.par_root),
        )

    def branches_of(self, project: Project, run: str) -> dict[RefName, Oid]:
        root = f"{project.settings.names.par_root}/{run}/"
        return {ref: oid for ref, oid in self.branches.items() if ref.startswith(root)}

    def worktrees_of(self, project: Project, run: str) -> list[tuple[Worktree, Registration]]:
        """Those that git-wf made for a run, and that no other run has taken since."""
        branch = project.settings.names.run_branch(run)
        by_path = {os.path.realpath(one.path): one for one in self.registered}
        found = []
        for tree in self.worktrees:
            known = by_path.get(os.path.realpath(tree.path))
            if known is None or not tree.is_ours or known.is_pooled:
                continue
            if run_of_slot(known) == run or (tree.branch == branch and not run_of_slot(known)):
                found.append((tree, known))
        return found


def metadata_commit(
    project: Project,
    run: str,
    tree: Oid,
    parents: Iterable[Oid],
    moment: datetime,
    first_line: str,
    repeated: Iterable[tuple[str, str]] = (),
    /,
    **trailers: str,
) -> NewObject:
    """A metadata commit of a run that tells of an operation: by whom, when and where."""
    commit = Commit(
        tree=tree,
        parents=tuple(dict.fromkeys(parents)),
        author=project.identity.author_line(moment),
        committer=project.identity.committer_line(moment),
        message=metadata_message(
            project.settings.names, run, first_line, repeated,
            **trailers, Where=socket.gethostname(),
        ),
    )  # fmt: skip
    name = f"the metadata commit of run {run} that tells of it"
    return new_commit(name, commit, project.repo.object_format)


def leaving_share(
    project: Project,
    refs: RunRefs,
    belongings: Belongings,
    operation: str,
    moment: datetime,
    first_line: str,
    **trailers: str,
) -> Share:
    """All refs of a run go, and what its worktrees hold is kept.

    The tips stay under `refs/wf/old/`. The metadata says so first: that commit has the tips of
    parallel branches that were never merged as further parents, and names their refs.
    Raises `UserError` where the user has the branch checked out.
    """
    names, run = project.settings.names, refs.run_id
    refuse_checked_out(project, run, belongings.worktrees)
    branches = belongings.branches_of(project, run)
    objects: list[NewObject] = []
    kept: dict[str, Oid] = {}
    if refs.run_tip is not None:
        kept["run"] = refs.run_tip
    if refs.meta_tip is None:  # an undo has to find it all the same
        objects.append(new_tree("no metadata", {}, project.repo.object_format))
        tree, parents = objects[0].oid, [*branches.values()]
    else:
        tree = project.store.reader.read_commit(refs.meta_tip).tree
        parents = [refs.meta_tip, *branches.values()]
    told = [("Ref", f"{ref} {oid}") for ref, oid in branches.items()]
    if refs.meta_tip is None:
        told.append(("Metadata", "none"))
    if refs.is_archived:
        told.append(("From", "archive"))
    made = metadata_commit(
        project, run, tree, parents, moment, first_line, told, Op=operation, **trailers
    )
    objects.append(made)
    kept["meta"] = made.oid
    updates = [RefUpdate(names.old_ref(run, operation, side), oid, None)
               for side, oid in kept.items()]  # fmt: skip
    worktrees, rescues = removed_worktrees(project, refs, belongings, operation)
    return Share(
        updates=(*leaving_updates(project, refs, branches), *updates, *rescues),
        objects=tuple(objects),
        kept=tuple(update.ref for update in updates),
        worktrees=worktrees,
        rescued=tuple(update.ref for update in rescues),
    )


def leftover_share(
    project: Project, run: RunId, known: RunIndex, belongings: Belongings, operation: str
) -> Share:
    """What a killed command left of a run: its worktrees go, and refs that it had not come to."""
    tips = {kept.side: known.tip(ref) for ref, kept in known.kept.items() if kept.run == run}
    refs = RunRefs(run, tips.get("run"), tips.get("meta"))
    worktrees, rescues = removed_worktrees(project, refs, belongings, operation)
    rescued = tuple(update.ref for update in rescues)
    branch = project.settings.names.run_branch(run)
    there = {branch: known.tip(branch), **belongings.branches_of(project, run)}
    going = [RefUpdate(ref, None, oid) for ref, oid in there.items() if oid]
    return Share(updates=(*going, *rescues), worktrees=worktrees, rescued=rescued)


def removed_runs(project: Project, word: str, known: RunIndex) -> list[RunId]:
    """Runs that are gone, but whose tips are kept, by the beginning of their ids."""
    gone = {kept.run for kept in known.kept.values() if kept.side == "meta"} - set(known)
    return matching_runs(project, word, sorted(gone))


def has_leftovers(project: Project, run: RunId, known: RunIndex, belongings: Belongings) -> bool:
    """Whether something is left of a run that is gone."""
    return (
        known.tip(project.settings.names.run_branch(run)) is not None
        or bool(belongings.branches_of(project, run))
        or bool(belongings.worktrees_of(project, run))
        or project.run_dir(run).exists()
    )


def leaving_updates(
    project: Project, refs: RunRefs, branches: Mapping[RefName, Oid]
) -> list[RefUpdate]:
    """The refs of a run go; those of an archived one are gone already.

    The metadata goes first: a run without it whose tips are kept is one that is gone.
    """
    if refs.is_archived:
        return []
    names, run = project.settings.names, refs.run_id
    mine = [(names.meta_ref(run), refs.meta_tip), (names.run_branch(run), refs.run_tip)]
    return [RefUpdate(ref, None, oid) for ref, oid in (*mine, *branches.items()) if oid]


def removed_worktrees(
    project: Project, refs: RunRefs, belongings: Belongings, operation: str
) -> tuple[tuple[WorktreeStep, ...], list[RefUpdate]]:
    """The worktrees of a run go; a commit that is in one of them and nowhere else gets a ref."""
    run = refs.run_id
    steps, rescues = [], []
    tips = {tip for tip in (refs.run_tip, *belongings.branches_of(project, run).values()) if tip}
    for tree, known in belongings.worktrees_of(project, run):
        parent = tree.head or refs.run_tip
        rescue = None
        if parent is not None:
            rescue = Rescue(_rescue_ref(project, run, operation, known, "files"), parent, run)
        steps.append(WorktreeStep(known.path, known.git_dir, rescue=rescue, is_removed=True))
        if tree.head is not None and not _is_held(project, tree.head, tips):
            ref = _rescue_ref(project, run, operation, known, "HEAD")
            rescues.append(RefUpdate(ref, tree.head, None))
    return tuple(steps), rescues


def _is_held(project: Project, commit: Oid, tips: set[Oid]) -> bool:
    return commit in tips or any(project.repo.is_ancestor(commit, tip) for tip in tips)


def _rescue_ref(
    project: Project, run: str, operation: str, known: Registration, what: str
) -> RefName:
    moment = ulid_milliseconds(operation)
    rescue = operation_id(moment, "rescue", run, operation, known.git_dir.name, what)
    return project.settings.names.rescue_ref(run, rescue)


def joined_plan(
    project: Project,
    operation: str,
    runs: Sequence[RunId],
    shares: Iterable[Share],
    *,
    reason: str,
    target: str | None = None,
    more: Sequence[RefUpdate] = (),
    more_objects: Sequence[NewObject] = (),
    gone: Sequence[RunId] = (),
) -> RefPlan:
    """One plan of the shares of several runs: one transaction. The directories of `gone` go."""
    made = list(shares)
    return RefPlan(
        operation=operation,
        run_id=runs[0] if len(runs) == 1 else None,
        reason=reason,
        updates=(*(update for share in made for update in share.updates), *more),
        objects=(*(new for share in made for new in share.objects), *more_objects),
        kept=tuple(ref for share in made for ref in (*share.kept, *share.rescued)),
        target=target,
        worktrees=tuple(step for share in made for step in share.worktrees),
        directories=tuple(project.run_dir(run) for run in gone),
    )
