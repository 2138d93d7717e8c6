"""`git wf undo` and `redo`: an operation is taken back, or made once more (design.md, section 5).

What an operation did is told by the metadata of the runs that it was about. All of it is one plan:
each run has its share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from git_wf.core.names import Oid, RefName, RunId
from git_wf.errors import UserError
from git_wf.ops.change import (
    Change,
    carry_out,
    held_runs,
    is_worktree_behind,
    next_operation,
    own_worktree_step,
    script_of,
)
from git_wf.ops.folding import Folding, archived_share, folded, unfolded
from git_wf.ops.history import Act, RunHistory, read_histories
from git_wf.ops.project import Project
from git_wf.ops.rm import kept_until
from git_wf.ops.select import find_word
from git_wf.ops.shares import (
    Belongings,
    Share,
    has_leftovers,
    joined_plan,
    leaving_share,
    leftover_share,
    metadata_commit,
)
from git_wf.store.archive import ArchivedRun
from git_wf.store.plans import NewObject, RefPlan, WorktreeStep
from git_wf.store.refs import RefUpdate
from git_wf.store.runs import RunIndex, RunRefs


@dataclass(frozen=True)
class Turned:
    """An operation that was undone or redone. `is_finished`: a killed command had begun it."""

    change: Change
    act: Act
    runs: tuple[RunId, ...]
    is_finished: bool
    kept_until: datetime | None  # None: for ever
    script: str | None  # of a dry run

    def to_json(self) -> dict[str, Any]:
        return {**self.change.to_json(), "runs": list(self.runs), "of": _of_act(self.act)}


@dataclass(frozen=True)
class Listed:
    """An operation that can be undone or redone, and the runs that it was about."""

    act: Act
    runs: tuple[RunId, ...]

    def to_json(self) -> dict[str, Any]:
        return {**_of_act(self.act), "runs": list(self.runs)}


def _of_act(act: Act) -> dict[str, str]:
    return {"operation": act.operation, "verb": act.verb, "target": act.target}


@dataclass(frozen=True)
class _Part:
    """One run, what is to be undone or redone of it, and by a redo the undo of it."""

    history: RunHistory
    act: Act
    undo: Act | None = None

    @property
    def run(self) -> RunId:
        return self.history.run

    def refs(self) -> RunRefs:
        if self.history.refs is None:
            raise UserError(
                f"run {self.run} is gone", hint="git wf runs lists those that are there"
            )
        return self.history.refs


@dataclass(frozen=True)
class _Turn:
    """What is read once for all runs of an undo or redo."""

    project: Project
    verb: str  # undo or redo
    known: RunIndex
    belongings: Belongings
    operation: str  # its own id
    moment: datetime

    def there(self, ref: RefName) -> Oid | None:
        """Where a ref is that a killed command may have made already."""
        return self.known.tip(ref) or self.belongings.branches.get(ref)

    def first_line(self, act: Act) -> str:
        return f"{self.verb} {act.operation}"


def undo(project: Project, word: str | None, *, dry_run: bool) -> Turned:
    """Takes back the newest operation in the repository, or of the run that `word` names.

    Raises `UserError` where there is none, and where it would drop checkpoints made since.
    """
    return _turn(project, "undo", word, _to_undo, dry_run)


def redo(project: Project, word: str | None, *, dry_run: bool) -> Turned:
    """Makes once more what was undone last."""
    return _turn(project, "redo", word, _to_redo, dry_run)


def listed(project: Project, verb: str, word: str | None) -> list[Listed]:
    """What repeated undos, or redos, would turn, in their order; of all runs or of one."""
    histories = read_histories(project, project.store.refs())
    among = _among(project, histories, word)
    if verb == "undo":
        found = [(act.operation, act) for one in among for act in one.done]
    else:
        found = [
            (by.operation, act)
            for one in among
            if one.undone and not _went_on(project, one, one.undone[-1][1])
            for act, by in one.undone
        ]
    acts: dict[tuple[str, str], list[Act]] = {}
    for turned_by, act in found:
        acts.setdefault((turned_by, act.operation), []).append(act)
    return [
        Listed(same[0], tuple(sorted(act.run for act in same)))
        for _, same in sorted(acts.items(), reverse=True)
    ]


def _among(
    project: Project, histories: Mapping[RunId, RunHistory], word: str | None
) -> list[RunHistory]:
    """All of them, or that of the run which a word names."""
    if word is None:
        return list(histories.values())
    return [histories[find_word(project, word, sorted(histories))]]


def _turn(
    project: Project,
    verb: str,
    word: str | None,
    choose: Callable[[Project, Iterable[RunHistory]], list[_Part]],
    dry_run: bool,
) -> Turned:
    known = project.store.refs()
    parts, _ = _chosen(project, verb, word, known, choose)
    with held_runs(project, [part.run for part in parts], only_ask=dry_run):
        if not dry_run:  # what was read before the locks were held may be out of date
            known = project.store.refs()
            held = {part.run for part in parts}
            parts, unfinished = _chosen(project, verb, word, known, choose)
            if {part.run for part in parts} != held:
                raise UserError("another operation came in between", hint=f"git wf {verb}")
        else:
            parts, unfinished = _chosen(project, verb, word, known, choose)
        moment = project.clock.now()
        tips = [str(part.history.tip) for part in parts]
        operation = next_operation(
            known.last_operation, moment, verb, parts[0].act.operation, *tips
        )
        turn = _Turn(project, verb, known, Belongings.read(project), operation, moment)
        plan = _finishing_plan(turn, parts) if unfinished else _plan(turn, parts)
        change = carry_out(project, plan, moment, dry_run=dry_run)
    return Turned(
        change,
        parts[0].act,
        tuple(part.run for part in parts),
        unfinished,
        kept_until(project, moment),
        script_of(project, plan, moment) if dry_run else None,
    )


def _chosen(
    project: Project,
    verb: str,
    word: str | None,
    known: RunIndex,
    choose: Callable[[Project, Iterable[RunHistory]], list[_Part]],
) -> tuple[list[_Part], bool]:
    """What is to be done; and whether it is the end of what a killed command began."""
    histories = read_histories(project, known)
    among = _among(project, histories, word)
    unfinished = _unfinished(project, verb, known, among)
    if unfinished:
        return unfinished, True
    parts = choose(project, among)
    if not parts:
        where = f" in run {among[0].run}" if word is not None else ""
        raise UserError(f"nothing to {verb}{where}")
    return parts, False


def _to_undo(project: Project, histories: Iterable[RunHistory]) -> list[_Part]:
    parts = [_Part(one, one.done[-1]) for one in histories if one.done]
    newest = max((part.act.operation for part in parts), default="")
    return [part for part in parts if part.act.operation == newest]


def _to_redo(project: Project, histories: Iterable[RunHistory]) -> list[_Part]:
    """What a run has done since cannot be dropped: then there is nothing to redo in it."""
    parts = [
        _Part(one, *one.undone[-1])
        for one in histories
        if one.undone and not _went_on(project, one, one.undone[-1][1])
    ]
    newest = max((part.undo.operation for part in parts if part.undo), default="")
    return [part for part in parts if part.undo and part.undo.operation == newest]


def _went_on(project: Project, history: RunHistory, act: Act) -> bool:
    """Whether checkpoints were made since a metadata commit of the run."""
    if history.tip is None:
        return False
    subjects = project.store.subjects_since(history.tip, act.commit)
    return subjects is None or any(one.startswith("checkpoint ") for one in subjects)


# The plan.


def _plan(turn: _Turn, parts: Sequence[_Part]) -> RefPlan:
    project, shares, unfolding = turn.project, [], []
    folding: list[ArchivedRun] = []
    going = []
    for part in parts:
        verb = part.act.verb
        if verb == "archive":
            if turn.verb == "undo":
                shares.append(_unarchived(turn, part))
                unfolding.append(part.run)
            else:
                share, entry = archived_share(
                    project, part.refs(), turn.belongings, turn.operation, turn.moment,
                    part.act.operation,
                )  # fmt: skip
                shares.append(share)
                folding.append(entry)
                going.append(part.run)
        elif verb == "rewind":
            shares.append(_rewound(turn, part))
        elif (verb == "fork") == (turn.verb == "undo"):
            shares.append(_removed(turn, part))
            going.append(part.run)
        else:
            shares.append(_returned(turn, part))
    updates, objects = _archive_moves(turn, unfolding, folding)
    act = parts[0].act
    return joined_plan(
        project,
        turn.verb,
        [part.run for part in parts],
        shares,
        reason=f"{project.settings.names.namespace}: {turn.verb} {act.title}",
        target=act.operation,
        more=updates,
        more_objects=objects,
        gone=going,
    )


def _archive_moves(
    turn: _Turn, leaving: Sequence[RunId], entering: Sequence[ArchivedRun]
) -> Folding:
    project, archive = turn.project, turn.known.archive
    if entering:
        return folded(project, archive, entering, turn.operation, turn.moment)
    return unfolded(project, archive, leaving, turn.operation, turn.moment)


def _rewound(turn: _Turn, part: _Part) -> Share:
    """The run branch goes back to where it was, the metadata forward to the state that was then."""
    project, act, refs = turn.project, part.act, part.refs()
    names, reader = project.settings.names, project.store.reader
    left = names.old_ref(part.run, act.operation, "run")
    if part.undo is None:
        to, state = act.rewound_from, act.parent
    else:
        to, state = part.undo.rewound_from or refs.run_tip, act.commit
    if to is None or state is None or reader.find(to) is None:
        raise UserError(
            f"what '{act.title}' left behind has expired",
            hint=f"git wf log {part.run}: what is there can be rewound to",
        )
    if part.undo is None:
        _refuse_dropping(turn, part, to, f"git branch NAME {left} takes up what the rewind left")
    made = metadata_commit(
        project, part.run, reader.read_commit(state).tree, [_tip(part)], turn.moment,
        turn.first_line(act), Op=turn.operation,
        Rewound_From="" if to == refs.run_tip else refs.run_tip or "",
    )  # fmt: skip
    updates = [RefUpdate(names.meta_ref(part.run), made.oid, refs.meta_tip)]
    if to != refs.run_tip:
        updates.insert(0, RefUpdate(names.run_branch(part.run), to, refs.run_tip))
        updates += _kept_by_rewind(turn, part, left)
    run = project.store.load(refs)
    kept = tuple(update.ref for update in updates if update.ref == left and update.new)
    steps = own_worktree_step(project, run, turn.moment, turn.operation)
    return Share(tuple(updates), (made,), kept, steps)


def _kept_by_rewind(turn: _Turn, part: _Part, left: RefName) -> list[RefUpdate]:
    """The ref that keeps what the rewind left goes with the rewind, and comes with it again."""
    there = turn.known.tip(left)
    if part.undo is not None:
        return [RefUpdate(left, part.refs().run_tip, there)]
    return [] if there is None else [RefUpdate(left, None, there)]


def _refuse_dropping(turn: _Turn, part: _Part, to: Oid | None, hint: str) -> None:
    """What the run has made since the operation must not get lost by taking it back."""
    tip = part.refs().run_tip
    is_behind = to is None or tip in (None, to) or turn.project.repo.is_ancestor(str(tip), to)
    if _went_on(turn.project, part.history, part.act) or not is_behind:
        raise UserError(
            f"run {part.run} went on since '{part.act.title}': an undo would drop what it made",
            hint=hint,
        )


def _removed(turn: _Turn, part: _Part) -> Share:
    """A fork is undone, or a removal redone: the run goes, and is kept."""
    if turn.verb == "undo":
        _refuse_dropping(turn, part, _forked_at(turn, part), f"git wf rm {part.run} removes it")
    return leaving_share(
        turn.project, part.refs(), turn.belongings, turn.operation, turn.moment,
        turn.first_line(part.act),
    )  # fmt: skip


def _forked_at(turn: _Turn, part: _Part) -> Oid | None:
    record = turn.project.store.load(part.refs()).record
    return Oid(str((record.get("forked_from") or {}).get("commit") or "")) or None


def _returned(turn: _Turn, part: _Part) -> Share:
    """A removal is undone, or a fork redone: the run comes back from where it was kept."""
    history, names = part.history, turn.project.settings.names
    if history.refs is not None or history.last is None:
        raise UserError(f"run {part.run} is there again", hint=f"git wf log {part.run}")
    kept = {
        side: names.old_ref(part.run, history.kept_by, side)
        for side in ("run", "meta")
        if turn.known.tip(names.old_ref(part.run, history.kept_by, side))
    }
    refs: dict[RefName, Oid] = dict(history.last.branches)
    run_tip = turn.known.tip(kept.get("run", ""))
    if run_tip is not None:
        refs[names.run_branch(part.run)] = run_tip
    return _coming_share(turn, part, refs, has_metadata=history.last.had_metadata, gone=kept)


def _unarchived(turn: _Turn, part: _Part) -> Share:
    archive = turn.known.archive
    entry = archive.entry(turn.project.store.reader, part.run)
    refs = dict(entry.refs)
    meta = refs.pop(turn.project.settings.names.meta_ref(part.run), None)
    return _coming_share(turn, part, refs, has_metadata=meta is not None, gone={})


def _coming_share(
    turn: _Turn,
    part: _Part,
    refs: dict[RefName, Oid],
    *,
    has_metadata: bool,
    gone: dict[str, RefName],
) -> Share:
    """Refs of a run are made again, its metadata one commit further; what kept them goes."""
    project = turn.project
    objects: tuple[NewObject, ...] = ()
    if has_metadata:
        tip = _tip(part)
        made = metadata_commit(
            project, part.run, project.store.reader.read_commit(tip).tree, [tip], turn.moment,
            turn.first_line(part.act), Op=turn.operation,
        )  # fmt: skip
        refs[project.settings.names.meta_ref(part.run)] = made.oid
        objects = (made,)
    # In this order: a run whose metadata is not there yet is one that is gone.
    updates = [RefUpdate(ref, oid, None) for ref, oid in refs.items() if turn.there(ref) != oid]
    updates += [RefUpdate(ref, None, turn.known.tip(ref)) for ref in gone.values()]
    return Share(tuple(updates), objects)


def _tip(part: _Part) -> Oid:
    assert part.history.tip is not None, part
    return part.history.tip


# What a killed command did not come to.


def _unfinished(
    project: Project, verb: str, known: RunIndex, histories: Iterable[RunHistory]
) -> list[_Part]:
    """Where the newest act of all is of this verb, and worktrees or directories are behind it."""
    told = [one for one in histories if one.last is not None]
    newest = max((one.last for one in told if one.last), key=lambda a: a.operation, default=None)
    if newest is None or newest.verb != verb:
        return []
    belongings = Belongings.read(project)
    return [
        _Part(one, newest)
        for one in told
        if one.last and one.last.operation == newest.operation
        and _is_behind(project, known, one, one.last, belongings)
    ]  # fmt: skip


def _is_behind(
    project: Project, known: RunIndex, history: RunHistory, act: Act, belongings: Belongings
) -> bool:
    if history.refs is None or history.refs.is_archived:
        return has_leftovers(project, history.run, known, belongings)
    return is_worktree_behind(project, history.refs, act.rewound_from)


def _finishing_plan(turn: _Turn, parts: Sequence[_Part]) -> RefPlan:
    project = turn.project
    shares, gone = [], []
    for part in parts:
        refs = part.history.refs
        if refs is None or refs.is_archived:
            shares.append(
                leftover_share(project, part.run, turn.known, turn.belongings, turn.operation)
            )
            gone.append(part.run)
        else:
            run = project.store.load(refs)
            steps: tuple[WorktreeStep, ...] = own_worktree_step(
                project, run, turn.moment, turn.operation, part.act.rewound_from
            )
            shares.append(Share(worktrees=steps))
    return joined_plan(
        project,
        turn.verb,
        [part.run for part in parts],
        shares,
        reason=f"{project.settings.names.namespace}: {turn.verb}",
        target=parts[0].act.of,
        gone=gone,
    )
