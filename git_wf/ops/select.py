"""Which run, and which checkpoint, the words on a command line mean (design.md, section 5)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_wf.core.graph import Edge, Graph, Node
from git_wf.core.names import Names, Oid, RunId, is_run_prefix
from git_wf.core.sections import enclosing_fan_outs
from git_wf.core.timeline import Entry, Sections, find_target, is_target_form
from git_wf.errors import StateUnreadable, UserError
from git_wf.ops.project import Project
from git_wf.store.runs import RunIndex, RunRefs, StoredRun, Timeline

_NO_RUNS_HINT = "git wf run WORKFLOW starts one"


@dataclass(frozen=True)
class Selected:
    """A run with its timeline, and the words that are left for a target."""

    run: StoredRun
    timeline: Timeline
    target: str | None
    last_operation: str = ""  # the newest in the repository whose tips are kept

    def entry(self, project: Project, default: str) -> Entry:
        """The checkpoint that the target names; without one, what `default` names."""
        return find_target(
            default if self.target is None else self.target,
            self.timeline.entries,
            self.timeline.start,
            lambda text: _commit_of(project, text),
            self.timeline.entry_of,
            lambda: _sections(project, self.run),
        )


def _sections(project: Project, run: StoredRun) -> Sections:
    def visits(entry: Entry, node: str) -> int:
        if entry.metadata_commit is None:
            return 0
        tree = project.store.tree_of(entry.metadata_commit)
        record = project.store.read_json(tree, "checkpoint.json", entry.run) or {}
        return int((record.get("node_visits") or {}).get(node, 0))

    return Sections(enclosing_fan_outs(recorded_graph(run.record)), visits)


def recorded_graph(record: Mapping[str, Any]) -> Graph:
    """The nodes with their kinds, and the edges, as run.json has them: no text is parsed."""
    graph = record.get("graph") or {}
    nodes = {
        str(one["id"]): Node(str(one["id"]), attrs={"type": str(one["kind"])})
        for one in graph.get("nodes") or []
    }
    edges = [
        Edge(str(one["from"]), str(one["to"]), index)
        for index, one in enumerate(graph.get("edges") or [])
    ]
    return Graph(nodes=nodes, edges=edges)


def select(project: Project, words: Sequence[str], *, only_ours: bool = False) -> Selected:
    """`[RUN] [TARGET]`. Raises `UserError` where both readings of a word fit.

    What changes a run asks for ours only: those of other namespaces, Fabro's and Arc's are read.
    """
    if "" in words:
        told = "an empty word names neither a run nor a target"
        raise UserError(told, hint="git wf runs lists the runs")
    known = project.store.refs() if only_ours else project.store.every()
    if len(words) > 1:
        refs, target = find_run(project, words[0], known), words[1]
    elif words and (matches := matching_runs(project, words[0], known)):
        _refuse_two_readings(project, words[0], matches, known)
        refs, target = _only(words[0], matches, known), None
    elif words and _is_only_a_run(words[0], project):
        # A run that is not there, or a revision that begins with a run's branch: `wf/run/ID~2`.
        refs, target = find_run(project, _revision_base(words[0]), known), words[0]
    else:
        if words and only_ours and not is_target_form(words[0]):
            refuse_elsewhere(project, words[0])
        refs, target = default_run(project, known), words[0] if words else None
    run = project.store.load(refs)
    return Selected(run, project.store.timeline(run), target, known.last_operation)


def find_run(project: Project, text: str | None, known: RunIndex) -> RunRefs:
    """The run that a word names; without a word, the default one."""
    if text is None:
        return default_run(project, known)
    matches = matching_runs(project, text, known)
    if not matches:
        refuse_elsewhere(project, text)
        raise _no_match(text)
    return _only(text, matches, known)


def refuse_elsewhere(project: Project, text: str) -> None:
    """Says so where a word names a run that can be read, but not changed from here."""
    every = project.store.every()
    run = next(iter(matching_runs(project, text, every.others)), None)
    if run is None:
        return
    try:
        stored = project.store.load(every[run])
    except StateUnreadable:
        stored = None
    place = every.others[run]
    if stored is not None and stored.foreign is not None:
        raise UserError(
            f"run {run} is {stored.dialect.capitalize()}'s: git-wf only reads it",
            hint=f"git wf fork {run} starts a run of ours from it",
        )
    raise UserError(
        f"run {run} is in namespace '{place.namespace}', not in "
        f"'{project.settings.names.namespace}'",
        hint=f"git -c wf.namespace={place.namespace} wf … {run}",
    )


def find_word(project: Project, text: str, runs: Sequence[RunId]) -> RunId:
    """The one of `runs` that a word names, whether it is there or only kept."""
    matches = matching_runs(project, text, runs)
    if not matches:
        raise _no_match(text)
    _refuse_several(text, matches)
    return matches[0]


def default_run(project: Project, known: RunIndex) -> RunRefs:
    """The run whose branch we are on, else the newest; of a child the run that it is part of."""
    head = project.repo.head_ref() if known else None
    here = _run_of_branch(project, head) if head else None
    if here is not None and here in known:
        return known[here]
    newest = known.newest
    if newest is None:
        raise UserError("no runs in this repository", hint=_NO_RUNS_HINT)
    return _outermost(project, known[newest], known)


def _run_of_branch(project: Project, ref: str) -> RunId | None:
    """The run whose run branch `ref` is, in any namespace that is read."""
    for word in project.settings.names.read_namespaces:
        run = Names(word).run_of_ref(ref)
        if run is not None:
            return run
    return None


def _outermost(project: Project, refs: RunRefs, known: Mapping[RunId, RunRefs]) -> RunRefs:
    """The run that a child's run was begun by, or by its parent's."""
    while refs.meta_tip is not None:
        try:
            record = project.store.load(refs).record
        except StateUnreadable:
            break
        parent = RunId(str((record.get("parent") or {}).get("run")))
        if parent not in known or known[parent] == refs:
            break
        refs = known[parent]
    return refs


def matching_runs(project: Project, text: str, known: Iterable[RunId]) -> list[RunId]:
    for prefix in _branch_prefixes(project):
        if text.startswith(prefix):
            text = text.removeprefix(prefix)
            return [run for run in known if run == text]
    if not is_run_prefix(text):
        return []
    return [run for run in known if run.startswith(text.upper())]


def _branch_prefixes(project: Project) -> tuple[str, ...]:
    """What a word that names a run branch begins with: `wf/run/`."""
    short = [f"{Names(word).run_namespace}/" for word in project.settings.names.read_namespaces]
    return (*short, *(f"refs/heads/{word}" for word in short))


def _only(text: str, matches: Sequence[RunId], known: Mapping[RunId, RunRefs]) -> RunRefs:
    _refuse_several(text, matches)
    return known[matches[0]]


def _refuse_several(text: str, matches: Sequence[RunId]) -> None:
    if len(matches) > 1:
        listed = ", ".join(matches[:5]) + (", …" if len(matches) > 5 else "")
        raise UserError(
            f"run '{text}' is ambiguous: it could be {listed}", hint="git wf runs lists them"
        )


def _is_only_a_run(text: str, project: Project) -> bool:
    """Whether a word that matches no run tells of one all the same: a whole id, a run branch."""
    return text.startswith(_branch_prefixes(project)) or (len(text) == 26 and is_run_prefix(text))


def _revision_base(text: str) -> str:
    """`wf/run/ID` of `wf/run/ID~2`."""
    return re.split("[~^]", text, maxsplit=1)[0]


def _no_match(text: str) -> UserError:
    return UserError(f"no run matches '{text}'", hint="git wf runs lists them")


def _refuse_two_readings(
    project: Project, text: str, matches: Sequence[RunId], known: RunIndex
) -> None:
    """A beginning of a run id can be a number of checkpoints, or the beginning of a commit's id."""
    if not is_target_form(text) and (len(text) == 26 or _commit_of(project, text) is None):
        return
    try:
        run = project.store.load(default_run(project, known))
        entry = Selected(run, project.store.timeline(run), text).entry(project, default=text)
    except (UserError, StateUnreadable):
        return  # as a target it means nothing
    listed = ", ".join(f"run {one}" for one in matches[:5])
    raise UserError(
        f"'{text}' is ambiguous: {listed}, or checkpoint {entry.name} of run {run.run_id}",
        hint=[
            f"git wf … {run.run_id} {text} for the checkpoint",
            f"git wf … {project.settings.names.short_branch(matches[0])} for the run",
        ],
    )


def _commit_of(project: Project, text: str) -> Oid | None:
    if text.startswith("-") or not text.isprintable() or os.sep * 2 in text:
        return None
    return project.repo.resolve(text)
