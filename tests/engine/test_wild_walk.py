"""Workflow files of other projects, walked by the engine with a stand-in agent and commands.

The files are no part of this project: they are read from beside it, where they are. Everything
succeeds, child workflows too, and people take the first choice; where a workflow cannot get on like
that, one answer a node says what its agent or command finds out.
"""

from __future__ import annotations

import json
import os
import shlex
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from git_wf.core.children import MANAGER_LOOP, Child
from git_wf.core.graph import Graph
from git_wf.core.stylesheet import styled
from git_wf.core.validate import check
from git_wf.engine.handlers import HANDLED_KINDS
from git_wf.engine.loop import Conclusion, Run, walk
from git_wf.engine.people import People
from tests.core.test_wild_workflows import ACCEPTED_ROWS, INDEX, read, rows
from tests.engine.conftest import RUN_ID, FakeClock
from tests.engine.kinds.test_manager import MergingRecorder, Nursery, StandIn
from tests.engine.kinds.test_parallel import BranchingRecorder

pytestmark = pytest.mark.skipif(
    not INDEX.is_file(), reason="the workflow files of other projects are not beside this one"
)

VISITS = 5  # of one node, where the workflow does not limit them
STAND_IN = """\
#!/bin/sh
cat >/dev/null
file=$ANSWERS/$GIT_WF_NODE
if test -e "$file"; then cat "$file"; else echo done; fi
"""

# File → node → what it says: an agent on stdout, a command in its status file.
ANSWERS: dict[str, dict[str, Any]] = {
    "bjornslib__claude-code-harness__.cobuilder__examples__full-initiative.dot": {
        "impl_backend": {"context_updates": {"pass": True}},
    },
    "brynary__attractor__pipelines__factory__sync.dot": {
        "detect": {"context_updates": {"drift_found": True}},
    },
    "fabro-sh__fabro__test__attractor__consensus_task.dot": {
        "CheckDoD": {"outcome": "has_dod"},
    },
    "fabro-sh__fabro__test__docs__examples__clone-substack__clone-substack.fabro": {
        "verify_fidelity": {"context_updates": {"all_acs_pass": True}},
        "review_consensus": {"preferred_next_label": "approved"},
    },
    "robotdad__amplifier-bundle-attractor__examples__pipelines__04-retry-with-fallback.dot": {
        "validate_gate": {"context_updates": {"tool.last_line": "gate_pass"}},
    },
    "siarhei-belavus__attractor-kotlin__examples__deltaplan-dev.dot": {
        "plan": "PLAN_READY",
    },
}
# File → why its run fails all the same.
REASONS = {
    # A conditional node comes first: there is nothing yet that it could route by.
    "citadelgrad__pascals-discrete-attractor__pipelines__attractor-e0n.dot":
        "no edge matches from 'pick_task'",
    "citadelgrad__pascals-discrete-attractor__pipelines__build-beads-integration.dot":
        "no edge matches from 'pick_task'",
    # Two nodes that lead to each other and nowhere else.
    "wcraigjones__attractor__conformance__02-validation__05-no-path-to-exit__pipeline.dot":
        "node 'a' was visited 5 times: max_node_visits=5 allows no more",
}  # fmt: skip


def is_valid(graph: Graph) -> bool:
    """Nothing is known here of the files that prompts refer to."""
    return not any(one.severity == "error" for one in check(graph))


GRAPHS = {row["file"]: styled(read(row)) for row in ACCEPTED_ROWS}
VALID = {file: graph for file, graph in GRAPHS.items() if is_valid(graph)}
WALKED = [*VALID]


def stand_in(graph: Graph, answers: dict[str, Any]) -> Graph:
    """Everything that would be run is something that answers at once."""
    for node in graph.nodes.values():
        if node.kind == "command":
            said = shlex.quote(json.dumps(answers.get(node.id, {})))
            node.attrs |= {"script": f"echo {said} >$GIT_WF_STATUS", "language": "shell"}
        elif node.kind == "wait":
            node.attrs["duration"] = "1s"
        elif node.kind in ("agent", "prompt", "fan_in") or node.kind not in HANDLED_KINDS:
            node.attrs["backend"] = "stand-in"
    if graph.integer("max_node_visits", 0) <= 0:
        graph.attrs["max_node_visits"] = VISITS
    return graph


class Place(BranchingRecorder, MergingRecorder):
    """Where branches and children of a run are recorded."""


def walk_graph(graph: Graph, answers: dict[str, Any], place: Path) -> Conclusion:
    program = place / "stand-in"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    said = place / "answers"
    said.mkdir()
    for node, answer in answers.items():
        (said / node).write_text(answer if isinstance(answer, str) else json.dumps(answer))
    config = {"agents": {"stand-in": {"command": [os.fspath(program)]}}}
    env = {**os.environ, "ANSWERS": os.fspath(said)}
    children = {node.id: Child(graph, node.id) for node in graph.of_kind(MANAGER_LOOP)}
    run = Run(RUN_ID, stand_in(graph, answers), config=config, env=env, children=children)
    return walk(
        run, None, Place(place / "run"), lambda event: None, FakeClock(),
        people=People(auto_approve=True), cancel=threading.Event(), draw=lambda: 0.5,
        children=Nursery(StandIn()),
    )  # fmt: skip


@pytest.fixture(scope="module")
def without_answers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Conclusion]:
    """How the walk of a file ends when everything succeeds; each is walked once."""

    @cache
    def walked(file: str) -> Conclusion:
        return walk_graph(graph_of(file), {}, tmp_path_factory.mktemp("walk"))

    return walked


def graph_of(file: str) -> Graph:
    return styled(read(next(row for row in ACCEPTED_ROWS if row["file"] == file)))


@pytest.mark.parametrize("file", WALKED)
def test_it_reaches_the_exit_or_ends_with_the_reason(
    file: str, tmp_path: Path, without_answers: Callable[[str], Conclusion]
) -> None:
    if file in ANSWERS:
        conclusion = walk_graph(graph_of(file), ANSWERS[file], tmp_path)
    else:
        conclusion = without_answers(file)
    reason = REASONS.get(file, "")
    status = "fail" if reason else "success"
    assert (conclusion.status, conclusion.failure_reason) == (status, reason)


@pytest.mark.parametrize("file", [*ANSWERS, *REASONS])
def test_each_answer_and_reason_is_needed(
    file: str, without_answers: Callable[[str], Conclusion]
) -> None:
    assert without_answers(file).status == "fail"


def test_how_many_reach_the_exit_when_everything_succeeds(
    without_answers: Callable[[str], Conclusion],
) -> None:
    """Of all files: those that are no valid workflows too, as far as they have a start."""
    with_start = [file for file, graph in GRAPHS.items() if graph.of_kind("start")]
    reached = [file for file in with_start if without_answers(file).status == "success"]
    assert (len(reached), len(rows())) == (58, 71)
    failed = {*VALID} - {*reached}
    assert failed == {*ANSWERS, *REASONS}


def test_which_files_are_walked() -> None:
    assert {*ANSWERS, *REASONS} <= {*WALKED}
    assert [file for file in GRAPHS if file not in VALID] == [
        "danshapiro__kilroy__demo__tmux-agent-test__multi-node.dot",
        "stencila__stencila__mira-review-parallel.dot",
        "wcraigjones__attractor__conformance__02-validation__02-missing-exit__pipeline.dot",
    ]
    assert len(WALKED) == 66
