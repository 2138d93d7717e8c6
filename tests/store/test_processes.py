from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from git_wf.core.names import run_marks
from git_wf.engine.process import marked_processes
from git_wf.ops.host import SystemClock
from git_wf.store.processes import (
    Process,
    end_processes,
    is_alive,
    leftover_processes,
    read_ps,
)

RUN = f"01JKXYZ{os.getpid():019d}"  # tests run beside each other
REPOSITORY = "demo-0123456789ab"


class Started:
    """Processes that say `ready` on stdout, and are gone at the end of a test."""

    def __init__(self) -> None:
        self.children: list[subprocess.Popen[bytes]] = []

    def start(self, script: str, run: str = RUN, where: str = REPOSITORY, **options: Any) -> int:
        env = {**os.environ, **(run_marks(run, where) if run else {})}
        options = {"start_new_session": True, **options}
        child = subprocess.Popen(["sh", "-c", script], env=env, stdout=subprocess.PIPE, **options)
        self.children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        return child.pid


@pytest.fixture
def started() -> Iterator[Started]:
    all_of_them = Started()
    yield all_of_them
    for child in all_of_them.children:
        if os.getpgid(child.pid) == child.pid and child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def leftovers() -> list[Process]:
    return leftover_processes(run_marks(RUN, REPOSITORY))


def pids() -> list[int]:
    return [process.pid for process in leftovers()]


def test_processes_are_found_by_the_run_in_their_environment(started: Started):
    pid = started.start("echo ready; kill -STOP $$")
    started.start("echo ready; exec sleep 60", run=RUN[:-1])
    started.start("echo ready; exec sleep 60", run="")
    found = leftovers()
    assert [(process.pid, process.command) for process in found] == [(pid, "sh")]
    assert all(is_alive(process) for process in found)


def test_the_same_run_of_another_clone_is_left_alone(started: Started):
    started.start("echo ready; exec sleep 60", where="demo-ba9876543210")
    assert pids() == []


def test_one_that_cleared_its_environment_is_found_by_its_group(started: Started):
    pid = started.start("env -i sh -c 'echo ready; kill -STOP $$' & wait")
    found = leftovers()
    assert [(process.parent, process.group) for process in found] == [
        (os.getpid(), pid),
        (pid, pid),
    ]


def test_a_group_with_us_in_it_is_left_alone(started: Started):
    pid = started.start("echo ready; exec sleep 60", start_new_session=False)
    assert pids() == [pid]


def test_neither_ourselves_nor_our_ancestors_are_found():
    marks = run_marks(RUN, REPOSITORY)
    code = (
        f"from git_wf.store.processes import leftover_processes\nprint(leftover_processes({marks}))"
    )
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1"; true', sys.executable, code],
        env={**os.environ, **marks, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_ending_waits_for_those_that_listen(started: Started):
    started.start("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
    found, left = end_processes(leftovers, SystemClock())
    assert found and not left
    assert pids() == []


def test_one_that_does_not_listen_is_killed(started: Started):
    started.start("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    found, left = end_processes(leftovers, SystemClock(), grace_seconds=0.1)
    assert found and not left
    assert pids() == []


def test_another_process_with_the_same_id_is_not_touched(started: Started):
    pid = started.start("echo ready; exec sleep 60")
    before = Process(pid, os.getpid(), pid, "1", "sleep")
    assert not is_alive(before)
    assert end_processes(lambda: [before], SystemClock()) == ([], [])
    assert pids() == [pid]


def test_what_ps_tells_elsewhere():
    told = (
        "  501     1   501 Ss   Tue Dec  1 10:00:00 2026  /bin/sh -c x A=1 RUN=ID IN=my repo B=2\n"
        "  502   501   501 S    Tue Dec  1 10:00:01 2026     sleep 60 RUN=ID2 IN=my repo\n"
        "  504   501   501 S    Tue Dec  1 10:00:01 2026     sleep 60 RUN=ID IN=my repository\n"
        "  503   501   501 Z    Tue Dec  1 10:00:01 2026     (sleep)\n"
        "garbage\n"
    )
    assert read_ps(told, ("RUN=ID", "IN=my repo")) == [
        (Process(501, 1, 501, "Tue Dec 1 10:00:00 2026", "sh"), True),
        (Process(502, 501, 501, "Tue Dec 1 10:00:01 2026", "sleep"), False),
        (Process(504, 501, 501, "Tue Dec 1 10:00:01 2026", "sleep"), False),
    ]


@pytest.mark.parametrize("find", ["store", "engine"])
def test_one_that_becomes_another_program_all_the_time(started: Started, find: str) -> None:
    """In the middle of an execve no environment is to be read."""
    again = 'exec sh -c "$0" "$0"'
    pid = started.start(f'echo ready; set -- \'{again}\'; exec sh -c "$1" "$1"')
    marks = run_marks(RUN, REPOSITORY)
    for _ in range(150):
        found = pids() if find == "store" else list(marked_processes(marks))
        assert found == [pid]


def test_one_without_an_environment_is_nobodys(started: Started) -> None:
    child = subprocess.Popen(["/bin/sh", "-c", "echo ready; exec sleep 60"], env={},
                             stdout=subprocess.PIPE, start_new_session=True)  # fmt: skip
    started.children.append(child)
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    assert pids() == []
    assert list(marked_processes(run_marks(RUN, REPOSITORY))) == []
