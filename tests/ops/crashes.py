"""What is ended in the middle, what its user does then, and how the end of it is judged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from git_wf.store.files import is_locked
from tests.conftest import git, make_repo
from tests.ops.forks import Ended, Forks
from tests.ops.runs import own_id
from tests.program import write_workflow

RUN, NEW = own_id(41), own_id(42)
HALF = "half done"  # what a node had written when it was ended

# Four checkpoints: a@1, check@1 (fail), mend@1, check@2; one value is an artifact.
LOOP = """
    a [script="echo a >>log; awk 'BEGIN {{ while (i++ < 20000) print i }}'"]
    check [script="echo c >>log; rm -f gone; test -e mended"]
    mend [script="echo m >mended; echo x >gone"]
    start -> a -> check
    check -> exit [condition="outcome=success"]
    check -> mend [condition="outcome=fail"]
    mend -> check
"""
SECTION = """
    f [shape=component] j [shape=tripleoctagon]
    a [script="echo a >>a"] a2 [script="echo a2 >>a"] b [script="echo b >>b"]
    c [script="cat a b >>c"]
    start -> f f -> a f -> b a -> a2 -> j b -> j j -> c -> exit
"""
# The first visit of `held` is never over; from the second on it goes on.
HELD = """
    a [script="echo a >>log"]
    held [script="test -e {flag} || {{ touch {flag}; echo 'half done' >half; kill -9 $PPID; }}
        echo h >>log"]
    c [script="echo c >>log"]
    start -> a -> held -> c -> exit
"""


@dataclass(frozen=True)
class Told:
    """What a run has come to."""

    tree: str
    timeline: list[str]
    context: dict[str, Any]
    visits: dict[str, int]
    artifacts: str
    end: tuple[str, str] = ("", "")  # its status, and the refs of branches that are open


class Place:
    """A repository and its state directory, put back as they were before each case."""

    def __init__(self, root: Path, forks: Forks) -> None:
        self.root = root
        self.forks = forks
        self.repo = root / "repo"
        self._saved: set[str] = set()

    @property
    def env(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
        return {**kept, "HOME": str(self.root / "home"), "XDG_STATE_HOME": str(self.root / "state"),
                "TMPDIR": str(self.root / "tmp")}  # fmt: skip

    def __call__(self, *words: str | Path, **how: Any) -> Ended:
        return self.forks([str(word) for word in words], self.repo, self.env, **how)

    def ok(self, *words: str | Path) -> Ended:
        ended = self(*words)
        assert ended.status == 0, f"{words}: {ended.status}\n{ended.out}{ended.err}"
        return ended

    def settle(self, *words: str | Path, done: str) -> Ended:
        """It succeeds; or it had succeeded before, and says so with `done`."""
        ended = self(*words)
        told = f"{words}: {ended.status}\n{ended.out}{ended.err}"
        assert ended.status == 0 or ended.err.startswith(done), told
        return ended

    def begin(self, name: str, prepare: Callable[[Place], None]) -> None:
        """As `prepare` leaves it. That is done once, and copied back from then on."""
        saved = self.root.with_name(f"{self.root.name}-{name}")
        shutil.rmtree(self.root, ignore_errors=True)
        if name not in self._saved:
            make_repo(self.repo)
            (self.root / "tmp").mkdir()
            write_workflow(self.root / "tidy.dot", "start -> exit")
            prepare(self)
            self.forks.settle()
            subprocess.run(["cp", "-a", self.root, saved], check=True)
            self._saved.add(name)
        else:
            subprocess.run(["cp", "-a", saved, self.root], check=True)

    def workflow(self, body: str) -> Path:
        return write_workflow(self.root / "w.dot", body.format(flag=self.root / "flag"))


# What plain git tells.


def commits(repo: Path) -> set[str]:
    """All that a ref leads to; what only the HEAD of a worktree leads to is not kept."""
    return set(git("rev-list", "--single-worktree", "--all", cwd=repo).splitlines())


def tell(repo: Path, run: str) -> Told:
    branch, meta = f"refs/heads/wf/run/{run}", f"refs/wf/meta/{run}"
    listed = git("log", "--first-parent", "--reverse", "--format=%s%x00%(trailers)%x00", branch,
                 "--not", "main", cwd=repo)  # fmt: skip
    fields = listed.split("\0")
    timeline = []
    for subject, trailers in zip(fields[::2], fields[1::2], strict=False):
        told = ("WF-Node", "WF-Visit", "WF-Status", "WF-Completed")
        kept = [line for line in trailers.splitlines() if line.startswith(told)]
        timeline.append(" ".join([subject.strip().partition(": ")[2], *kept]))
    checkpoint = json.loads(git("show", f"{meta}:checkpoint.json", cwd=repo))
    context = checkpoint["context_values"]
    context.pop("parallel.fan_in.best_head_sha", None)  # commits have the date that they were made
    for one in context.get("parallel.results", ()):
        one.pop("head")
    return Told(
        git("rev-parse", f"{branch}^{{tree}}", cwd=repo),
        timeline,
        context,
        checkpoint["node_visits"],
        git("ls-tree", "-r", meta, "artifacts/", cwd=repo),
    )


def tell_fully(repo: Path, run: str) -> Told:
    """The end of a run too: its conclusion."""
    told = tell(repo, run)
    conclusion = json.loads(git("show", f"refs/wf/meta/{run}:conclusion.json", cwd=repo))
    branches = git("for-each-ref", "--format=%(refname)", f"refs/wf/par/{run}", cwd=repo)
    return replace(told, end=(conclusion["status"], branches))


def exists(repo: Path, run: str) -> bool:
    refs = (f"refs/heads/wf/run/{run}", f"refs/wf/meta/{run}")
    return bool(git("for-each-ref", *refs, cwd=repo))


# The operations.


@dataclass(frozen=True)
class Operation:
    """`words` are ended in the middle; `go_on` is what their user does then, until all is done."""

    name: str
    prepare: Callable[[Place], None]
    words: Callable[[Place], list[str]]
    go_on: Callable[[Place], None]
    tell: Callable[[Place], Any]
    steps: tuple[tuple[str, int], ...] = ()


OPERATIONS: dict[str, Operation] = {}


def operation(*args: Any, **options: Any) -> None:
    made = Operation(*args, **options)
    OPERATIONS[made.name] = made


HAS_ENDED = f"error: run {RUN} has ended: success\n"
# Of the first cycle: tests/ops/test_resume.py.
CYCLE = ("disk", "stage", "metadata", "commit", "publish", "seal")


def finish(place: Place, run: str = RUN) -> None:
    place.settle("resume", run, done=f"error: run {run} has ended: success\n")


def nothing(place: Place) -> None:
    place.workflow(LOOP)


def run_words(place: Place) -> list[str]:
    return ["run", str(place.root / "w.dot"), "--id", RUN]


def run_on(place: Place) -> None:
    if exists(place.repo, RUN):
        finish(place)
    else:  # nothing was made yet
        place.ok(*run_words(place))


operation(
    "run", nothing, run_words, run_on, lambda place: tell_fully(place.repo, RUN),
    steps=(*((step, 3) for step in CYCLE),
           *((step, 1) for step in ("slot", "refs", "attach", "tidy", "conclusion", "release",
                                    "directory"))),
)  # fmt: skip
operation(
    "section", lambda place: bool(place.workflow(SECTION)) and None, run_words, run_on,
    lambda place: tell_fully(place.repo, RUN),
    steps=tuple((f"f@1/{branch} {step}", 1) for branch in ("1-a", "2-b") for step in CYCLE),
)  # fmt: skip


def killed(place: Place) -> None:
    """A visit was over, and its checkpoint on disk only."""
    place.workflow(LOOP)
    assert place(*run_words(place), step=("stage", 2)).is_killed


def half_done(place: Place) -> None:
    """A visit was not over, and the worktree has what it wrote."""
    place.workflow(HELD)
    assert place(*run_words(place)).is_killed


RESUME = ("locks", "joined", "worktree", "noted")
operation(
    "resume", killed, lambda place: ["resume", RUN], finish,
    lambda place: tell_fully(place.repo, RUN),
    steps=(*((step, 1) for step in (*RESUME, "finished")), ("publish", 1), ("publish", 2)),
)  # fmt: skip
operation(
    "resume-half-done", half_done, lambda place: ["resume", RUN], finish,
    lambda place: tell_fully(place.repo, RUN),
    steps=tuple((step, 1) for step in RESUME),
)  # fmt: skip


def ended(place: Place) -> None:
    place.workflow(LOOP)
    place.ok(*run_words(place))


def rewind_again(target: str, name: str) -> Callable[[Place], None]:
    def go_on(place: Place) -> None:
        place.settle("rewind", RUN, target, done=f"error: run {RUN} is at {name} already\n")
        finish(place)

    return go_on


APPLY = tuple((step, 1) for step in ("rescue", "objects", "refs", "worktree"))
operation(
    "rewind", ended, lambda place: ["rewind", RUN, "a@1"], rewind_again("a@1", "a@1"),
    lambda place: tell_fully(place.repo, RUN), steps=APPLY,
)  # fmt: skip
operation(
    "rewind-half-done", half_done, lambda place: ["rewind", RUN, "@0"], rewind_again("@0", "@0"),
    lambda place: tell_fully(place.repo, RUN), steps=APPLY,
)  # fmt: skip


def fork_on(place: Place) -> None:
    place.settle("fork", RUN, "a@1", "--id", NEW, done=f"error: run {NEW} exists already\n")
    finish(place, NEW)


operation(
    "fork", ended, lambda place: ["fork", RUN, "a@1", "--id", NEW], fork_on,
    lambda place: (tell_fully(place.repo, NEW), tell_fully(place.repo, RUN)),
    steps=(("objects", 1), ("refs", 1)),
)  # fmt: skip


def rewound(place: Place) -> None:
    ended(place)
    place.ok("rewind", RUN, "a@1")


def undo_again(place: Place) -> None:
    place.settle("undo", done="error: nothing to undo\n")


operation(
    "undo", rewound, lambda place: ["undo"], undo_again,
    lambda place: tell_fully(place.repo, RUN), steps=APPLY,
)  # fmt: skip


def remove_again(place: Place) -> None:
    place.settle("rm", RUN, done=f"error: run {RUN} was removed already\n")


def tell_removed(place: Place) -> Any:
    """Nothing is there of it but what an undo brings back."""
    directories = list((place.root / "state").glob(f"git-wf/*/runs/{RUN}"))
    gone = not exists(place.repo, RUN) and directories == []
    place.ok("undo")
    finish(place)
    return gone, tell_fully(place.repo, RUN)


operation(
    "rm", half_done, lambda place: ["rm", RUN], remove_again, tell_removed,
    steps=(*APPLY, ("directory", 1)),
)  # fmt: skip


def removed(place: Place) -> None:
    ended(place)
    place.ok("rm", RUN)


operation(
    "undo-rm", removed, lambda place: ["undo"], undo_again,
    lambda place: tell_fully(place.repo, RUN), steps=APPLY,
)  # fmt: skip


def grouped(cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Cases that begin with the name of an operation: those of one go to the same worker."""
    return [
        pytest.param(
            *case, id="-".join(map(str, case)), marks=pytest.mark.xdist_group(f"crash {case[0]}")
        )
        for case in cases
    ]


# The judge.


@dataclass(frozen=True)
class Before:
    """What there was before an operation began."""

    commits: set[str]
    checkout: str
    half: str  # the blob of what a node had half done, if any


def look(place: Place) -> Before:
    repo = place.repo
    half = git("hash-object", "--stdin", cwd=repo, stdin=f"{HALF}\n".encode())
    has_half = any((place.root / "state").glob("git-wf/*/trees/*/half"))
    return Before(commits(repo), _checkout(repo), half if has_half else "")


def _checkout(repo: Path) -> str:
    return git("status", "--porcelain", "--branch", "--ignored", cwd=repo) + git(
        "rev-parse", "HEAD", cwd=repo
    )


def crash(operation: Operation, place: Place, **how: Any) -> Ended:
    """One case: the operation is ended, its user goes on, and what came of it is judged."""
    place.begin(operation.name, operation.prepare)
    before = look(place)
    ended = place(*operation.words(place), **how)
    assert ended.is_killed or ended.status == 0, (ended.status, ended.err)
    had = commits(place.repo)
    assert before.commits - had == set(), "after the crash commits are lost"
    operation.go_on(place)
    assert had - commits(place.repo) == set(), "after the recovery commits are lost"
    judge(place, before)
    return ended


@dataclass(frozen=True)
class Whole:
    """An operation that nobody ended: how many changes it makes, and what it comes to."""

    changes: int
    told: Any


class Bench:
    """A place for all operations, each of which is measured once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._whole: dict[str, Whole] = {}

    def measure(self, name: str) -> Whole:
        if name not in self._whole:
            ended = crash(OPERATIONS[name], self.place)
            assert ended.status == 0, ended.err
            self._whole[name] = Whole(ended.changes, OPERATIONS[name].tell(self.place))
        return self._whole[name]


def judge(place: Place, before: Before) -> None:
    repo = place.repo
    assert _checkout(repo) == before.checkout
    done = subprocess.run(["git", "fsck", "--full", "--no-progress"], cwd=repo,
                          capture_output=True, text=True, check=False)  # fmt: skip
    told = [line for line in (done.stdout + done.stderr).splitlines() if "dangling " not in line]
    assert done.returncode == 0 and not told, told
    if before.half:
        kept = git("rev-list", "--objects", "--all", cwd=repo)
        assert before.half in kept, "what a node had half done is lost"
    for run in (RUN, NEW):
        if git("for-each-ref", f"refs/wf/meta/{run}", cwd=repo):
            _judge_metadata(repo, run)
    held = [path for path in (repo / ".git/git-wf").glob("*.lock") if is_locked(path)]
    assert held == [], held
    if _is_untidy(place):  # what was left behind by what is over goes with the next run
        place.ok("run", place.root / "tidy.dot")
        assert not _is_untidy(place), git("worktree", "list", "--porcelain", cwd=repo)


def _is_untidy(place: Place) -> bool:
    """Whether there are worktrees that are not given back, or locks."""
    git_dir = place.repo / ".git"
    # The locks of runs are files that nobody locks, those of kept refs are in nobody's way.
    spared = (git_dir / "git-wf", git_dir / "refs/wf/old")
    left = [path for path in git_dir.rglob("*.lock")
            if not any(path.is_relative_to(one) for one in spared)]  # fmt: skip
    if left or list((git_dir / "objects/pack").glob("*.keep")):
        return True
    listed = git("worktree", "list", "--porcelain", cwd=place.repo)
    known = [line[9:] for line in listed.splitlines() if line.startswith("worktree ")][1:]
    trees = (place.root / "state").glob("git-wf/*/trees/*")
    there = [str(path) for path in trees if path.name.isdecimal()]
    return "\nlocked" in listed or "prunable" in listed or sorted(there) != sorted(known)


def _judge_metadata(repo: Path, run: str) -> None:
    """No checkpoint is recorded twice, unless a rewind came in between."""
    told = git("log", "--first-parent", "--reverse", "--format=%s", f"refs/wf/meta/{run}", cwd=repo)
    seen: set[str] = set()
    for subject in told.splitlines():
        if subject.startswith("rewind "):
            seen.clear()
        elif subject.startswith("checkpoint "):
            assert subject not in seen, told
            seen.add(subject)
