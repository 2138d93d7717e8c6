from __future__ import annotations

import pytest

from git_wf.core.fidelity import resolve_fidelity, resolve_thread, write_preamble
from git_wf.core.graph import Graph, Node
from git_wf.core.outcome import failed, succeeded


@pytest.mark.parametrize(
    ("edge", "node", "graph", "mode"),
    [
        (None, {}, {}, "compact"),
        (None, {}, {"default_fidelity": "truncate"}, "truncate"),
        (None, {"fidelity": "full"}, {"default_fidelity": "truncate"}, "full"),
        ({"fidelity": "summary:low"}, {"fidelity": "full"}, {}, "summary:low"),
        ({"fidelity": None}, {"fidelity": "full"}, {}, "full"),
        (None, {"fidelity": "fullest"}, {}, "compact"),
    ],
)
def test_precedence_of_fidelity(edge, node, graph, mode):
    assert resolve_fidelity(edge, Node("a", attrs=node), Graph(attrs=graph)) == mode


@pytest.mark.parametrize(
    ("edge", "node", "graph", "thread"),
    [
        ({"thread_id": "e"}, {"thread_id": "n"}, {"default_thread": "g"}, "e"),
        ({"thread_id": None}, {"thread_id": "n"}, {"default_thread": "g"}, "n"),
        (None, {"class": "c, d"}, {"default_thread": "g"}, "g"),
        (None, {"class": "c, d"}, {}, "c"),
        (None, {}, {}, "before"),
    ],
)
def test_precedence_of_threads(edge, node, graph, thread):
    assert resolve_thread(edge, Node("a", attrs=node), Graph(attrs=graph), "before") == thread


OUTCOMES = {
    "plan": succeeded(notes="three\nsteps"),
    "test": failed("exit status 1: two failed", context_updates={"command.output": "F.F\n"}),
    "fix": succeeded(),
}
VALUES = {
    "response.plan": "1. read\n2. write",
    "last_stage": "fix",
    "internal.run_id": "x",
    "score": {"n": 1},
    "empty": "",
}


def preamble(mode, **changes):
    given = {
        "goal": "Ship it",
        "run_id": "01R",
        "prompt": "go on",
        "completed": ["start", "plan", "test", "plan", "test", "fix"],
        "outcomes": OUTCOMES,
        "values": VALUES,
        **changes,
    }
    return write_preamble(mode, **given)


COMPACT = """\
Goal: Ship it

Done so far:
- plan: success (three steps)
- test: fail (exit status 1: two failed)
- fix: success

Known values:
- score: {"n": 1}"""

HIGH = """\
Goal: Ship it

Done so far:
- plan: success (three steps)
    1. read
    2. write
- test: fail (exit status 1: two failed)
    F.F
- fix: success

Known values:
- score: {"n": 1}"""


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("full", ""),
        ("truncate", "Goal: Ship it\n\nRun: 01R"),
        ("compact", COMPACT),
        ("summary:high", HIGH),
        ("summary:medium", HIGH),
        ("summary:low", COMPACT.partition("\n\nKnown")[0]),
    ],
)
def test_modes(mode, text):
    assert preamble(mode) == text


def test_a_low_summary_counts_what_it_leaves_out():
    outcomes = {f"n{number}": succeeded() for number in range(5)}
    told = preamble("summary:low", completed=list(outcomes), outcomes=outcomes, goal="")
    assert told == "Done so far:\n- (2 earlier)\n- n2: success\n- n3: success\n- n4: success"


def test_before_the_first_node_there_is_only_the_goal():
    assert preamble("compact", completed=["start"]) == "Goal: Ship it"
    assert preamble("compact", completed=["start"], prompt="Do: Ship it") == ""


@pytest.mark.parametrize(
    ("mode", "limit"), [("summary:high", 12_000), ("summary:medium", 6000), ("summary:low", 2400)]
)
def test_summaries_are_bounded(mode, limit):
    outcomes = {f"n{number}": succeeded(notes="x" * 900) for number in range(50)}
    values = {f"response.n{number}": "y" * 9000 for number in range(50)}
    told = preamble(mode, completed=list(outcomes), outcomes=outcomes, values=values)
    assert 500 < len(told) <= limit
