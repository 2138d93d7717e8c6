"""Running a program so that its output flows through flat memory and nothing of it survives.

A program gets a session, and so a process group, of its own; the terminal's Ctrl-C does not reach
it, we end it. When a time runs out or the run is cancelled, the whole group gets TERM, then KILL.
What left the group (`setsid`) is found by the run and node in its environment, where the system
shows that (`/proc`). Elsewhere the groups that outlive their program are remembered.

A child that a script leaves in the background does not keep the visit open: the visit ends when
the program itself ends. The child may work on for later nodes (a server for tests), but its
output goes nowhere then (it should write to a file); it is ended when the run ends.
"""

from __future__ import annotations

import errno
import io
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from git_wf.core.context import INLINE_LIMIT, TRACE_LIMIT, Redaction, cut_line

GRACE = 2.0  # seconds between TERM and KILL
END_GRACE = 0.5  # the same for what is left when the run ends
TICK = 0.1  # seconds between two looks at whether the run is cancelled
_LOOKS = 20  # at an environment that is empty
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, among the flags in /proc/PID/stat
_QUICK_TICK = 0.01  # where the end of a process cannot be waited for together with its output
_DRAIN = 0.25  # seconds for output that is still in a pipe when the program has ended
_CHUNK = 65536
_PROC = Path("/proc")


# Process groups that live on after their program, each with its members (as `_members` has them).
Groups = dict[int, frozenset[str]]


class Cancel(Protocol):
    """A `threading.Event`, or whatever else can be asked."""

    def is_set(self) -> bool: ...


class Interrupted(Exception):
    """The run was cancelled during a visit. Raised here, caught in `loop.py`, seen by nobody."""


class Stalled(Exception):
    """Nothing happened for as long as `stall_timeout` allows. As `Interrupted`."""


@dataclass
class Pulse:
    """When there was a sign of life last; the branches of a run share one."""

    last: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class EitherCancel:
    """Set when one of the two is: a branch ends with its run, or by itself."""

    one: Cancel
    other: Cancel

    def is_set(self) -> bool:
        return self.one.is_set() or self.other.is_set()


@dataclass
class Watch:
    """Whether a run may go on: nobody cancelled it, and something happens in it.

    Real time, not the run's clock: it measures real programs.
    """

    cancel: Cancel
    stall_timeout: float | None = None  # seconds
    pulse: Pulse = field(default_factory=Pulse)
    left: Groups = field(default_factory=dict)  # where no environment tells of them

    def touch(self) -> None:
        self.pulse.last = time.monotonic()

    def for_branch(self, stop: Cancel) -> Watch:
        """The watch of a branch, which `stop` ends too. Its signs of life are the run's."""
        return Watch(EitherCancel(self.cancel, stop), self.stall_timeout, self.pulse)

    def check_cancelled(self) -> None:
        """Raises `Interrupted`."""
        if self.cancel.is_set():
            raise Interrupted

    def check(self) -> None:
        """Raises `Interrupted` or `Stalled`."""
        self.check_cancelled()
        if self.stall_timeout and time.monotonic() - self.pulse.last >= self.stall_timeout:
            raise Stalled

    def patience(self, longest: float) -> float:
        """Seconds until the next check is due, at most `longest`."""
        if not self.stall_timeout:
            return longest
        rest = self.pulse.last + self.stall_timeout - time.monotonic()
        return max(0.0, min(longest, rest))


@dataclass(frozen=True)
class Program:
    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    marks: Mapping[str, str]  # environment entries that its processes are found by
    stdin: bytes = b""
    timeout: float | None = None  # seconds
    keep: int = INLINE_LIMIT  # bytes at the end of each output that are kept in memory


@dataclass(frozen=True)
class Ended:
    """How a program ended. `status` is None when a signal ended it, `signal` when none did."""

    status: int | None
    signal: int | None
    timed_out: bool
    stdout: bytes  # the last `Program.keep` bytes
    stderr: bytes
    survivors_unknown: bool  # it was killed where what left its group cannot be found


