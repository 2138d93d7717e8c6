"""What a run of Fabro's or Arc's becomes when a run of ours is forked from it.

Its graph, its context and the trace of the target's visit are taken over; its configuration is
not, but for the patterns that keep files out of checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from git_wf.core.checkpoint import dump_json
from git_wf.core.context import split_artifacts
from git_wf.core.dialects import (
    GRAPH_FILES,
    foreign_graph,
    foreign_origin,
    is_trace_of,
    own_checkpoint,
)
from git_wf.core.dot import parse, render, resolve_files
from git_wf.core.graph import Graph
from git_wf.core.names import Oid, trace_name
from git_wf.core.timeline import Entry
from git_wf.core.validate import check
from git_wf.engine.plugins import installed_kinds
from git_wf.errors import StateUnreadable, UserError, WorkflowInvalid
from git_wf.ops.project import Project
from git_wf.ops.select import Selected
from git_wf.store.objects import TREE_MODE, Tree
from git_wf.store.objects import Entry as TreeEntry
from git_wf.store.plans import NewObject, new_blob, new_tree
from git_wf.store.runs import StoredRun

_FILE = "100644"
_OF_A_CHECKPOINT = (
    b"checkpoint.json", b"artifacts", b"nodes", b"waiting.json", b"conclusion.json",
    b"events.jsonl",
)  # fmt: skip
_UNRESOLVED = "unresolved_file_ref"


@dataclass(frozen=True)
class Adopted:
    """A metadata tree of ours without `run.json`, and the objects that are new in it."""

    objects: list[NewObject]
    tree: Tree
    graph: Graph | None
    notices: tuple[str, ...] = ()


def adopt(project: Project, selected: Selected, entry: Entry) -> Adopted:
    """The state of a checkpoint of theirs. Raises `UserError` where no run can go on from it."""
    assert entry.metadata_commit is not None, entry
    graph, notices = usable_graph(project, selected.run, entry)
    made = adopt_checkpoint(project, entry, before(selected, entry))
    form = project.repo.object_format
    text = new_blob("its workflow", graph.dot.encode("utf-8", "surrogateescape"), form)
    tree = {**made.tree, b"graph.dot": TreeEntry(_FILE, text.oid)}
    return Adopted([text, *made.objects], tree, graph, tuple(notices))


def adopt_checkpoint(project: Project, entry: Entry, previous: Entry | None) -> Adopted:
    """`checkpoint.json`, artifacts and trace of a checkpoint of theirs; of `@0` nothing."""
    record = None
    if entry.ordinal and entry.metadata_commit is not None:
        record = project.store.read_checkpoint(entry.metadata_commit)
    if record is None or entry.metadata_commit is None or entry.commit is None:
        return Adopted([], {}, None)
    form = project.repo.object_format
    checkpoint = own_checkpoint(entry.run, record, entry.ordinal, previous)
    commit = project.store.reader.read_commit(entry.commit)
    values, artifacts = split_artifacts(checkpoint.context_values)
    checkpoint = replace(
        checkpoint,
        context_values=values,
        node_visits={**checkpoint.node_visits, entry.node: entry.visit},
        git_commit_sha=None,
        git_tree_sha=commit.tree,
        git_parent_sha=commit.parents[0] if commit.parents else None,
        extra={"recorded_as": {"run": entry.run, "metadata_commit": entry.metadata_commit}},
    )
    data = new_blob("its checkpoint", dump_json(checkpoint.to_json()), form)
    objects, tree = [data], {b"checkpoint.json": TreeEntry(_FILE, data.oid)}
    files = {
        f"{key}.json".encode(): new_blob(f"artifact {key}", value, form)
        for key, value in artifacts.items()
    }
    if files:
        listed = {name: TreeEntry(_FILE, blob.oid) for name, blob in files.items()}
        objects += [*files.values(), new_tree("its artifacts", listed, form)]
        tree[b"artifacts"] = TreeEntry(TREE_MODE, objects[-1].oid)
    trace = _trace(project, entry)
    if trace is not None:
        visit = trace_name(entry.node, entry.visit).encode()
        objects.append(new_tree("its trace", {visit: TreeEntry(TREE_MODE, trace)}, form))
        tree[b"nodes"] = TreeEntry(TREE_MODE, objects[-1].oid)
    return Adopted(objects, tree, None)


def _trace(project: Project, entry: Entry) -> Oid | None:
    """The tree of the visit's trace, where all of it is there."""
    store = project.store
    assert entry.metadata_commit is not None, entry
    top = store.tree_of(entry.metadata_commit)
    for directory in ("nodes", "stages"):
        for name, one in store.read_directory(top, directory):
            if one.kind == "tree" and is_trace_of(f"{directory}/{name}/", entry.node, entry.visit):
                inside = store.reader.read_tree(one.oid).values()
                is_whole = all(store.reader.find(each.oid) is not None for each in inside)
                return one.oid if is_whole else None
    return None


