"""What command and agent nodes have in common: the environment of their program, and its end."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import dump_json
from git_wf.core.context import PERCENT_ENCODED, decode_output, last_bytes
from git_wf.core.outcome import (
    CONFIGURATION,
    DETERMINISTIC,
    SIGNAL,
    TIMEOUT,
    TRANSIENT,
    Failure,
)
from git_wf.engine.process import Ended, Program, run_program
from git_wf.engine.state import Visit

TEMPORARY_FAILURE = 75  # EX_TEMPFAIL of sysexits.h: a program that knows that later may help
# A shell's word for "my child was ended by a signal"; 128 and 129 are statuses of git itself.
_SHELL_SIGNALS = {128 + int(number) for number in (
    signal.SIGINT, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV,
    signal.SIGTERM,
)}  # fmt: skip
_REASON_LIMIT = 200  # characters of output in a failure's reason


def status_path(visit: Visit) -> Path:
    return visit.scratch / "status.json"


def fresh_file(visit: Visit, name: str) -> Path:
    """A path in the visit's scratch directory with nothing at it, whatever a node left there."""
    if visit.scratch.is_symlink() or not visit.scratch.is_dir():
        visit.scratch.unlink(missing_ok=True)
        visit.scratch.mkdir(0o700, parents=True)
    path = visit.scratch / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return path


def run_node_program(
    visit: Visit,
    argv: list[str],
    *,
    stdin: bytes = b"",
    timeout: float | None,
    traces: tuple[str, str] = ("stdout.log", "stderr.log"),
    keep: int,
    show: Callable[[bytes], None] | None = None,
) -> Ended:
    """Runs a node's program in the worktree, with what `GIT_WF_…` promises.

    Raises what `run_program` raises.
    """
    status = fresh_file(visit, status_path(visit).name)
    context = fresh_file(visit, "context.json")
    values = json.dumps(visit.values, ensure_ascii=False, sort_keys=True)
    context.write_bytes(values.encode("utf-8", "replace"))
    ended = run_program(
        Program(
            argv,
            cwd=visit.work_dir,
            env={
                **visit.run.env,
                **visit.marks,
                "GIT_WF_CONTEXT": str(context),
                "GIT_WF_STATUS": str(status),
            },
            marks=visit.marks,
            stdin=stdin,
            timeout=timeout or None,
            keep=keep,
        ),
        (visit.trace / traces[0], visit.trace / traces[1]),
        visit.watch,
        visit.redaction,
        show,
    )
    if ended.survivors_unknown:
        visit.announce(
            "notice",
            code="survivors_unknown",
            message=f"node '{visit.node.id}' was ended with its process group; "
            "whether it left processes outside of it cannot be seen on this system",
        )
    return ended


def start_failure(argv: list[str], err: OSError) -> Failure:
    """Why a program did not start: a transient lack of means, else a fault in the set-up."""
    kind = TRANSIENT if isinstance(err, BlockingIOError) else CONFIGURATION
    # Python names the worktree where that is what there is not.
    place = f" '{err.filename}':" if err.filename not in (None, argv[0]) else ""
    return Failure(f"run '{argv[0]}':{place} {err.strerror or err}", kind)


def end_failure(ended: Ended, timeout: float | None) -> Failure | None:
    """Why the way in which a program ended is a failure; None where it is none."""
    if ended.timed_out:
        return Failure(f"timed out after {_seconds_text(timeout or 0)}", TIMEOUT)
    if ended.signal is not None:
        return Failure(f"ended by {_signal_name(ended.signal)}", SIGNAL)
    if ended.status == 0:
        return None
    kind = DETERMINISTIC
    if ended.status == TEMPORARY_FAILURE:
        kind = TRANSIENT
    elif ended.status in _SHELL_SIGNALS:
        kind = SIGNAL
    last = _last_line(ended.stderr) or _last_line(ended.stdout)
    return Failure(f"exit status {ended.status}" + (f": {last}" if last else ""), kind)


def output_updates(outputs: Mapping[str, bytes], values: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs as context values, bounded; an output that is not UTF-8 has a flag beside it."""
    updates: dict[str, Any] = {}
    for key, data in outputs.items():
        text, encoded = decode_output(last_bytes(data))
        updates[key] = text
        flag = f"{key}.{PERCENT_ENCODED}"
        if encoded or flag in values:
            updates[flag] = encoded
    return updates


def write_trace(visit: Visit, name: str, data: Any) -> None:
    """A JSON file in the visit's trace, without the run's secrets."""
    write_trace_bytes(visit, name, dump_json(visit.redaction.value(data)))


def write_trace_bytes(visit: Visit, name: str, data: bytes) -> None:
    """A file in the visit's trace; one that cannot be written is no reason to fail."""
    try:
        (visit.trace / name).write_bytes(data)
    except OSError as err:
        told = f"write '{name}' of node '{visit.node.id}': {err.strerror or err}"
        visit.announce("notice", code="trace_incomplete", message=told)


def elapsed_ms(visit: Visit, since: float) -> int:
    return max(0, round((visit.clock.monotonic() - since) * 1000))


def _last_line(data: bytes) -> str:
    text, _ = decode_output(last_bytes(data, 4096))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_REASON_LIMIT] if lines else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _seconds_text(seconds: float) -> str:
    return f"{seconds:g} s"
