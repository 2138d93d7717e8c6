"""Surroundings that stand against a run: settings, environment, hooks, and its own nodes.

None of it changes what is recorded or what is the user's, and no program of it is run by us.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git, make_repo
from tests.ops.journey import (
    Odd,
    fsck,
    notices_of,
    soil,
    timeline,
    travel,
    unchanged,
    users_state,
)
from tests.ops.runs import TRAILERS
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
    "removes_scratch": Harm('rm -r "$(dirname "$GIT_WF_CONTEXT")"'),
    "blocks_scratch": Harm('d="$(dirname "$GIT_WF_CONTEXT")"; rm -r "$d"; echo x >"$d"'),
    "scratch_directories": Harm("rm $GIT_WF_CONTEXT; mkdir $GIT_WF_CONTEXT $GIT_WF_STATUS"),
    "scratch_pipes": Harm("rm $GIT_WF_CONTEXT; mkfifo $GIT_WF_CONTEXT $GIT_WF_STATUS"),
    "scratch_links": Harm(
        "for f in CONTEXT STATUS; do eval f=\\$GIT_WF_$f; rm -f $f; ln -s $TMP/victim $f; done"
    ),
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


# More of the same as one that stays.
SLOW_HARMS = {
    "commits_detached", "moves_head", "links_dot_git", "pipes_dot_git", "removes_index",
    "empties_index", "removes_head", "removes_worktrees", "scratch_pipes", "bisects",
}  # fmt: skip


def slowly(names: Iterable[str], slow: Container[str]) -> list[Any]:
    """Parameters, some of them in the slow tier."""
    return [pytest.param(one, marks=pytest.mark.slow) if one in slow else one for one in names]


@pytest.mark.parametrize("name", slowly(HARMS, SLOW_HARMS))
def test_a_node_that(
    wf: Program, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its work is recorded, the nodes after it are not hindered, and nothing is lost."""
    harm = HARMS[name]
    monkeypatch.setenv("TMP", os.fspath(tmp_path))
    (tmp_path / "victim").write_text("{}")
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
    assert (tmp_path / "victim").read_text() == "{}"


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
        assert failed.startswith(f"  after@1 fail 0ms: run 'sh': '{gone}")
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


# Settings and environment. What is in capitals is filled in.

SETTINGS = """
[status] showUntrackedFiles = no
 short = true
 branch = true
 submoduleSummary = true
 relativePaths = false
 displayCommentPrefix = true
 renames = copies
[diff] external = EVIL
 noprefix = true
 mnemonicPrefix = true
 relative = true
 ignoreSubmodules = all
 renames = copies
 renameLimit = 1
 context = 0
 algorithm = patience
 colorMoved = zebra
 statGraphWidth = 1
 statNameWidth = 3
 submodule = log
 wsErrorHighlight = all
 autoRefreshIndex = false
 orderFile = not-in-every-worktree
 dirstat = lines
[diff "evil"] textconv = EVIL
 command = EVIL
[merge] conflictStyle = diff3
 renormalize = true
[log] showSignature = true
 showRoot = false
 follow = true
 decorate = full
 date = human
 abbrevCommit = true
 mailmap = true
 diffMerges = combined
 initialDecorationSet = all
[format] pretty = fuller
[core] quotePath = true
 fsmonitor = EVIL
 fsmonitorHookVersion = 2
 hooksPath = HOOKS
 abbrev = 4
 pager = EVIL
 editor = EVIL
 askPass = EVIL
 sshCommand = EVIL
 gitProxy = EVIL
 alternateRefsCommand = EVIL
 logAllRefUpdates = false
 untrackedCache = true
 splitIndex = true
 attributesFile = ATTRIBUTES
 commentChar = "w"
 warnAmbiguousRefs = true
 precomposeUnicode = true
 preloadIndex = true
 checkStat = minimal
 trustctime = false
 ignoreStat = true
 createObject = link
 multiPackIndex = false
 compression = 0
 sharedRepository = group
 whitespace = trailing-space
 safecrlf = true
 useReplaceRefs = true
[color] ui = always
 diff = always
 status = always
 branch = always
[column] ui = always
[commit] gpgSign = true
 template = nowhere
 cleanup = scissors
 verbose = true
[tag] gpgSign = true
[push] gpgSign = true
[gpg] program = EVIL
 format = ssh
[user] signingKey = nobody
[gc] auto = 1
 autoDetach = true
[maintenance] auto = false
[pack] packSizeLimit = 1m
 indexVersion = 1
 threads = 1
[init] templateDir = TEMPLATE
 defaultBranch = trunk
[trailer] separators = "="
 ifexists = replace
[trailer "WF-Node"] key = "WF-Forged: "
[submodule] recurse = true
[feature] manyFiles = true
 experimental = true
[index] version = 4
 sparse = true
 skipHash = false
[fetch] recurseSubmodules = true
 prune = true
[checkout] workers = 2
 guess = false
 defaultRemote = nowhere
[branch] autoSetupMerge = always
 autoSetupRebase = always
 sort = -committerdate
[worktree] guessRemote = true
[clean] requireForce = true
[rerere] enabled = true
 autoUpdate = true
[i18n] commitEncoding = latin1
 logOutputEncoding = latin1
[transfer] hideRefs = refs/wf
 fsckObjects = true
[advice] detachedHead = true
[help] autoCorrect = immediate
[interactive] diffFilter = EVIL
[credential] helper = EVIL
[protocol] allow = never
[safe] bareRepository = explicit
[grep] fallbackToNoIndex = false
[alias] status = "!EVIL"
 update-ref = "!EVIL"
 wf-log = "!EVIL"
[pager] log = EVIL
 wf = EVIL
 wf-log = EVIL
"""


