"""The main job on a large, odd repository: killed, resumed, rewound, forked; and with git alone.

The program is run as its users run it, as a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git, make_repo
from tests.program import write_workflow
from tests.tree import ROOT

FILES = 5000
TRAILERS = ["WF-Run", "WF-Completed", "WF-Checkpoint", "WF-Node", "WF-Visit", "WF-Status"]
PATIENCE = 60.0  # seconds; for what has to happen soon


def start(*words: str | Path, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "git_wf", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wf(*words: str | Path, cwd: Path, status: int = 0) -> str:
    """What the program prints on stdout; it has to end with `status`."""
    process = start(*words, cwd=cwd)
    out, err = process.communicate()
    assert process.returncode == status, f"{words}: {process.returncode}\n{out}{err}"
    return out.strip()


def kill_at(process: subprocess.Popen[str], sign: Path) -> None:
    """SIGKILL once a node has made `sign`."""
    deadline = time.monotonic() + PATIENCE
    while not sign.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, sign
        threading.Event().wait(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def timeline(run: str, cwd: Path) -> list[tuple[int, str, int, str]]:
    told = json.loads(wf("log", run, "--json", cwd=cwd))
    return [
        (one["ordinal"], one["node"], one["visit"], one["status"]) for one in told["checkpoints"]
    ]


def context(run: str, cwd: Path) -> dict[str, Any]:
    told = git("show", f"wf/meta/{run}:checkpoint.json", cwd=cwd)
    values: dict[str, Any] = json.loads(told)["context_values"]
    return values


def tree(run: str, cwd: Path) -> str:
    return git("rev-parse", f"wf/run/{run}^{{tree}}", cwd=cwd)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """5,000 files, a submodule, symlinks, a filter; with staged, unstaged and new changes."""
    part = make_repo(tmp_path / "part")
    repo = make_repo(tmp_path / "large")
    git("config", "filter.shout.clean", "tr a-z A-Z", cwd=repo)
    git("config", "filter.shout.smudge", "cat", cwd=repo)
    (repo / ".gitattributes").write_text("*.loud filter=shout\n")
    (repo / "words.loud").write_text("quiet words\n")
    for number in range(FILES):
        path = repo / f"d{number % 50}" / f"f{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n")
    (repo / "link").symlink_to("d1/f1.txt")
    (repo / "dangling").symlink_to("nowhere")
    add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part), "part"]
    git(*add, cwd=repo)
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "large", cwd=repo)
    (repo / "d2" / "f2.txt").write_text("stashed\n")
    git("stash", "-q", cwd=repo)
    (repo / "d3" / "f3.txt").write_text("staged\n")
    git("add", "d3/f3.txt", cwd=repo)
    (repo / "d4" / "f4.txt").write_text("unstaged\n")
    (repo / "new.txt").write_text("new\n")
    return repo


def checkout_state(repo: Path) -> list[str]:
    asked = (
        ["--no-optional-locks", "status", "--porcelain=v2"],
        ["ls-files", "-s"],
        ["symbolic-ref", "HEAD"],
        ["rev-parse", "HEAD"],
        ["stash", "list"],
    )
    index = (repo / ".git" / "index").read_bytes().hex()
    return [*(git(*words, cwd=repo) for words in asked), index]


def judge_trailers(repo: Path, run: str) -> int:
    """Every checkpoint has its six trailers, as git reads them; how many there are."""
    count = 0
    for commit in git("rev-list", f"main..wf/run/{run}", cwd=repo).splitlines():
        message = git("log", "-1", "--format=%B", commit, cwd=repo)
        if message.startswith("wf("):
            parsed = git("interpret-trailers", "--parse", cwd=repo, stdin=message.encode())
            assert [line.partition(":")[0] for line in parsed.splitlines()] == TRAILERS, message
            count += 1
    return count


def test_killed_resumed_rewound_forked(
    large: Path, tmp_path: Path, fsck: Callable[[Path], None]
) -> None:
    sign = tmp_path / "sign"
    workflow = write_workflow(
        tmp_path / "w.dot",
        f"""
        edit  [script="echo more >> d1/f1.txt; echo loud > n.loud; rm d5/f5.txt"]
        work  [script="echo work >> log; test -e {sign} || {{ touch {sign}; sleep 60; }}"]
        check [script="test $(wc -l < log) -ge 2"]
        last  [script="ln -s log another; git status --porcelain | wc -l > clean"]
        start -> edit -> work -> check
        check -> last [condition="outcome=success"]
        check -> work [condition="outcome=fail"]
        last -> exit
        """,
    )
    before = checkout_state(large)

    def judge(run: str, checkpoints: int) -> None:
        fsck(large)
        assert checkout_state(large) == before
        assert judge_trailers(large, run) == checkpoints

    kill_at(start("run", workflow, cwd=large), sign)
    run = git("for-each-ref", "--format=%(refname:lstrip=4)", "refs/heads/wf/run", cwd=large)
    judge(run, 1)
    wf("resume", run, cwd=large)
    judge(run, 6)
    nodes = [(node, visit) for _, node, visit, _ in timeline(run, large)]
    assert nodes == [
        ("edit", 1), ("work", 1), ("check", 1), ("work", 2), ("check", 2), ("last", 1),
    ]  # fmt: skip
    assert git("show", f"wf/run/{run}:n.loud", cwd=large) == "LOUD"
    # What the killed node had written is kept, and not in what was resumed.
    assert git("show", f"wf/run/{run}:log", cwd=large) == "work\nwork"
    rescued = git("for-each-ref", "--format=%(refname)", "refs/wf/rescue", cwd=large)
    assert git("show", f"{rescued}:log", cwd=large) == "work"

    wf("rewind", "work@2", cwd=large)
    judge(run, 4)
    wf("resume", run, cwd=large)
    judge(run, 6)
    refs = git("for-each-ref", f"refs/heads/wf/run/{run}", f"refs/wf/meta/{run}", cwd=large)
    forked = wf("fork", "check@1", cwd=large)
    judge(forked, 3)
    wf("resume", forked, cwd=large)
    judge(forked, 6)
    assert tree(forked, large) == tree(run, large)
    same = git("for-each-ref", f"refs/heads/wf/run/{run}", f"refs/wf/meta/{run}", cwd=large)
    assert same == refs


LOOP = """
    a [script="echo a >> log; head -c 200000 /dev/zero | tr '\\0' x"]
    b [script="echo b >> log; test -e {sign} || {{ touch {sign}; sleep 60; }}"]
    c [script="echo c >> log; test $(grep -c c log) -ge 2"]
    start -> a -> b -> c
    c -> exit [condition="outcome=success"]
    c -> b [condition="outcome=fail"]
