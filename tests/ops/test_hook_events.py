"""Every lifecycle event reaches the hooks of a run, whichever way they are called."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.program import Program, write_workflow

EVENTS = [
    "checkpoint_saved", "edge_selected", "parallel_complete", "parallel_start", "run_complete",
    "run_failed", "run_start", "stage_complete", "stage_failed", "stage_retrying", "stage_start",
]  # fmt: skip
# A stage that fails at first, a section, a stage whose failure is routed; then all is well.
GOOD = """
a [script="test -e x || { touch x; false; }", max_retries=1]
f [shape=component, max_parallel=1] j [shape=tripleoctagon] b [script="true"] c [script="true"]
d [script="exit 3"]
start -> a -> f f -> b -> j f -> c -> j j -> d d -> exit [condition="outcome=fail"]
"""
BAD = 'a [script="false"] start -> a -> exit'
GOOD_ORDER = [
    "run_start", "edge_selected",
    "stage_start", "stage_retrying", "stage_complete", "edge_selected", "checkpoint_saved",
    "stage_start", "parallel_start",
    "stage_start", "stage_complete", "edge_selected", "checkpoint_saved",
    "stage_start", "stage_complete", "edge_selected", "checkpoint_saved",
    "parallel_complete", "stage_complete", "edge_selected", "checkpoint_saved",
    "stage_start", "stage_complete", "edge_selected", "checkpoint_saved",
    "stage_start", "stage_failed", "edge_selected", "checkpoint_saved",
    "run_complete",
]  # fmt: skip
BAD_ORDER = [
    "run_start", "edge_selected", "stage_start", "stage_failed", "checkpoint_saved", "run_failed",
]  # fmt: skip


class _Notes(BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.events.append(json.loads(body)["event"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def server() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), _Notes)
    server.events = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("way", "blocking"),
    [("script", "true"), ("command", "true"), ("http", "true"), ("http", "false")],
)
def test_all_eleven_fire(
    wf: Program, repo: Path, tmp_path: Path, server: Any, way: str, blocking: str
) -> None:
    told = tmp_path / "told"
    note = f"echo $GIT_WF_HOOK >>'{told}'"
    called = {
        "script": json.dumps(note),
        "command": json.dumps(["sh", "-c", note]),
        "http": json.dumps(f"http://127.0.0.1:{server.server_port}/"),
    }[way]
    hooks = "".join(
        f'[[run.hooks]]\nevent = "{event}"\nblocking = {blocking}\n{way} = {called}\n'
        for event in EVENTS
    )
    config = tmp_path / "run.toml"
    config.write_text(f'[workflow]\ngraph = "w.dot"\n{hooks}')
    write_workflow(tmp_path / "w.dot", GOOD)
    wf.ok("run", config)
    write_workflow(tmp_path / "w.dot", BAD)
    assert wf("run", config).status == 1
    fired = server.events if way == "http" else told.read_text().split()
    assert sorted(set(fired)) == EVENTS
    expected = [*GOOD_ORDER, *BAD_ORDER]
    # Beside the run each walk, and so each branch, has its own order.
    assert fired == expected if blocking == "true" else sorted(fired) == sorted(expected)
