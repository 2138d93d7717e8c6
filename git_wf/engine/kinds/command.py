"""A command node: a script in the worktree, whose exit status decides.

`language="shell"` (the default) hands the script to `sh -c`, as Attractor and Fabro do; a script
whose first line begins with `#!` is run by the program named there (`#!/usr/bin/env bash`), and
`language="python"` by `python3`. Nothing is put before it: a script that wants `set -e` says so.
stdin is empty.

A program that wrote `$GIT_WF_STATUS` has said more about its outcome. The exit status still
decides: where it is not 0, the visit failed, whatever the file says.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import replace

from git_wf.core import templates
from git_wf.core.context import INLINE_LIMIT
from git_wf.core.outcome import CONFIGURATION, FAIL, Failure, Outcome, failed
from git_wf.engine.answers import Answer, AnswerError, status_answer
from git_wf.engine.process import Ended
from git_wf.engine.programs import (
    elapsed_ms,
    end_failure,
    fresh_file,
    output_updates,
    run_node_program,
    start_failure,
    status_path,
    write_trace,
)
from git_wf.engine.state import Visit

DEFAULT_TIMEOUT = 600.0  # seconds
ARGUMENT_LIMIT = 100_000  # bytes; Linux takes 128 KiB in one argument
_SHEBANG = re.compile(r"#![ \t]*(\S+)(?:[ \t]+([^\n]*\S))?[ \t\r]*(?:\n|$)")


def run_command(visit: Visit) -> Outcome:
    language = visit.node.text("language") or "shell"
    if language not in ("shell", "python"):
        return failed(f"unknown language '{language}'", CONFIGURATION)
    script = templates.render(visit.node.text("script"), visit.template_values(), prompt=False)
    if not script.strip():
        return failed("the node has no script", CONFIGURATION)
    if "\0" in script:
        return failed("the script has a NUL byte, which no program can be given", CONFIGURATION)
    timeout = visit.node.seconds("timeout", DEFAULT_TIMEOUT)
    invocation = {
        "command": script,
        "language": language,
        "timeout_ms": round(timeout * 1000) if timeout else None,
    }
    write_trace(visit, "script_invocation.json", invocation)
    argv = _argv(language, script, visit)
    since = visit.clock.monotonic()
    try:
        ended = run_node_program(visit, argv, timeout=timeout, keep=INLINE_LIMIT)
    except OSError as err:
        return Outcome(FAIL, failure=start_failure(argv, err))
    timing = {
        "duration_ms": elapsed_ms(visit, since),
        "exit_code": ended.status,
        "timed_out": ended.timed_out,
    }
    write_trace(visit, "script_timing.json", timing)
    return _outcome(visit, ended, end_failure(ended, timeout))


def _argv(language: str, script: str, visit: Visit) -> list[str]:
    data = script.encode("utf-8", "surrogateescape")
    program = ["sh"]
    if language == "python":
        program = [shutil.which("python3", path=visit.run.env.get("PATH")) or sys.executable]
    named = _SHEBANG.match(script) if language == "shell" else None
    if named is not None:  # as the kernel reads it: a path, and at most one argument
        program = [part.strip() for part in named.groups() if part]
    elif len(data) <= ARGUMENT_LIMIT:
        return [*program, "-c", script]
    path = fresh_file(visit, "script")
    path.write_bytes(data)
    return [*program, str(path)]


def _outcome(visit: Visit, ended: Ended, failure: Failure | None) -> Outcome:
    outputs = {"command.output": ended.stdout, "command.stderr": ended.stderr}
    updates = output_updates(outputs, visit.values)
    updates["tool.output"] = updates["command.output"]
    updates["command.exit_code"] = ended.status
    try:
        answer = status_answer(status_path(visit), visit.redaction) or Answer()
    except AnswerError as err:
        if failure is None:
            failure = Failure(str(err))
        answer = Answer()
    outcome = answer.outcome(updates)
    if failure is None:
        return outcome
    if outcome.failure is not None and answer.reason:
        failure = replace(outcome.failure, kind=answer.failure_class or failure.kind)
    return replace(outcome, status=FAIL, failure=failure, extra={})
