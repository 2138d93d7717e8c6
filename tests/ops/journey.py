"""One run in one repository: run, log, rewind, resume, fork, resume; judged by plain git.

What is the user's (checkout, index, HEAD, stash, branches, configuration) is the same afterwards.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.conftest import git
from tests.judge import contents
from tests.ops.runs import TRAILERS
from tests.program import Result, write_workflow

Call = Callable[..., Result]  # `Program`, or something that is called like it
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OWN = re.compile(r"\S+ refs/(heads/wf/run|wf)/")


@dataclass
class Odd:
    """A repository of an odd kind."""

    top: Path  # the user's checkout
    cwd: Path | None = None  # where the program is called, if not there
    script: str = ""  # what the first node does beside the usual
    paths: Sequence[str] = ()  # of what it makes in the run's tree
    notices: Sequence[str] = ()  # how those that are told in the first run begin
    git_dir: Path | None = None  # where its refs and objects are judged, if not in `top`
    fsck: Sequence[str] = ()  # options
    is_short: bool = False  # whether some readers are left out
    is_soiled: bool = True  # whether the checkout gets changes of every kind

    @property
    def where(self) -> Path:
        return self.cwd or self.top

    @property
    def place(self) -> Path:
        return self.git_dir or self.top


NODES = """
    edit [script="echo more >>README; echo new >new.txt; mkdir -p d; echo d >d/file{script}"]
    work [script="cat README new.txt >work; rm new.txt"]
    last [script="echo $GIT_WF_VISIT >>work; git log -1 --format=%s >>work"]
    start -> edit -> work -> last -> exit
"""
TIMELINE = [("edit", 1, "success"), ("work", 1, "success"), ("last", 1, "success")]


def users_state(top: Path) -> dict[str, object]:
    """What is the user's, by plain git and by the bytes."""
    git_dir = Path(git("rev-parse", "--absolute-git-dir", cwd=top))
    common = top / git("rev-parse", "--git-common-dir", cwd=top)
    files = {path: kind for path, kind in contents(top).items() if not path.startswith(".git/")}
    refs = git("for-each-ref", "--format=%(objectname) %(refname)", cwd=top).splitlines()
    names = ("index", "HEAD", "logs/HEAD", "config.worktree", "ORIG_HEAD", "MERGE_HEAD")
    return {
        "files": files,
        "git": {name: _bytes(git_dir / name) for name in names},
        "config": _bytes(common / "config"),
        "status": git("--no-optional-locks", "status", "--porcelain=v2", "-uall", cwd=top),
        "stash": git("stash", "list", cwd=top),
        "refs": [line for line in refs if not OWN.match(line)],
        "worktrees": _users_worktrees(top),
    }


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _users_worktrees(top: Path) -> list[str]:
    listed = git("worktree", "list", "--porcelain", "-z", cwd=top).split("\0\0")
    state = os.environ["XDG_STATE_HOME"]
    return [record for record in listed if not record.startswith(f"worktree {state}")]