HOOKS = (
    "post-checkout", "reference-transaction", "post-index-change", "pre-commit", "commit-msg",
    "pre-auto-gc", "post-commit", "post-rewrite", "fsmonitor-watchman",
)  # fmt: skip


def evil(place: Path) -> Path:
    """A program, hooks and attributes that must not be used; it leaves a mark when it is run."""
    program = place / "evil"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >>{place}/was-run\nexit 1\n')
    program.chmod(0o755)
    for directory in ("hooks", "template/hooks"):
        (place / directory).mkdir(parents=True)
        for hook in HOOKS:
            shutil.copy(program, place / directory / hook)
    (place / "attributes").write_text("* diff=evil\n")
    return program


def filled(text: str, place: Path) -> str:
    values = {"EVIL": "evil", "HOOKS": "hooks", "TEMPLATE": "template", "ATTRIBUTES": "attributes"}
    for word, name in values.items():
        text = text.replace(word, os.fspath(place / name))
    return text


def surrounded(wf: Program, monkeypatch: pytest.MonkeyPatch, env: Mapping[str, str]) -> Program:
    """The program among these variables; the judge is not."""

    def call(*words: str | Path, cwd: Path) -> Result:
        with monkeypatch.context() as patch:
            for key, value in env.items():
                patch.setenv(key, value)
            return wf(*words, cwd=cwd)

    return call  # type: ignore[return-value]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "surroundings"
    path.mkdir()
    evil(path)
    return path


def judge_evil(place: Path) -> None:
    mark = place / "was-run"
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("level", ["global", "command"])
def test_settings(
    wf: Program, repo: Path, place: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    config = place / "config"
    config.write_text(filled(SETTINGS, place))
    env = {"GIT_CONFIG_GLOBAL": os.fspath(config)}
    if level == "command":  # as from `git -c`, which is stronger than what the repository says
        listed = git("config", "--file", str(config), "--null", "--list", cwd=place).split("\0")
        pairs = [one.partition("\n") for one in listed if one]
        env = {"GIT_CONFIG_COUNT": str(len(pairs))}
        for number, (key, _, value) in enumerate(pairs):
            env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    # The node's own git would run what is set: a repository is made without.
    clean = "GIT_CONFIG_GLOBAL= GIT_CONFIG_COUNT=0 git init -q --template= nested"
    script = f'rm link; ln -s README link; mv moved "é w"; {clean}; touch nested/x'
    (repo / "link").symlink_to("nowhere")
    (repo / "moved").write_text("moved\n" * 9)
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "more", cwd=repo)
    begin = "nested repositories stored as plain files: nested/"
    odd = soil(Odd(repo, script=script, paths=["link", "é w", "nested/x"], notices=[begin]))
    travel(surrounded(wf, monkeypatch, env), odd, place / "w.dot")
    judge_evil(place)


REPOSITORY_SETTINGS = {
    "programs": {
        "core.fsmonitor": "EVIL",
        "core.hooksPath": "HOOKS",
        "commit.gpgSign": "true",
        "gpg.program": "EVIL",
        "diff.external": "EVIL",
        "core.pager": "EVIL",
        "core.sshCommand": "EVIL",
    },
    "file_system": {"core.ignoreCase": "true", "core.fileMode": "false", "core.symlinks": "false"},
}


