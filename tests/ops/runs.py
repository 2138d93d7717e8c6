"""Runs as plain git tells of them, and the program as a process that can be killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from git_wf.core.names import ulid
from git_wf.store.processes import Process, leftover_processes
from tests.conftest import git
from tests.tree import ROOT

TRAILERS = ["WF-Run", "WF-Completed", "WF-Checkpoint", "WF-Node", "WF-Visit", "WF-Status"]
PATIENCE = 60.0  # seconds for what has to happen soon


def own_id(number: int) -> str:
    """A run id that no other test has, on this machine: what is left of a run is found by it."""
    return ulid(1893553445000, os.getpid().to_bytes(8, "big") + number.to_bytes(2, "big"))


@dataclass(frozen=True)
class Told:
    """What a run has come to."""

    tree: str
    timeline: list[tuple[int, str, int, str]]  # ordinal, node, visit, status
    context: dict[str, Any]
    artifacts: str


def read_run(repo: Path, run: str) -> Told:
    """By plain git alone. Every commit of ours has to have its trailers."""
    branch, meta = f"refs/heads/wf/run/{run}", f"refs/wf/meta/{run}"
    base = read_json(repo, f"{meta}:run.json")["base_sha"]
    commits = git("log", "--first-parent", "--reverse", "--format=%H %s", f"{base}..{branch}",
                  cwd=repo)  # fmt: skip
    timeline = []
    for line in commits.splitlines():
        commit, _, subject = line.partition(" ")
        if subject.startswith("wf("):
            trailers = read_trailers(repo, commit)
            state = read_json(repo, f"{trailers['WF-Checkpoint']}:checkpoint.json")
            visit = int(trailers["WF-Visit"])
            entry = (state["ordinal"], trailers["WF-Node"], visit, trailers["WF-Status"])
            timeline.append(entry)
    return Told(
        git("rev-parse", f"{branch}^{{tree}}", cwd=repo),
        timeline,
        read_json(repo, f"{meta}:checkpoint.json")["context_values"],
        git("ls-tree", "-r", meta, "artifacts/", cwd=repo),
    )


def read_trailers(repo: Path, commit: str) -> dict[str, str]:
    """As `git interpret-trailers` reads them: the six, and no others."""
    message = git("log", "-1", "--format=%B", commit, cwd=repo)
    parsed = git("interpret-trailers", "--parse", cwd=repo, stdin=message.encode())
    pairs = dict(line.split(": ", 1) for line in parsed.splitlines())
    assert list(pairs) == TRAILERS, message
    return pairs


def read_json(repo: Path, name: str) -> Any:
    return json.loads(git("show", name, cwd=repo))


def metadata_subjects(repo: Path, run: str) -> list[str]:
    """Oldest first."""
    return git("log", "--reverse", "--format=%s", f"refs/wf/meta/{run}", cwd=repo).splitlines()


def refs(repo: Path, prefix: str = "refs/wf/rescue") -> dict[str, str]:
    """Ref → commit."""
    told = git("for-each-ref", "--format=%(refname) %(objectname)", prefix, cwd=repo)
    return dict(line.split(" ") for line in told.splitlines())  # type: ignore[misc]


def leftovers(run: str) -> list[Process]:
    """The living processes of a run, in whichever repository it is."""
    return leftover_processes({"GIT_WF_RUN_ID": run})


# The program as a process.


def start(
    *words: str | Path, cwd: Path, crash: tuple[str, int] | None = None
) -> subprocess.Popen[bytes]:
    """The command line in a process of its own; with `crash`, the step and count to die at."""
    program = ["git_wf"] if crash is None else ["tests.ops.crash", crash[0], str(crash[1])]
    return subprocess.Popen(
        [sys.executable, "-m", *program, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finished(process: subprocess.Popen[bytes], patience: float = PATIENCE) -> tuple[int, str, str]:
    """Status, stdout and stderr."""
    out, err = process.communicate(timeout=patience)
    return process.returncode, out.decode(), err.decode()


def first_ended(processes: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """The one of them that ends first, told by its closed stdout."""
    poll = select.poll()
    for process in processes:
        assert process.stdout is not None
        poll.register(process.stdout, select.POLLHUP)
    ready = poll.poll(PATIENCE * 1000)
    assert ready, "none of them ended"
    (ended,) = (one for one in processes if one.stdout and one.stdout.fileno() == ready[0][0])
    return ended


def killed_run(workflow: Path, repo: Path, step: str, count: int, *words: str) -> None:
    """A run that died behind `step` of its n-th checkpoint."""
    status, _, err = finished(start("run", workflow, *words, cwd=repo, crash=(step, count)))
    assert status == -signal.SIGKILL, err


@dataclass
class Gate:
    """A named pipe at which a node tells that it is there, and then stays until it is ended."""

    path: Path

    @property
    def script(self) -> str:
        """What such a node runs; without the pipe it goes on."""
        return f"if [ -p '{self.path}' ]; then echo here >'{self.path}'; exec sleep 300; fi"

    def close(self) -> None:
        """Later visits go on."""
        self.path.unlink()

    def wait(self, process: subprocess.Popen[bytes] | None = None) -> None:
        """Until a node is there; `process`, if given, must not end before."""
        opened = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            poll = select.poll()
            poll.register(opened, select.POLLIN)
            if process is not None and process.stdout is not None:
                poll.register(process.stdout, select.POLLHUP)
            ready = dict(poll.poll(PATIENCE * 1000))
        finally:
            os.close(opened)
        assert ready, "nobody came to the gate"
        assert opened in ready, finished(process) if process else None


@contextmanager
def held_at(gate: Gate, process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Inside, a node of the program is at the gate; afterwards nothing is left of the program."""
    try:
        gate.wait(process)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def kill_in_node(gate: Gate, *words: str | Path, cwd: Path) -> None:
    """The program is killed while its node is at the gate; the node's processes live on."""
    with held_at(gate, start(*words, cwd=cwd)) as process:
        process.kill()
    gate.close()
