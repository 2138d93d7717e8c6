from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from git_wf.core.context import TRACE_LIMIT, Redaction
from git_wf.engine.process import (
    Capture,
    Ended,
    Interrupted,
    Program,
    Stalled,
    Watch,
    end_processes,
    is_alive,
    marked_processes,
    run_program,
)

needs_proc = pytest.mark.skipif(
    not Path("/proc").is_dir(), reason="the system does not show environments of processes"
)
MARKS = {"GIT_WF_RUN_ID": f"run-of-test-process-{os.getpid()}"}


def run_script(tmp_path, script, *, watch=None, redaction=None, show=None, **fields) -> Ended:
    program = Program(
        ["sh", "-c", script], cwd=tmp_path, env={**os.environ, **MARKS}, marks=MARKS, **fields
    )
    return run_program(
        program,
        (tmp_path / "out", tmp_path / "err"),
        watch or Watch(threading.Event()),
        redaction or Redaction(),
        show,
    )


def test_outputs_and_status(tmp_path):
    ended = run_script(tmp_path, "echo out; echo err >&2; exit 3")
    assert ended == Ended(3, None, False, b"out\n", b"err\n", False)
    assert (tmp_path / "out").read_bytes() == b"out\n"
    assert (tmp_path / "err").read_bytes() == b"err\n"


@pytest.mark.parametrize(
    ("argv", "env", "told"),
    [
        (["sh", "-c", "a\0b"], {}, "argument 2 has a NUL byte, which no program can be given"),
        (["a\0b"], {}, "argument 0 has a NUL byte, which no program can be given"),
        (["true"], {"K": "\0"}, "variable 'K' has a NUL byte, which no program can be given"),
        (["true", "\ud800"], {}, "argument 1 has half a character in it"),
    ],
)
def test_words_that_no_program_can_be_given(tmp_path, argv, env, told):
    program = Program(argv, cwd=tmp_path, env={**os.environ, **env}, marks=MARKS)
    traces = (tmp_path / "out", tmp_path / "err")
    with pytest.raises(OSError, match=f"^.Errno .*{told}$"):
        run_program(program, traces, Watch(threading.Event()), Redaction())


def test_a_signal_is_no_status(tmp_path):
    ended = run_script(tmp_path, "kill -KILL $$")
    assert (ended.status, ended.signal, ended.timed_out) == (None, 9, False)


def test_stdin_arrives_whole(tmp_path):
    data = b"0123456789" * 100_000
    ended = run_script(tmp_path, "wc -c", stdin=data)
    assert ended.stdout.strip() == b"1000000"


def test_a_program_need_not_read_its_stdin(tmp_path):
    assert run_script(tmp_path, "exec 0<&-; echo done", stdin=b"x" * 1_000_000).status == 0


def test_without_stdin_there_is_nothing_to_read(tmp_path):
    assert run_script(tmp_path, "cat").stdout == b""


def test_output_is_shown_as_it_comes_without_secrets(tmp_path):
    shown: list[bytes] = []
    run_script(
        tmp_path,
        "printf 'a to'; sleep 0.05; printf 'ken b'",
        redaction=Redaction(["token"]),
        show=shown.append,
    )
    assert b"".join(shown) == b"a *** b"
    assert (tmp_path / "out").read_bytes() == b"a *** b"


def test_a_child_in_the_background_does_not_keep_the_visit_open(tmp_path):
    begun = time.monotonic()
    ended = run_script(tmp_path, "sleep 60 & echo $!")
    assert time.monotonic() - begun < 5
    assert ended.status == 0
    child = int(ended.stdout)
    assert end_processes(MARKS, 1.0) in ([child], [])
    assert not is_alive(child)


@pytest.mark.parametrize("is_another", [False, True])
def test_such_a_child_is_remembered_where_no_environment_tells(tmp_path, monkeypatch, is_another):
    watch = Watch(threading.Event())
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("git_wf.engine.process._PROC", tmp_path / "no-proc")
        child = int(run_script(tmp_path, "sleep 60 & echo $!", watch=watch).stdout)
        ((group, members),) = watch.left.items()
        left = {group: frozenset({"another that had the number"} if is_another else members)}
        end_processes(MARKS, 1.0, left=left)
    assert is_alive(child) == is_another
    end_processes(MARKS, 1.0)
    assert not is_alive(child)