"""


def killed_in_b(repo: Path, tmp_path: Path) -> tuple[str, str]:
    """A run that was never touched, and one that was killed in its second node."""
    sign = tmp_path / "sign"
    workflow = write_workflow(tmp_path / "loop.dot", LOOP.format(sign=sign))
    sign.touch()
    untouched = wf("run", workflow, cwd=repo)
    sign.unlink()
    kill_at(start("run", workflow, cwd=repo), sign)
    refs = git("for-each-ref", "--format=%(refname:lstrip=4)", "refs/heads/wf/run", cwd=repo)
    (killed,) = set(refs.splitlines()) - {untouched}
    return untouched, killed


def test_git_alone_is_enough(repo: Path, tmp_path: Path, fsck: Callable[[Path], None]) -> None:
    untouched, killed = killed_in_b(repo, tmp_path)
    clone = tmp_path / "clone"
    git("clone", "-q", str(repo), str(clone), cwd=tmp_path)
    refs = [f"refs/heads/wf/run/{killed}", f"refs/wf/meta/{killed}"]
    git("fetch", "-q", "origin", *(f"{ref}:{ref}" for ref in refs), cwd=clone)
    # Its process is gone; so is everything of it but the refs.
    for path in (Path(os.environ["XDG_STATE_HOME"]) / "git-wf").iterdir():
        shutil.rmtree(path)
    git("worktree", "prune", cwd=repo)
    git("gc", "-q", "--prune=now", cwd=repo)
    for place in (repo, clone):
        wf("resume", killed, cwd=place)
        assert tree(killed, place) == tree(untouched, repo)
        assert timeline(killed, place) == timeline(untouched, repo)
        assert context(killed, place) == context(untouched, repo)
        fsck(place)


def test_gc_beside_a_run(repo: Path, tmp_path: Path, fsck: Callable[[Path], None]) -> None:
    """`git gc --prune=now` in a loop, from the first node to the last."""
    visits = 30
    script = "echo $GIT_WF_VISIT >> log; git show HEAD:README > again; echo same > same"
    workflow = write_workflow(
        tmp_path / "w.dot",
        f"""
        a [script="{script}; test $GIT_WF_VISIT -ge {visits}"]
        start -> a
        a -> exit [condition="outcome=success"]
        a -> a [condition="outcome=fail"]
        graph [loop_restart_signature_limit={visits}]
        """,
    )
    process = start("run", workflow, cwd=repo)
    rounds = 0
    while process.poll() is None:
        git("gc", "-q", "--prune=now", cwd=repo, ok=(0, 128, 255))
        git("worktree", "prune", cwd=repo)
        rounds += 1
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert "notice" not in err
    assert rounds > 1
    fsck(repo)
    assert len(timeline(out.strip(), repo)) == visits
