"""`git wf bisect`: which node broke it, by binary search over the checkpoints of a run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from git_wf.core.checkpoint import FORMAT
from git_wf.core.timeline import Entry
from git_wf.errors import UserError
from git_wf.ops.project import Project, require_state_directory, require_writing_git
from git_wf.ops.select import Selected, select
from git_wf.ops.show import Shown, show_entry
from git_wf.store.files import is_locked
from git_wf.store.repo import scrubbed_env
from git_wf.store.worktree import Slot, give_back, remove_worktree, slots_of, take_slot

SKIP = 125  # what the command ends with where it cannot tell, as for `git bisect run`
_FIRST_ABORT = 128  # from here on the search is ended, as by `git bisect run`
_LABEL = "bisect"  # in the place of a run's id: whose the throw-away worktree is


@dataclass(frozen=True)
class Probe:
    """One checkpoint that the command was run at."""

    entry: Entry
    verdict: str  # `good`, `bad`, `skipped`
    exit_status: int

    def to_json(self) -> dict[str, Any]:
        return {
            "ordinal": self.entry.ordinal,
            "node": self.entry.node,
            "visit": self.entry.visit,
            "commit": self.entry.commit,
            "verdict": self.verdict,
            "exit_status": self.exit_status,
        }


@dataclass(frozen=True)
class Bisected:
    run_id: str
    candidates: tuple[Entry, ...]  # one of them is the first bad one; only one: it is found
    found: Shown | None
    probes: tuple[Probe, ...]

    def to_json(self) -> dict[str, Any]:
        found = self.found.to_json() if self.found else {}
        first_bad = {key: value for key, value in found.items() if key not in ("format", "record")}
        return {
            "format": FORMAT,
            "run_id": self.run_id,
            "first_bad": first_bad or None,
            "candidates": [entry.to_json() for entry in self.candidates],
            "probes": [probe.to_json() for probe in self.probes],
        }


def bisect(
    project: Project,
    words: Sequence[str],
    command: Sequence[str],
    tell: Callable[[Probe, int], None],
) -> Bisected:
    """`[RUN] [GOOD..BAD]`; GOOD is `@0` and BAD the newest checkpoint where they are left out.

    The command runs in a worktree that is thrown away, its output on stderr. Status 0 is good, 125
    cannot tell, any other up to 127 is bad. `tell` hears of every probe, and how many checkpoints
    are left. Raises `UserError` where the ends are not good and bad, or the command cannot be run.
    """
    require_writing_git(project.repo)
    selected, states = _range(project, words)
    require_state_directory(project.state_dir)
    _remove_leftovers(project)
    assert states[0].commit is not None, states[0]
    slot = take_slot(project.repo, project.state_dir, states[0].commit, _LABEL)
    try:
        search = _Search(project, slot, command, states, tell)
        candidates = search.run()
    finally:
        give_back(slot, project.settings.worktree_pool)
    found = show_entry(project, selected, candidates[0]) if len(candidates) == 1 else None
    return Bisected(selected.run.run_id, tuple(candidates), found, tuple(search.probes))


def _range(project: Project, words: Sequence[str]) -> tuple[Selected, list[Entry]]:
    """The states from the good end to the bad end that have a run commit."""
    ranges = [word for word in words if ".." in word]
    others = [word for word in words if ".." not in word]
    if len(ranges) > 1 or len(others) > 1:
        raise UserError(
            f"'{' '.join(words)}' is not a run and a range", hint="git wf bisect RUN @2..@7 -- make"
        )
    good, _, bad = (ranges or [".."])[0].partition("..")
    run = select(project, others)
    if run.target is not None:
        raise UserError(f"no run matches '{others[0]}'", hint="git wf runs lists them")
    first = Selected(run.run, run.timeline, good or "@0").entry(project, "@0")
    last = Selected(run.run, run.timeline, bad or None).entry(project, "0")
    states = [
        entry
        for entry in (run.timeline.start, *run.timeline.entries)
        if first.ordinal <= entry.ordinal <= last.ordinal and entry.commit is not None
    ]
    if first.ordinal >= last.ordinal or len(states) < 2:
        raise UserError(
            f"no checkpoint between '{first.name}' and '{last.name}': the good end comes first",
            hint="git wf log lists them",
        )
    return run, states


def _remove_leftovers(project: Project) -> None:
    """The worktrees of searches that were killed."""
    for path in slots_of(project.repo, _LABEL):
        if not is_locked(path.with_name(f"{path.name}.lock")):
            remove_worktree(project.repo, path)


class _Search:
    def __init__(
        self,
        project: Project,
        slot: Slot,
        command: Sequence[str],
        states: Sequence[Entry],
        tell: Callable[[Probe, int], None],
    ) -> None:
        self._env = scrubbed_env(project.host.env)
        self._slot = slot
        self._command = list(command)
        self._states = states
        self._tell = tell
        self.probes: list[Probe] = []

    def run(self) -> list[Entry]:
        """The states of which one is the first bad one."""
        good, bad = 0, len(self._states) - 1
        self._check_end(bad, "bad", bad)
        self._check_end(good, "good", bad - 1)
        skipped: set[int] = set()
        while (at := _next_probe(good, bad, skipped)) is not None:
            probe = self._probe(at)
            if probe.verdict == "skipped":
                skipped.add(at)
            elif probe.verdict == "good":
                good = at
            else:
                bad = at
            self._tell(probe, len(_untested(good, bad, skipped)))
        return list(self._states[good + 1 : bad + 1])

    def _check_end(self, at: int, wanted: str, left: int) -> None:
        probe = self._probe(at)
        self._tell(probe, left)
        if probe.verdict != wanted:
            told = "succeeds" if wanted == "bad" else f"ends with status {probe.exit_status}"
            raise UserError(
                f"the command {told} at {probe.entry.name}, which is to be the {wanted} end",
                hint="git wf bisect RUN GOOD..BAD names other ends; git wf log lists them",
            )

    def _probe(self, at: int) -> Probe:
        entry = self._states[at]
        repo = self._slot.repo
        repo.git("reset", "--hard", "--quiet", entry.commit or "")
        repo.git("clean", "-ffdxq")
        try:
            done = subprocess.run(
                self._command, cwd=self._slot.path, env=self._env, stdout=sys.stderr, check=False
            )
        except OSError as err:
            raise UserError(
                f"run '{self._command[0]}': {err.strerror}",
                hint="git wf bisect -- COMMAND runs it in a worktree of the run: "
                "name a program on PATH, or one that the run has",
            ) from err
        status = done.returncode
        if status < 0 or status >= _FIRST_ABORT:
            number = -status if status < 0 else status - _FIRST_ABORT
            told = f"signal {number}" if number else f"status {status}"
            raise UserError(
                f"the command ended by {told} at {entry.name}: the search is ended",
                hint=f"0 is good, {SKIP} cannot tell, any other up to {_FIRST_ABORT - 1} is bad",
            )
        verdict = {0: "good", SKIP: "skipped"}.get(status, "bad")
        self.probes.append(Probe(entry, verdict, status))
        return self.probes[-1]


def _untested(good: int, bad: int, skipped: set[int]) -> list[int]:
    return [at for at in range(good + 1, bad) if at not in skipped]


def _next_probe(good: int, bad: int, skipped: set[int]) -> int | None:
    """The state next to the middle that was not skipped; None where none is left."""
    middle = (good + bad) / 2
    return min(_untested(good, bad, skipped), key=lambda at: (abs(at - middle), at), default=None)
