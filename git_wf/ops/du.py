"""`git wf du`: what runs cost on the disk.

Of a run's objects only those count that nothing else reaches, so that it is what a removal gives
back once its tips have expired and git has collected them. What several runs share is in the sum
alone: each of them would have to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_wf.core.checkpoint import FORMAT
from git_wf.core.names import Names, Oid, RefName, RunId
from git_wf.errors import StateUnreadable
from git_wf.ops.project import Project
from git_wf.ops.select import find_run
from git_wf.ops.shares import Belongings
from git_wf.store.refs import list_refs
from git_wf.store.runs import RunIndex
from git_wf.store.usage import directory_size, objects_size


@dataclass(frozen=True)
class Usage:
    """Bytes. `objects` are those that nothing else reaches."""

    objects: int = 0
    worktrees: int = 0
    directory: int = 0

    @property
    def total(self) -> int:
        return self.objects + self.worktrees + self.directory

    def to_json(self) -> dict[str, int]:
        return {
            "objects": self.objects,
            "worktrees": self.worktrees,
            "directory": self.directory,
            "total": self.total,
        }


@dataclass(frozen=True)
class DiskUsage:
    runs: Mapping[RunId, Usage]
    archive: Usage | None = None  # the three are None where runs were named
    kept: Usage | None = None  # of runs that are gone
    idle: int | None = None  # bytes of worktrees that wait for the next run
    together: Usage = Usage()  # with what they share

    def to_json(self) -> dict[str, Any]:
        rest = {
            "archive": self.archive and self.archive.to_json(),
            "kept": self.kept and self.kept.to_json(),
            "idle_worktrees": self.idle,
        }
        runs = [{"run_id": run, **usage.to_json()} for run, usage in self.runs.items()]
        return {"format": FORMAT, "runs": runs, **rest, "total": self.together.to_json()}


@dataclass(frozen=True)
class _Refs:
    """All refs of the repository, by what they belong to."""

    of_runs: Mapping[RunId, Sequence[Oid]]
    archive: Sequence[Oid]
    others: Sequence[Oid]  # not git-wf's, and commits that the user has checked out

    def but(self, *runs: RunId, archive: bool = False) -> Iterable[Oid]:
        """All but those of some runs, and but the archive."""
        yield from self.others
        if not archive:
            yield from self.archive
        for run, tips in self.of_runs.items():
            if run not in runs:
                yield from tips


def du(project: Project, words: Sequence[str]) -> DiskUsage:
    """The runs that are named, else all of them, with what is kept of others."""
    known = project.store.refs()
    belongings = Belongings.read(project)
    refs = _read_refs(project, belongings)
    if words:
        chosen = list(dict.fromkeys(find_run(project, word, known).run_id for word in words))
        usages = {run: _usage(project, known, refs, belongings, run) for run in chosen}
        return DiskUsage(usages, together=_together(project, known, refs, usages))
    usages = {run: _usage(project, known, refs, belongings, run) for run in known.open}
    kept = [run for run in refs.of_runs if run not in usages]
    everything = [tip for tips in refs.of_runs.values() for tip in tips] + [*refs.archive]
    files = [*usages.values()]
    idle = sum(directory_size(one.path) for one in belongings.registered if one.is_pooled)
    return DiskUsage(
        usages,
        archive=Usage(objects_size(project.repo, refs.archive, refs.but(archive=True))),
        kept=Usage(
            objects_size(
                project.repo, [tip for run in kept for tip in refs.of_runs[run]], refs.but(*kept)
            )
        ),
        idle=idle,
        together=Usage(
            objects_size(project.repo, everything, refs.others),
            sum(one.worktrees for one in files) + idle,
            sum(one.directory for one in files),
        ),
    )


def _usage(
    project: Project, known: RunIndex, refs: _Refs, belongings: Belongings, run: RunId
) -> Usage:
    trees = belongings.worktrees_of(project, run)
    return Usage(
        objects_size(
            project.repo, _tips(project, known, refs, run), _rest(project, known, refs, [run])
        ),
        sum(directory_size(tree.path) for tree, _ in trees),
        directory_size(project.run_dir(run)),
    )


def _together(
    project: Project, known: RunIndex, refs: _Refs, usages: Mapping[RunId, Usage]
) -> Usage:
    tips = [tip for run in usages for tip in _tips(project, known, refs, run)]
    return Usage(
        objects_size(project.repo, tips, _rest(project, known, refs, list(usages))),
        sum(one.worktrees for one in usages.values()),
        sum(one.directory for one in usages.values()),
    )


def _tips(project: Project, known: RunIndex, refs: _Refs, run: RunId) -> list[Oid]:
    archived = [] if run in known.open else [*_entry_tips(project, known, run)]
    return [*refs.of_runs.get(run, ()), *archived]


def _rest(project: Project, known: RunIndex, refs: _Refs, runs: Sequence[RunId]) -> Iterable[Oid]:
    """What holds objects beside some runs. Of an archive that has them, its other runs do."""
    if not any(run in known.archive and run not in known.open for run in runs):
        return refs.but(*runs)
    others = (one for one in known.archive.runs if one not in runs)
    archived = [tip for one in others for tip in _entry_tips(project, known, one)]
    return [*refs.but(*runs, archive=True), *archived]


def _entry_tips(project: Project, known: RunIndex, run: RunId) -> Iterable[Oid]:
    try:
        return known.archive.entry(project.store.reader, run).refs.values()
    except StateUnreadable:
        return ()


def _read_refs(project: Project, belongings: Belongings) -> _Refs:
    names = project.settings.names
    of_runs: dict[RunId, list[Oid]] = {}
    archive, others = [], []
    for ref, oid in list_refs(project.repo).items():
        run = _run_of(names, ref)
        if run is not None:
            of_runs.setdefault(run, []).append(oid)
        elif ref == names.archive_ref:
            archive.append(oid)
        else:
            others.append(oid)
    others += [tree.head for tree in belongings.worktrees if tree.head and not tree.is_ours]
    return _Refs(of_runs, archive, others)


def _run_of(names: Names, ref: RefName) -> RunId | None:
    """The run that a ref belongs to, whatever it is for."""
    for root in (names.par_root, names.old_root, names.rescue_root):
        if ref.startswith(f"{root}/"):
            return RunId(ref[len(root) + 1 :].split("/", 1)[0])
    return names.run_of_ref(ref)