@pytest.mark.parametrize("name", REPOSITORY_SETTINGS)
def test_settings_of_the_repository(wf: Program, repo: Path, place: Path, name: str) -> None:
    """They are there for the nodes' git too; the judge does without."""
    odd = soil(Odd(repo))
    config = repo / ".git" / "config"

    def call(*words: str | Path, cwd: Path) -> Result:
        before = config.read_bytes()
        for key, value in REPOSITORY_SETTINGS[name].items():
            git("config", key, filled(value, place), cwd=repo)
        set_to = config.read_bytes()
        result = wf(*words, cwd=cwd)
        assert config.read_bytes() == set_to
        config.write_bytes(before)
        return result

    travel(call, odd, place / "w.dot")
    judge_evil(place)


def test_hooks_of_the_repository(wf: Program, repo: Path, place: Path) -> None:
    shutil.copytree(place / "hooks", repo / ".git" / "hooks", dirs_exist_ok=True)
    odd = Odd(repo)  # soiling it would run them
    travel(wf, odd, place / "w.dot")
    judge_evil(place)


# One after the other in the slow tier; at once in the other.
SLOW_INHERITED = (
    "no_config", "other_history", "pathspecs", "programs", "locale", "template", "parameters",
)  # fmt: skip
INHERITED: dict[str, dict[str, str]] = {
    "hook": {"GIT_DIR": ".git", "GIT_INDEX_FILE": "INDEX", "GIT_PREFIX": "", "GIT_EDITOR": ":"},
    "hook_of_a_push": {
        "GIT_DIR": "REPO/.git",
        "GIT_OBJECT_DIRECTORY": "REPO/.git/objects/tmp_objdir-incoming-x",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": "REPO/.git/objects",
        "GIT_QUARANTINE_PATH": "REPO/.git/objects/tmp_objdir-incoming-x",
        "GIT_PUSH_OPTION_COUNT": "0",
    },
    "alias": {"GIT_DIR": "REPO/.git", "GIT_WORK_TREE": "REPO", "GIT_PREFIX": "sub/"},
    "submodule": {"GIT_INTERNAL_SUPER_PREFIX": "x/", "GIT_NAMESPACE": "other"},
    "no_config": {"GIT_CONFIG": "PLACE/nothing", "GIT_CONFIG_SYSTEM": "PLACE/nothing"},
    "other_history": {
        "GIT_SHALLOW_FILE": "PLACE/nothing",
        "GIT_GRAFT_FILE": "PLACE/nothing",
        "GIT_REPLACE_REF_BASE": "refs/heads/",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_ATTR_SOURCE": "HEAD",
    },
    "pathspecs": {"GIT_LITERAL_PATHSPECS": "1", "GIT_INDEX_VERSION": "4", "GIT_FLUSH": "0"},
    "other_pathspecs": {"GIT_ICASE_PATHSPECS": "1", "GIT_OPTIONAL_LOCKS": "0"},
    "programs": {
        name: "PLACE/evil"
        for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "PAGER", "GIT_EDITOR", "EDITOR", "VISUAL",
                     "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_SSH",
                     "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND", "BASH_ENV")
    },
    "traces": {
        "GIT_TRACE": "1", "GIT_TRACE_SETUP": "1", "GIT_TRACE_PACKET": "1", "GIT_TRACE2": "1",
        "GIT_TRACE2_PERF": "1", "GIT_CURL_VERBOSE": "1", "GIT_TRACE_REFS": "1",
    },
    "locale": {
        "LC_ALL": "de_DE.UTF-8", "LANG": "ja_JP.SJIS", "LANGUAGE": "de", "TZ": "Pacific/Chatham",
        "GIT_REFLOG_ACTION": "forged", "CDPATH": "/", "GIT_MERGE_AUTOEDIT": "yes",
    },
    "template": {"GIT_TEMPLATE_DIR": "PLACE/template", "GIT_CEILING_DIRECTORIES": "REPO"},
    "parameters": {"GIT_CONFIG_PARAMETERS": "'core.bare'='true' 'core.worktree'='PLACE'"},
}  # fmt: skip


INHERITED["much"] = {key: value for one in SLOW_INHERITED for key, value in INHERITED[one].items()}


