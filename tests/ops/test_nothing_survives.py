"""However a run ends, no process of it lives on, in whatever place it was started."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from git_wf.store.processes import Process, leftover_processes
from tests.ops.runs import Gate, finished, held_at, own_id, start
from tests.program import Program, write_workflow

RUN = own_id(2)
LEAVE = "sleep 300 & setsid sleep 300 & "
NODE = 'a [script="{}"{}] start -> a -> exit'
BRANCHES = """
f [shape=component{}] j [shape=tripleoctagon] a [script="{}"] b [script="{}"]
start -> f f -> a -> j f -> b -> j j -> exit
"""
CHILD = 'm [shape=house, stack.child_workflow="child.dot"] start -> m -> exit'
HOOK = '[[run.hooks]]\nevent = "{}"\nblocking = {}\nscript = "{}"\n'
PREPARE = '[[run.prepare.steps]]\nscript = "{}"\n'
PLAIN = NODE.format("true", "")


def living() -> list[Process]:
    """What lives of any run in the repository, those of child workflows too."""
    (state,) = Path(os.environ["XDG_STATE_HOME"]).glob("git-wf/*")
    return leftover_processes({"GIT_WF_REPOSITORY": state.name})


def write(directory: Path, body: str, config: str, child: str = "") -> Path:
    """A run config of a workflow."""
    write_workflow(directory / "w.dot", body)
    write_workflow(directory / "child.dot", child or PLAIN)
    path = directory / "run.toml"
    path.write_text(f'[workflow]\ngraph = "w.dot"\n{config}')
    return path


@pytest.mark.parametrize(
    ("status", "body", "config"),
    [
        pytest.param(0, NODE.format(LEAVE, ""), "", id="success"),
        pytest.param(1, NODE.format(LEAVE + "false", ""), "", id="failure"),
        pytest.param(1, NODE.format(LEAVE + "sleep 300", ", timeout=200ms"), "", id="timeout"),
        pytest.param(
            1, f"graph [stall_timeout=300ms] {NODE.format(LEAVE + 'sleep 300', '')}", "", id="stall"
        ),
        pytest.param(
            3, f'a [script="{LEAVE}"] h [shape=hexagon] start -> a -> h -> exit', "", id="waiting"
        ),
        pytest.param(0, BRANCHES.format("", LEAVE, LEAVE), "", id="branches"),
        pytest.param(
            0, BRANCHES.format(', join_policy="first_success"', "true", LEAVE + "sleep 300"), "",
            id="stopped branch",
        ),
        pytest.param(0, CHILD, "", id="child workflow"),
        pytest.param(0, PLAIN, PREPARE.format(LEAVE), id="prepare step"),
        pytest.param(1, PLAIN, PREPARE.format(LEAVE + "false"), id="failed prepare step"),
        pytest.param(0, PLAIN, HOOK.format("stage_start", "true", LEAVE), id="blocking hook"),
        pytest.param(0, PLAIN, HOOK.format("run_complete", "false", LEAVE), id="last hook"),
        pytest.param(
            1, PLAIN, HOOK.format("run_start", "true", LEAVE + 'sleep 300"\ntimeout = "200ms'),
            id="hook out of time",
        ),
    ],
)  # fmt: skip
def test_a_run_that_ends(
    wf: Program, repo: Path, tmp_path: Path, status: int, body: str, config: str
):
    workflow = write(tmp_path, body, config, child=NODE.format(LEAVE, ""))
    result = wf("run", workflow)
    assert result.status == status, result.err
    assert living() == []


def test_a_run_in_place(wf: Program, tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    wf.ok("run", "--in-place", write(tmp_path, NODE.format(LEAVE, ""), ""), cwd=folder)
    assert living() == []


@pytest.mark.parametrize(
    ("body", "config"),
    [
        pytest.param(NODE.format("{}", ""), "", id="node"),
        pytest.param(BRANCHES.format("", "{}", LEAVE + "sleep 300"), "", id="branch"),
        pytest.param(CHILD, "", id="child workflow"),
        pytest.param(PLAIN, PREPARE.format("{}"), id="prepare step"),
        pytest.param(PLAIN, HOOK.format("stage_complete", "true", "{}"), id="blocking hook"),
        pytest.param(PLAIN, HOOK.format("stage_start", "false", "{}"), id="hook beside"),
    ],
)
def test_ctrl_c(repo: Path, tmp_path: Path, body: str, config: str):
    gate = Gate(tmp_path / "gate")
    os.mkfifo(gate.path)
    script = LEAVE + gate.script
    workflow = write(
        tmp_path, body.replace("{}", script), config.replace("{}", script),
        child=NODE.format(script, ""),
    )  # fmt: skip
    with held_at(gate, start("run", workflow, "--id", RUN, cwd=repo)) as process:
        process.send_signal(signal.SIGINT)
        status, _, err = finished(process)
    assert status == 130, err
    assert living() == []
