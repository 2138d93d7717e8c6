"""Small workflows with the right outcome, end to end through the program.

The ids are those of the list of behaviours that the language was specified with; the inputs are
our own copies. What each rule says exactly is tested where it is made, in `core` and `engine`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git
from tests.program import Program, Result, run_id
from tests.stub_agent import write_stub_agent
from tests.tree import ROOT

ENDS = "start [shape=Mdiamond] exit [shape=Msquare]"
Play = Callable[[str], "Played"]


def write_graph(path: Path, body: str) -> Path:
    whole = body.removeprefix("\ufeff").startswith(("digraph", "strict"))
    path.write_text(body if whole else f"digraph G {{ {ENDS} {body} }}", newline="")
    return path


class Played:
    """A run that has ended: its exit status, events and what it left in git."""

    def __init__(self, result: Result, repo: Path) -> None:
        self.status, self.err = result.status, result.err
        self.events = [json.loads(line) for line in result.out.splitlines()]
        self.run = str(self.events[0]["run_id"])
        self._repo = repo

    @property
    def visits(self) -> str:
        """`a@1 b@1`, as they were started."""
        started = (e for e in self.events if e["event"] == "stage_started")
        return " ".join(f"{e['node']}@{e['visit']}" for e in started)

    @property
    def reason(self) -> str:
        return str(self.events[-1].get("failure_reason") or "")

    def file(self, path: str) -> str:
        """A file of the run branch."""
        return git("show", f"wf/run/{self.run}:{path}", cwd=self._repo)

    def state(self, path: str) -> Any:
        """A JSON file of the metadata ref."""
        return json.loads(git("show", f"wf/meta/{self.run}:{path}", cwd=self._repo))

    @property
    def statuses(self) -> list[str]:
        listed = git("log", "--format=%s", f"main..wf/run/{self.run}", cwd=self._repo)
        return [line.split(": ", 1)[1] for line in reversed(listed.splitlines())]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A run.toml of `w.dot` beside it, with the stub agent as default backend."""
    stub = write_stub_agent(tmp_path / "stub-agent")
    path = tmp_path / "run.toml"
    path.write_text(
        '[workflow]\ngraph = "w.dot"\n[agents]\ndefault = "stub"\n'
        f"[agents.stub]\ncommand = [{json.dumps(os.fspath(stub))}]\n"
    )
    return path


@pytest.fixture
def play(wf: Program, repo: Path, config: Path) -> Play:
    def run(body: str) -> Played:
        write_graph(config.with_name("w.dot"), body)
        return Played(wf("run", config, "--json", "-q"), repo)

    return run


# Reading.


@pytest.mark.parametrize(
    ("id_", "body", "edges", "attributes"),
    [
        ("P01", 'a [script="true"] start -> a -> exit', ["start->a", "a->exit"], {}),
        (
            "P02", 'a [script="true",\n  label="A",\n  max_retries=2]\nstart -> a -> exit',
            ["start->a", "a->exit"], {"label": "A", "max_retries": 2},
        ),
        ("P03", 'a [script="true" label="A"] start -> a -> exit', None, {"label": "A"}),
        (
            "P06", 'a [label="B", label="A"][script="true"] start -> a -> exit', None,
            {"label": "A", "script": "true"},
        ),
        (
            "P09",
            'a [timeout=900s, model=gpt-5.2, fidelity=summary:high, script="true"] '
            "start -> a -> exit",
            None, {"timeout": "900s", "model": "gpt-5.2", "fidelity": "summary:high"},
        ),
        (
            "P10", r'a [prompt="l1\nl2\t\"q\" \\ end"] start -> a -> exit', None,
            {"prompt": 'l1\nl2\t"q" \\ end'},
        ),
        ("P12", 'a [prompt="one \\\ntwo"] start -> a -> exit', None, {"prompt": "one two"}),
        (
            "P14",
            '// c {\n/* x */ a [script="echo http://localhost /* y */"] \n# no\nstart -> a -> exit',
            ["start->a", "a->exit"], {"script": "echo http://localhost /* y */"},
        ),
        (
            "P18", 'a [script="true"] b [script="true"] start -> a -> b -> exit [label="n"]',
            ["start->a [n]", "a->b [n]", "b->exit [n]"], {},
        ),
        (
            "P21", "digraph { start [shape=Mdiamond] exit [shape=Msquare] start -> exit }",
            ["start->exit"], {},
        ),
        (
            "P22",
            'digraph "my flow" { start [shape=Mdiamond] exit [shape=Msquare] start -> exit }',
            ["start->exit"], {},
        ),
        (
            "P22", "\ufeffdigraph { start [shape=Mdiamond] exit [shape=Msquare] start -> exit }",
            ["start->exit"], {},
        ),
        (
            "P02", 'a [script="true",\r\n  max_retries=2]\r\nstart -> a -> exit',
            ["start->a", "a->exit"], {"max_retries": 2},
        ),
        ("P05", "a [] start -> a -> exit", ["start->a", "a->exit"], {}),
    ],
)  # fmt: skip
def test_what_is_read_is_run_and_recorded(
    play: Play, id_: str, body: str, edges: list[str] | None, attributes: dict[str, Any]
) -> None:
    played = play(body)
    assert (played.status, played.events[-1]["status"]) == (0, "success"), id_
    graph = played.state("run.json")["graph"]
    nodes = {node["id"]: node["attributes"] for node in graph["nodes"]}
    assert {key: nodes["a"][key] for key in attributes} == attributes, id_
    if edges is not None:
        labels = [(e["from"], e["to"], e["attributes"].get("label")) for e in graph["edges"]]
        assert [f"{a}->{b}{f' [{n}]' if n else ''}" for a, b, n in labels] == edges, id_


