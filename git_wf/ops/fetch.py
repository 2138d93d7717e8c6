"""`git wf fetch` and `pull`: runs come from a remote, and go on here where they went on there.

Their commits are first held by refs of their own, so that no cleaning takes them; then branch and
state move together. A fetch only adds. A pull also takes a run branch back that was rewound there:
what it leaves is kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from git_wf.core.names import Oid, RefName, RunId, is_run_id, is_run_prefix
from git_wf.core.trailers import run_commit_fields
from git_wf.errors import Conflict, StateUnreadable, UserError
from git_wf.ops.change import (
    Change,
    carry_out,
    held_run,
    next_operation,
    own_worktree_step,
    refuse_users_checkout,
)
from git_wf.ops.project import Project, require_writing_git
from git_wf.ops.remotes import Far, far_runs, is_kept_tip, local_tips, remember_remote, split_words
from git_wf.ops.select import default_run, matching_runs
from git_wf.store.plans import RefPlan, WorktreeStep
from git_wf.store.refs import RefUpdate, list_refs, move_refs
from git_wf.store.remote import Remote, contains
from git_wf.store.runs import RunRefs

NEW, FORWARD, SAME, AHEAD, REWOUND = "new", "updated", "same", "ahead", "rewound"


@dataclass(frozen=True)
class Fetched:
    run_id: RunId
    remote: str
    state: str  # `new`, `updated`, `same`, `ahead` (here), `rewound` (there, and not taken)
    change: Change | None

    def to_json(self) -> dict[str, Any]:
        told = self.change.to_json() if self.change else {"updates": [], "kept": []}
        kept = {"updates": told["updates"], "kept": told["kept"]}
        return {"run_id": self.run_id, "state": self.state, **kept}


def fetch(project: Project, words: Sequence[str]) -> Iterator[Fetched]:
    """The runs that are named, else all that the remote has; each as it has been fetched.

    Raises `Conflict` where a run went on here and there, and where it is going on.
    """
    remote, named = split_words(project, words)
    yield from bring(project, remote, named, is_pull=False)


def pull(project: Project, words: Sequence[str]) -> Iterator[Fetched]:
    """The same of the runs that are named, else of the default run, rewound ones too."""
    remote, named = split_words(project, words)
    known = project.store.refs()
    yield from bring(project, remote, named or [default_run(project, known).run_id], is_pull=True)


def bring(
    project: Project, remote: Remote, words: Sequence[str], *, is_pull: bool
) -> Iterator[Fetched]:
    require_writing_git(project.repo)
    there = far_runs(project, remote, _whole_ids(project, words))
    chosen = _chosen(project, remote, words, there)
    known = project.store.refs()
    moment = project.clock.now()
    operation = next_operation(known.last_operation, moment, "fetch", remote.name, *chosen)
    with _incoming(project, remote, {run: there[run] for run in chosen}, operation):
        refused: Conflict | StateUnreadable | UserError | None = None
        for number, run in enumerate(chosen):
            own = next_operation(operation, moment, "fetch", run, str(number))
            try:
                done = _take(project, remote, run, there[run], own, moment, is_pull)
                remember_remote(project, remote, run)
                yield done
            except (Conflict, StateUnreadable, UserError) as err:  # the others come all the same
                refused = refused or err
        if refused is not None:
            raise refused


def _whole_ids(project: Project, words: Sequence[str]) -> list[RunId] | None:
    """The runs to ask for; None for all, where a word is only the beginning of an id."""
    prefix = f"{project.settings.names.run_namespace}/"
    ids = [word.removeprefix("refs/heads/").removeprefix(prefix).upper() for word in words]
    return [RunId(one) for one in ids] if ids and all(map(is_run_id, ids)) else None


def _chosen(
    project: Project, remote: Remote, words: Sequence[str], there: Mapping[RunId, Far]
) -> list[RunId]:
    if not words:
        return sorted(there)
    chosen: dict[RunId, None] = {}
    for word in words:
        found = matching_runs(project, word, there)
        if len(found) != 1:
            is_run = is_run_prefix(word) or "/" in word
            told = f"'{remote.name}' has no run '{word}'" if not found else f"'{word}' is ambiguous"
            raise UserError(
                told,
                hint=f"git ls-remote {remote.name} 'refs/heads/wf/run/*' lists them"
                if is_run
                else "git remote -v lists the remotes",
            )
        chosen[found[0]] = None
    return list(chosen)


@contextlib.contextmanager
def _incoming(
    project: Project, remote: Remote, runs: Mapping[RunId, Far], operation: str
) -> Iterator[None]:
    """Inside, what the remote has of runs is here, and held by refs that go at the end."""
    names, reader = project.settings.names, project.store.reader
    wanted: dict[RefName, RefName] = {}
    for far in runs.values():
        for ref, tip in far.tips.items():
            there = names.hosted_ref(ref) if far.is_hosted else ref
            if reader.find(tip) is None or not contains(project.repo, ["refs/"], tip):
                wanted[there] = names.incoming_ref(operation, len(wanted))
    try:
        remote.fetch(wanted)
        project.store.close()  # its reader does not know the packs that came
        yield
    finally:
        held = list_refs(project.repo, names.incoming_root)
        drop = [RefUpdate(ref, None, tip) for ref, tip in held.items()
                if ref in wanted.values()]  # fmt: skip
        reason = f"{names.namespace}: fetch"
        move_refs(project.repo, drop, reason, project.identity.env())


def _take(
    project: Project,
    remote: Remote,
    run: RunId,
    far: Far,
    operation: str,
    moment: datetime,
    is_pull: bool,
) -> Fetched:
    _refuse_half(project, remote, run, far)
    names = project.settings.names
    meta = names.meta_ref(run)
    here = local_tips(project, run)
    mine = here.get(meta)
    if mine and contains(project.repo, [meta], far.tips[meta]):
        is_same = all(
            here.get(ref) == tip for ref, tip in far.tips.items() if not is_kept_tip(names, ref)
        )
        return Fetched(run, remote.name, SAME if is_same else AHEAD, None)
    with held_run(project, run):
        here = local_tips(project, run)
        _refuse_diverged(project, remote, run, here.get(meta), far.tips[meta])
        branch = names.run_branch(run)
        tip, new = here.get(branch), far.tips[branch]
        goes_back = tip is not None and not project.repo.is_ancestor(tip, new)
        if goes_back and not is_pull:
            return Fetched(run, remote.name, REWOUND, None)
        plan = _plan(project, run, here, far, operation, moment)
        change = carry_out(project, plan, moment, dry_run=False)
    return Fetched(run, remote.name, FORWARD if mine else NEW, change)


def _refuse_half(project: Project, remote: Remote, run: RunId, far: Far) -> None:
    """Raises where the two refs there are not of one checkpoint, or the record cannot be read."""
    names = project.settings.names
    branch, meta = names.run_branch(run), names.meta_ref(run)
    hint = f"git wf push {run}, where it was pushed from"
    for ref in (branch, meta):
        if ref not in far.tips:
            raise StateUnreadable(
                f"'{remote.name}' has only a part of run {run}: '{ref}' is missing", hint=hint
            )
    refs = RunRefs(run, far.tips[branch], far.tips[meta])
    stored = project.store.load(refs)
    if stored.record.get("run_id") != run:
        raise StateUnreadable(f"'{remote.name}': '{meta}' has the state of another run", hint=hint)
    fields = run_commit_fields(names, project.store.reader.read_commit(far.tips[branch]).message)
    if fields is None or fields.run != run or not fields.metadata_commit:
        return
    checkpoint = Oid(fields.metadata_commit)
    if project.store.reader.find(checkpoint) is None or not project.repo.is_ancestor(
        checkpoint, far.tips[meta]
    ):
        raise StateUnreadable(
            f"'{remote.name}' has only a part of run {run}: its state is behind its branch",
            hint=hint,
        )


def _refuse_diverged(
    project: Project, remote: Remote, run: RunId, mine: Oid | None, theirs: Oid
) -> None:
    if mine is not None and not project.repo.is_ancestor(mine, theirs):
        raise Conflict(
            f"run {run} went on here and at '{remote.name}'",
            hint=[
                f"git wf fork {run} keeps what is here as a run of its own",
                f"git wf rm {run} && git wf fetch {remote.name} {run} then takes what is there",
            ],
        )


def _plan(
    project: Project,
    run: RunId,
    here: Mapping[RefName, Oid],
    far: Far,
    operation: str,
    moment: datetime,
) -> RefPlan:
    names = project.settings.names
    branch = names.run_branch(run)
    moves = [
        RefUpdate(ref, tip, here.get(ref)) for ref, tip in far.tips.items() if here.get(ref) != tip
    ]
    # A section that ended there: what it merged is in the past of what comes.
    moves += [
        RefUpdate(ref, None, tip)
        for ref, tip in here.items()
        if ref not in far.tips and not is_kept_tip(names, ref)
    ]
    aside = {
        names.rescue_ref(run, next_operation(operation, moment, one.ref)): one.old
        for one in moves
        if one.old is not None and not _is_kept(project, run, one.old, far)
    }
    moves += [RefUpdate(ref, tip, None) for ref, tip in aside.items()]
    worktrees: tuple[WorktreeStep, ...] = ()
    if branch in here:
        stored = project.store.load(RunRefs(run, here[branch], here[names.meta_ref(run)]))
        worktrees = own_worktree_step(project, stored, moment, operation)
    else:
        refuse_users_checkout(project, run)
    return RefPlan(
        operation="fetch",
        run_id=run,
        reason=f"{names.namespace}: fetch",
        updates=tuple(moves),
        kept=tuple(aside),
        worktrees=worktrees,
    )


def _is_kept(project: Project, run: RunId, tip: Oid, far: Far) -> bool:
    """Whether what a ref leaves is in the past of what comes, or of what was kept before."""
    names = project.settings.names
    if any(project.repo.is_ancestor(tip, new) for new in far.tips.values()):
        return True
    return contains(
        project.repo, [f"{root}/{run}" for root in (names.old_root, names.rescue_root)], tip
    )
