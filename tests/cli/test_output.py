from __future__ import annotations

import os
import pty
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from git_wf.cli.output import age, duration, paged, painted, short, table, tell_error, use_colour
from git_wf.core.graph import Diagnostic
from git_wf.errors import Conflict, UserError, WorkflowInvalid
from tests.cli.conftest import LoopRun
from tests.tree import ROOT

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [
        (None, ""), (0, "0ms"), (999, "999ms"), (1000, "1.0s"), (4249, "4.2s"), (59_900, "59.9s"),
        (60_000, "1m00s"), (192_000, "3m12s"), (3_599_999, "59m59s"), (3_600_000, "1h00m"),
        (7_500_000, "2h05m"), (360_000_000, "100h00m"),
    ],
)  # fmt: skip
def test_durations(milliseconds: int | None, told: str) -> None:
    assert duration(milliseconds) == told


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("2030-01-02T03:04:05.000000Z", "just now"), ("2030-01-02T03:03:06Z", "just now"),
        ("2030-01-02T03:03:05Z", "1 minute ago"), ("2030-01-02T01:04:05Z", "2 hours ago"),
        ("2029-12-31T03:04:05+00:00", "2 days ago"), ("2030-01-02T01:04:05", "2 hours ago"),
        ("2031-01-01T00:00:00Z", "just now"), ("no time", ""), ("", ""), (None, ""),
    ],
)  # fmt: skip
def test_ages(moment: str | None, told: str) -> None:
    assert age(moment, NOW) == told


def test_tables() -> None:
    assert table([]) == []
    assert table([("a", "1", ""), ("bcd", "20", "x\x1b[1m\ny")], right=(1,)) == [
        "a     1", "bcd  20  x[1m y",
    ]  # fmt: skip


def test_short_ids() -> None:
    assert (short("0123456789abcdef"), short(None)) == ("012345678", "")


def test_paint() -> None:
    assert painted("ok", "success", True) == "\x1b[32mok\x1b[m"
    assert painted("ok", "success", False) == "ok"
    assert painted("ok", "odd", True) == "ok"


@pytest.mark.parametrize(
    ("config", "env", "terminal", "wanted"),
    [
        ({}, {"TERM": "xterm"}, True, True), ({}, {"TERM": "xterm"}, False, False),
        ({}, {"TERM": "dumb"}, True, False), ({}, {}, True, False),
        ({}, {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({}, {"TERM": "xterm", "GIT_PAGER_IN_USE": "true"}, False, True),
        ({"color.ui": ["always"]}, {}, False, True),
        ({"color.ui": ["never", "always"]}, {}, False, True),
        ({"color.ui": ["false"]}, {"TERM": "xterm"}, True, False),
        ({"color.wf": ["never"], "color.ui": ["always"]}, {}, True, False),
        ({"color.wf": ["auto"], "color.ui": ["always"]}, {}, False, False),
    ],
)  # fmt: skip
def test_colour(
    config: dict[str, list[str]], env: dict[str, str], terminal: bool, wanted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    assert use_colour(config, env) is wanted


def test_errors_are_told_in_one_manner(capfd: pytest.CaptureFixture[str]) -> None:
    tell_error(UserError("no run matches '\x1b[1mx'", hint=["git wf runs", "or wait"]))
    tell_error(Conflict("run x is going on"))
    found = [Diagnostic("syntax", "error", "no", 1, 2), Diagnostic("r", "warning", "odd", fix="y")]
    tell_error(WorkflowInvalid("'w.dot' is not valid", found, file="w.dot", text="ab\n"))
    out, err = capfd.readouterr()
    assert (out, err) == (
        "",
        "error: no run matches '[1mx'\nhint: git wf runs\nhint: or wait\n"
        "fatal: run x is going on\n"
        "w.dot:1:2: error: no (syntax)\n  1 | ab\n    |  ^\n"
        "w.dot: warning: odd (r)\n  fix: y\n"
        "fatal: 'w.dot' is not valid\n",
    )


def on_terminal(*words: str, env: dict[str, str]) -> tuple[int, str]:
    """Status and all that the program writes, with a terminal for stdout."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(env, PYTHONPATH=str(ROOT))
        os.execv(sys.executable, [sys.executable, "-m", "git_wf", *words])
    told = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        told += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colour(loop: LoopRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(loop.repo)
    status, told = on_terminal("log", env={"TERM": "xterm", "GIT_PAGER": "cat"})
    assert status == 0
    assert f"run {loop.run}  loop  \x1b[32msuccess\x1b[m\n" in told
    assert "\x1b[31m  fail\x1b[m  " in told
    status, plain = on_terminal("log", env={"TERM": "xterm", "GIT_PAGER": "cat", "NO_COLOR": "1"})
    assert (status, "\x1b" in plain) == (0, False)


def test_a_terminal_gets_the_pager(
    loop: LoopRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that git would use; it may quit before it has read all."""
    monkeypatch.chdir(loop.repo)
    pager = tmp_path / "pager"
    pager.write_text('#!/bin/sh\necho "paged $GIT_PAGER_IN_USE $LESS"\nexec sed "s/^/| /"\n')
    pager.chmod(0o755)
    env = {"TERM": "xterm", "GIT_PAGER": str(pager), "NO_COLOR": "1"}
    status, told = on_terminal("log", env=env)
    lines = told.splitlines()
    assert (status, lines[0]) == (0, "paged true FRX")
    assert lines[1] == f"| run {loop.run}  loop  success" and len(lines) == 9
    status, told = on_terminal("log", env={**env, "GIT_PAGER": "true"})
    assert (status, told) in ((0, ""), (141, ""))
    status, told = on_terminal("log", env={**env, "TERM": "dumb"})
    assert (status, told.splitlines()[0]) == (0, f"run {loop.run}  loop  success")


def test_without_a_terminal_there_is_no_pager(capfd: pytest.CaptureFixture[str]) -> None:
    with paged("false", {}):
        os.write(1, b"told\n")
    assert capfd.readouterr().out == "told\n"
