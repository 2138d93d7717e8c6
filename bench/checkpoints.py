"""What a checkpoint costs: processes, time, disk, memory, and the start of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.compare import Comparison, Figure, compare, spread, timed
from bench.grounds import LiveRun, Place, disk_use, live_run, make_place, remove

PROGRAM = (sys.executable, "-c", "from git_wf.cli.main import main; main()")  # as installed
GLOBS = [f"*.ignored{number}" for number in range(10)]


class Bench:
    """Scratch, how thorough to be, and the repositories made so far."""

    def __init__(self, scratch: Path, *, quick: bool = False) -> None:
        self.scratch = scratch
        self.quick = quick
        self._places: dict[int, Place] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        return (100, 10_000) if self.quick else (100, 10_000, 100_000)

    def place(self, files: int) -> Place:
        if files not in self._places:
            self._places[files] = make_place(self.scratch, files)
        return self._places[files]

    def rounds(self, thorough: int) -> int:
        return max(3, thorough // 3) if self.quick else thorough


def processes(bench: Bench) -> Iterator[Figure]:
    """Two runs of the program that differ in their number of nodes, their processes counted."""
    for what, script, limit in (
        ("a node that changes something", "echo NAME >NAME; echo NAME >>log", 2),
        ("a node that changes nothing", "true", 1),
    ):
        counts = [_count(bench, nodes, script) for nodes in (11, 1, 11)]
        yield Figure(what, (counts[2] - counts[1]) / 10, limit, unit="processes")


def _count(bench: Bench, nodes: int, script: str) -> int:
    place = bench.place(100)
    log = place.top.parent / "trace"
    log.unlink(missing_ok=True)
    run_nodes(place, [script] * nodes, GIT_TRACE2_EVENT=os.fspath(log))
    events = (json.loads(line) for line in log.read_text().splitlines())
    return sum(one["event"] == "start" and "/" not in one["sid"] for one in events)


def run_nodes(place: Place, scripts: list[str], **env: str) -> None:
    """`git wf run` of a chain of commands; NAME stands for a node's name."""
    subprocess.run(
        [*PROGRAM, "run", "--quiet", os.fspath(write_chain(place, scripts))],
        cwd=place.top, env={**place.env, **env}, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def write_chain(place: Place, scripts: list[str]) -> Path:
    names = [f"n{number}" for number in range(len(scripts))]
    nodes = "".join(
        f'{name} [script="{script.replace("NAME", name)}"]\n'
        for name, script in zip(names, scripts, strict=True)
    )
    workflow = place.top.parent / "workflow.dot"
    workflow.write_text(
        "digraph G { start [shape=Mdiamond] exit [shape=Msquare]\n"
        f"{nodes} start -> {' -> '.join(names)} -> exit }}\n"
    )
    return workflow


# Time.


def one_commit(place: Place) -> None:
    place.git("add", "-A")
    place.git("commit", "-q", "--no-verify", "-m", "edit")


def against_one_commit(place: Place, run: LiveRun, changed: int, rounds: int) -> Comparison:
    return compare(
        lambda: one_commit(place),
        run.checkpoint,
        rounds,
        before_base=lambda: place.edit(place.top, changed),
        before_ours=lambda: run.visit(changed),
        warm_up=3,
    )


def scanned(bench: Bench) -> Iterator[Figure]:
    limits = {100: 1.0, 10_000: 0.55, 100_000: 0.40}
    for files in bench.sizes:
        place = bench.place(files)
        with live_run(place, 1) as run:
            rounds = bench.rounds(15 if files > 10_000 else 60)
            found = against_one_commit(place, run, 10, rounds)
        yield found.figure(f"{files:,} files, 10 changed", limits[files])


def many_changed(bench: Bench) -> Iterator[Figure]:
    limits = {10_000: 0.9, 100_000: 0.8}
    for files in bench.sizes[1:]:
        place = bench.place(files)
        with live_run(place, 2) as run:
            found = against_one_commit(place, run, 1000, bench.rounds(12))
        yield found.figure(f"{files:,} files, 1,000 changed", limits[files])


def excluded(bench: Bench) -> Iterator[Figure]:
    """Ten globs against none: two runs in turn."""
    place = bench.place(bench.sizes[-1])
    with live_run(place, 3) as plain, live_run(place, 4, exclude_globs=GLOBS) as filtered:
        found = compare(
            plain.checkpoint,
            filtered.checkpoint,
            bench.rounds(15),
            before_base=lambda: plain.visit(10),
            before_ours=lambda: filtered.visit(10),
            warm_up=2,
        )
    yield found.figure(f"{place.files:,} files, ten globs", 1.05)


def late(bench: Bench) -> Iterator[Figure]:
    """A run that has many checkpoints against one that has a hundred, in turn."""
    place = bench.place(100)
    many = 400 if bench.quick else 2000
    with live_run(place, 5) as young, live_run(place, 6) as old:
        for run, count in ((young, 100), (old, many)):
            while run.ordinal < count:
                run.visit(1)
                run.checkpoint()
        found = compare(
            young.checkpoint,
            old.checkpoint,
            bench.rounds(90),
            before_base=lambda: young.visit(10),
            before_ours=lambda: old.visit(10),
        )
    yield found.figure(f"checkpoint {many:,} against checkpoint 100", 1.1)


def overhead(bench: Bench) -> Iterator[Figure]:
    """What `git wf run` takes for a node that runs `true`, against a checkpoint by itself."""
    place, nodes = bench.place(100), 40
    ratios = []
    with live_run(place, 7) as run:

        def checkpoints() -> None:
            for _ in range(nodes):
                run.visit()
                run.checkpoint()

        for _ in range(bench.rounds(9)):
            few = timed(lambda: run_nodes(place, ["true"]))
            many = timed(lambda: run_nodes(place, ["true"] * (nodes + 1)))
            ratios.append((many.wall - few.wall) / timed(checkpoints).wall)
    low, high = spread(ratios)
    yield Figure("a node that runs `true`", median(ratios), 2.0, low=low, high=high)


def second_start(bench: Bench) -> Iterator[Figure]:
    """A run that takes a worktree from the pool, against `git worktree add`."""
    place = bench.place(bench.sizes[-1])
    numbers = iter(range(100, 200))
    added = place.top.parent / "added"

    def start() -> None:
        with live_run(place, next(numbers), pool_size=2):
            pass

    def add() -> None:
        place.git("worktree", "add", "--quiet", "--detach", os.fspath(added))

    def take_away() -> None:
        if added.exists():
            place.git("worktree", "remove", "--force", os.fspath(added))

    start()
    found = compare(add, start, 1 if bench.quick else 2, before_base=take_away, warm_up=0)
    take_away()
    yield found.figure(f"{place.files:,} files, start and end of a second run", 0.1)


# Disk and memory.


def disk(bench: Bench) -> Iterator[Figure]:
    """All of it at the end of a run, but what the nodes wrote."""
    place = make_place(bench.scratch / "disk", 100)
    count = 60 if bench.quick else 220
    before = disk_use(place.top / ".git")
    run_nodes(place, ["echo NAME >NAME; echo NAME >>log"] * count)
    used = disk_use(place.top / ".git") - before
    remove(place.top.parent)
    yield Figure(f"a checkpoint, of {count}", used / count / 1000, 6.0, unit="kB")


def memory(bench: Bench) -> Iterator[Figure]:
    """The largest resident size of the program, as the kernel tells it."""
    place = make_place(bench.scratch / "memory", 100)
    visits = 100 if bench.quick else 1000
    small, large = (_peak(place, count) for count in (visits // 10, visits))
    yield Figure(f"{visits:,} nodes", large, 80.0, unit="MB")
    yield Figure(f"{visits:,} nodes against {visits // 10:,}", large / small, 1.3)
    remove(place.top.parent)


def _peak(place: Place, nodes: int) -> float:
    """MB. Asked of a process in between, which has no other child."""
    workflow = write_chain(place, ["true"] * nodes)
    code = (
        "import os, sys\n"
        "pid = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])\n"
        "_, status, used = os.wait4(pid, 0)\n"
        "print(used.ru_maxrss)\n"
        "sys.exit(os.waitstatus_to_exitcode(status))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, *PROGRAM, "run", "--quiet", os.fspath(workflow)],
        cwd=place.top, env=place.env, check=True, stdout=subprocess.PIPE,
    ).stdout  # fmt: skip
    kilobytes = int(told.split()[-1])
    return kilobytes / (1000 if sys.platform != "darwin" else 1_000_000)
