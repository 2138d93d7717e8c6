"""Progress of a run as plain lines on stderr, and how its end is told."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from git_wf.cli.output import duration, json_text, short, write_error
from git_wf.cli.waiting import answer_option, waiting_lines
from git_wf.core.trailers import one_line
from git_wf.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_WAITING,
    shell_quoted,
)

if TYPE_CHECKING:
    from git_wf.ops.live import Ended

QUIET, NORMAL, VERBOSE = 0, 1, 2
SAME_INTERRUPT = 1.0  # seconds: a git subcommand's Ctrl-C can arrive twice


class Reporter:
    """Listens to a run. With `as_json` every event is a line on stdout."""

    def __init__(self, level: int, as_json: bool) -> None:
        self._level = level
        self._as_json = as_json
        self._stdout_open = True

    def __call__(self, event: dict[str, Any]) -> None:
        if self._as_json:
            self._write_json(event)
        if self._level == QUIET and event["event"] not in ("notice", "checkpoint_skipped"):
            return
        told = _LINES.get(event["event"])
        line = told(event, self._level) if told else None
        if line and event.get("parallel_branch"):
            line = f"  {event['parallel_branch']}: {line.strip()}"
        if line and event.get("parent_run"):
            line = f"    {line}"
        if line:
            write_error(one_line_of(line))

    def _write_json(self, event: dict[str, Any]) -> None:
        if not self._stdout_open:
            return
        try:
            sys.stdout.write(json_text(event) + "\n")
            sys.stdout.flush()
        except (OSError, ValueError):
            # Nobody reads any more, or a disk is full: no reason to end the run.
            self._stdout_open = False
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def one_line_of(line: str) -> str:
    """One line, its indentation kept."""
    return line[: len(line) - len(line.lstrip(" "))] + one_line(line)


def _started(event: dict[str, Any], level: int) -> str | None:
    words = "resumed" if event.get("resumed") else "started"
    branch = event.get("branch")
    place = f" on branch {branch}, from {short(event.get('base'))}" if branch else ""
    return f"run {event['run_id']} {words}{place}"


def _stage_started(event: dict[str, Any], level: int) -> str | None:
    return f"  {event['node']}@{event['visit']} …" if level >= VERBOSE else None


def _stage_ended(event: dict[str, Any], level: int) -> str | None:
    reason = f": {event['reason']}" if event.get("reason") else ""
    took = duration(event.get("duration_ms"))
    return f"  {event['node']}@{event['visit']} {event['status']} {took}{reason}"


def _retrying(event: dict[str, Any], level: int) -> str | None:
    delay = float(event.get("delay_s") or 0)
    return f"  {event['node']}: attempt {event['attempt']} in {delay:.1f}s: {event['reason']}"


def _edge(event: dict[str, Any], level: int) -> str | None:
    if level < VERBOSE:
        return None
    label = f" [{event['label']}]" if event.get("label") else ""
    return f"    {event['from']} -> {event['to']}{label}  ({event['why']})"


def _saved(event: dict[str, Any], level: int) -> str | None:
    if level < VERBOSE or not event.get("commit"):
        return None
    return f"    checkpoint @{event['ordinal']}  {short(event['commit'])}"


def _parallel_started(event: dict[str, Any], level: int) -> str | None:
    count = len(event["branches"])
    return f"  {event['node']}@{event['visit']}: {count} branches, joined at {event['join']}"


def _conflict(event: dict[str, Any], level: int) -> str | None:
    files = ", ".join(event["files"])
    return f"conflict ahead: {' and '.join(event['branches'])} in {files}"


def _skipped(event: dict[str, Any], level: int) -> str | None:
    return f"notice: no checkpoint could be recorded: {event['reason']}"


def _notice(event: dict[str, Any], level: int) -> str | None:
    return f"notice: {event['message']}"


def _output(event: dict[str, Any], level: int) -> str | None:
    return f"    {event['node']}: {event['text']}" if level >= VERBOSE else None


_LINES = {
    "run_started": _started,
    "stage_started": _stage_started,
    "stage_completed": _stage_ended,
    "stage_failed": _stage_ended,
    "stage_retrying": _retrying,
    "edge_selected": _edge,
    "checkpoint_saved": _saved,
    "checkpoint_skipped": _skipped,
    "notice": _notice,
    "agent_output": _output,
    "parallel_started": _parallel_started,
    "branch_conflict": _conflict,
}


class Interruption:
    """Ctrl-C and TERM ask the run to end; a second Ctrl-C, a second later, does not ask."""

    def __init__(self) -> None:
        self.cancel = threading.Event()
        self.number: int | None = None
        self._since = 0.0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.cancel.is_set():
            if now - self._since > SAME_INTERRUPT:
                raise KeyboardInterrupt
            return
        self._since, self.number = now, number
        self.cancel.set()


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Inside, signals set `cancel`; handlers are put back at the end."""
    interruption = Interruption()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interruption) for number in numbers}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell_end(ended: Ended, level: int, interruption: Interruption) -> int:
    """Says how a run ended and what to do next; gives the exit status."""
    status = ended.conclusion.status
    if level > QUIET:
        for line in _end_lines(ended):
            write_error(line)
    for text in ended.unshared:
        write_error(f"warning: {text}")
    if status == "interrupted":
        return 128 + (interruption.number or EXIT_INTERRUPTED - 128)
    if status == "waiting":
        return EXIT_WAITING
    return EXIT_FAILED if status == "fail" else EXIT_OK


def _end_lines(ended: Ended) -> list[str]:
    conclusion, run = ended.conclusion, ended.run_id
    took = duration(conclusion.duration_ms)
    reason = f": {one_line(conclusion.failure_reason)}" if conclusion.failure_reason else ""
    lines = [f"{conclusion.status}{reason} ({took})"]
    go_on = f"git wf resume {run}"
    if conclusion.waiting is not None:
        lines = waiting_lines(conclusion.waiting)
        go_on += f" {answer_option(conclusion.waiting)}"
    if conclusion.skipped:
        many = "1 checkpoint" if conclusion.skipped == 1 else f"{conclusion.skipped} checkpoints"
        lines.append(f"notice: {many} could not be recorded")
    if ended.branch is None:
        if ended.run_dir is not None and conclusion.status == "interrupted":
            path = shell_quoted(f"{ended.run_dir}/checkpoint.json")
            lines.append(f"go on:        git wf run --resume {path}")
        elif ended.run_dir is not None and conclusion.waiting is not None:
            answer = answer_option(conclusion.waiting)
            path = shell_quoted(str(ended.run_dir))
            lines.append(f"go on:        git wf run --resume {path} {answer}")
        return lines
    base = ended.base_branch or short(ended.base)
    lines.append(f"branch:       {ended.branch}")
    if ended.worktree is not None:
        lines.append(f"worktree:     {ended.worktree}")
    lines.append(f"look at it:   git wf log {run}")
    lines.append(f"              git diff {shlex.quote(f'{base}...{ended.branch}')}")
    if conclusion.status in ("interrupted", "waiting"):
        lines.append(f"go on:        {go_on}")
    elif conclusion.status == "fail":
        lines.append(f"try again:    git wf rewind {run} && git wf resume {run}")
    else:
        lines.append(f"take it over: git merge --squash {ended.branch}")
    return lines