def run_program(
    program: Program,
    traces: tuple[Path, Path],
    watch: Watch,
    redaction: Redaction,
    show: Callable[[bytes], None] | None = None,
) -> Ended:
    """Runs a program to its end; stdout and stderr go to the two files of `traces` as they come.

    `show` gets redacted pieces of stdout. Raises `OSError` where the program cannot be started,
    and `Interrupted` or `Stalled` once everything of it has ended.
    """
    _check_words(program)
    outputs = [Capture(path, program.keep, redaction) for path in traces]
    outputs[0].show = show
    try:
        with subprocess.Popen(
            program.argv,
            cwd=program.cwd,
            env=dict(program.env),
            stdin=subprocess.PIPE if program.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        ) as process:
            pump = _Pump(process, program, outputs, watch)
            try:
                pump.run()
            except BaseException:
                pump.end_now()
                raise
            finally:
                pump.close()
    finally:
        for output in outputs:
            output.close()
    code = process.returncode
    if not _PROC.is_dir() and _group_is_alive(process.pid):
        watch.left[process.pid] = _members(process.pid)
    return Ended(
        status=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        timed_out=pump.timed_out,
        stdout=outputs[0].tail(),
        stderr=outputs[1].tail(),
        survivors_unknown=pump.timed_out and not _PROC.is_dir(),
    )


def _check_words(program: Program) -> None:
    """Raises `OSError` for a word that the system can hand to no program."""
    words = {f"argument {number}": word for number, word in enumerate(program.argv)}
    words.update((f"variable '{name}'", f"{name}{value}") for name, value in program.env.items())
    for place, word in words.items():
        try:
            has_nul = b"\0" in os.fsencode(word)
        except UnicodeEncodeError as err:
            raise OSError(errno.EINVAL, f"{place} has half a character in it") from err
        if has_nul:
            raise OSError(errno.EINVAL, f"{place} has a NUL byte, which no program can be given")


