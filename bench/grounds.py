"""Repositories to measure in, and runs in them, made quickly and the same every time."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.clock import rfc3339
from git_wf.core.names import Oid, RunId, ulid
from git_wf.core.outcome import Outcome
from git_wf.ops.host import Host, SystemClock
from git_wf.ops.project import Project, open_project
from git_wf.store.branches import Grounds, RunRecorder
from git_wf.store.excludes import Excludes
from git_wf.store.recorder import start_run
from git_wf.store.worktree import attach, give_back, take_slot

ROOT = Path(__file__).resolve().parent.parent
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada Author",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Carl Committer",
    "GIT_COMMITTER_EMAIL": "carl@example.com",
}


def sealed_environment(home: Path) -> dict[str, str]:
    """No configuration of the machine, a fixed identity, all state below `home`."""
    kept = {key: os.environ[key] for key in ("PATH", "TMPDIR") if key in os.environ}
    return {
        **kept,
        **IDENTITY,
        "HOME": os.fspath(home),
        "XDG_STATE_HOME": os.fspath(home / "state"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.fspath(home / "gitconfig"),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": os.fspath(ROOT),
    }


@dataclass
class Place:
    """A repository of `files` files in one directory of scratch, and who measures in it."""

    top: Path
    env: dict[str, str]
    files: int
    edits: int = 0  # how many rounds of edits there were: no two write the same content

    def git(self, *args: str, stdin: bytes | None = None, cwd: Path | None = None) -> bytes:
        return subprocess.run(
            ["git", *args], cwd=cwd or self.top, env=self.env, input=stdin,
            stdout=subprocess.PIPE, check=True,
        ).stdout  # fmt: skip

    def file(self, number: int) -> str:
        """The path of a file: directories of a hundred, twenty of them at the top."""
        directory = number // (100 if self.files > 1000 else 10)
        return f"{directory % 20:02}/d{directory:04}/f{number:06}.txt"

    def edit(self, top: Path, count: int) -> None:
        """Changes `count` files of a worktree; one in ten of them is new."""
        self.edits += 1
        chosen = random.Random(self.edits)
        for number in chosen.sample(range(self.files), count - count // 10):
            with (top / self.file(number)).open("a") as file:
                file.write(f"edit {self.edits}\n")
        for number in range(count // 10):
            near = (top / self.file(chosen.randrange(self.files))).parent
            (near / f"new-{self.edits}-{number}").write_text(f"new {self.edits}\n")

    @property
    def objects(self) -> Path:
        return self.top / ".git" / "objects"


def make_place(scratch: Path, files: int) -> Place:
    """A repository of `files` files, its one commit checked out, its index settled."""
    directory = scratch / f"{files}-files"
    top = directory / "repo"
    place = Place(top, sealed_environment(directory / "home"), files)
    top.mkdir(parents=True)
    place.git("init", "-q", "-b", "main", ".")
    for key in ("gc.auto", "maintenance.auto"):  # nothing in the background of either side
        place.git("config", key, "0")
    place.git("fast-import", "--quiet", stdin=b"".join(_stream(place)))
    place.git("reset", "-q", "--hard")
    place.git("status")
    return place


def _stream(place: Place) -> Iterator[bytes]:
    who = "Ada Author <ada@example.com> 1700000000 +0000"
    yield f"commit refs/heads/main\ncommitter {who}\ndata 5\nfirst\n".encode()
    for number in range(place.files):
        data = f"line {number}\n" * 20
        path = place.file(number)
        yield f"M 100644 inline {path}\ndata {len(data)}\n{data}\n".encode()


@dataclass
class LiveRun:
    """A run that is recorded from this process, as `git wf run` does it."""

    place: Place
    project: Project
    recorder: RunRecorder
    ordinal: int = 0
    visits: dict[str, int] = field(default_factory=dict)
    completed: list[str] = field(default_factory=list)
    pending: Checkpoint | None = None

    @property
    def top(self) -> Path:
        return self.recorder.work_dir

    def visit(self, changed: int = 0) -> None:
        """What a node does: it changes files, and leaves a small trace."""
        if changed:
            self.place.edit(self.top, changed)
        self.ordinal += 1
        node = f"node_{self.ordinal % 7}"
        self.visits[node] = self.visits.get(node, 0) + 1
        self.completed.append(node)
        trace = self.recorder.trace_dir(node, self.visits[node])
        (trace / "stdout").write_text(f"did {self.ordinal}\n")
        (trace / "status.json").write_text('{"status": "success"}\n')
        self.pending = Checkpoint(
            self.recorder.state.run_id,
            ordinal=self.ordinal,
            timestamp=rfc3339(self.project.clock.now()),
            current_node=node,
            next_node_id=f"node_{(self.ordinal + 1) % 7}",
            completed_nodes=list(self.completed),
            node_visits=dict(self.visits),
            node_outcomes={node: Outcome("success", notes=f"did {self.ordinal}")},
            context_values={"last": node, "count": self.ordinal},
        )

    def checkpoint(self) -> None:
        """One cycle, disk and git, of the last visit."""
        assert self.pending is not None
        self.recorder.record(self.pending, {}, f"did {self.ordinal}")


def run_id(number: int) -> str:
    return ulid(1_893_553_445_000 + number, os.getpid().to_bytes(10, "big"))


@contextmanager
def live_run(
    place: Place, number: int = 0, *, exclude_globs: Sequence[str] = (), pool_size: int = 2
) -> Iterator[LiveRun]:
    """A run that begins at `main`, with a worktree of its own."""
    project = open_project(Host(place.top, place.env, SystemClock()))
    run = RunId(run_id(number))
    base = Oid(place.git("rev-parse", "main").decode().strip())
    slot = take_slot(project.repo, project.state_dir, base, run)
    files = {"run.json": b'{"format": 1}\n', "graph.dot": b"digraph G {}\n"}
    state = start_run(project.store, run, base, files, project.identity, project.clock.now())
    attach(slot, project.settings.names.run_branch(run))
    recorder = RunRecorder(
        project.store, state, slot, project.run_dir(run), Excludes(exclude_globs),
        project.identity, project.clock, Grounds(project.state_dir, pool_size, {}),
    )  # fmt: skip
    try:
        yield LiveRun(place, project, recorder)
    finally:
        recorder.close()
        give_back(slot, pool_size)
        project.close()


def disk_use(directory: Path) -> int:
    """Bytes of all blocks below a directory."""
    total = 0
    for here, _, files in os.walk(directory):
        for name in files:
            total += os.lstat(os.path.join(here, name)).st_blocks * 512
    return total


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