def target_state(project: Project, selected: Selected, entry: Entry) -> Adopted:
    """The metadata tree of a checkpoint in the timeline of a run of ours, without `run.json`.

    Of one that a fork has from a run of theirs it is made anew; all else is the fork's own.
    """
    assert entry.metadata_commit is not None, entry
    run = selected.run
    origin = foreign_origin(run.record)
    if origin is None or origin.get("run") != entry.run:
        return Adopted([], project.store.tree_of(entry.metadata_commit), None)
    made = adopt_checkpoint(project, entry, before(selected, entry))
    kept = {name: one for name, one in run.tree.items() if name not in _OF_A_CHECKPOINT}
    return Adopted(made.objects, {**kept, **made.tree}, None)


def before(selected: Selected, entry: Entry) -> Entry | None:
    """The checkpoint before one."""
    earlier = [one for one in selected.timeline.entries if one.ordinal < entry.ordinal]
    return earlier[-1] if earlier else None


# The graph.


def usable_graph(project: Project, run: StoredRun, entry: Entry) -> tuple[Graph, list[str]]:
    """The workflow that a run of ours can go on with, and what is to be said of it.

    Raises `UserError` where there is none, or none that is valid.
    """
    graph = workflow_of(project, run)
    unresolved: list[str] = []
    if entry.commit is not None:
        graph, missing = resolve_files(graph, _file_reader(project, entry.commit))
        unresolved = [
            f"{one.message}: node '{one.node}' gets this name as its prompt"
            if one.node
            else one.message
            for one in missing
        ]
    errors = [
        one
        for one in check(graph, None, installed_kinds())
        if one.severity == "error" and one.rule != _UNRESOLVED
    ]
    if errors:
        raise UserError(
            f"run {run.run_id} cannot be forked: its workflow is not valid: {errors[0].message}",
            hint=f"git wf graph {run.run_id} --format text shows it",
        )
    return graph, unresolved


def workflow_of(project: Project, run: StoredRun) -> Graph:
    """The workflow that a run of theirs carries; its `dot` is the text of it.

    Of a text with prompts in files and a record that has them, the record is taken.
    Raises `UserError` where there is none, `WorkflowInvalid` where it cannot be read.
    """
    assert run.foreign is not None, run
    text, recorded = _text(project, run), foreign_graph(run.foreign.spec)
    try:
        found = None if text is None else parse(text, f"{run.run_id}:graph")
    except WorkflowInvalid:
        if recorded is None:
            raise
        found = None
    if found is not None and (recorded is None or not _has_references(found)):
        return found
    if recorded is not None:
        return parse(render(recorded), f"{run.run_id}:run.json")
    if run.refs.meta_tip is None:
        told = f"run {run.run_id} has no metadata ref, and so no graph to go on with"
        raise UserError(told, hint="git fetch it from where the run was made")
    told = f"run {run.run_id} has no graph in its metadata"
    raise UserError(told, hint="git wf run WORKFLOW starts another")


def _text(project: Project, run: StoredRun) -> str | None:
    names = [name for name in GRAPH_FILES if name.encode() in run.tree]
    data = project.store.read_bytes(run.tree, names[0]) if names else None
    text = (data or b"").decode("utf-8", "surrogateescape")
    return text if text.strip() else None  # some are empty files


def _has_references(graph: Graph) -> bool:
    _, missing = resolve_files(graph, lambda path: None)
    return bool(missing)


def _file_reader(project: Project, commit: Oid) -> Callable[[str], str | None]:
    """Gives a file of the run by the end of its path: where the workflow was is not recorded."""
    listed: list[str] = []

    def read(path: str) -> str | None:
        if not listed:
            told = project.repo.git(
                "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, ok=(0, 128)
            )
            listed.extend(told.decode("utf-8", "surrogateescape").split("\0"))
        found = [name for name in listed if name == path or name.endswith(f"/{path}")]
        if len(found) != 1:
            return None
        try:
            data = project.store.reader.read_blob(f"{commit}:{found[0]}")
        except StateUnreadable:
            return None
        return data.decode("utf-8", "surrogateescape")

    return read