class Capture:
    """One output: a file that grows as it comes, and its last bytes in memory.

    The file never grows beyond TRACE_LIMIT; a longer output is cut in the middle at its end. A
    file that cannot be written (a full disk) is given up: the program is not to suffer for it.
    """

    def __init__(self, path: Path, keep: int, redaction: Redaction) -> None:
        self._file: io.FileIO | None = None
        with suppress(OSError):
            self._file = path.open("wb", buffering=0)
        self._keep = max(keep, TRACE_LIMIT // 2)
        self._wanted = keep
        self._stream = redaction.stream()
        self._last = bytearray()
        self._total = 0
        self.show: Callable[[bytes], None] | None = None

    def feed(self, chunk: bytes) -> None:
        self._add(self._stream.feed(chunk))

    def close(self) -> None:
        self._add(self._stream.finish())
        if self._file is not None:
            with suppress(OSError), self._file as file:
                self._cut_middle(file)

    def _cut_middle(self, file: io.FileIO) -> None:
        over = self._total - TRACE_LIMIT
        if over > 0:
            line = cut_line(over)
            rest = TRACE_LIMIT - TRACE_LIMIT // 2 - len(line)
            file.truncate(TRACE_LIMIT // 2)
            file.seek(0, os.SEEK_END)
            file.write(line + self._last[-rest:])

    def tail(self) -> bytes:
        return bytes(self._last[-self._wanted :])

    def _add(self, data: bytes) -> None:
        if not data:
            return
        room = TRACE_LIMIT - self._total
        if room > 0 and self._file is not None:
            self._write(self._file, data[:room])
        self._total += len(data)
        self._last += data
        if len(self._last) > 2 * self._keep:
            del self._last[: -self._keep]
        if self.show is not None:
            self.show(data)

    def _write(self, file: io.FileIO, data: bytes) -> None:
        try:
            file.write(data)
        except OSError:
            self._file = None
            with suppress(OSError):
                file.close()


class _Pump:
    """Moves the bytes of one program until it ends, or has to."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        program: Program,
        outputs: Sequence[Capture],
        watch: Watch,
    ) -> None:
        self._process = process
        self._program = program
        self._watch = watch
        self._selector = selectors.DefaultSelector()
        self._deadline = time.monotonic() + program.timeout if program.timeout else float("inf")
        self._unsent = memoryview(program.stdin)
        self._pidfd = _end_of(process.pid)
        self.timed_out = False
        for pipe, output in zip((process.stdout, process.stderr), outputs, strict=True):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, output)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE)
        if self._pidfd is not None:
            self._selector.register(self._pidfd, selectors.EVENT_READ)

    def run(self) -> None:
        while self._process.poll() is None:
            self._watch.check()
            if time.monotonic() >= self._deadline:
                self.timed_out = True
                self.end_now()
                return
            self._move(self._patience())
        self._drain()

    def end_now(self) -> None:
        """Ends the group and what left it: TERM, and KILL when the grace is over."""
        end_processes(self._program.marks, GRACE, self._process, lambda: self._move(0.02))
        self._drain()

    def close(self) -> None:
        self._selector.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _patience(self) -> float:
        tick = TICK if self._pidfd is not None else _QUICK_TICK
        return max(0.0, min(self._watch.patience(tick), self._deadline - time.monotonic()))

    def _drain(self) -> None:
        until = time.monotonic() + _DRAIN
        while self._move(0) and time.monotonic() < until:
            pass

    def _move(self, seconds: float) -> bool:
        """Waits so long for something to read or write; whether output came."""
        came = False
        for key, _ in self._selector.select(seconds):
            if key.data is not None:
                came = self._read(key.fd, key.data) or came
            elif key.fd == self._pidfd:
                self._selector.unregister(key.fd)
            else:
                self._write(key.fd)
        return came

    def _read(self, fd: int, output: Capture) -> bool:
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._selector.unregister(fd)
            return False
        self._watch.touch()
        output.feed(chunk)
        return True

    def _write(self, fd: int) -> None:
        try:
            self._unsent = self._unsent[os.write(fd, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent = memoryview(b"")  # it does not want to read more: its own affair
        if not self._unsent:
            self._selector.unregister(fd)
            assert self._process.stdin is not None
            self._process.stdin.close()


def _end_of(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has that."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


# Ending processes.


def end_processes(
    marks: Mapping[str, str],
    grace: float,
    leader: subprocess.Popen[bytes] | None = None,
    meanwhile: Callable[[], object] = lambda: time.sleep(0.02),
    left: Mapping[int, frozenset[str]] | None = None,
) -> list[int]:
    """Ends the group of `leader`, if given, those of `left`, and what carries `marks`.

    Returns the ids of those that were found by their marks.
    """
    found = set(marked_processes(marks))
    # The number of a group that is gone may be another's by now.
    groups = [group for group, known in (left or {}).items() if known & _members(group)]
    groups += [leader.pid] if leader is not None else []
    _signal_all(groups, found, signal.SIGTERM)
    until = time.monotonic() + grace
    while _any_alive(leader, groups, found):
        if time.monotonic() >= until:
            found |= set(marked_processes(marks))
            _signal_all(groups, found, signal.SIGKILL)
            break
        meanwhile()
    late = set(marked_processes(marks)) - found  # that one of them started since
    _signal_all([], late, signal.SIGKILL)
    if leader is not None:
        leader.wait()
    return sorted(found | late)


def marked_processes(marks: Mapping[str, str]) -> Iterator[int]:
    """The living processes of ours with all of `marks` in their environment; none without /proc."""
    if not _PROC.is_dir():
        return
    wanted = {f"{key}={value}".encode("utf-8", "surrogateescape") for key, value in marks.items()}
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            if wanted <= set(_environ(entry).split(b"\0")) and is_alive(int(entry.name)):
                yield int(entry.name)


def _environ(place: Path) -> bytes:
    """The environment of a process, by its directory in /proc.

    While it becomes another program (execve) there is nothing to read: then it is asked again.
    The kernel's own threads never have any.
    """
    for _ in range(_LOOKS):
        data = (place / "environ").read_bytes()
        if data or place.stat().st_uid != os.geteuid():
            break
        fields = _stat(int(place.name))
        if len(fields) < 7 or int(fields[6]) & _KERNEL_THREAD:
            break
        time.sleep(0.005)
    return data


def _signal_all(groups: Sequence[int], found: set[int], number: int) -> None:
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _any_alive(
    leader: subprocess.Popen[bytes] | None, groups: Sequence[int], found: set[int]
) -> bool:
    if leader is not None and leader.poll() is None:
        return True
    return any(map(_group_is_alive, groups)) or any(map(is_alive, found))


def _group_is_alive(group: int) -> bool:
    """Whether a group has members that still run. Dead ones that nobody has reaped are none."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # what macOS says of a group of zombies
        return False
    if not _PROC.is_dir():
        return True
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            fields = _stat(int(entry.name))
            if len(fields) > 2 and fields[2] == str(group) and fields[0] not in ("Z", "X"):
                return True
    return False


def _members(group: int) -> frozenset[str]:
    """The living processes of a group, each with when it was started, as `ps` tells them."""
    told = subprocess.run(
        ["ps", "-ax", "-o", "pgid=,stat=,pid=,lstart="],
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    ).stdout
    lines = (line.split(None, 2) for line in told.decode("utf-8", "replace").splitlines())
    return frozenset(
        words[2] for words in lines if words[0] == str(group) and words[1][:1] not in ("Z", "X")
    )


def is_alive(pid: int) -> bool:
    """Whether a process still runs, where /proc tells; one that nobody has reaped does not."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in ("Z", "X")


def _stat(pid: int) -> list[str]:
    """State, parent, group and so on, as /proc tells them; nothing where the process is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
