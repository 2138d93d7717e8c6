"""What a killed run left behind: processes that still live, found by their environment.

A node's processes carry the marks of their run (`core.names.run_marks`). One that cleared its
environment is found where it is in the process group of one that did not.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from git_wf.core.clock import Clock

GRACE = 3.0  # seconds from TERM to KILL
_KILLED = 2.0  # seconds that a killed process has to vanish
_POLL = 0.02
_LOOKS = 20  # at an environment that is empty
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD
_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A process. `started` tells it from a later one with the same id."""

    pid: int
    parent: int
    group: int
    started: str
    command: str


def leftover_processes(marks: Mapping[str, str]) -> list[Process]:
    """The living processes of a run but ourselves and our ancestors, by id.

    `marks` are the environment entries that they have, all of them.
    """
    assert marks, "without marks every process would be meant"
    entries = [f"{key}={value}" for key, value in marks.items()]
    found = _listed(entries) if _PROC.is_dir() else _asked(entries)
    processes = {process.pid: process for process, _ in found}
    kin = _ancestors(os.getpid(), processes)
    spared_groups = {process.group for pid, process in processes.items() if pid in kin}
    groups = {process.group for process, is_marked in found if is_marked} - spared_groups
    return sorted(
        (
            process
            for process, is_marked in found
            if process.pid not in kin and (is_marked or process.group in groups)
        ),
        key=lambda process: process.pid,
    )


def end_processes(
    find: Callable[[], Sequence[Process]], clock: Clock, grace_seconds: float = GRACE
) -> tuple[list[Process], list[Process]]:
    """TERM, a pause while any of them lives, KILL, until `find` finds no more of them: a process
    can have started another one since. Returns what was found, and what lives on all the same.
    """
    found = _signal(find(), signal.SIGTERM)
    _wait(found, clock, grace_seconds)
    deadline = clock.monotonic() + _KILLED
    while left := _signal(find(), signal.SIGKILL):
        found += [process for process in left if process not in found]
        left = _wait(left, clock, _KILLED)
        if clock.monotonic() >= deadline:
            break
    return found, left


def _signal(processes: Iterable[Process], number: signal.Signals) -> list[Process]:
    """Sends a signal to those that live; returns them."""
    left = [process for process in processes if is_alive(process)]
    for process in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)
    return left


def _wait(processes: Sequence[Process], clock: Clock, seconds: float) -> list[Process]:
    deadline = clock.monotonic() + seconds
    left = [process for process in processes if is_alive(process)]
    while left and clock.monotonic() < deadline:
        clock.sleep(_POLL)
        left = [process for process in left if is_alive(process)]
    return left


def is_alive(process: Process) -> bool:
    """Whether it still runs, and its id was not given to another since. A zombie is dead."""
    if _PROC.is_dir():
        now = _read_stat(process.pid)
        return now is not None and now.started == process.started
    return any(now == process for now, _ in _asked((), process.pid))


def _ancestors(pid: int, processes: dict[int, Process]) -> set[int]:
    """A process and those that it comes from."""
    kin = {pid}
    while pid in processes and processes[pid].parent not in kin:
        pid = processes[pid].parent
        kin.add(pid)
    return kin


# Linux.


def _listed(entries: Sequence[str]) -> list[tuple[Process, bool]]:
    """Every living process, and whether its environment has all the entries."""
    wanted = set(map(os.fsencode, entries))
    found = []
    for name in os.listdir(_PROC):
        if not name.isdecimal():
            continue
        process = _read_stat(int(name))
        if process is not None:
            found.append((process, wanted <= _environment(process.pid)))
    return found


def _environment(pid: int) -> set[bytes]:
    """What a process was started with; nothing where it is another user's.

    While a process becomes another program (execve) there is nothing to read either, for longer
    where the machine is busy: then it is asked again.
    """
    place = _PROC / str(pid)
    try:
        for _ in range(_LOOKS):
            data = (place / "environ").read_bytes()
            if data or place.stat().st_uid != os.geteuid() or _is_of_the_kernel(place):
                break
            time.sleep(_POLL / 4)
    except OSError:
        return set()
    return set(data.split(b"\0"))


def _is_of_the_kernel(place: Path) -> bool:
    """Its threads are listed as processes, without an environment."""
    flags = (place / "stat").read_bytes().rpartition(b")")[2].split()[6]  # field 9
    return bool(int(flags) & _KERNEL_THREAD)


def _read_stat(pid: int) -> Process | None:
    """A process from its `stat` line; None where it is gone or a zombie (proc(5))."""
    try:
        data = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The command is in parentheses and may hold any byte; no parenthesis comes behind it.
    command = data[data.index(b"(") + 1 : data.rindex(b")")]
    state, parent, group, *rest = data[data.rindex(b")") + 2 :].split()
    if state in (b"Z", b"X", b"x"):
        return None
    started = rest[16].decode()  # field 22
    return Process(pid, int(parent), int(group), started, command.decode("utf-8", "replace"))


# Elsewhere.


def _asked(entries: Sequence[str], pid: int | None = None) -> list[tuple[Process, bool]]:
    """The same from `ps`, which shows the environment behind the command (macOS, BSD)."""
    chosen = ["-ax"] if pid is None else ["-p", str(pid)]
    told = subprocess.run(
        ["ps", "-Eww", *chosen, "-o", "pid=,ppid=,pgid=,stat=,lstart=,command="],
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    ).stdout
    return read_ps(told.decode("utf-8", "replace"), entries)


def read_ps(told: str, entries: Sequence[str]) -> list[tuple[Process, bool]]:
    """Lines of pid, parent, group, state, five words of start time, command and environment."""
    found = []
    for line in told.splitlines():
        words = line.split(None, 9)
        if len(words) < 10 or words[3].startswith("Z"):
            continue
        pid, parent, group = (int(word) for word in words[:3])
        is_marked = all(
            re.search(rf"(?:^|\s){re.escape(entry)}(?:\s|$)", words[9]) for entry in entries
        )
        command = words[9].split(" ", 1)[0].rsplit("/", 1)[-1]
        found.append((Process(pid, parent, group, " ".join(words[4:9]), command), is_marked))
    return found
