"""An engine without git: a recorder in memory, a clock that only moves when it is told to."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.dot import parse
from git_wf.engine.loop import Conclusion, Run, walk
from git_wf.engine.recorder import Recorded
from tests.stub_agent import write_stub_agent

# Of this process: what is left of a run is found, and ended, by its id.
RUN_ID = f"01JKXYZ{os.getpid():019d}"
ENDS = "start [shape=Mdiamond] exit [shape=Msquare]"


class FakeClock:
    """Stands still; sleeping moves it on and is noted."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


@dataclass
class MemoryRecorder:
    """Keeps every checkpoint; `failing` are the ordinals of calls that raise."""

    root: Path
    checkpoints: list[Checkpoint] = field(default_factory=list)
    artifacts: list[dict[str, bytes]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    waits: list[dict[str, Any]] = field(default_factory=list)
    notices: tuple[tuple[str, str], ...] = ()
    failing: Mapping[int, Exception] = field(default_factory=dict)
    calls: int = 0

    def __post_init__(self) -> None:
        self.work_dir.mkdir(parents=True, exist_ok=True)

    @property
    def work_dir(self) -> Path:
        return self.root / "work"

    def trace_dir(self, node: str, visit: int) -> Path:
        path = self.root / "traces" / f"{node}@{visit}"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def wait(self, waiting: Mapping[str, Any]) -> Recorded:
        self.waits.append(dict(waiting))
        return Recorded(None, f"w{len(self.waits)}")

    def record(
        self, checkpoint: Checkpoint, artifacts: Mapping[str, bytes], notes: str
    ) -> Recorded:
        self.calls += 1
        if self.calls in self.failing:
            raise self.failing[self.calls]
        self.checkpoints.append(deepcopy(checkpoint))
        self.artifacts.append(dict(artifacts))
        self.notes.append(notes)
        return Recorded(f"c{self.calls}", f"m{self.calls}", self.notices)


@dataclass
class Walked:
    conclusion: Conclusion
    events: list[dict[str, Any]]
    recorder: MemoryRecorder
    clock: FakeClock

    @property
    def visited(self) -> list[str]:
        """`a@1 a@2 b@1`, as they were started."""
        return [f"{e['node']}@{e['visit']}" for e in self.events if e["event"] == "stage_started"]

    @property
    def last(self) -> Checkpoint:
        return self.recorder.checkpoints[-1]

    @property
    def context(self) -> dict[str, Any]:
        return self.last.context_values

    def of(self, event: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == event]

    def trace(self, name: str) -> str:
        return (self.recorder.root / "traces" / name).read_text()


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """The stub agent: an executable."""
    return write_stub_agent(tmp_path / "stub-agent")


@pytest.fixture
def recorder(tmp_path: Path) -> MemoryRecorder:
    return MemoryRecorder(tmp_path / "run")


@pytest.fixture
def make_run(stub: Path) -> Callable[..., Run]:
    def make(body: str, **fields: Any) -> Run:
        text = body if body.startswith("digraph") else f"digraph G {{ {ENDS} {body} }}"
        graph = parse(text, "test.dot")
        agents = {"default": "stub", "stub": {"command": [os.fspath(stub)]}}
        fields = {
            "goal": graph.text("goal"),
            "config": {"agents": agents},
            "env": dict(os.environ),
            "repository": "tests",
            **fields,
        }
        return Run(RUN_ID, graph, **fields)

    return make


@pytest.fixture
def play(make_run: Callable[..., Run], recorder: MemoryRecorder) -> Callable[..., Walked]:
    """Walks a graph (a body between start and exit, or a whole file) to its end."""

    def walk_it(
        body: str,
        *,
        checkpoint: Checkpoint | None = None,
        clock: Any = None,
        listen: Callable[[dict[str, Any]], None] = lambda event: None,
        given: dict[str, Any] | None = None,
        **options: Any,
    ) -> Walked:
        events: list[dict[str, Any]] = []
        clock = clock or FakeClock()
        options = {"draw": lambda: 0.5, "cancel": threading.Event(), **options}

        def hear(event: dict[str, Any]) -> None:
            events.append(event)
            listen(event)

        run = make_run(body, **(given or {}))
        conclusion = walk(run, checkpoint, recorder, hear, clock, **options)
        return Walked(conclusion, events, recorder, clock)

    return walk_it
