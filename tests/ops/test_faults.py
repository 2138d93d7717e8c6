"""What goes wrong around a run: full disks, stores that cannot be written, gc, clocks, signals."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from git_wf.cli.report import Interruption
from git_wf.ops.host import new_ulid
from git_wf.ops.journal import Event, Journal
from tests.conftest import git, make_repo
from tests.ops.runs import (
    Gate,
    finished,
    held_at,
    metadata_subjects,
    own_id,
    read_run,
    refs,
    start,
)
from tests.program import FakeClock, Program, write_workflow
from tests.tree import ROOT

Fsck = Callable[[Path], None]
RUN, OTHER = own_id(61), own_id(62)
FULL = Path("/dev/full")
SKIPPED = "notice: no checkpoint could be recorded: "


# A cycle that fails, and the next one, which heals the gap.


def gap(tmp_path: Path, break_it: str, mend_it: str) -> Path:
    """Something breaks in b, and is mended in c."""
    return write_workflow(
        tmp_path / "w.dot",
        f"""
        a [script="echo a >>log"]
        b [script="echo b >>log; echo b >b; {break_it}"]
        c [script="{mend_it}; echo c >>log"]
        d [script="echo d >>log"]
        start -> a -> b -> c -> d -> exit
        """,
    )


def judge_gap(repo: Path, err: str, fsck: Fsck) -> None:
    """The run went on, one checkpoint is missing, and what it would have had is in the next."""
    assert err.count(SKIPPED) == 1, err
    assert "notice: 1 checkpoint could not be recorded\n" in err
    told = read_run(repo, RUN)
    assert told.timeline == [(1, "a", 1, "success"), (2, "c", 1, "success"), (3, "d", 1, "success")]
    assert git("show", f"wf/run/{RUN}:log", cwd=repo) == "a\nb\nc\nd"
    assert git("show", f"wf/run/{RUN}~1:b", cwd=repo) == "b"
    assert metadata_subjects(repo, RUN) == [
        "init run", "checkpoint a@1", "checkpoint c@1", "checkpoint d@1", "finalize run",
    ]  # fmt: skip
    assert list((repo / ".git/objects/pack").glob("*.keep")) == []
    fsck(repo)


def test_a_store_that_takes_nothing(wf: Program, repo: Path, tmp_path: Path, fsck: Fsck) -> None:
    """A file where new objects are gathered: it needs neither root nor a mount."""
    place = repo / ".git/objects/wf-tmp"
    workflow = gap(tmp_path, f"rm -rf {place}; touch {place}", f"rm {place}")
    result = wf.ok("run", workflow, "--id", RUN)
    judge_gap(repo, result.err, fsck)


@pytest.mark.parametrize("where", ["refs/wf/meta", "refs/heads/wf"])
def test_refs_that_cannot_move(
    wf: Program, repo: Path, tmp_path: Path, fsck: Fsck, where: str
) -> None:
    place, away = repo / ".git" / where, tmp_path / "away"
    workflow = gap(tmp_path, f"mv {place} {away}; touch {place}", f"rm {place}; mv {away} {place}")
    result = wf.ok("run", workflow, "--id", RUN)
    judge_gap(repo, result.err, fsck)


def private_mounts() -> list[str] | None:
    """What runs a program so that its mounts are its own; None where that is not allowed."""
    for words in (["unshare", "-m"], ["unshare", "-rm"]):
        try_it = [*words, "mount", "-t", "tmpfs", "none", "/mnt"]
        if shutil.which("unshare") and subprocess.run(try_it, capture_output=True).returncode == 0:
            return words
    return None


def run_mounted(tmp_path: Path, size: str, body: Callable[[Path], Path]) -> tuple[str, Path]:
    """A run whose repository, worktree and state are on a disk of their own, which goes with it.

    Gives stderr, and a copy of the repository.
    """
    words = private_mounts()
    if words is None:
        pytest.skip("this system lets nobody mount")
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    source = make_repo(tmp_path / "source")
    program = [sys.executable, "-m", "git_wf", "run", str(body(disk)), "--id", RUN]
    script = f"""
        set -e
        mount -t tmpfs -o size={size} none {disk}
        cp -a {source} {disk}/repo
        cd {disk}/repo
        {shlex.join(program)}
        cp -a {disk}/repo {copy}
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(disk / "state")}
    done = subprocess.run([*words, "sh", "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr, copy


def test_a_full_disk(tmp_path: Path, fsck: Fsck) -> None:
    """All of it is on the disk: the worktree, the run directory and the journal too."""

    def body(disk: Path) -> Path:
        fill = f"dd if=/dev/zero of={disk}/filler bs=4k 2>{os.devnull} || true"
        return gap(tmp_path, fill, f"rm {disk}/filler")

    err, repo = run_mounted(tmp_path, "4m", body)
    assert "No space left on device" in err
    judge_gap(repo, err, fsck)


def test_a_disk_that_is_full_for_long(tmp_path: Path, fsck: Fsck) -> None:
    """Neither does the journal have room, which tells what has begun."""

    def body(disk: Path) -> Path:
        fill = f"dd if=/dev/zero of={disk}/filler bs=4k 2>{os.devnull}"
        names = [f"n{number}" for number in range(12)]
        chain = "".join(f' {name} [script="echo {name} >>log"]' for name in names)
        return write_workflow(
            tmp_path / "w.dot",
            f"""
            a [script="echo a >>log; {fill} || true"] {chain}
            z [script="rm {disk}/filler; echo z >>log"]
            start -> a -> {" -> ".join(names)} -> z -> exit
            """,
        )

    err, repo = run_mounted(tmp_path, "4m", body)
    assert err.count(SKIPPED) == 13
    assert read_run(repo, RUN).timeline == [(1, "z", 1, "success")]
    fsck(repo)


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
def test_a_journal_without_room(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").symlink_to(FULL)
    told: list[Event] = []
    journal = Journal(tmp_path, told.append)
    for event in ("run_started", "stage_started", "stage_completed", "run_finished"):
        journal({"event": event, "time": "now", "run_id": RUN})
    journal.close()
    assert [one["event"] for one in told] == [
        "run_started", "notice", "stage_started", "stage_completed", "run_finished",
    ]  # fmt: skip
    assert told[1]["message"] == "write 'events.jsonl': No space left on device"


def test_a_read_only_store(tmp_path: Path, fsck: Fsck) -> None:
    def body(disk: Path) -> Path:
        store = disk / "repo/.git/objects"
        close = f"mount --bind {store} {store}; mount -o remount,bind,ro {store}"
        return gap(tmp_path, close, f"mount -o remount,bind,rw {store}")

    err, repo = run_mounted(tmp_path, "32m", body)
    assert "Read-only file system" in err
    judge_gap(repo, err, fsck)


def test_a_store_that_stays_closed(wf: Program, repo: Path, tmp_path: Path, fsck: Fsck) -> None:
    """The run comes to its end, which cannot be recorded; nothing that it made is lost."""
    place = repo / ".git/objects/wf-tmp"
    workflow = gap(tmp_path, f"test -d {place} && rm -r {place}; touch {place}", "true")
    result = wf("run", workflow, "--id", RUN)
    assert result.status == 128
    assert f"error: run {RUN} is over (success), but its end cannot be recorded: " in result.err
    assert f"hint: git wf resume {RUN} records it once that is mended\n" in result.err
    place.unlink()
    wf.ok("resume", RUN)
    assert [entry[1] for entry in read_run(repo, RUN).timeline] == ["a", "d"]
    assert git("show", f"wf/run/{RUN}:log", cwd=repo) == "a\nb\nc\nd"
    fsck(repo)


def test_a_lock_of_the_index(wf: Program, repo: Path, tmp_path: Path, fsck: Fsck) -> None:
    """A node's git was killed; and the user's own lock is left alone."""
    lock = "$(git rev-parse --git-dir)/index.lock"
    own = repo / ".git/index.lock"
    own.touch()
    workflow = gap(tmp_path, f"touch -t 200001010000 {lock}", "true")
    result = wf.ok("run", workflow, "--id", RUN)
    assert SKIPPED not in result.err
    assert [entry[1] for entry in read_run(repo, RUN).timeline] == ["a", "b", "c", "d"]
    assert own.exists()
    own.unlink()
    fsck(repo)


# Others at work beside a run.


def ticks(path: Path, count: int) -> Path:
    """One node, visited until it has been `count` times."""
    return write_workflow(
        path,
        f"""
        graph [loop_restart_signature_limit={count + 1}]
        tick [script="echo x >>log; seq 2000 >big.$(wc -l <log); test $(wc -l <log) -ge {count}"]
        start -> tick
        tick -> exit [condition="outcome=success"]
        tick -> tick [condition="outcome=fail"]
        """,
    )


@contextmanager
def beside(*commands: list[str], cwd: Path) -> Iterator[list[int]]:
    """Inside, each command runs over and over. Gives how often all of them were."""
    done, rounds = threading.Event(), [0]

    def repeat() -> None:
        while not done.is_set():
            for words in commands:
                subprocess.run(words, cwd=cwd, capture_output=True, check=False)
            rounds[0] += 1

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield rounds
    finally:
        done.set()
        thread.join()


def run_beside_gc(wf: Program, repo: Path, workflow: Path, count: int, fsck: Fsck) -> None:
    collect = ["git", "-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now"]
    with beside(collect, ["git", "worktree", "prune"], cwd=repo) as rounds:
        result = wf.ok("run", workflow, "--id", RUN)
    assert rounds[0] > 0
    assert SKIPPED not in result.err
    timeline = read_run(repo, RUN).timeline
    assert [(entry[0], entry[2]) for entry in timeline] == [(n, n) for n in range(1, count + 1)]
    fsck(repo)
    git("gc", "-q", "--prune=now", cwd=repo)
    fsck(repo)


def test_gc_beside_a_run(wf: Program, repo: Path, tmp_path: Path, fsck: Fsck) -> None:
    run_beside_gc(wf, repo, ticks(tmp_path / "w.dot", 12), 12, fsck)


@pytest.mark.slow
def test_gc_beside_hundreds_of_cycles(wf: Program, repo: Path, tmp_path: Path, fsck: Fsck) -> None:
    run_beside_gc(wf, repo, ticks(tmp_path / "w.dot", 300), 300, fsck)


def test_two_runs_at_once(wf: Program, repo: Path, tmp_path: Path, fsck: Fsck) -> None:
    workflow = ticks(tmp_path / "w.dot", 5)
    both = [start("run", workflow, "--id", run, cwd=repo) for run in (RUN, OTHER)]
    for process in both:
        status, _, err = finished(process)
        assert status == 0 and SKIPPED not in err, err
    assert read_run(repo, RUN) == read_run(repo, OTHER)
    assert len(read_run(repo, RUN).timeline) == 5
    fsck(repo)


def test_a_run_of_the_same_id_is_refused_while_it_starts(
    wf: Program, repo: Path, tmp_path: Path
) -> None:
    """Both begin: one has the run's lock, the other is told so, or that the run is there."""
    workflow = ticks(tmp_path / "w.dot", 2)
    both = [start("run", workflow, "--id", RUN, cwd=repo) for _ in range(2)]
    ended = sorted((finished(process) for process in both), key=lambda one: one[0])
    assert [status for status, _, _ in ended] == [0, 128], ended
    refused = ended[1][2]
    exists = f"error: run {RUN} exists already\nhint: git wf log {RUN}\n"
    assert refused == exists or refused.startswith(f"fatal: run {RUN} is going on: "), refused
    assert len(read_run(repo, RUN).timeline) == 2


BETWEEN = """#!/bin/sh
case "$*" in
*for-each-ref*refs/wf/meta/{run}*)
    if mkdir '{mark}' 2>/dev/null; then
        told=$('{git}' "$@") && {other} >'{mark}/told' 2>&1
        printf '%s' "$told"
        exit
    fi ;;
esac
exec '{git}' "$@"
"""


def test_a_run_of_the_same_id_that_came_and_went_in_between(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One looks whether the id is taken; before it has the lock, another one has run to its end."""
    workflow, real = ticks(tmp_path / "w.dot", 2), shutil.which("git")
    words = [sys.executable, "-m", "git_wf", "run", str(workflow), "--id", RUN]
    wrapper, mark = tmp_path / "bin" / "git", tmp_path / "mark"
    wrapper.parent.mkdir()
    other = f"PYTHONPATH={shlex.quote(str(ROOT))} {shlex.join(words)}"
    wrapper.write_text(BETWEEN.format(run=RUN, mark=mark, git=real, other=other))
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    wf.fails(
        128, ["run", workflow, "--id", RUN],
        f"error: run {RUN} exists already\nhint: git wf log {RUN}\n",
    )  # fmt: skip
    assert "success (" in (mark / "told").read_text()
    assert len(read_run(repo, RUN).timeline) == 2
    (state,) = Path(os.environ["XDG_STATE_HOME"]).glob("git-wf/*/runs/*/")
    assert (state / "checkpoint.json").exists()


# Clocks.


class JumpingClock(FakeClock):
    """Goes on by a second whenever it is asked, but back by an hour once."""

    def __init__(self, jump: int) -> None:
        super().__init__()
        self.left = jump

    def now(self) -> datetime:
        self.left -= 1
        self.moment += timedelta(hours=-1) if self.left == 0 else timedelta(seconds=1)
        return self.moment


class WithRealIds(Program):
    """A run's id has the moment at which it was made."""

    def _new_id(self, moment: datetime) -> str:
        return new_ulid(moment)


@pytest.mark.parametrize("jump", [6, 14])
def test_a_clock_that_jumps_back(wf: Program, repo: Path, tmp_path: Path, jump: int) -> None:
    wf.clock = JumpingClock(jump)
    wf.ok("run", gap(tmp_path, "true", "true"), "--id", RUN)
    assert wf.clock.left < 0
    names = ["a", "b", "c", "d"]
    expected = [(n + 1, name, 1, "success") for n, name in enumerate(names)]
    assert read_run(repo, RUN).timeline == expected
    told = wf.ok("log", RUN, "--json").json
    assert [one["node"] for one in told["checkpoints"]] == names
    wf.ok("rewind", RUN, "b")
    wf.ok("resume", RUN)
    assert read_run(repo, RUN).timeline == expected


def test_ids_go_forward_where_the_clock_went_back(wf: Program, repo: Path, tmp_path: Path) -> None:
    """The run that was made last is the newest, and the operation that was made last is undone."""
    wf = WithRealIds(wf.capture, repo)
    workflow = gap(tmp_path, "true", "true")
    first = wf.ok("run", workflow).out.strip()
    wf.ok("rewind", first, "c")
    wf.clock.moment -= timedelta(hours=1)
    second = wf.ok("run", workflow).out.strip()
    assert second > first
    third = wf.ok("fork", second, "a", "--json").json["new_run_id"]
    assert third > second
    wf.ok("undo")
    assert [one["run_id"] for one in wf.ok("runs", "--json").json["runs"]] == [second, first]
    wf.ok("rewind", second, "b")
    wf.ok("undo")
    assert len(read_run(repo, second).timeline) == 4
    assert len(read_run(repo, first).timeline) == 3


# Signals.


def test_an_interrupt_that_arrives_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    interruption = Interruption()
    interruption(signal.SIGINT, None)
    interruption(signal.SIGINT, None)
    assert interruption.cancel.is_set() and interruption.number == signal.SIGINT
    monkeypatch.setattr("git_wf.cli.report.SAME_INTERRUPT", 0.0)
    with pytest.raises(KeyboardInterrupt):
        interruption(signal.SIGINT, None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_twice_at_once(
    wf: Program, repo: Path, tmp_path: Path, fsck: Fsck, number: signal.Signals
) -> None:
    gate = Gate(tmp_path / "gate")
    os.mkfifo(gate.path)
    workflow = gap(tmp_path, gate.script, "true")
    with held_at(gate, start("run", workflow, "--id", RUN, cwd=repo)) as process:
        process.send_signal(number)
        process.send_signal(number)
        status, _, err = finished(process)
    assert status == 128 + number, err
    assert f"go on:        git wf resume {RUN}\n" in err
    gate.close()
    wf.ok("resume", RUN)
    assert [entry[1] for entry in read_run(repo, RUN).timeline] == ["a", "b", "c", "d"]
    assert len(refs(repo)) == 1  # what b had half done
    fsck(repo)