def test_a_timeout_ends_the_whole_group(tmp_path):
    begun = time.monotonic()
    ended = run_script(tmp_path, "sleep 60 & echo $!; sleep 60", timeout=0.2)
    assert ended.timed_out
    assert time.monotonic() - begun < 5
    assert not is_alive(int(ended.stdout))


def test_a_program_may_clean_up_when_its_time_is_over(tmp_path):
    script = "trap 'echo cleaned; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    ended = run_script(tmp_path, script, timeout=0.2)
    assert ended.timed_out
    assert ended.stdout == b"up\ncleaned\n"


def test_a_program_that_ignores_term_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("git_wf.engine.process.GRACE", 0.2)
    ended = run_script(tmp_path, "trap '' TERM; while :; do sleep 0.05; done", timeout=0.1)
    assert ended.timed_out
    assert ended.signal == 9


@needs_proc
def test_what_left_the_group_is_found_by_its_environment(tmp_path):
    ended = run_script(tmp_path, "setsid sleep 60 & echo $!; sleep 60", timeout=0.3)
    assert ended.timed_out
    assert list(marked_processes(MARKS)) == []


def test_a_cancelled_run_ends_its_program(tmp_path):
    cancel = threading.Event()
    timer = threading.Timer(0.1, cancel.set)
    timer.start()
    with pytest.raises(Interrupted):
        run_script(tmp_path, "sleep 60 & echo $!; sleep 60", watch=Watch(cancel))
    timer.join()
    assert not is_alive(int((tmp_path / "out").read_text()))


def test_silence_is_a_stall_and_output_is_none(tmp_path):
    begun = time.monotonic()
    with pytest.raises(Stalled):
        run_script(
            tmp_path,
            "for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done; sleep 60",
            watch=Watch(threading.Event(), stall_timeout=0.4),
        )
    assert 0.9 <= time.monotonic() - begun < 3
    assert (tmp_path / "out").read_text() == "1\n2\n3\n4\n5\n6\n"


def test_a_program_that_is_not_there(tmp_path):
    program = Program(["/nowhere/at-all"], cwd=tmp_path, env={}, marks=MARKS)
    with pytest.raises(FileNotFoundError):
        run_program(
            program, (tmp_path / "o", tmp_path / "e"), Watch(threading.Event()), Redaction()
        )


def test_a_long_output_is_cut_in_the_middle(tmp_path):
    ended = run_script(tmp_path, "echo first; yes 12345678 | head -c 1800000; echo last", keep=100)
    data = (tmp_path / "out").read_bytes()
    assert len(data) == TRACE_LIMIT
    assert data.startswith(b"first\n12345678\n")
    assert data.endswith(b"12345678\nlast\n")
    assert data.count(b"\n[git-wf: %d bytes left out]\n" % (1_800_011 - TRACE_LIMIT + 34)) == 1
    assert len(ended.stdout) == 100


@pytest.mark.parametrize("size", [TRACE_LIMIT - 1, TRACE_LIMIT, TRACE_LIMIT + 1])
def test_the_limit_of_a_trace_file(tmp_path, size):
    capture = Capture(tmp_path / "f", 10, Redaction())
    for at in range(0, size, 50_000):
        capture.feed(b"x" * min(50_000, size - at))
    capture.close()
    assert (tmp_path / "f").stat().st_size == min(size, TRACE_LIMIT)
    assert (b"left out" in (tmp_path / "f").read_bytes()) == (size > TRACE_LIMIT)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_does_not_stop_a_program(tmp_path):
    program = Program(["sh", "-c", "echo a; sleep 0.05; echo b"], tmp_path, os.environ, MARKS)
    traces = (Path("/dev/full"), tmp_path / "no" / "such" / "directory")
    ended = run_program(program, traces, Watch(threading.Event()), Redaction())
    assert (ended.status, ended.stdout) == (0, b"a\nb\n")
