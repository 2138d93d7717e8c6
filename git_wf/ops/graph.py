"""`git wf graph`: a workflow, or what a run has made of it, as a picture or in plain text."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import FORMAT
from git_wf.core.dot import parse
from git_wf.core.drawing import Mark, Marks, to_graphviz, to_json, to_text
from git_wf.core.graph import Graph
from git_wf.errors import StateUnreadable, UserError
from git_wf.ops.adopt import workflow_of
from git_wf.ops.host import Host
from git_wf.ops.log import run_status
from git_wf.ops.project import Project, open_project
from git_wf.ops.select import find_run
from git_wf.ops.workflow import load_workflow
from git_wf.store.runs import StoredRun, Timeline

PICTURES = ("svg", "png")
FORMS = (*PICTURES, "text")
PATIENCE = 60.0  # seconds that a picture may take


@dataclass(frozen=True)
class Subject:
    """What is drawn."""

    graph: Graph
    marks: Marks
    run_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "run_id": self.run_id, **to_json(self.graph, self.marks)}


def find_subject(host: Host, word: str | None) -> Subject:
    """A file, where there is one of this name, else the run that is named, else the default run.

    Raises `UserError` for what is neither, `WorkflowInvalid` for a file that does not parse.
    """
    suffixes = (".dot", ".gv", ".fabro", ".toml")
    if word is not None and ((host.cwd / word).is_file() or Path(word).suffix in suffixes):
        return Subject(load_workflow(Path(word)).graph, {})
    project = open_project(host)
    try:
        return _subject_of_run(project, word)
    finally:
        project.close()


def _subject_of_run(project: Project, word: str | None) -> Subject:
    run = project.store.load(find_run(project, word, project.store.every()))
    graph = stored_graph(project, run)
    marks = run_marks(run, project.store.timeline(run), run_status(project, run), graph)
    return Subject(graph, marks, run.run_id)


def stored_graph(project: Project, run: StoredRun) -> Graph:
    """The workflow that a run carries. Raises `StateUnreadable` where there is none."""
    if run.foreign is not None:
        return workflow_of(project, run)
    text = project.store.read_bytes(run.tree, "graph.dot")
    if text is None:
        raise StateUnreadable(f"run {run.run_id} has no graph.dot in its metadata")
    return parse(text.decode("utf-8", "surrogateescape"), f"{run.refs.meta_tip}:graph.dot")


def run_marks(run: StoredRun, timeline: Timeline, status: str, graph: Graph) -> dict[str, Mark]:
    """What a run has made of each node; while it goes on, the node that comes next is marked."""
    checkpoint = run.checkpoint
    if checkpoint is None:
        return _next_mark(run, status, graph.start.id)
    durations: dict[str, int] = {}
    for entry in timeline.entries:
        durations[entry.node] = durations.get(entry.node, 0) + (entry.duration_ms or 0)
    marks = {}
    for node, outcome in checkpoint.node_outcomes.items():
        took = durations.get(node, outcome.duration_ms)  # of a branch, the last visit alone
        marks[node] = Mark(outcome.status, checkpoint.node_visits.get(node, 0), took)
    for node in checkpoint.completed_nodes[:1]:  # the start, unless a loop_restart cleared it
        marks.setdefault(node, Mark("success"))
    if status in ("success", "partial_success") and run.conclusion is not None:
        marks.setdefault(graph.exit.id, Mark("success"))
    before = marks.get(checkpoint.next_node_id or "")
    return {**marks, **_next_mark(run, status, checkpoint.next_node_id, before)}


def _next_mark(
    run: StoredRun, status: str, node: str | None, before: Mark | None = None
) -> dict[str, Mark]:
    if run.conclusion is not None or node is None:
        return {}
    if status == "waiting" and run.waiting is not None:
        node = str(run.waiting.get("node"))
    visits, took = (before.visits, before.duration_ms) if before else (0, None)
    return {node: Mark(status, visits, took)}


def draw(subject: Subject, form: str, env: Mapping[str, str]) -> bytes:
    """`form` is one of FORMS. Raises `UserError` where a picture cannot be made."""
    if form == "text":
        return to_text(subject.graph, subject.marks).encode("utf-8", "replace")
    program = find_graphviz(env)
    if program is None:
        raise UserError(
            "Graphviz is not installed: there is no 'dot'",
            hint=["install graphviz", "git wf graph --format text draws without it"],
        )
    text = to_graphviz(subject.graph, subject.marks).encode("utf-8", "replace")
    try:
        done = subprocess.run(
            [program, f"-T{form}"], input=text, capture_output=True, timeout=PATIENCE, check=False,
            env=dict(env),
        )  # fmt: skip
    except subprocess.TimeoutExpired as err:
        raise UserError(
            f"Graphviz took more than {PATIENCE:g} s", hint="git wf graph --format text"
        ) from err
    except OSError as err:
        raise UserError(
            f"cannot run '{program}': {err.strerror}", hint="git wf graph --format text"
        ) from err
    if done.returncode != 0:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise UserError(f"Graphviz failed: {told[0]}", hint="git wf graph --format text")
    return done.stdout


def find_graphviz(env: Mapping[str, str]) -> str | None:
    return shutil.which("dot", path=env.get("PATH"))
