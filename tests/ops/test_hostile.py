"""Surroundings that stand against a run: settings, environment, hooks, and its own nodes.

None of it changes what is recorded or what is the user's, and no program of it is run by us.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import git
from tests.ops.journey import (
    Odd,
    fsck,
    notices_of,
    soil,
    timeline,
    unchanged,
    users_state,
)
from tests.program import Program, Result, write_workflow

# Nodes that do harm.


@dataclass
class Harm:
    """What a node does, and what comes of it."""

    script: str
    notices: list[str] = field(default_factory=list)  # how they begin
    made: set[str] = field(default_factory=set)  # in the tree, beside what the others make
    lost: set[str] = field(default_factory=set)  # of what the others make
    own: list[str] = field(default_factory=list)  # subjects of commits that stay in the run
    readme: str = "hello\nmore\nagain"
    touches: set[str] = field(default_factory=set)  # what of the user's it changes itself


ASIDE = "HEAD "
MOVED = "branch 'refs/heads/wf/run/"
COMMON = '"$(git rev-parse --git-common-dir)"'
OWN = '"$(git rev-parse --absolute-git-dir)"'
HARMS = {
    "commits": Harm("echo 1 >x; git add -A; git commit -q -m own", made={"x"}, own=["own"]),
    "commits_detached": Harm(
        "git switch -q --detach; git commit -q --allow-empty -m own", own=["own"]
    ),
    "amends": Harm("git commit -q --amend --allow-empty -m amended", [ASIDE]),
    "switches": Harm("git switch -q -c side-$$", touches={"refs"}),
    "orphans": Harm(
        "git checkout -q --orphan lone-$$; git commit -q -m lone", [ASIDE], touches={"refs"}
    ),
    "resets": Harm("git reset -q --hard HEAD~1", lost={"before"}, readme="hello\nagain"),
    "moves_head": Harm("git update-ref --no-deref HEAD HEAD~1"),
    "unborn": Harm("git symbolic-ref HEAD refs/heads/nowhere"),
    "rebases": Harm(
        "git commit -q --allow-empty -m x; git rebase -q --onto HEAD~2 HEAD~1", [ASIDE],
        lost={"before"}, readme="hello\nagain",
    ),
    "conflicts": Harm(
        "echo 1 >c; git add c; git commit -q -m 1; git switch -q --detach HEAD~1; "
        "echo 2 >c; git add c; git commit -q -m 2; git merge -q ORIG_HEAD @{1} || true",
        [MOVED], made={"c"}, own=["2"],
    ),
    "bisects": Harm("git bisect start -q HEAD HEAD~1 >/dev/null"),
    "deletes_branch": Harm(
        "b=$(git branch --show-current); git switch -q --detach; git branch -q -D $b"
    ),
    "deletes_metadata": Harm(
        "git update-ref -d refs/wf/meta/$GIT_WF_RUN_ID", ["ref 'refs/wf/meta/"]
    ),
    "prunes_refs": Harm(
        "git init -q --bare $TMP/empty$$; git fetch -q --prune --update-head-ok $TMP/empty$$ "
        "'+refs/wf/*:refs/wf/*' '+refs/heads/wf/*:refs/heads/wf/*'",
        ["ref 'refs/wf/meta/"],
    ),
    "removes_dot_git": Harm("rm .git"),
    "own_repository": Harm("rm .git; git init -q; git add -A; git commit -q -m mine"),
    "links_dot_git": Harm("rm .git; ln -s nowhere .git"),
    "pipes_dot_git": Harm("rm .git; mkfifo .git"),
    "removes_index": Harm(f"rm {OWN}/index"),
    "breaks_index": Harm(f"echo broken >{OWN}/index"),
    "empties_index": Harm("git read-tree --empty"),
    "index_is_a_directory": Harm(f"d={OWN}; rm $d/index; mkdir $d/index; touch $d/index/x"),
    "removes_head": Harm(f"rm {OWN}/HEAD"),
    "removes_git_dir": Harm(f"rm -r {OWN}"),
    "removes_worktrees": Harm(f"rm -r {COMMON}/worktrees"),
    "becomes_a_link": Harm('d="$PWD"; cd /; mv "$d" "$d.moved"; ln -s "$d.moved" "$d"'),
    "ignores_all": Harm("echo '*' >.gitignore", lost={"after"}),
    "sparse": Harm("git sparse-checkout set --no-cone nothing", readme="again", touches={"config"}),
    "collects": Harm("git gc -q --prune=now; git repack -adfq; git worktree prune"),
    "stashes": Harm("echo x >>README; git stash -q", touches={"stash", "refs"}),
}  # fmt: skip
NODES = """
    before [script="echo before >before; echo more >>README"]
    harm [script="{script}"]
    after [script="echo after >after; echo again >>README"]
    start -> before -> harm -> after -> exit
