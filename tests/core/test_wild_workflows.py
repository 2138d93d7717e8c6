"""Workflow files of other projects: what must read does, and what validation says of each.

They are no part of this project: they are read from beside it, where they are.
"""

import csv
from collections import Counter
from pathlib import Path

import pytest

from git_wf.core.dot import parse, render, resolve_files
from git_wf.core.graph import Graph
from git_wf.core.stylesheet import styled
from git_wf.core.validate import check
from git_wf.errors import WorkflowInvalid
from tests.tree import ROOT

FIXTURES = ROOT.parent / "shared" / "fixtures" / "workflows"
INDEX = FIXTURES / "index.tsv"
pytestmark = pytest.mark.skipif(
    not INDEX.is_file(), reason="the workflow files of other projects are not beside this one"
)

# The rules that fire, and how often. Nothing is known of a file's `@` references but that the
# files which they name are not there. What is not listed is clean.
RULES = {
    "2389-research__mammoth__examples__old__cerebras_fast_iteration.dot":
        "all_conditional_edges",
    "2389-research__mammoth__examples__sprint_exec.dot":
        "all_conditional_edges*3",
    "2389-research__tracker__examples__consensus_task_parity.dot":
        "all_conditional_edges*2",
    "2389-research__tracker__examples__human_gate_showcase.dot":
        "unknown_attribute",
    "agent-fox-dev__attractor__examples__branching.dot":
        "all_conditional_edges goal_gate_has_retry",
    "bjornslib__claude-code-harness__.cobuilder__examples__full-initiative.dot":
        "all_conditional_edges*3 missing_attribute*2",
    "bjornslib__claude-code-harness__tests__fixtures__test-e2e-pipeline.dot":
        "all_conditional_edges*2 missing_attribute*3",
    "brynary__attractor__pipelines__factory__implement.dot":
        "all_conditional_edges goal_gate_has_retry unresolved_file_ref*5",
    "brynary__attractor__pipelines__factory__sync.dot":
        "all_conditional_edges unresolved_file_ref*3",
    "chad__freeq__.fabro__workflows__bug-hunt__workflow.fabro":
        "unresolved_file_ref*3",
    "chad__freeq__.fabro__workflows__feature__workflow.fabro":
        "unresolved_file_ref*12",
    "chad__freeq__.fabro__workflows__test-coverage__workflow.fabro":
        "unresolved_file_ref*3",
    "citadelgrad__pascals-discrete-attractor__pipelines__attractor-e0n.dot":
        "all_conditional_edges*3",
    "citadelgrad__pascals-discrete-attractor__pipelines__build-beads-integration.dot":
        "all_conditional_edges*3",
    "coreydaley__attractor__examples__branching.dot":
        "all_conditional_edges",
    "danshapiro__kilroy__cmd__kilroy__testdata__batch__warnings_only.dot":
        "prompt_on_llm_nodes",
    "danshapiro__kilroy__demo__tmux-agent-test__multi-node.dot":
        "terminal_node",
    "danshapiro__kilroy__workflows__coding-loop__graph.dot":
        "all_conditional_edges",
    "fabro-sh__fabro__test__attractor__consensus_task.dot":
        "all_conditional_edges",
    "jaytaylor__attractor-tcl__examples__branching.dot":
        "prompt_on_llm_nodes",
    "jaytaylor__attractor-tcl__examples__manager-loop.dot":
        "prompt_on_llm_nodes",
    "martinemde__attractor__pipelines__develop.dot":
        "all_conditional_edges",
    "nateberkopec__yamiochi__.fabro__workflows__implement-issue__workflow.fabro":
        "goal_gate_has_retry*4",
    "nateberkopec__yamiochi__.fabro__workflows__promote-gate__workflow.fabro":
        "goal_gate_has_retry*2",
    "nateberkopec__yamiochi__.fabro__workflows__smoke__workflow.fabro":
        "goal_gate_has_retry",
    "navanchauhan__swift-omnikit__sampleDOTs__fix_sheets.dot":
        "all_conditional_edges",
    "navanchauhan__swift-omnikit__sampleDOTs__igopher_showcase.dot":
        "all_conditional_edges",
    "navanchauhan__swift-omnikit__sampleDOTs__kitchensink_parity.dot":
        "all_conditional_edges",
    "nuva-be__pixl-factory__.fabro__workflows__goal__workflow.fabro":
        "unresolved_file_ref*2",
    "otimme__attractor-engine__pipelines__dark-factory__dev-agent-ios.dot":
        "all_conditional_edges*2 goal_gate_has_retry unresolved_file_ref*10",
    "otimme__attractor-engine__pipelines__dark-factory__holdout.dot":
        "unresolved_file_ref",
    "robotdad__amplifier-bundle-attractor__examples__patterns__demo-conversational-gates.dot":
        "prompt_on_llm_nodes*3",
    "robotdad__amplifier-bundle-attractor__examples__pipelines__04-retry-with-fallback.dot":
        "all_conditional_edges*3 unknown_attribute",
    "siarhei-belavus__attractor-kotlin__examples__deltaplan-dev.dot":
        "all_conditional_edges",
    "siarhei-belavus__attractor-kotlin__examples__workspace-github-smoke.dot":
        "unresolved_file_ref",
    "siarhei-belavus__attractor-pi-dev__examples__attractor-pi-dev-development__pipeline.dot":
        "all_conditional_edges unresolved_file_ref*3",
    "siarhei-belavus__attractor-pi-dev__examples__ralph-wiggum__pipeline.dot":
        "all_conditional_edges*2 unresolved_file_ref*5",
    "smartcomputer-ai__forge__examples__03-parallel-triage-and-fanin.dot":
        "attribute_value unknown_attribute",
    "stencila__stencila__mira-review-parallel.dot":
        "edge_target_exists*2 prompt_on_llm_nodes start_node terminal_node",
    "wcraigjones__attractor__conformance__02-validation__02-missing-exit__pipeline.dot":
        "dead_end terminal_node",
    "wcraigjones__attractor__conformance__02-validation__05-no-path-to-exit__pipeline.dot":
        "dead_end*2",
}  # fmt: skip
REJECTED = {
    "danshapiro__kilroy__docs__strongdm__dot_specs__simple_example_integration_smoke_test.dot":
        "1:1: found '--', expected 'digraph'",
    "robotdad__amplifier-bundle-attractor__examples__patterns__task-runner.dot":
        "137:41: attribute 'gate' has no value: found '\": \"', expected '='",
}  # fmt: skip


