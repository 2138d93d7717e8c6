"""The operations in a repository, read from what the metadata of its runs tells of them.

Each operation is a metadata commit, of every run that it was about: `rewind to …`, `fork from …`,
`remove`, `archive`. `undo <operation>` and `redo <operation>` come after it. So a run's chain is
two stacks: what was done, and what was undone since; the run's newest operation is on top.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from git_wf.core.names import Names, Oid, RefName, RunId
from git_wf.core.trailers import parse_trailer_pairs
from git_wf.ops.project import Project
from git_wf.store.archive import ArchivedRun
from git_wf.store.runs import RunIndex, RunRefs

_VERBS = {"rewind": "rewind", "fork": "fork", "remove": "rm", "archive": "archive"}


@dataclass(frozen=True)
class Act:
    """A metadata commit that tells of an operation on its run."""

    run: RunId
    operation: str  # its own id
    verb: str  # rewind, fork, rm, prune, archive, undo, redo
    commit: Oid
    parent: Oid | None
    of: str = ""  # the operation that an undo or a redo is of
    target: str = ""
    rewound_from: Oid | None = None  # where the run branch was before
    branches: Mapping[RefName, Oid] = field(default_factory=dict)  # refs that went, by `remove`
    had_metadata: bool = True
    was_archived: bool = False  # before it was removed

    @property
    def title(self) -> str:
        """As people call it: `rewind to plan@2`, `prune`."""
        return f"{self.verb} {self.target}".rstrip()


@dataclass
class RunHistory:
    """What was done to a run, and what of it was undone. `refs` is None where the run is gone."""

    run: RunId
    tip: Oid | None  # of its metadata, wherever that is
    refs: RunRefs | None = None
    kept_by: str = ""  # the operation under whose name its tips are kept, where it is gone
    done: list[Act] = field(default_factory=list)
    undone: list[tuple[Act, Act]] = field(default_factory=list)  # what, by which undo
    last: Act | None = None  # the newest act of all

    @property
    def is_archived(self) -> bool:
        return self.refs is not None and self.refs.is_archived

    def take(self, act: Act) -> None:
        self.last = act
        if act.verb == "undo":
            if self.done and self.done[-1].operation == act.of:
                self.undone.append((self.done.pop(), act))
        elif act.verb == "redo":
            if self.undone and self.undone[-1][0].operation == act.of:
                self.done.append(self.undone.pop()[0])
        else:
            if act.was_archived and self.done:
                self.done.pop()  # the run comes back as it was before it was archived
            self.done.append(act)
            self.undone.clear()


def read_histories(project: Project, known: RunIndex) -> dict[RunId, RunHistory]:
    """Of every run that there is, or whose tips are kept."""
    names = project.settings.names
    found = dict(_places(project, known))
    acts: dict[RunId, list[Act]] = {}
    for commit, parents, message in project.store.operations():
        act = read_act(names, commit, parents, message)
        if act is not None:
            acts.setdefault(act.run, []).append(act)
    removed = {kept.run for kept in known.kept.values() if kept.side == "meta"}
    for run, told in acts.items():
        if run not in found or found[run].is_archived:
            continue
        here = found[run]
        for act in reversed(told):  # they come newest first
            if run not in removed or _is_told_by(project, here, act):
                here.take(act)
    return found


def _is_told_by(project: Project, history: RunHistory, act: Act) -> bool:
    """A run can be removed and fetched once more: then it has two pasts, of which one counts."""
    assert history.tip is not None, history
    return project.store.subjects_since(history.tip, act.commit) is not None


def _places(project: Project, known: RunIndex) -> Iterator[tuple[RunId, RunHistory]]:
    """Where the metadata of each run is: its ref, the archive, or what keeps its tip."""
    newest: dict[RunId, str] = {}
    for kept in known.kept.values():
        if kept.side == "meta":
            newest[kept.run] = max(newest.get(kept.run, ""), kept.operation)
    names = project.settings.names
    for run, operation in newest.items():
        yield (
            run,
            RunHistory(run, known.tip(names.old_ref(run, operation, "meta")), None, operation),
        )
    for run, entry in known.archive.entries(project.store.reader).items():
        if isinstance(entry, ArchivedRun):
            refs = project.store.archived_refs(entry)
            act = Act(run, entry.operation, "archive", refs.meta_tip or Oid(""), None)
            yield run, RunHistory(run, refs.meta_tip, refs, done=[act], last=act)
    for run in known.open:
        refs = known[run]
        yield run, RunHistory(run, refs.meta_tip, refs)


def read_act(names: Names, commit: Oid, parents: list[Oid], message: str) -> Act | None:
    pairs = parse_trailer_pairs(message)
    told = dict(pairs)
    word, _, rest = message.split("\n", 1)[0].partition(" ")
    run, operation = told.get(names.trailer("Run")), told.get(names.trailer("Op"))
    if not run or not operation or word not in (*_VERBS, "undo", "redo"):
        return None
    branches = {}
    for key, value in pairs:
        ref, _, oid = value.partition(" ")
        if key == names.trailer("Ref") and ref.startswith(f"{names.par_root}/{run}/"):
            branches[RefName(ref)] = Oid(oid)
    return Act(
        run=RunId(run),
        operation=operation,
        verb=told.get(names.trailer("Command")) or _VERBS.get(word, word),
        commit=commit,
        parent=parents[0] if parents else None,
        of=rest if word in ("undo", "redo") else "",
        target=told.get(names.trailer("Target"), ""),
        rewound_from=Oid(told.get(names.trailer("Rewound-From"), "")) or None,
        branches=branches,
        had_metadata=told.get(names.trailer("Metadata")) != "none",
        was_archived=told.get(names.trailer("From")) == "archive",
    )
