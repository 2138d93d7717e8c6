"""What reaches the terminal: data on stdout, all else on stderr, nothing that is not plain text."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from git_wf.core.clock import duration_text
from git_wf.core.trailers import CONTROL, one_line, plain_text
from git_wf.errors import UserError, WfError, WorkflowInvalid

_CONTROL = re.compile(f"[{CONTROL}]")
RESET = "\x1b[m"
COLOURS = {
    "success": "\x1b[32m",
    "partial_success": "\x1b[33m",
    "fail": "\x1b[31m",
    "skipped": "\x1b[2m",
    "running": "\x1b[36m",
    "waiting": "\x1b[35m",
    "interrupted": "\x1b[33m",
    "commit": "\x1b[33m",
    "faint": "\x1b[2m",
}


def write(text: str) -> None:
    """A line of data."""
    sys.stdout.write(text + "\n")


def write_json(data: Any) -> None:
    write(json_text(data, indent=2))


def json_text(data: Any, indent: int | None = None) -> str:
    """JSON in which a terminal finds no control code either: they are escaped."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write_error(text: str) -> None:
    """A line for people. A stderr that is closed, or full, ends nothing."""
    with contextlib.suppress(OSError):
        sys.stderr.write(plain_text(text) + "\n")
        sys.stderr.flush()


def tell_error(err: WfError) -> None:
    if isinstance(err, WorkflowInvalid):
        from git_wf.cli.diagnostics import text_lines

        for one in err.diagnostics:
            for line in text_lines(one, err.file, err.text):
                write_error(line)
    word = "fatal" if not isinstance(err, UserError) else "error"
    for line in (f"{word}: {err.message}", *(f"hint: {hint}" for hint in err.hints)):
        write_error(line.replace("\n", " "))  # a name with a line end makes no line of its own


def tell_kept(kept: Sequence[str], rescued: Sequence[str], until: datetime | None) -> None:
    """Where an operation keeps what it left behind, and until when."""
    end = f" ({until_text(until)})" if until else ""
    for ref in kept:
        write(f"kept: {ref}{end if '/old/' in ref else ''}")
    for ref in rescued:
        write_error(f"notice: unrecorded changes in the worktree are kept at {ref}")


def until_text(until: datetime) -> str:
    """`until 2030-04-02`."""
    return f"until {until.astimezone(timezone.utc):%Y-%m-%d}"


def size_text(size: int) -> str:
    """`0`, `512 B`, `4.0 kB`, `1.2 MB`; of 1024 each, as `du -h` counts."""
    if size < 1024:
        return f"{size} B" if size else "0"
    amount = float(size)
    for unit in ("kB", "MB", "GB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TB"


def use_colour(config: Mapping[str, Sequence[str]], env: Mapping[str, str]) -> bool:
    """By `color.wf`, `color.ui`, `NO_COLOR`, and whether stdout is a terminal."""
    for key in ("color.wf", "color.ui"):
        if values := config.get(key):
            word = values[-1].lower()
            if word == "always":
                return True
            if word in ("never", "false", "no", "off"):
                return False
            break
    if env.get("NO_COLOR") or env.get("TERM", "dumb") == "dumb":
        return False
    return sys.stdout.isatty() or env.get("GIT_PAGER_IN_USE") == "true"


def painted(text: str, colour: str, enabled: bool) -> str:
    code = COLOURS.get(colour)
    return f"{code}{text}{RESET}" if enabled and code else text


@contextlib.contextmanager
def paged(pager: str, env: Mapping[str, str]) -> Iterator[None]:
    """stdout goes through the pager that git would use, on a terminal only."""
    in_use = env.get("GIT_PAGER_IN_USE") == "true"
    if not sys.stdout.isatty() or in_use or pager in ("", "cat"):
        yield
        return
    sys.stdout.flush()
    child = subprocess.Popen(
        pager,
        shell=True,
        stdin=subprocess.PIPE,
        env={"LESS": "FRX", "LV": "-c", **env, "GIT_PAGER_IN_USE": "true"},
    )
    assert child.stdin is not None
    terminal = os.dup(1)
    os.dup2(child.stdin.fileno(), 1)
    child.stdin.close()
    try:
        yield
        sys.stdout.flush()
    finally:
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
        os.dup2(terminal, 1)
        os.close(terminal)
        child.wait()


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows as lines of aligned columns; those whose number is in `right` are right-aligned."""
    if not rows:
        return []
    columns = []
    for number, column in enumerate(zip(*rows, strict=True)):
        clean = [one_line(cell) for cell in column]
        width = max(map(len, clean))
        pad = str.rjust if number in right else str.ljust
        columns.append([pad(cell, width) for cell in clean])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def duration(milliseconds: int | None) -> str:
    """Empty where it is not known."""
    return "" if milliseconds is None else duration_text(milliseconds)


def usage_text(usage: Mapping[str, Any]) -> str:
    """`1,234 tokens in, 56 out, $0.0123`: what backends reported; empty where nothing was."""
    told = []
    if "input_tokens" in usage or "output_tokens" in usage:
        given, got = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
        told.append(f"{given:,} tokens in, {got:,} out")
    if "cost_usd" in usage:
        told.append(f"${usage['cost_usd']:.4f}")
    return ", ".join(told)


def age(timestamp: str | None, now: datetime) -> str:
    """`just now`, `5 minutes ago`, `3 days ago`, of an RFC 3339 time."""
    try:
        moment = datetime.fromisoformat((timestamp or "").replace("Z", "+00:00"))
    except ValueError:
        return ""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    seconds = int((now - moment).total_seconds())
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {word}{'' if count == 1 else 's'} ago"
    return "just now"


def short(oid: str | None) -> str:
    return (oid or "")[:9]
