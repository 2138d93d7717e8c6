"""`git wf prune`: runs that nobody needs go, all in one operation; so does what has expired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from git_wf.core.names import Oid, RefName, RunId
from git_wf.errors import UserError
from git_wf.ops.change import Change, carry_out, held_runs, script_of
from git_wf.ops.expire import expired_refs
from git_wf.ops.log import RunSummary, summarize
from git_wf.ops.project import Project
from git_wf.ops.rm import kept_until, plan_removal
from git_wf.ops.shares import Belongings, has_leftovers
from git_wf.store.merged import default_branches, merged_way
from git_wf.store.plans import RefPlan
from git_wf.store.refs import RefUpdate
from git_wf.store.runs import RunIndex

_ENDED = ("success", "partial_success", "fail")


@dataclass(frozen=True)
class Criteria:
    """Which runs go: those that meet all that is given. Without any, none."""

    older_than: float | None = None  # seconds since anything happened to a run
    age_text: str = ""  # as it was given
    merged: bool = False
    branch: str | None = None  # merged into this one, instead of the default branch
    keep: int | None = None  # so many of the newest stay
    unfinished: bool = False  # interrupted and waiting runs go too

    @property
    def is_given(self) -> bool:
        return self.older_than is not None or self.merged or self.keep is not None


@dataclass(frozen=True)
class Verdict:
    """What becomes of a run that meets the criteria, and why."""

    run: RunId
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"run_id": self.run, "reason": self.reason}


@dataclass(frozen=True)
class Pruned:
    change: Change
    removed: tuple[Verdict, ...]
    skipped: tuple[Verdict, ...]
    finished: tuple[RunId, ...]  # that went before; what was left of them is gone now
    expired: tuple[RefName, ...]
    kept_until: datetime | None  # None: for ever
    script: str | None  # of a dry run

    def to_json(self) -> dict[str, Any]:
        return {
            **self.change.to_json(),
            "runs": [one.run for one in self.removed],
            "removed": [one.to_json() for one in self.removed],
            "skipped": [one.to_json() for one in self.skipped],
            "finished": list(self.finished),
            "expired": list(self.expired),
        }


def prune(project: Project, criteria: Criteria, *, dry_run: bool) -> Pruned:
    """Archived runs stay. Raises `UserError` where no default branch is known to ask for."""
    known = project.store.refs()
    removed, skipped = choose(project, criteria, known, project.clock.now())
    left = _leftovers(project, known)
    with held_runs(project, [*(one.run for one in removed), *left], only_ask=dry_run):
        moment = project.clock.now()
        if not dry_run:  # what was read before the locks were held may be out of date
            before, known = known, project.store.refs()
            moved = {one.run for one in removed if known.get(one.run) != before[one.run]}
            skipped += [Verdict(run, "it changed meanwhile") for run in sorted(moved)]
            removed = [one for one in removed if one.run not in moved]
        refs = [known[one.run] for one in removed]
        plan = plan_removal(project, "prune", refs, left, known, moment)
        expired = expired_refs(project, known, moment)
        plan = _with_expired(plan, expired)
        change = carry_out(project, plan, moment, dry_run=dry_run)
    return Pruned(
        change,
        tuple(removed),
        tuple(skipped),
        tuple(left),
        tuple(update.ref for update in expired),
        kept_until(project, moment),
        script_of(project, plan, moment) if dry_run else None,
    )


def _with_expired(plan: RefPlan, expired: Sequence[RefUpdate]) -> RefPlan:
    return replace(plan, updates=(*plan.updates, *expired))


def _leftovers(project: Project, known: RunIndex) -> list[RunId]:
    """Runs that are gone, and whose worktree or directory a killed command did not come to."""
    gone = {kept.run for kept in known.kept.values()} | set(known.archive.runs)
    gone -= set(known.open)
    belongings = Belongings.read(project) if gone else None
    return [
        run
        for run in sorted(gone)
        if belongings and has_leftovers(project, run, known, belongings)
        and not project.store.is_live(run)
    ]  # fmt: skip


# Which runs.


def choose(
    project: Project, criteria: Criteria, known: RunIndex, moment: datetime
) -> tuple[list[Verdict], list[Verdict]]:
    """The runs that go, and those that would but stay all the same; oldest first."""
    if not criteria.is_given:
        return [], []
    summaries = {run: summarize(project, known[run]) for run in known.open}
    targets = _targets(project, criteria) if criteria.merged else {}
    checked_out = _checked_out(project)
    newest = _newest(summaries, criteria.keep)
    removed, skipped = [], []
    for run, told in summaries.items():
        if run in newest:
            continue
        reasons = _reasons(project, criteria, known, run, targets, moment)
        if reasons is None:
            continue
        protected = _protected(project, criteria, run, told, summaries, checked_out)
        if protected:
            skipped.append(Verdict(run, protected))
        else:
            removed.append(Verdict(run, ", ".join(reasons) or "not among the newest"))
    return removed, skipped


def _newest(summaries: Mapping[RunId, RunSummary], keep: int | None) -> set[RunId]:
    """The newest runs, and the children of each: they count as one."""
    if keep is None:
        return set()
    roots = {run: _root(run, summaries) for run in summaries}
    kept = set(sorted(set(roots.values()))[-keep:]) if keep else set()
    return {run for run, root in roots.items() if root in kept}


def _root(run: RunId, summaries: Mapping[RunId, RunSummary]) -> RunId:
    seen = {run}
    while (parent := _parent(summaries[run])) in summaries and parent not in seen:
        assert parent is not None
        seen.add(parent)
        run = parent
    return run


def _parent(told: RunSummary) -> RunId | None:
    return RunId(str(told.parent.get("run"))) if told.parent else None


def _reasons(
    project: Project,
    criteria: Criteria,
    known: RunIndex,
    run: RunId,
    targets: Mapping[str, Oid],
    moment: datetime,
) -> list[str] | None:
    """Why a run meets the criteria; None where it does not."""
    refs, reasons = known[run], []
    if criteria.older_than is not None:
        if refs.meta_tip is None:
            return None
        committer = project.store.reader.read_commit(refs.meta_tip).committer
        if moment.timestamp() - int(committer.split()[-2]) < criteria.older_than:
            return None
        reasons.append(f"older than {criteria.age_text}")
    if criteria.merged:
        ways = (
            (name, merged_way(project.repo, refs.run_tip, tip))
            for name, tip in targets.items()
            if refs.run_tip is not None
        )
        name, way = next(((name, way) for name, way in ways if way), ("", None))
        if way is None:
            return None
        reasons.append(way if way.startswith("it changed") else f"in {name}: {way}")
    return reasons


def _protected(
    project: Project,
    criteria: Criteria,
    run: RunId,
    told: RunSummary,
    summaries: Mapping[RunId, RunSummary],
    checked_out: Mapping[str, str],
) -> str | None:
    """Why a run stays that meets the criteria."""
    branch = project.settings.names.run_branch(run)
    parent = summaries.get(_parent(told) or RunId(""))
    if told.status == "running":
        return "it is going on"
    if told.problem:
        return told.problem
    if told.status not in _ENDED and not criteria.unfinished:
        return f"it is {told.status}; --unfinished takes it too"
    if parent is not None and parent.status not in _ENDED and not criteria.unfinished:
        return f"it is a child of run {parent.run_id}, which has not ended"
    if branch in checked_out:
        return f"its branch is checked out at '{checked_out[branch]}'"
    return None


def _checked_out(project: Project) -> dict[str, str]:
    """The branches that are checked out in worktrees of the user's."""
    trees = Belongings.read(project).worktrees
    return {one.branch: str(one.path) for one in trees if one.branch and not one.is_ours}


def _targets(project: Project, criteria: Criteria) -> dict[str, Oid]:
    if criteria.branch is not None:
        tip = project.repo.resolve(criteria.branch)
        if tip is None:
            told = f"no branch or commit '{criteria.branch}'"
            raise UserError(told, hint="git branch --all lists the branches")
        return {criteria.branch: tip}
    found = default_branches(project.repo)
    if not found:
        raise UserError("no default branch is known", hint="git wf prune --merged BRANCH")
    return found