def fsck(odd: Odd) -> None:
    """Nothing but dangling objects may be told."""
    done = subprocess.run(
        ["git", "fsck", "--full", "--no-progress", *odd.fsck],
        cwd=odd.place, capture_output=True, check=False,
    )  # fmt: skip
    told = (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()
    bad = [line for line in told if not line.startswith(("dangling ", "hint: "))]
    assert done.returncode == 0 and not bad, "\n".join(bad)


def soil(odd: Odd) -> Odd:
    """A stash, and staged, unstaged and new changes in the checkout."""
    if not odd.is_soiled:
        return odd
    (odd.top / "README").write_text("stashed\n")
    git("stash", "-q", "--", "README", cwd=odd.top)
    (odd.top / "staged").write_text("staged\n")
    git("add", "staged", cwd=odd.top)
    (odd.top / "README").write_text("unstaged\n")
    (odd.top / "untracked").write_text("untracked\n")
    return replace(odd, notices=("starting from HEAD: left out are ", *odd.notices))


@contextmanager
def unchanged(odd: Odd) -> Iterator[None]:
    """The user's things are afterwards what they were, and the repository is sound."""
    before = users_state(odd.top)
    yield
    after = users_state(odd.top)
    differing = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
    assert not differing, differing
    fsck(odd)


def notices_of(result: Result) -> list[str]:
    lines = [line.strip() for line in result.err.splitlines()]
    return [line.removeprefix("notice: ") for line in lines if line.startswith("notice: ")]


@dataclass
class Journey:
    """The runs that were made, and what was told."""

    run: str
    fork: str
    first: Result
    results: list[Result] = field(default_factory=list)


def travel(wf: Call, odd: Odd, workflow: Path) -> Journey:
    """The whole journey; each step has to do what it says."""
    script = "; " + odd.script.replace("\\", "\\\\").replace('"', '\\"') if odd.script else ""
    write_workflow(workflow, NODES.format(script=script))
    with unchanged(odd):
        journey = _travel(wf, odd, workflow)
    return journey


def _travel(wf: Call, odd: Odd, workflow: Path) -> Journey:
    results: list[Result] = []

    def ok(*words: str | Path) -> Result:
        result = wf(*words, cwd=odd.where)
        assert result.status == 0, f"{words}: {result.status}\n{result.out}{result.err}"
        results.append(result)
        return result

    first = ok("run", workflow)
    run = first.out.strip()
    notices = notices_of(first)
    assert len(notices) == len(odd.notices), notices
    for notice, begin in zip(notices, odd.notices, strict=True):
        assert notice.startswith(begin), notices
    assert timeline(odd, run) == TIMELINE
    tree = judge_tree(odd, run)
    log = ok("log", run, "--json").json["checkpoints"]
    assert [(one["node"], one["visit"], one["status"]) for one in log] == TIMELINE
    assert log[1]["files_changed"] == 2, log
    if not odd.is_short:
        told = COLOUR.sub("", ok("log", run).out)
        assert all(f" {name}@1 " in told for name in ("edit", "work", "last"))
        assert " d/file " in ok("show", run, "edit").out
        assert run in ok("runs").out
    ok("rewind", run, "edit")
    assert timeline(odd, run) == TIMELINE[:1]
    assert notices_of(ok("resume", run)) == []
    assert (timeline(odd, run), judge_tree(odd, run)) == (TIMELINE, tree)
    fork = ok("fork", run, "@1").out.strip()
    assert notices_of(ok("resume", fork)) == []
    assert timeline(odd, fork) == TIMELINE[1:]
    judge_tree(odd, fork)
    return Journey(run, fork, first, results)


def timeline(odd: Odd, run: str) -> list[tuple[str, int, str]]:
    """Node, visit and status of a run's own commits, as git's formatter reads their trailers."""
    form = "--format=%s%x01%(trailers:only,unfold)%x00"
    told = git("log", "--first-parent", "--reverse", form, f"refs/heads/wf/run/{run}",
               cwd=odd.place)  # fmt: skip
    found = []
    for record in told.split("\0"):
        subject, _, trailers = record.strip("\n").partition("\1")
        if subject.startswith(f"wf({run})"):
            pairs = [line.split(": ", 1) for line in trailers.splitlines()]
            assert [key for key, _ in pairs] == TRAILERS, record
            values = dict(pairs)  # type: ignore[arg-type]
            found.append((values["WF-Node"], int(values["WF-Visit"]), values["WF-Status"]))
    return found


def judge_tree(odd: Odd, run: str) -> str:
    """The tree of a run that has ended; it has to be what its nodes made."""
    branch = f"refs/heads/wf/run/{run}"
    blobs = [f"{branch}~2:README", f"{branch}:work", f"{branch}~1"]
    edited, work, before = (git("show", "-s", "--format=%s", name, cwd=odd.place) for name in blobs)
    assert edited.endswith("more")
    assert work == f"{edited}\nnew\n1\n{before}"
    made = set(git("ls-tree", "-r", "-z", "--name-only", branch, cwd=odd.place).split("\0"))
    assert {"README", "d/file", "work", *odd.paths} <= made, made
    assert "new.txt" not in made
    return git("rev-parse", f"{branch}^{{tree}}", cwd=odd.place)
