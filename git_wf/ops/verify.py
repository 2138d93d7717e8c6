"""`git wf verify`: whether what runs have recorded is whole, and fits together. It only reads.

Of each commit of a run: subject, trailers, and that the metadata commit in `WF-Checkpoint` is
there and names just this tree and parent. Of each metadata commit: that all of it can be read.
Of a run of Fabro's or Arc's: which of its checkpoints lack a commit or a state, and what else is
missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from git_wf.core.checkpoint import Checkpoint, check_format, load_json
from git_wf.core.clock import milliseconds
from git_wf.core.names import Names, Oid, RunId, is_run_id, ulid_milliseconds, visit_name
from git_wf.core.trailers import RunCommitFields, parse_trailers, run_commit_fields
from git_wf.errors import GitFailed, StateUnreadable
from git_wf.ops.history import read_act
from git_wf.ops.project import Project
from git_wf.ops.select import find_run, refuse_elsewhere
from git_wf.store.objects import Commit, Tree, decode_tree
from git_wf.store.refs import list_refs
from git_wf.store.runs import RunIndex, RunRefs, StoredRun, check_record

_FIRST_WORDS = (
    "init", "checkpoint", "rewind", "fork", "wait", "resume", "undo", "redo", "remove", "archive",
    "finalize", "open",
)  # fmt: skip
_RECORDS = (b"run.json", b"checkpoint.json", b"conclusion.json", b"waiting.json", b"start.json",
            b"manifest.json")  # fmt: skip
_DIRECTORIES = (b"artifacts", b"nodes")


@dataclass(frozen=True)
class Finding:
    """What is to be said of a commit."""

    commit: Oid
    text: str

    def to_json(self, word: str) -> dict[str, Any]:
        return {"commit": self.commit, word: self.text}


@dataclass
class Verified:
    run: RunId
    problems: list[Finding] = field(default_factory=list)
    expired: list[Finding] = field(default_factory=list)
    commits: int = 0  # that were looked at

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run,
            "ok": not self.problems,
            "problems": [one.to_json("problem") for one in self.problems],
            "expired": [one.to_json("what") for one in self.expired],
            "commits": self.commits,
        }


@dataclass(frozen=True)
class _State:
    """A metadata commit, read: its checkpoint, and what is wrong with it."""

    commit: Commit
    checkpoint: Checkpoint | None
    problems: tuple[str, ...]


@dataclass
class _Reading:
    """What was read of all runs: commits that runs share are read once."""

    project: Project
    moment: datetime
    states: dict[Oid, _State] = field(default_factory=dict)
    records: dict[Oid, Checkpoint | StateUnreadable | None] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        return self.project.settings.names


def verify(project: Project, words: Sequence[str]) -> list[Verified]:
    """The runs that are named, else all of them, archived ones too; oldest first.

    Of ours in other namespaces than `wf.namespace` none is looked at: asked for, it is refused.
    """
    known = project.store.every()
    runs = [find_run(project, word, known) for word in dict.fromkeys(words)]
    runs = runs or [known[run] for run in known]
    theirs = project.store.load_elsewhere(known)
    for refs in runs:
        if words and refs.run_id in known.others and refs.run_id not in theirs:
            refuse_elsewhere(project, refs.run_id)
    ours = [refs for refs in runs if refs.run_id not in known.others]
    reading = _Reading(project, project.clock.now())
    _read_states(reading, [one.meta_tip for one in ours if one.meta_tip])
    return [
        _verify_foreign(refs, theirs[refs.run_id])
        if refs.run_id in theirs
        else _verify_run(reading, known, refs)
        for refs in runs
        if refs.run_id in theirs or refs.run_id not in known.others
    ]


def _verify_foreign(refs: RunRefs, stored: StoredRun) -> Verified:
    """What is there is read as it is; what is missing is a problem."""
    found, run = Verified(refs.run_id), stored.foreign
    assert run is not None, refs
    for entry in run.entries:
        seen = [oid for oid in (entry.commit, entry.metadata_commit) if oid]
        found.commits += len(seen)
        found.problems += [Finding(seen[0], f"{entry.name}: {note}") for note in entry.notes]
    tip = refs.run_tip or refs.meta_tip or Oid("-")
    found.problems += [Finding(tip, one.text) for one in run.told if one.is_missing]
    return found


def _verify_run(reading: _Reading, known: RunIndex, refs: RunRefs) -> Verified:
    found = Verified(refs.run_id)
    _verify_metadata(reading, known, refs, found)
    named = _verify_commits(reading, refs, found)
    _verify_tip(reading, refs, named, found)
    _verify_kept(reading, known, found)
    return found


# Metadata.


def _read_states(reading: _Reading, tips: Sequence[Oid], *more: str) -> None:
    """Reads the metadata commits that tips reach, all at once where nothing is broken."""
    store = reading.project.store
    fresh = [tip for tip in dict.fromkeys(tips) if tip not in reading.states]
    if not fresh:
        return
    try:
        commits = dict(store.history("--first-parent", *more, tips=fresh))
    except GitFailed:
        if len(fresh) > 1:
            for tip in fresh:
                _read_states(reading, [tip], *more)
            return
        commits = _readable_commits(reading, fresh[0])
    form = store.repo.object_format
    listed = store.reader.read_many(one.tree for one in commits.values())
    trees: dict[Oid, Tree] = {}
    for oid, (_, data) in listed.items():
        try:
            trees[oid] = decode_tree(data, form)
        except StateUnreadable:
            continue
    wanted = {
        entry.oid: name
        for tree in trees.values()
        for name, entry in tree.items()
        if name in _RECORDS and entry.oid not in reading.records
    }
    blobs = store.reader.read_many(wanted)
    for oid, name in wanted.items():
        reading.records[oid] = _read_record(name.decode(), blobs.get(oid))
    kept = _existing_directories(reading, trees.values())
    for oid, commit in commits.items():
        if oid not in reading.states:
            reading.states[oid] = _state(reading, commit, trees.get(commit.tree), kept)


def _readable_commits(reading: _Reading, tip: Oid) -> dict[Oid, Commit]:
    """A broken chain, down to what cannot be read of it."""
    found: dict[Oid, Commit] = {}
    here: Oid | None = tip
    while here is not None:
        try:
            found[here] = reading.project.store.reader.read_commit(here)
        except StateUnreadable:
            break
        here = next(iter(found[here].parents), None)
    return found


def _existing_directories(reading: _Reading, trees: Iterable[Tree]) -> set[Oid]:
    """Of artifacts and traces, those directories whose files are all there."""
    reader, form = reading.project.store.reader, reading.project.repo.object_format
    wanted = {tree[name].oid for tree in trees for name in _DIRECTORIES if name in tree}
    whole = set()
    for oid, (_, data) in reader.read_many(wanted).items():
        if all(reader.find(entry.oid) for entry in decode_tree(data, form).values()):
            whole.add(oid)
    return whole


def _read_record(
    name: str, content: tuple[str, bytes] | None
) -> Checkpoint | StateUnreadable | None:
    """A checkpoint, or None of another record; what is wrong where it cannot be read."""
    if content is None:
        return StateUnreadable(f"{name} is missing or damaged")
    try:
        loaded = load_json(content[1], name)
        check_format(loaded, name)
        if name == "run.json":
            check_record(loaded, name)
        return Checkpoint.from_json(loaded, name) if name == "checkpoint.json" else None
    except StateUnreadable as err:
        return err


def _state(reading: _Reading, commit: Commit, tree: Tree | None, kept: set[Oid]) -> _State:
    problems = _message_problems(reading, commit)
    if tree is None:
        return _State(commit, None, (*problems, f"tree {commit.tree} is missing or damaged"))
    subject = commit.message.split("\n", 1)[0]
    if b"run.json" not in tree and subject != "remove":
        problems.append("run.json is missing")
    found = [reading.records.get(tree[name].oid) for name in _RECORDS if name in tree]
    problems += [one.message for one in found if isinstance(one, StateUnreadable)]
    for name in _DIRECTORIES:
        if name in tree and tree[name].oid not in kept:
            problems.append(f"{name.decode()}/ lacks a file, or is missing")
    checkpoint = next((one for one in found if isinstance(one, Checkpoint)), None)
    if subject.startswith("checkpoint ") and b"checkpoint.json" not in tree:
        problems.append("checkpoint.json is missing")
    return _State(commit, checkpoint, tuple(problems))


def _message_problems(reading: _Reading, commit: Commit) -> list[str]:
    problems = []
    subject = commit.message.split("\n", 1)[0]
    if subject.split(" ", 1)[0] not in _FIRST_WORDS:
        problems.append(f"'{subject}' is no metadata commit")
    run = parse_trailers(commit.message).get(reading.names.trailer("Run"))
    if run is None or not is_run_id(run):
        problems.append(f"no trailer {reading.names.trailer('Run')}")
    return problems


def _verify_metadata(reading: _Reading, known: RunIndex, refs: RunRefs, found: Verified) -> None:
    if refs.meta_tip is None:
        found.problems.append(Finding(refs.run_tip or Oid("-"), "the run has no metadata ref"))
        return
    here: Oid | None = refs.meta_tip
    while here is not None:
        state = reading.states.get(here)
        if state is None:
            found.problems.append(Finding(here, "the metadata commit is missing or damaged"))
            return
        found.commits += 1
        found.problems += [Finding(here, text) for text in state.problems]
        _note_expired(reading, here, state.commit, found)
        here = state.commit.parents[0] if state.commit.parents else None


def _note_expired(reading: _Reading, oid: Oid, commit: Commit, found: Verified) -> None:
    """What a rewind left behind may be gone once its time is over."""
    act = read_act(reading.names, oid, list(commit.parents), commit.message)
    if act is None or act.rewound_from is None or act.run != found.run:
        return
    if reading.project.store.reader.find(act.rewound_from) is not None:
        return
    expire = reading.project.settings.undo_expire
    age = milliseconds(reading.moment) - ulid_milliseconds(act.operation)
    text = f"commit {act.rewound_from}, which '{act.title}' left behind"
    if expire is not None and age >= expire * 1000:
        found.expired.append(Finding(oid, text))
    else:
        found.problems.append(Finding(oid, f"{text}, is missing"))


# Run commits.


def _verify_commits(reading: _Reading, refs: RunRefs, found: Verified) -> set[Oid]:
    """Every commit of the run, those of parallel branches too. The checkpoints that they name."""
    state = reading.states.get(refs.meta_tip) if refs.meta_tip else None
    if refs.run_tip is None or state is None:
        return set()
    record = _record_of(reading, state)
    try:
        commits = dict(reading.project.store.history(tips=_range(reading, refs, record)))
    except GitFailed as err:
        found.problems.append(Finding(refs.run_tip, err.message))
        return set()
    lineage = {str(one.get("run")) for one in record.get("lineage") or []} | {refs.run_id}
    own = {
        oid: (commit, run_commit_fields(reading.names, commit.message))
        for oid, commit in commits.items()
        if _run_in_subject(reading.names, commit.message) in lineage
    }
    named = [Oid(fields.metadata_commit or "") for _, fields in own.values() if fields]
    _read_states(reading, [oid for oid in named if _is_there(reading, oid)], "--no-walk")
    for oid, (commit, fields) in own.items():
        found.commits += 1
        found.problems += [Finding(oid, text) for text in _commit_problems(reading, commit, fields)]
    return set(named)


def _range(reading: _Reading, refs: RunRefs, record: Mapping[str, Any]) -> list[Oid]:
    """As `git log --stdin` takes it: run branch and open parallel branches, without the base."""
    names = reading.names
    branches = list_refs(reading.project.repo, f"{names.par_root}/{refs.run_id}")
    tips = [oid for ref, oid in branches.items() if ref.endswith("/run")]
    base = str(record.get("base_sha") or "")
    left = [Oid(f"^{base}")] if base and _is_there(reading, Oid(base)) else []
    return [refs.run_tip or Oid(""), *tips, *left]


def _record_of(reading: _Reading, state: _State) -> Mapping[str, Any]:
    """run.json of a metadata commit; empty where it cannot be read: that was told before."""
    store = reading.project.store
    try:
        tree = store.reader.read_tree(state.commit.tree)
        record = store.read_json(tree, "run.json", "run")
    except StateUnreadable:
        return {}
    return record or {}


def _is_there(reading: _Reading, oid: Oid) -> bool:
    return bool(re.fullmatch("[0-9a-f]{40,64}", oid)) and bool(
        reading.project.store.reader.find(oid)
    )


def _run_in_subject(names: Names, message: str) -> str | None:
    matched = re.match(rf"{re.escape(names.namespace)}\((\S+)\): ", message)
    return matched[1] if matched else None


def _commit_problems(
    reading: _Reading, commit: Commit, fields: RunCommitFields | None
) -> list[str]:
    if fields is None:
        return ["subject or trailers are damaged"]
    subject = commit.message.split("\n", 1)[0]
    problems = []
    if subject != reading.names.subject(fields.run, fields.node, fields.status):
        problems.append("subject and trailers do not agree")
    trailers = parse_trailers(commit.message)
    for key in ("Completed", "Checkpoint", "Node", "Visit", "Status"):
        if not trailers.get(reading.names.trailer(key)):
            problems.append(f"no trailer {reading.names.trailer(key)}")
    if not fields.metadata_commit:
        return problems
    state = reading.states.get(Oid(fields.metadata_commit))
    if state is None:
        return [*problems, f"metadata commit {fields.metadata_commit} is missing or damaged"]
    if state.checkpoint is None:
        return [*problems, f"metadata commit {fields.metadata_commit} has no checkpoint"]
    return problems + _disagreements(commit, fields, state.checkpoint)


def _disagreements(commit: Commit, fields: RunCommitFields, checkpoint: Checkpoint) -> list[str]:
    parent = commit.parents[0] if commit.parents else None
    pairs = [
        ("tree", commit.tree, checkpoint.git_tree_sha),
        ("parent", parent, checkpoint.git_parent_sha),
        ("node", fields.node, checkpoint.current_node),
        ("visit", fields.visit, checkpoint.visit),
        ("status", fields.status, checkpoint.status),
        ("completed nodes", fields.completed, len(checkpoint.completed_nodes)),
    ]
    return [
        f"its {what} is {here}, its checkpoint says {there}"
        for what, here, there in pairs
        if here != there
    ]


def _verify_tip(reading: _Reading, refs: RunRefs, named: set[Oid], found: Verified) -> None:
    """The run branch has to have the newest checkpoint that the metadata has."""
    if refs.meta_tip is None or found.problems:
        return
    if refs.run_tip is None:
        found.problems.append(Finding(refs.meta_tip, "the run has no run branch"))
        return
    run = reading.project.store.load(refs)
    metadata = reading.project.store.last_metadata(run)
    if metadata is not None and metadata not in named and run.checkpoint is not None:
        name = visit_name(run.checkpoint.current_node, run.checkpoint.visit)
        found.problems.append(Finding(metadata, f"checkpoint {name} is not on the run branch"))


def _verify_kept(reading: _Reading, known: RunIndex, found: Verified) -> None:
    for ref, kept in known.kept.items():
        oid = known.tip(ref)
        if kept.run == found.run and oid and reading.project.store.reader.find(oid) is None:
            found.problems.append(Finding(oid, f"what '{ref}' keeps is missing"))