def rows() -> list[dict[str, str]]:
    if not INDEX.is_file():
        return []
    with INDEX.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


ACCEPTED_ROWS = [row for row in rows() if row["must read"] == "accept"]
REJECTED_ROWS = [row for row in rows() if row["must read"] != "accept"]


def name(row: dict[str, str]) -> str:
    return row["file"]


def read(row: dict[str, str]) -> Graph:
    text = Path(FIXTURES, row["file"]).read_text(encoding="utf-8")
    return parse(text, row["file"])


def test_the_index_lists_every_file() -> None:
    listed = [row["file"] for row in rows()]
    assert sorted(listed) == sorted(path.name for path in FIXTURES.iterdir() if path != INDEX)
    assert (len(ACCEPTED_ROWS), len(REJECTED_ROWS)) == (69, 2)


@pytest.mark.parametrize("row", ACCEPTED_ROWS, ids=name)
def test_counts_of_nodes_and_edges(row: dict[str, str]) -> None:
    graph = read(row)
    assert (graph.node_count, len(graph.edges)) == (int(row["nodes"]), int(row["edges"]))


@pytest.mark.parametrize("row", ACCEPTED_ROWS, ids=name)
def test_what_is_rendered_reads_the_same(row: dict[str, str]) -> None:
    graph = read(row)
    assert parse(render(graph), "w.dot") == graph


@pytest.mark.parametrize("row", REJECTED_ROWS, ids=name)
def test_what_is_no_workflow_is_rejected(row: dict[str, str]) -> None:
    with pytest.raises(WorkflowInvalid) as caught:
        read(row)
    assert caught.value.message == f"{row['file']}:{REJECTED[row['file']]}"


@pytest.mark.parametrize("row", ACCEPTED_ROWS, ids=name)
def test_which_rules_fire(row: dict[str, str]) -> None:
    graph, diagnostics = resolve_files(read(row), lambda _: None)
    fired = Counter(one.rule for one in [*diagnostics, *check(styled(graph))])
    told = " ".join(
        rule if count == 1 else f"{rule}*{count}" for rule, count in sorted(fired.items())
    )
    assert told == RULES.get(row["file"], "")
