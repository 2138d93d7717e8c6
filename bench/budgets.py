"""The budgets, and what measures each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench import checkpoints, commands
from bench.checkpoints import Bench
from bench.compare import Figure

Measure = Callable[[Bench], Iterator[Figure]]


@dataclass(frozen=True)
class Budget:
    """`limit` is the budget as a text; `measure` is None where there is nothing to measure yet."""

    name: str
    what: str
    limit: str
    measure: Measure | None = None


BUDGETS = (
    Budget("processes", "git processes a node of a long-lived run", "2, 1 when nothing changed",
           checkpoints.processes),
    Budget("checkpoint", "a whole checkpoint by scanning, 10 changed, 100 / 10,000 / 100,000 files",
           "1.0 / 0.55 / 0.40 × one commit", checkpoints.scanned),
    Budget("many", "the same with 1,000 changed, 10,000 / 100,000 files",
           "0.9 / 0.8 × one commit", checkpoints.many_changed),
    Budget("watched", "the same with changed paths from a file watcher",
           "0.6 / 0.2 / 0.10 × one commit"),
    Budget("excludes", "ten exclude globs against none", "1.05 ×", checkpoints.excluded),
    Budget("late", "checkpoint 2,000 against checkpoint 100", "1.1 ×", checkpoints.late),
    Budget("disk", "disk a checkpoint at the end of a run", "6 kB and the changed content",
           checkpoints.disk),
    Budget("memory", "the program's peak memory", "80 MB, flat", checkpoints.memory),
    Budget("start", "the start of a second run", "0.1 × git worktree add",
           checkpoints.second_start),
    Budget("rewind", "ref work of a rewind", "2.5 × git rev-parse, the same for any size",
           commands.ref_operations),
    Budget("version", "git-wf --version, git wf -h", "1.5 × and 12 × bare Python",
           commands.starting),
    Budget("log", "git wf log, of the last 20 and of 10,000 checkpoints",
           "6 × bare Python, 1.6 × git log", commands.reading),
    Budget("runs", "git wf runs over 10,000 runs, and a checkpoint beside them",
           "4 × git for-each-ref, 1.0 × one commit", commands.listing),
    Budget("overhead", "git wf run on `true` commands, a node", "2 × the checkpoint",
           checkpoints.overhead),
    Budget("snapshots", "git wf snapshot save and restore", "not there yet"),
    Budget("peers", "others on the same work, where they are installed", "told, not judged",
           commands.peers),
)  # fmt: skip
