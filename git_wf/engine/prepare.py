"""The steps of `[[run.prepare.steps]]`: what a new worktree needs before the first node runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from git_wf.core.values import read_duration
from git_wf.engine.process import Program, run_program
from git_wf.engine.programs import end_failure, start_failure
from git_wf.engine.state import Means, Run, branch_marks

DEFAULT_TIMEOUT = 600.0  # seconds


def prepare(run: Run, means: Means, scratch: Path) -> str:
    """Runs the steps, one after the other; why the run cannot begin, or nothing.

    Raises `Interrupted` or `Stalled`.
    """
    steps = run.config.get("run", {}).get("prepare", {}).get("steps", [])
    for number, step in enumerate(steps, start=1):
        message = f"step {number} of {len(steps)}: {step['script'].strip().splitlines()[0]}"
        means.announce("notice", code="prepare", message=message)
        reason = _run_step(run, means, step, scratch)
        if reason:
            return f"prepare step {number}: {reason}"
    return ""


def _run_step(run: Run, means: Means, step: Mapping[str, Any], scratch: Path) -> str:
    timeout = DEFAULT_TIMEOUT
    if step.get("timeout"):
        duration = read_duration(str(step["timeout"]))
        if duration is None:
            return f"'{step['timeout']}' is not a duration"
        timeout = duration.seconds
    marks = {**branch_marks(run, means.branch), "GIT_WF_NODE": "", "GIT_WF_VISIT": ""}
    argv = ["sh", "-c", step["script"]]
    program = Program(
        argv, means.recorder.work_dir, {**run.env, **marks}, marks, timeout=timeout or None
    )
    traces = (scratch / "prepare.out", scratch / "prepare.err")
    try:
        ended = run_program(program, traces, means.watch, means.redaction)
    except OSError as err:
        return start_failure(argv, err).message
    failure = end_failure(ended, timeout)
    return failure.message if failure else ""