"""


def quoted(script: str) -> str:
    """As a workflow file has it."""
    return script.replace("\\", "\\\\").replace('"', '\\"')


def tree(repo: Path, run: str) -> set[str]:
    listed = git("ls-tree", "-r", "--name-only", f"refs/heads/wf/run/{run}", cwd=repo)
    return set(listed.splitlines())


@pytest.mark.parametrize("name", HARMS)
def test_a_node_that(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its work is recorded, the nodes after it are not hindered, and nothing is lost."""
    harm = HARMS[name]
    monkeypatch.setenv("TMP", os.fspath(tmp_path))
    workflow = write_workflow(tmp_path / "w.dot", NODES.format(script=quoted(harm.script)))
    odd = soil(Odd(repo))
    state = users_state(repo)

    def judge(told: Result, run: str) -> None:
        notices = [line for line in notices_of(told) if not line.startswith("starting from")]
        assert len(notices) == len(harm.notices), notices
        assert all(map(str.startswith, notices, harm.notices)), notices
        assert timeline(odd, run) == [(node, 1, "success") for node in ("before", "harm", "after")]
        subjects = git("log", "--first-parent", "--format=%s", f"main..wf/run/{run}", cwd=repo)
        own = [line for line in subjects.splitlines() if not line.startswith("wf(")]
        assert own == harm.own
        assert tree(repo, run) == {"README", "before", "after"} - harm.lost | harm.made
        assert git("show", f"wf/run/{run}:README", cwd=repo) == harm.readme
        fsck(odd)

    result = wf.ok("run", workflow)
    run = result.out.strip()
    judge(result, run)
    wf.ok("rewind", run, "before")
    judge(wf.ok("resume", run), run)
    after = users_state(repo)
    assert {key for key in state if state[key] != after[key]} == harm.touches


GONE = {
    "removed": 'd="$PWD"; cd /; rm -r "$d"',
    "a_file": 'd="$PWD"; cd /; rm -r "$d"; echo x >"$d"',
    "removed_by_git": "git worktree unlock .; git worktree remove --force .",
    "moved": 'git worktree unlock .; git worktree move . "$PWD.moved"',
}


@pytest.mark.parametrize("how", GONE)
def test_a_worktree_that_is_gone(wf: Program, repo: Path, tmp_path: Path, how: str) -> None:
    """The next node fails, by that reason; a rewind and a resumption go on in a new one."""
    script = f"test -e {tmp_path}/done && exit; touch {tmp_path}/done; {GONE[how]}"
    workflow = write_workflow(tmp_path / "w.dot", NODES.format(script=quoted(script)))
    odd = soil(Odd(repo))
    with unchanged(odd):
        result = wf("run", workflow)
        run = result.out.strip()
        gone = f"{os.environ['XDG_STATE_HOME']}/git-wf/repo-"
        assert result.status == 1
        assert timeline(odd, run) == [("before", 1, "success")]
        notices = notices_of(result)[1:]
        begin = f"no checkpoint could be recorded: the worktree of the run is gone: '{gone}"
        assert [line.startswith(begin) for line in notices] == [True, True, False]
        assert notices[2] == "2 checkpoints could not be recorded"
        (failed,) = (line for line in result.err.splitlines() if line.startswith("  after@1"))
        assert failed.startswith(f"  after@1 fail 0ms: run 'sh' in '{gone}")
        wf.ok("rewind", run, "before")
        assert notices_of(wf.ok("resume", run)) == []
        assert tree(repo, run) == {"README", "before", "after"}


@pytest.mark.parametrize(
    ("key", "value"),
    [("core.bare", "true"), ("core.worktree", "TMP"), ("core.sparseCheckout", "true")],
)
def test_a_node_that_sets(wf: Program, repo: Path, tmp_path: Path, key: str, value: str) -> None:
    """What all worktrees share, and the next node's git, but none of ours, is led astray by."""
    (tmp_path / "empty").mkdir()
    value = value.replace("TMP", os.fspath(tmp_path / "empty"))
    script = f"git config {key} {value}"
    workflow = write_workflow(tmp_path / "w.dot", NODES.format(script=script))
    odd = soil(Odd(repo))
    state = users_state(repo)
    run = wf.ok("run", workflow).out.strip()
    wf.ok("rewind", run, "before")
    assert notices_of(wf.ok("resume", run)) == []
    wf.ok("log", run)
    git("config", "--unset", key, cwd=repo)
    if key == "core.bare":
        git("config", key, "false", cwd=repo)
    after = users_state(repo)
    assert {key for key in state if state[key] != after[key]} <= {"config"}
    assert timeline(odd, run) == [(node, 1, "success") for node in ("before", "harm", "after")]
    assert tree(repo, run) == {"README", "before", "after"}
    fsck(odd)