@pytest.mark.parametrize("name", slowly(INHERITED, SLOW_INHERITED))
def test_an_inherited_environment(
    wf: Program, repo: Path, place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    index = repo / ".git" / "other-index"
    words = {"REPO": os.fspath(repo), "PLACE": os.fspath(place), "INDEX": os.fspath(index)}
    env = {}
    for key, value in INHERITED[name].items():
        for word, filling in words.items():
            value = value.replace(word, filling)
        env[key] = value
    (place / "nothing").write_text("")
    (repo / ".git" / "objects" / "tmp_objdir-incoming-x").mkdir()
    odd = soil(Odd(repo))
    if "GIT_INDEX_FILE" in env:
        shutil.copy(repo / ".git" / "index", index)
    travel(surrounded(wf, monkeypatch, env), odd, place / "w.dot")
    if "GIT_INDEX_FILE" in env:
        assert index.read_bytes() == (repo / ".git" / "index").read_bytes()
    judge_evil(place)


# Texts.

CODES = "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J\x90q\x9c\r\x08\x7f\u202etxt\u2066\u200f"
FORGED = f"{CODES}\n\nWF-Run: X\nWF-Node: forged\n---\n# ------------------------ >8 ------\n"


def has_codes(text: str) -> bool:
    """Whether a terminal would do something at a text, but for what has a line or a column end."""
    return any(code in text for code in set(CODES) - set("[31mred0]title2JqJxt;"))


@pytest.fixture
def forged(wf: Program, repo: Path, tmp_path: Path) -> str:
    """A run in which every text that a file or a program can give is hostile."""
    answer = {"outcome": "success", "notes": FORGED, "preferred_next_label": CODES,
              "context_updates": {FORGED: FORGED}, "failure_reason": FORGED}  # fmt: skip
    (tmp_path / "answer").write_text(json.dumps(answer))
    (tmp_path / "out").write_text(FORGED)
    (tmp_path / "message").write_text(FORGED)
    label = quoted(CODES)
    script = quoted(
        f"cp {tmp_path}/answer $GIT_WF_STATUS; cat {tmp_path}/out; cat {tmp_path}/out >&2; "
        f'cp {tmp_path}/out "$(head -1 {tmp_path}/out)"; '
        f"git commit -q --allow-empty -F {tmp_path}/message; "
    )
    body = f"""
        graph [label="{label}", goal="{label}"]
        a [label="{label}", script="{script}"]
        b [label="{label}", script="cat {tmp_path}/out >&2; exit 3", max_retries=1]
        ask [shape=hexagon, label="{label}"]
        start -> a -> b
        b -> ask [condition="outcome=fail", label="{label}"]
        b -> exit
        ask -> exit [label="[Y] {label}"]
        ask -> b [label="[N] {label}"]
    """
    workflow = write_workflow(tmp_path / f"w{CODES.replace('/', '')}.dot", body)
    result = wf("run", workflow, "-v", "--label", f"k={FORGED}", "--goal", FORGED)
    assert result.status == 3, result.err
    assert not has_codes(result.err + result.out)
    return result.out.strip()


READERS = [
    ["log"], ["show", "a"], ["show", "b"], ["show", "@0"], ["runs"], ["rewind", "--list"],
    ["fork", "--list"], ["graph", "--format", "text"],
]  # fmt: skip


def test_readers_show_plain_text(wf: Program, forged: str) -> None:
    for words in READERS:
        result = wf.ok(*words)
        assert not has_codes(result.out + result.err), words
    for words in READERS[:5]:
        told = wf.ok(*words, "--json")
        assert not has_codes(told.out + told.err), words
    assert wf.ok("log", "--json").json["waiting"]["question"] == CODES


def test_a_live_report_is_plain_text(wf: Program, forged: str, repo: Path) -> None:
    result = wf.ok("resume", "--answer", "Y", "-v")
    assert not has_codes(result.out + result.err)
    wf.ok("rewind", "@1")
    result = wf("resume", "--json", "--auto-approve")
    assert not has_codes(result.out + result.err)
    events = [json.loads(line) for line in result.out.splitlines()]
    assert {event["run_id"] for event in events} == {forged}


def test_what_is_recorded_is_what_it_says(wf: Program, forged: str, repo: Path) -> None:
    told = git("log", "--first-parent", "--format=%B%x00", f"main..wf/run/{forged}", cwd=repo)
    own = [text.strip("\n") for text in told.split("\0") if text.strip("\n").startswith("wf(")]
    assert len(own) == 2
    for text, node in zip(own, ("b", "a"), strict=True):
        assert not has_codes(text)
        parsed = git("interpret-trailers", "--parse", cwd=repo, stdin=text.encode()).splitlines()
        assert [line.partition(":")[0] for line in parsed] == TRAILERS
        assert {f"WF-Run: {forged}", f"WF-Node: {node}"} <= set(parsed)
    refs = git("for-each-ref", "--format=%(refname)", cwd=repo).splitlines()
    assert refs == ["refs/heads/main", f"refs/heads/wf/run/{forged}", f"refs/wf/meta/{forged}"]
    stored = git("ls-tree", "-r", "-z", "--name-only", f"wf/meta/{forged}", cwd=repo).split("\0")
    assert not any(has_codes(path) or ".." in path for path in stored)
    metadata = git("log", "--format=%B", f"wf/meta/{forged}", cwd=repo)
    assert not has_codes(metadata)
    reasons = git("reflog", "--format=%gs", f"refs/heads/wf/run/{forged}", cwd=repo).splitlines()
    assert [line for line in reasons if not line.startswith("commit: ")] == [
        "wf: checkpoint", "wf: checkpoint", f"wf: run {forged}",
    ]  # fmt: skip


def test_errors_are_plain_text(wf: Program, repo: Path, tmp_path: Path, forged: str) -> None:
    bad = tmp_path / "bad.dot"
    bad.write_text(f'digraph G {{ a{CODES} [label="x"] }}')
    config = tmp_path / "bad.toml"
    config.write_text(f"[{json.dumps(CODES)}]\nx = 1\n")
    cases = [
        ["run", bad], ["validate", bad], ["run", config], ["validate", config],
        ["run", tmp_path / CODES], ["graph", f"{CODES}.dot"], ["graph", bad],
        ["log", CODES], ["show", CODES], ["show", f"{CODES}@2"], ["rewind", CODES], ["fork", CODES],
        ["resume", CODES], ["resume", "--answer", f"{CODES}?"], ["run", "--id", CODES, bad],
        ["run", "--label", CODES, bad], ["run", "--input", CODES, bad], [CODES], [f"--{CODES}"],
        ["log", f"--{CODES}"], ["fork", "--id", CODES], ["run", "--dirty", CODES, bad],
        ["validate", "--format", CODES, bad], ["validate", bad, "--json"],
        ["run", "--resume", tmp_path / CODES], ["run", "--run-branch", CODES],
    ]  # fmt: skip
    for words in cases:
        result = wf(*words)
        assert result.status in (1, 128, 129), (words, result)
        assert not has_codes(result.out + result.err), (words, result)
        assert "a fault in git-wf" not in result.err, (words, result)
    result = wf("run", tmp_path / "no\nhint: rm -rf ~")
    assert not [line for line in result.err.splitlines() if line.startswith("hint: rm")]
    for key in ("namespace", "dirty", "stateDir", "retryDelay", "excludeGlobs"):
        git("config", f"wf.{key}", f"{CODES}[", cwd=repo)
        for words in (["log"], ["run", bad]):
            result = wf(*words)
            assert not has_codes(result.out + result.err), (key, words, result)
        git("config", "--unset", f"wf.{key}", cwd=repo)


def test_what_is_to_be_typed_is_quoted(wf: Program, tmp_path: Path) -> None:
    """A branch or a path that has what a shell obeys."""
    name = "$(touch${IFS}pwned);'x"
    repo = make_repo(tmp_path / "it's $(touch pwned)")
    git("switch", "-q", "-c", name, cwd=repo)
    workflow = write_workflow(tmp_path / "a b;$(touch pwned).dot", "start -> nothing")
    result = wf("run", workflow, cwd=repo)
    assert result.err.splitlines()[-1] == f"hint: git wf validate '{workflow}'"
    workflow = write_workflow(workflow, 'a [script="exit 1"] start -> a -> exit')
    result = wf("run", workflow, cwd=repo)
    run = result.out.strip()
    told = [line for line in result.err.splitlines() if " git diff " in line]
    assert shlex.split(told[0]) == ["git", "diff", f"{name}...wf/run/{run}"]
    git("worktree", "add", "-q", "../it's mine", f"wf/run/{run}", cwd=repo)
    hint = wf("rewind", run, "@0", cwd=repo).err.splitlines()[-1].removeprefix("hint: ")
    assert shlex.split(hint)[:3] == ["git", "-C", os.fspath(tmp_path / "it's mine")]
