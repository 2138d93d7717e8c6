"""The program in forks of a process that has it loaded, each of them ended at a chosen moment.

`python -m tests.ops.forks` is that process: it reads requests, one JSON object a line, and answers
each with one. A moment is a number of changes to files (`changes.c`, preloaded, counts those of
the whole tree of processes) or a named step. Without a C compiler only what the engine itself does
is counted, by an audit hook.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import pkgutil
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from git_wf.store import refs
from tests.ops.crash import die_behind
from tests.tree import ROOT

# Who ends before the change that is not made any more; `all` is what a power cut does.
MODES = ("engine", "group", "all")
_PAGE = struct.Struct("@5q")  # as in changes.c: count, limit, mode, engine, exempt
LOCK_AGE = 0.2  # seconds that a lock stands still before it is nobody's: cases are many
_PR_SET_CHILD_SUBREAPER = 36
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "subprocess.Popen"}


@dataclass(frozen=True)
class Ended:
    """How a fork ended. `changes` is how many there were until then."""

    status: int  # negative: the signal that ended it
    out: str
    err: str
    changes: int

    @property
    def is_killed(self) -> bool:
        return self.status == -signal.SIGKILL


class Forks:
    """`forks(["log"], cwd)`: runs the program in a fork."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self._page = scratch / "page"
        self._page.write_bytes(bytes(_PAGE.size))
        library = compiled(scratch)
        preload = {"LD_PRELOAD": str(library)} if library else {}
        self.has_library = library is not None
        self._kept = {"WF_TEST_CHANGES": str(self._page), **preload}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.ops.forks", str(scratch)],
            env={**os.environ, "PYTHONPATH": str(ROOT), **self._kept},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(
        self,
        words: list[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        limit: int = 0,
        mode: str = "engine",
        step: tuple[str, int] | None = None,
    ) -> Ended:
        """Before the change number `limit`, or behind the step, the fork is ended."""
        request = {
            "words": words, "cwd": str(cwd), "env": {**env, **self._kept},
            "limit": limit, "mode": mode, "step": step,
        }  # fmt: skip
        return Ended(**self._ask(request))

    def settle(self) -> None:
        """Ends what earlier forks left behind."""
        self._ask({})

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate()


def compiled(scratch: Path) -> Path | None:
    """The library; None where it cannot be made."""
    path = scratch / "changes.so"
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source = Path(__file__).with_name("changes.c")
    words = [compiler, "-O1", "-shared", "-fPIC", "-o", str(path), str(source), "-ldl"]
    done = subprocess.run(words, capture_output=True, check=False)
    return path if done.returncode == 0 else None


# The process that forks.


class Page:
    """What the processes of a fork share."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _PAGE.size)

    def begin(self, limit: int, mode: str) -> None:
        self._map[:] = _PAGE.pack(0, limit, MODES.index(mode), 0, os.getpid())

    def enter(self) -> None:
        """In the fork: it is the engine."""
        _, limit, mode, _, exempt = _PAGE.unpack(self._map)
        self._map[:] = _PAGE.pack(0, limit, mode, os.getpid(), exempt)

    def end(self) -> int:
        count = _PAGE.unpack(self._map)[0]
        self._map[:] = bytes(_PAGE.size)
        return int(count)

    def count_by_hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        is_open = event == "open" and arguments[2] & (os.O_CREAT | os.O_TRUNC)
        if not is_open and event not in _CHANGES:
            return
        count, limit, mode, engine, exempt = _PAGE.unpack(self._map)
        self._map[:] = _PAGE.pack(count + 1, limit, mode, engine, exempt)
        if count + 1 == limit:
            os.kill(engine if MODES[mode] == "engine" else -engine, signal.SIGKILL)


def load_all() -> None:
    """The whole program, and what it imports late."""
    import git_wf

    for module in pkgutil.walk_packages(git_wf.__path__, "git_wf."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("filelock", "git", "pathspec", "ulid", "msgspec", "lark", "asyncio"):
        importlib.import_module(name)


def serve(scratch: Path) -> None:
    load_all()
    refs._LOCK_AGE = refs._PACKED_LOCK_AGE = LOCK_AGE
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    page = Page(os.environ["WF_TEST_CHANGES"])
    for line in sys.stdin:
        request = json.loads(line)
        answer = answer_of(request, scratch, page) if request else {}
        if request.get("mode") != "engine":
            end_orphans()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    end_orphans()


def answer_of(request: Mapping[str, Any], scratch: Path, page: Page) -> dict[str, Any]:
    page.begin(request["limit"], request["mode"])
    child = os.fork()
    if child == 0:
        run_fork(request, scratch, page)
    _, waited = os.waitpid(child, 0)
    return {
        "status": os.waitstatus_to_exitcode(waited),
        "out": (scratch / "out").read_text("utf-8", "replace"),
        "err": (scratch / "err").read_text("utf-8", "replace"),
        "changes": page.end(),
    }


def run_fork(request: Mapping[str, Any], scratch: Path, page: Page) -> None:
    from git_wf.cli.main import exit_status
    from git_wf.ops.host import Host

    os.setsid()
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, scratch / "out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, scratch / "err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    if request["step"]:
        die_behind(*request["step"])
    page.enter()
    if "LD_PRELOAD" not in os.environ:
        sys.addaudithook(page.count_by_hook)
    status = 255
    try:
        status = exit_status(request["words"], Host.system())
        sys.stdout.flush()
    finally:
        os._exit(status)


def end_orphans() -> None:
    """Ends what is left of earlier forks: their processes are our children now."""
    while children := living_children():
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)


def living_children() -> list[int]:
    told = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(word) for word in told.split()]


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