def test_p15_p17_defaults_and_the_label_of_a_subgraph(play: Play) -> None:
    played = play(
        'subgraph cluster_l { label="Loop A" node [timeout="9s"] p [script="true"] }\n'
        'edge [weight=5] q [script="true"] start -> p -> q\nq -> exit [weight=1]'
    )
    graph = played.state("run.json")["graph"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert "label" not in graph["attributes"]
    assert nodes["p"]["attributes"]["timeout"] == "9s"
    assert "timeout" not in nodes["q"]["attributes"]
    assert [edge["attributes"]["weight"] for edge in graph["edges"]] == [5, 5, 1]


@pytest.mark.parametrize("key", ["human.default_choice", '"human.default_choice"'])
def test_p07_p08_dotted_keys(wf: Program, tmp_path: Path, key: str) -> None:
    path = write_graph(tmp_path / "w.dot", f'a [shape=hexagon, {key}="exit"] start -> a -> exit')
    assert wf.ok("validate", path).out == f"{path}: valid, 3 nodes, 2 edges\n"


REJECTED = [
    (
        "P23", 'start -> {a b} a [script="true"] b [script="true"] a -> exit b -> exit', (1, 66),
        "node groups as edge ends are not supported",
    ),
    (
        "P24", "strict digraph G { start [shape=Mdiamond] exit [shape=Msquare] start -> exit }",
        (1, 1), "'strict' is not supported",
    ),
    (
        "P25", "digraph G { start [shape=Mdiamond] exit [shape=Msquare] start -- exit }", (1, 63),
        "'--' is not supported: edges have a direction",
    ),
    (
        "P27", 'a [label=<<b>x</b>>, script="true"] start -> a -> exit', (1, 66),
        "HTML labels are not supported",
    ),
    (
        "P28", 'a-b [script="true"] start -> a-b -> exit', (1, 57),
        "not a node id: 'a-b': an id has letters, digits and underscores, and begins with no digit",
    ),
    (
        "P30", 'a [label="A", ask] start -> a -> exit', (1, 74),
        "attribute 'ask' has no value: found ']', expected '='",
    ),
]  # fmt: skip
DIAGNOSED = [
    (
        "V01", 'digraph G { a [script="true"] exit [shape=Msquare] a -> exit }',
        ["error start_node: no start node: 0 found, a workflow has exactly one"],
    ),
    (
        "V02",
        "digraph G { s [shape=Mdiamond] t [shape=Mdiamond] exit [shape=Msquare] s -> exit "
        "t -> exit }",
        ["error start_node: more than one start node: 2 found ('s', 't'), a workflow has exactly "
         "one"],
    ),
    (
        "V03", 'digraph G { start [shape=Mdiamond] a [script="true"] start -> a }',
        ["error terminal_node: no exit node: 0 found, a workflow has exactly one",
         "warning dead_end: no edge leads on from 'a'"],
    ),
    (
        "V06", 'a [script="true"] start -> a -> exit a -> start',
        ["error start_no_incoming: edge into the start node: 'a' -> 'start'"],
    ),
    (
        "V07", 'a [script="true"] start -> a -> exit exit -> a',
        ["error exit_no_outgoing: edge out of the exit node: 'exit' -> 'a'"],
    ),
    (
        "V08", 'a [script="true"] lost [script="true"] start -> a -> exit',
        ["warning reachability: no way leads from the start to 'lost'"],
    ),
    (
        "V09", 'a [script="true"] start -> a -> exti a -> exit',
        ["error edge_target_exists: node is not declared: 'exti', the nearest id is 'exit'"],
    ),
    (
        "V11",
        'a [script="true"] b [script="true"] start -> a a -> b [condition="outcome=success"]'
        ' a -> exit [condition="outcome=fail"] b -> exit',
        ["warning all_conditional_edges: every edge from 'a' has a condition: if none holds, the "
         "run fails"],
    ),
    (
        "V12", 'a [script="true", goal_gate=true] start -> a -> exit',
        ["warning goal_gate_has_retry: goal gate 'a' has no retry target: if it is missed, the "
         "run fails"],
    ),
    (
        "V13", 'a [script="true", retry_target="nope"] start -> a -> exit',
        ["warning retry_target_exists: 'retry_target' names no node: 'nope'"],
    ),
    (
        "V14", 'a [type="frobnicate", prompt="p"] start -> a -> exit',
        ["warning type_known: unknown type: 'frobnicate', the node runs as an agent"],
    ),
    (
        "V15", "a start -> a -> exit",
        ["warning prompt_on_llm_nodes: node 'a' has neither a prompt nor a label"],
    ),
    (
        "V17", 'graph [model_stylesheet="* { model a; }"] start -> exit',
        ["error stylesheet_syntax: bad stylesheet: found 'a', expected ':'"],
    ),
    (
        "V18", 'a [prompt="@missing.md"] start -> a -> exit',
        ["error unresolved_file_ref: file reference does not exist: '@missing.md'"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("id_", "body", "place", "message"), REJECTED)
def test_what_is_not_read(
    wf: Program, tmp_path: Path, id_: str, body: str, place: tuple[int, int], message: str
) -> None:
    result = wf("validate", write_graph(tmp_path / "w.dot", body), "--json")
    (checked,) = result.json["files"]
    (found,) = checked["diagnostics"]
    assert (result.status, checked["valid"], result.err) == (1, False, ""), id_
    assert (found["rule"], found["severity"]) == ("syntax", "error"), id_
    assert ((found["line"], found["column"]), found["message"]) == (place, message), id_
    if id_ == "P28":
        assert found["fix"] == "write a_b"


@pytest.mark.parametrize(("id_", "body", "expected"), DIAGNOSED)
def test_what_validation_says(
    wf: Program, tmp_path: Path, id_: str, body: str, expected: list[str]
) -> None:
    path = write_graph(tmp_path / "w.dot", body)
    result = wf("validate", path, "--json")
    (checked,) = result.json["files"]
    told = [f"{d['severity']} {d['rule']}: {d['message']}" for d in checked["diagnostics"]]
    is_valid = not any(line.startswith("error") for line in expected)
    assert (told, checked["valid"], result.status) == (expected, is_valid, not is_valid), id_
    strict = wf("validate", path, "--strict", "--json")
    severities = {d["severity"] for d in strict.json["files"][0]["diagnostics"]}
    assert (strict.status, severities) == (1, {"error"}), id_


INVALID = [row[:2] for row in REJECTED] + [
    row[:2] for row in DIAGNOSED if any(line.startswith("error") for line in row[2])
]


@pytest.mark.parametrize(("id_", "body"), INVALID)
def test_an_invalid_workflow_makes_nothing(
    wf: Program, repo: Path, config: Path, id_: str, body: str
) -> None:
    write_graph(config.with_name("w.dot"), body)
    before = git("for-each-ref", cwd=repo), git("count-objects", "-v", cwd=repo)
    result = wf("run", config)
    assert (result.status, result.out) == (128, ""), id_
    assert (git("for-each-ref", cwd=repo), git("count-objects", "-v", cwd=repo)) == before, id_
    assert not Path(os.environ["XDG_STATE_HOME"]).exists(), id_


@pytest.mark.parametrize("row", [row for row in DIAGNOSED if row[0] in ("V08", "V12", "V13", "V14",
                                                                        "V15")])  # fmt: skip
def test_warnings_stop_no_run(play: Play, row: tuple[str, str, list[str]]) -> None:
    played = play(row[1])
    assert (played.status, played.visits) == (0, "a@1"), row[0]


def test_v14_an_unknown_type_needs_a_backend(wf: Program, repo: Path, tmp_path: Path) -> None:
    path = write_graph(tmp_path / "w.dot", 'a [type="frobnicate", prompt="p"] start -> a -> exit')
    wf.fails(
        128, ["run", str(path)],
        "error: no backend for node 'a'\n"
        'hint: set default = "NAME" under [agents] in run.toml, or backend="NAME" on the node\n',
    )  # fmt: skip


# Conditions and the choice of edges.

CONDITION = (
    'a [script="true"] y [script="true"] start -> a a -> y [condition="{}"] a -> exit y -> exit'
)


@pytest.mark.parametrize(
    ("id_", "body", "visits"),
    [
        ("C01", CONDITION.format("outcome=success"), "a@1 y@1"),
        (
            "C02",
            'a [script="false"] n [script="true"] start -> a a -> n [condition="outcome!=success"] '
            'a -> exit y [script="true"] y -> exit n -> y',
            "a@1 n@1 y@1",
        ),
        ("C04", CONDITION.format("outcome=success && context.nope=x"), "a@1"),
        ("C06", CONDITION.format("outcome=Success"), "a@1"),
        ("C08", CONDITION.format("!outcome=fail"), "a@1 y@1"),
        ("C09", CONDITION.format("(outcome=success)"), "a@1 y@1"),
        ("C10", CONDITION.format("context.n > 5"), "a@1"),
        ("C11", CONDITION.format(r"context.log contains \"two words\""), "a@1"),
        ("C14", CONDITION.format("last_stage=a"), "a@1 y@1"),
        (
            "E01",
            'a [script="true"] c [script="true"] w [script="true"] start -> a '
            'a -> c [condition="outcome=success"] a -> w [weight=100] c -> exit w -> exit',
            "a@1 c@1",
        ),
        (
            "E02",
            'a [script="true"] b [script="true"] c [script="true"] start -> a a -> b [weight=1] '
            "a -> c [weight=2] b -> exit c -> exit",
            "a@1 c@1",
        ),
        (
            "E05",
            'a [prompt="stub: preferred_label=Fix"] x [script="true"] y [script="true"] '
            'start -> a a -> x [label="Approve"] a -> y [label="[F] Fix"] x -> exit y -> exit',
            "a@1 y@1",
        ),
        (
            "E07",
            "a [prompt=\"stub: suggested_next_ids=['nope','y']\"] x [script=\"true\"] "
            'y [script="true"] start -> a a -> x [weight=9] a -> y x -> exit y -> exit',
            "a@1 y@1",
        ),
        (
            "F02",
            'a [script="false"] f [script="true"] start -> a a -> f [condition="outcome=fail"] '
            "a -> exit f -> exit",
            "a@1 f@1",
        ),
        ("F09", 'a [script="exit 7", auto_status=true] start -> a -> exit', "a@1"),
        ("G01", 'a [script="true", goal_gate=true] start -> a -> exit', "a@1"),
        (
            "G03",
            'a [script="test -f ok || { touch ok; false; }", goal_gate=true, retry_target="a"] '
            'start -> a a -> exit [condition="outcome=fail"] a -> exit',
            "a@1 a@2",
        ),
        (
            "G06", 'a [prompt="stub: outcome=partial_success", goal_gate=true] start -> a -> exit',
            "a@1",
        ),
        (
            "L04",
            'a [script="true"] b [script="true"] start -> a a -> b [loop_restart=true, '
            'condition="context.internal.node_visit_count < 2"] a -> exit b -> a',
            "a@1 b@1 a@2",
        ),
        (
            "L05",
            'd [shape=diamond] a [script="false"] f [script="true"] start -> a '
            'a -> d [condition="outcome=fail"] a -> exit d -> f [condition="outcome=fail"] '
            "d -> exit f -> exit",
            "a@1 d@1 f@1",
        ),
    ],
)  # fmt: skip
def test_which_nodes_are_visited(play: Play, id_: str, body: str, visits: str) -> None:
    played = play(body)
    assert (played.visits, played.status, played.reason) == (visits, 0, ""), id_


@pytest.mark.parametrize(
    ("id_", "body", "visits", "reason"),
    [
        (
            "E08",
            'a [script="true"] b [script="true"] start -> a a -> b [condition="outcome=fail"] '
            "b -> exit",
            "a@1", "no edge matches from 'a'",
        ),
        ("F01", 'a [script="false"] start -> a -> exit', "a@1", "exit status 1"),
        (
            "F05", 'a [prompt="stub: outcome=retry"  , max_retries=2] start -> a -> exit', "a@1",
            "max retries exceeded",
        ),
        (
            "F07",
            'graph [default_max_retries=1] a [prompt="stub: outcome=retry"] '
            'b [prompt="stub: outcome=retry", max_retries=0] start -> a -> b -> exit',
            "a@1", "max retries exceeded",
        ),
        (
            "L02",
            'a [script="true", max_visits=3] start -> a a -> a '
            'a -> exit [condition="outcome=fail"]',
            "a@1 a@2 a@3", "node 'a' was visited 3 times: max_visits=3 allows no more",
        ),
    ],
)  # fmt: skip
def test_runs_that_fail(play: Play, id_: str, body: str, visits: str, reason: str) -> None:
    played = play(body)
    assert (played.visits, played.status, played.events[-1]["status"], played.reason) == (
        visits, 1, "fail", reason,
    ), id_  # fmt: skip
    if id_ != "L02":  # that a visit is one too many is found when it begins
        assert played.state("checkpoint.json")["next_node_id"] is None, id_
    attempts = {"F05": 3, "F07": 2}.get(id_)
    if attempts:
        assert len(played.file("prompts").splitlines()) == attempts, id_


def test_f04_an_explicit_max_retries_retries_a_fail(play: Play) -> None:
    played = play(
        'a [script="n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) >n; test $n -ge 2", '
        "max_retries=2] start -> a -> exit"
    )
    assert (played.status, played.file("n"), played.statuses) == (0, "3", ["a (success)"])


def test_l04_a_restart_has_a_fresh_context(play: Play) -> None:
    played = play(
        'graph [goal="g"] a [script="true"] b [script="true"] start -> a a -> b '
        '[loop_restart=true, condition="context.internal.node_visit_count < 2"] a -> exit b -> a'
    )
    record = played.state("checkpoint.json")
    assert record["completed_nodes"] == ["b", "a"]
    assert record["node_visits"] == {"a": 2, "b": 1}
    assert record["context_values"]["graph.goal"] == "g"


@pytest.mark.parametrize("prompt", ["Do: $goal", "Do: {{ goal }}"])
def test_x01_x02_the_goal_in_a_prompt(play: Play, prompt: str) -> None:
    played = play(f'graph [goal="Build it"] a [prompt="{prompt}"] start -> a -> exit')
    assert json.loads(played.file("prompts"))[1] == "Do: Build it"


def test_x03_an_empty_prompt_falls_back_to_the_label(play: Play) -> None:
    played = play('a [prompt="", label="Plan it"] start -> a -> exit')
    assert json.loads(played.file("prompts"))[1] == "Plan it"


def test_x07_files_are_relative_to_the_workflow(play: Play, config: Path) -> None:
    config.with_name("goal.md").write_text("Build it")
    config.with_name("p.md").write_text("Do: {{ goal }}")
    played = play('graph [goal="@goal.md"] a [prompt="@p.md"] start -> a -> exit')
    assert json.loads(played.file("prompts"))[1] == "Do: Build it"
    graph = git("show", f"wf/meta/{played.run}:graph.dot", cwd=played._repo)
    assert 'goal="Build it"' in graph and "@" not in graph


# Checkpoint, resume, rewind, fork.

TWO = 'a [script="echo 1 >>log"] b [script="echo 2 >>log"] start -> a -> b -> exit'


def checkout_of(repo: Path) -> tuple[str, ...]:
    return tuple(
        git(*words, cwd=repo)
        for words in (
            ("status", "--porcelain=v2", "--branch"), ("ls-files", "-s"),
            ("symbolic-ref", "HEAD"), ("rev-parse", "HEAD"), ("stash", "list"),
        )
    )  # fmt: skip


def test_k01_k02_a_commit_for_every_node(play: Play, repo: Path) -> None:
    before = checkout_of(repo)
    played = play(TWO)
    assert played.statuses == ["a (success)", "b (success)"]
    assert played.file("log") == "1\n2"
    assert checkout_of(repo) == before
    shown = git(
        "log", "--format=%(trailers:key=WF-Run,valueonly,separator=) "
        "%(trailers:key=WF-Node,valueonly,separator=) "
        "%(trailers:key=WF-Status,valueonly,separator=)",
        f"main..wf/run/{played.run}", cwd=repo,
    )  # fmt: skip
    assert shown == f"{played.run} b success\n{played.run} a success"
    assert played.state("checkpoint.json")["current_node"] == "b"


def test_k06_the_timeline(wf: Program, play: Play) -> None:
    played = play(TWO)
    listed = wf.ok("log", played.run, "--json").json["checkpoints"]
    assert [(c["ordinal"], c["node"], c["visit"]) for c in listed] == [(1, "a", 1), (2, "b", 1)]
    lines = wf.ok("rewind", played.run, "--list").out.splitlines()
    assert [line.split()[1:3] for line in lines] == [["@2", "b@1"], ["@1", "a@1"], ["@0", "before"]]
    again = play('a [script="true", max_visits=2] start -> a a -> a')
    listed = wf.ok("log", again.run, "--json").json["checkpoints"]
    assert [(c["ordinal"], c["node"], c["visit"]) for c in listed] == [(1, "a", 1), (2, "a", 2)]
    lines = wf.ok("rewind", again.run, "--list").out.splitlines()
    assert [line.split()[1:3] for line in lines] == [["@2", "a@2"], ["@1", "a@1"], ["@0", "before"]]


@pytest.mark.parametrize("target", ["@1", "a", "a@1"])
def test_k07_rewind(
    wf: Program, play: Play, repo: Path, fsck: Callable[[Path], None], target: str
) -> None:
    played = play(TWO)
    tip = git("rev-parse", f"wf/run/{played.run}", cwd=repo)
    wf.ok("rewind", played.run, target)
    assert played.file("log") == "1"
    assert played.state("checkpoint.json")["next_node_id"] == "b"
    kept = git("for-each-ref", "--format=%(objectname)", f"refs/wf/old/{played.run}", cwd=repo)
    assert tip in kept.splitlines()
    wf.ok("resume", played.run)
    assert played.file("log") == "1\n2"
    fsck(repo)


def test_k08_fork(wf: Program, play: Play, repo: Path) -> None:
    played = play(TWO)
    before = git("for-each-ref", "--format=%(refname) %(objectname)", cwd=repo).splitlines()
    forked = wf.ok("fork", played.run, "@1").out.strip()
    assert forked == run_id(2)
    after = git("for-each-ref", "--format=%(refname) %(objectname)", cwd=repo).splitlines()
    assert set(before) < set(after)
    old, new = f"wf/run/{played.run}", f"wf/run/{forked}"
    assert git("rev-parse", new, cwd=repo) == git("rev-parse", f"{old}^", cwd=repo)
    wf.ok("resume", forked)
    assert git("show", f"{new}:log", cwd=repo) == "1\n2"
    assert git("rev-parse", old, cwd=repo) in "\n".join(before)


# The list itself, where it is.

LIST = ROOT.parent / "shared" / "behaviours.tsv"
# Rows whose tests do not name them.
TESTED_BY = {
    "FI01": ["core/test_fidelity.py::test_precedence_of_fidelity"],
    "FI03": ["engine/kinds/test_agent.py::test_nodes_of_a_thread_share_a_session"],
    "FI04": ["engine/kinds/test_agent.py::test_the_first_resumed_node_gets_a_summary"],
    "K04": ["ops/test_resume.py::test_half_done_work_is_rescued"],
    "K10": [
        "cli/test_run.py::test_dirty",
        "cli/test_run.py::test_outside_a_repository",
        "cli/test_run.py::test_without_a_commit",
        "ops/test_odd_repositories.py::test_a_run_in",
    ],
}


@pytest.mark.skipif(not LIST.is_file(), reason="the list of behaviours is not beside this project")
def test_every_row_has_a_test() -> None:
    header = [line.split("\t")[0] for line in LIST.read_text(encoding="utf-8").splitlines()]
    ids = header[header.index("id") + 1 :]
    sources = {
        str(path.relative_to(ROOT / "tests")): path.read_text(encoding="utf-8")
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__)
    }
    sources["cli/test_behaviours.py"] = (
        Path(__file__).read_text(encoding="utf-8").split("# The list itself")[0]
    )
    named = {
        word.upper()
        for text in sources.values()
        for word in re.findall(r"\b[A-Z]{1,2}\d\d\b|(?<=_)[a-z]{1,2}\d\d(?=_)", text)
    }
    assert [id_ for id_ in ids if id_ not in named | TESTED_BY.keys()] == []
    for test in (test for tests in TESTED_BY.values() for test in tests):
        path, _, name = test.partition("::")
        assert f"def {name}(" in sources[path], test
