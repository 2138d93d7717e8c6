"""The engine against a naive walker, written from the description of the language alone.

Random graphs of nodes that answer from a script: both have to visit the same nodes in the same
order, and come to the same end.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from git_wf.core.dot import parse
from git_wf.engine import plugins
from git_wf.engine.loop import Run, walk
from tests.engine.conftest import RUN_ID, FakeClock, MemoryRecorder

HANDLER = """\
import json
from git_wf.core.outcome import Outcome, failed

def answer(visit):
    answers = json.loads(visit.node.text("answers"))
    said = answers[(visit.number + visit.attempt - 2) % len(answers)]
    fields = dict(preferred_label=said["label"], suggested_next_ids=tuple(said["suggested"]),
                  context_updates={"k": said["k"]} if said["k"] is not None else {})
    if said["status"] == "fail":
        return failed("no", said["class"], **fields)
    return Outcome(said["status"], **fields)
"""
IDS = ("b", "a", "d", "c", "e")  # not in order: ties are broken by the id, gates by the file
Context = dict[str, Any]
# A condition, and what it means.
CONDITIONS: dict[str, Callable[[Context], bool]] = {
    "outcome=success": lambda c: c.get("outcome") == "success",
    "outcome=succeeded": lambda c: c.get("outcome") == "success",
    "outcome!=success": lambda c: c.get("outcome") != "success",
    "outcome=fail": lambda c: c.get("outcome") == "fail",
    "outcome=partial_success": lambda c: c.get("outcome") == "partial_success",
    "preferred_label=Go": lambda c: c.get("preferred_label") == "Go",
    "context.k=1": lambda c: str(c.get("k", "")) == "1",
    "k": lambda c: truth(c),
    "!k": lambda c: not truth(c),
    "k > 0": lambda c: str(c.get("k", "")) in ("1", "2"),
    "outcome=fail && k=2": lambda c: c.get("outcome") == "fail" and str(c.get("k", "")) == "2",
    "!(outcome=success) || k=2 && k=1": lambda c: c.get("outcome") != "success",
}


def truth(context: Context) -> bool:
    return str(context.get("k", "")) not in ("", "0", "False")  # a JSON false among them


@dataclass
class Flow:
    """A workflow as plain data. `nodes` and `edges` are attributes, `edges` with from and to."""

    attrs: dict[str, Any]
    nodes: dict[str, dict[str, Any]]
    edges: list[dict[str, Any]]

    def dot(self) -> str:
        lines = ["digraph {", "start [shape=Mdiamond]"]
        lines += [f"{key}={json.dumps(value)}" for key, value in self.attrs.items()]
        for id_, attrs in self.nodes.items():
            more = ", ".join(f"{key}={written(value)}" for key, value in attrs.items())
            lines.append(f"{id_} [{more}]")
        for edge in self.edges:
            more = ", ".join(
                f"{key}={written(value)}"
                for key, value in edge.items()
                if key not in ("from", "to")
            )
            lines.append(f"{edge['from']} -> {edge['to']} [{more}]")
        return "\n".join([*lines, "exit [shape=Msquare]", "}"])


def written(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, list) else value
    if isinstance(text, str):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return json.dumps(value)


@dataclass
class Answer:
    status: str = "success"
    label: str = ""
    suggested: list[str] = field(default_factory=list)
    kind: str = ""  # of a failure


@dataclass
class Reference:
    """The naive walker."""

    flow: Flow
    context: Context = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    last: dict[str, Answer] = field(default_factory=dict)
    same: dict[str, int] = field(default_factory=dict)  # deterministic failures of a node
    path: list[str] = field(default_factory=list)
    before: Answer = field(default_factory=Answer)  # what a conditional passes on
    fresh: bool = False  # a loop_restart was taken

    def walk(self) -> str:
        here: str | None = self.target("start", Answer())
        while here is not None:
            if here == "exit":
                gate = self.missed_gate()
                if gate is None:
                    return "success"
                here = self.retry_target(gate)
                continue
            if self.visits.get(here, 0) >= self.limit(here):
                return "fail"
            here = self.visit(here)
        return "fail"

    def limit(self, id_: str) -> int:
        limits = [self.flow.nodes[id_].get("max_visits"), self.flow.attrs.get("max_node_visits")]
        return min(limit for limit in limits if limit)

    def missed_gate(self) -> str | None:
        for id_, attrs in self.flow.nodes.items():
            status = self.last[id_].status if id_ in self.last else "success"
            if attrs.get("goal_gate") and status not in ("success", "partial_success"):
                return id_
        return None

    def visit(self, id_: str) -> str | None:
        if self.fresh:
            self.context, self.before, self.fresh = {}, Answer(), False
        self.visits[id_] = self.visits.get(id_, 0) + 1
        self.path.append(f"{id_}@{self.visits[id_]}")
        if self.flow.nodes[id_].get("shape") == "diamond":
            self.last[id_] = answer = Answer("success", self.before.label, self.before.suggested)
            return self.target(id_, answer)
        answer = self.last[id_] = self.before = self.answer(id_)
        self.context |= {"outcome": answer.status, "preferred_label": answer.label}
        if answer.status == "fail" and answer.kind == "deterministic":
            self.same[id_] = self.same.get(id_, 0) + 1
            if self.same[id_] >= self.flow.attrs.get("loop_restart_signature_limit", 3):
                return None
        return self.target(id_, answer)

    def answer(self, id_: str) -> Answer:
        """What the last attempt comes to."""
        attrs = self.flow.nodes[id_]
        retries = attrs.get("max_retries", self.flow.attrs.get("default_max_retries", 0))
        for attempt in range(1, retries + 2):
            answers = attrs["answers"]
            said = answers[(self.visits[id_] + attempt - 2) % len(answers)]
            if said["status"] != "fail":
                break
        if said["k"] is not None:
            self.context["k"] = said["k"]
        status = said["status"]
        if status == "fail" and attrs.get("allow_partial"):
            status = "partial_success"
        if status != "skipped" and attrs.get("auto_status"):
            status = "success"
        if status == "fail" and self.on_failure(id_) == "succeed":
            status = "success"
        kind = said["class"] if status == "fail" else ""
        return Answer(status, said["label"], said["suggested"], kind)

    def on_failure(self, id_: str) -> str:
        own = self.flow.nodes[id_].get("on_failure")
        return str(own or self.flow.attrs.get("on_failure") or "exit")

    def target(self, id_: str, answer: Answer) -> str | None:
        edges = [edge for edge in self.flow.edges if edge["from"] == id_]
        plain = [edge for edge in edges if "condition" not in edge]
        chosen = [e for e in edges if "condition" in e and CONDITIONS[e["condition"]](self.context)]
        if not chosen and answer.status == "fail":
            jump = self.retry_target(id_)
            if jump is not None:
                return jump
            if self.on_failure(id_) != "route":
                return None
        if not chosen and answer.label:
            chosen = [edge for edge in plain if self.label(edge) == answer.label.strip().lower()]
        for wanted in [] if chosen else answer.suggested:
            chosen = chosen or [edge for edge in plain if edge["to"] == wanted]
        chosen = chosen or plain
        if not chosen:
            return None
        edge = sorted(chosen, key=lambda edge: (-edge.get("weight", 0), edge["to"]))[0]
        if edge.get("loop_restart"):
            if self.context.get("outcome") == "fail" and self.before.kind == "deterministic":
                return None
            self.fresh = True
        return str(edge["to"])

    def label(self, edge: dict[str, Any]) -> str:
        return str(edge.get("label", "")).removeprefix("[G] ").removeprefix("S) ").strip().lower()

    def retry_target(self, id_: str) -> str | None:
        keys = ("retry_target", "fallback_retry_target")
        own = [self.flow.nodes[id_].get(key) for key in keys]
        targets = [*own, *(self.flow.attrs.get(key) for key in keys)]
        return next((str(one) for one in targets if one), None)


# Random workflows.

sometimes = st.sampled_from([True, False, False, False])
answers = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["success", "success", "fail", "partial_success", "skipped"]),
        "class": st.sampled_from(["deterministic", "timeout", "transient"]),
        "label": st.sampled_from(["", "", "Go", " stay "]),
        "suggested": st.lists(st.sampled_from([*IDS, "exit"]), max_size=2),
        "k": st.sampled_from([None, None, "", 0, 1, 2, "no", False, True]),
    }
)


@st.composite
def nodes(draw: st.DrawFn, ids: tuple[str, ...]) -> dict[str, Any]:
    if draw(sometimes):
        return {"shape": "diamond"}
    attrs: dict[str, Any] = {
        "type": "scripted",
        "answers": draw(st.lists(answers, min_size=1, max_size=3)),
    }
    for key, values in {
        "max_retries": st.integers(0, 2),
        "max_visits": st.integers(1, 3),
        "goal_gate": st.just(True),
        "allow_partial": st.just(True),
        "auto_status": st.just(True),
        "on_failure": st.sampled_from(["exit", "route", "succeed"]),
        "retry_target": st.sampled_from(ids),
        "fallback_retry_target": st.sampled_from(ids),
    }.items():
        if draw(sometimes):
            attrs[key] = draw(values)
    return attrs


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    ids = IDS[: draw(st.integers(1, len(IDS)))]
    attrs: dict[str, Any] = {"max_node_visits": draw(st.integers(1, 4))}
    for key, values in {
        "default_max_retries": st.integers(0, 1),
        "loop_restart_signature_limit": st.integers(1, 3),
        "on_failure": st.sampled_from(["route", "succeed"]),
        "retry_target": st.sampled_from(ids),
        "fallback_retry_target": st.sampled_from(ids),
    }.items():
        if draw(sometimes):
            attrs[key] = draw(values)
    edges: list[dict[str, Any]] = []
    for source in ("start", *ids):
        for _ in range(draw(st.integers(1, 4))):
            edge: dict[str, Any] = {"from": source, "to": draw(st.sampled_from([*ids, "exit"]))}
            if draw(st.booleans()):
                edge["condition"] = draw(st.sampled_from(sorted(CONDITIONS)))
            if draw(sometimes):
                edge["weight"] = draw(st.integers(-1, 2))
            if draw(st.booleans()):
                edge["label"] = draw(st.sampled_from(["Go", "[G] go", "S) Stay", "stay", "x"]))
            if source != "start" and draw(sometimes):
                edge["loop_restart"] = True
            edges.append(edge)
    return Flow(attrs, {id_: draw(nodes(ids)) for id_ in ids}, edges)


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The kind `scripted`, installed as a package adds it."""
    site = tmp_path_factory.mktemp("site")
    info = site / "scripted-1.0.dist-info"
    info.mkdir()
    (site / "scripted_kind.py").write_text(HANDLER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[git_wf.handlers]\nscripted = scripted_kind:answer\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        plugins._entry_points.cache_clear()
        yield
    plugins._entry_points.cache_clear()


def visited(flow: Flow, place: Path) -> tuple[str, list[str]]:
    """The end that the engine comes to, and what it visited."""
    events: list[dict[str, Any]] = []
    run = Run(RUN_ID, parse(flow.dot(), "flow.dot"))
    conclusion = walk(
        run, None, MemoryRecorder(place), events.append, FakeClock(),
        cancel=threading.Event(), draw=lambda: 0.5,
    )  # fmt: skip
    started = [e for e in events if e["event"] == "stage_started"]
    return conclusion.status, [f"{e['node']}@{e['visit']}" for e in started]


LOOP = Flow(
    {"max_node_visits": 3},
    {
        "a": {
            "type": "scripted", "goal_gate": True, "retry_target": "a",
            "answers": [
                {"status": "fail", "class": "timeout", "label": "", "suggested": [], "k": 1},
                {"status": "success", "class": "", "label": "", "suggested": [], "k": None},
            ],
        },
        "b": {"shape": "diamond"},
    },
    [
        {"from": "start", "to": "a"},
        {"from": "a", "to": "b", "condition": "outcome=fail"},
        {"from": "b", "to": "exit", "condition": "context.k=1"},
        {"from": "b", "to": "a"},
        {"from": "a", "to": "exit"},
    ],
)  # fmt: skip


# A restart on the way to the exit, from where a goal gate sends the run back.
RESTART = Flow(
    {"max_node_visits": 1, "fallback_retry_target": "d"},
    {
        "a": {
            "type": "scripted", "goal_gate": True,
            "answers": [{"status": "skipped", "class": "", "label": "", "suggested": [], "k": 1}],
        },
        "b": {"shape": "diamond"},
        "d": {"shape": "diamond"},
    },
    [
        {"from": "start", "to": "a"},
        {"from": "a", "to": "exit", "loop_restart": True},
        {"from": "d", "to": "b", "condition": "!k"},
        {"from": "b", "to": "exit"},
    ],
)  # fmt: skip


def test_an_example(scripted: None, tmp_path: Path) -> None:
    """The gate is missed after the first visit and passed after the second."""
    expected = ("success", ["a@1", "b@1", "a@2"])
    assert visited(LOOP, tmp_path) == expected
    reference = Reference(LOOP)
    assert (reference.walk(), reference.path) == expected


@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(LOOP)
@example(RESTART)
@given(flows())
def test_both_visit_the_same_in_the_same_order(scripted: None, tmp_path: Path, flow: Flow) -> None:
    reference = Reference(flow)
    status = reference.walk()
    event(f"{status} after {min(len(reference.path), 8)} visits")
    assert visited(flow, tmp_path) == (status, reference.path), flow.dot()
