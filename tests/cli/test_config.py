"""What run.toml adds to a run: prepare steps, hooks, the environment, kinds of other packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from git_wf.engine import plugins
from git_wf.engine.hooks import EVENTS
from tests.conftest import git
from tests.judge import untouched
from tests.program import Program, run_id, write_workflow
from tests.tree import ROOT

TWO = 'a [script="cat ready >a"] b [script="echo b >b"] start -> a -> b -> exit'
NUL_HINT = "write it without: no program could be given one"
Configure = Callable[..., Path]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Writes a workflow and a run.toml of it."""

    def write(body: str, toml: str) -> Path:
        write_workflow(tmp_path / "w.dot", body)
        path = tmp_path / "run.toml"
        path.write_text(f'[workflow]\ngraph = "w.dot"\n{toml}')
        return path

    return write


def file_of(repo: Path, name: str, run: int = 1) -> str:
    return git("show", f"wf/run/{run_id(run)}:{name}", cwd=repo)


# Prepare steps.

PREPARE = """
[[run.prepare.steps]]
script = "echo x >>{log}"
[[run.prepare.steps]]
script = "echo ready >ready; test ! -e {stop}"
timeout = "30s"
[checkpoint]
exclude_globs = ["ready"]
"""


@pytest.fixture
def steps(configure: Configure, tmp_path: Path) -> Path:
    """A run.toml whose steps write into `log`, and fail while there is a file `stop`."""
    return configure(TWO, PREPARE.format(log=tmp_path / "log", stop=tmp_path / "stop"))


def test_steps_run_before_the_first_node(wf: Program, repo: Path, steps: Path) -> None:
    result = wf.ok("run", steps)
    assert "notice: step 2 of 2: echo ready >ready; test ! -e" in result.err
    assert file_of(repo, "a") == "ready"
    assert steps.with_name("log").read_text() == "x\n"


def test_a_step_that_fails_ends_the_run(wf: Program, repo: Path, steps: Path) -> None:
    steps.with_name("stop").touch()
    result = wf("run", steps)
    assert result.status == 1
    assert "\nfail: prepare step 2: exit status 1" in result.err
    conclusion = git("show", f"refs/wf/meta/{run_id(1)}:conclusion.json", cwd=repo)
    assert json.loads(conclusion)["failure_reason"] == "prepare step 2: exit status 1"
    steps.with_name("stop").unlink()
    wf.ok("rewind", "@0")
    wf.ok("resume")
    assert file_of(repo, "a") == "ready"


def test_a_new_worktree_is_prepared_again(wf: Program, repo: Path, steps: Path) -> None:
    wf.ok("run", steps)
    wf.ok("rewind", "a")
    wf.ok("resume")  # the worktree of the run was given back when it ended
    assert steps.with_name("log").read_text() == "x\nx\n"


@pytest.mark.parametrize(("node", "count"), [("a", 2), ("b", 1)])
def test_a_worktree_that_is_still_there(
    wf: Program, repo: Path, steps: Path, node: str, count: int
) -> None:
    """Killed in a node: once a checkpoint has what the steps left, they do not run again."""
    go = steps.with_name("go")
    kill = {"a": "", "b": "", node: f"test -e {go} || kill -9 $PPID; "}
    body = f'a [script="{kill["a"]}cat ready >a"] b [script="{kill["b"]}echo b >b"]'
    write_workflow(steps.with_name("w.dot"), f"{body} start -> a -> b -> exit")
    env = {**os.environ, "PYTHONPATH": os.fspath(ROOT)}
    words = [sys.executable, "-m", "git_wf", "run", str(steps)]
    done = subprocess.run(words, cwd=repo, env=env, capture_output=True)
    assert done.returncode == -9
    go.touch()
    wf.ok("resume")
    assert steps.with_name("log").read_text() == "x\n" * count


def test_steps_of_a_run_in_place(wf: Program, repo: Path, steps: Path) -> None:
    wf.ok("run", "--in-place", steps)
    assert (repo / "a").read_text() == "ready\n"


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        (
            '[[run.prepare.steps]]\nscript = " "',
            "'run.prepare.steps[0].script' is empty\nhint: script = \"make deps\"",
        ),
        (
            '[[run.prepare.steps]]\nscript = "true"\ntimeout = "soon"',
            "'run.prepare.steps[0].timeout': 'soon' is not a duration\n"
            'hint: timeout = "30s", or ms, m, h, d',
        ),
        (
            '[[run.hooks]]\nevent = "stage_begin"\nscript = "true"',
            "'run.hooks[0].event': unknown event 'stage_begin'\n"
            f"hint: {', '.join(EVENTS)}",
        ),
        (
            '[[run.hooks]]\nevent = "stage_start"\nmatcher = "a("\nscript = "true"',
            "'run.hooks[0].matcher': bad expression: missing ), unterminated subpattern at "
            "position 1\nhint: a regular expression as Python reads it, such as ^build$",
        ),
        (
            '[[run.hooks]]\nevent = "stage_start"\nscript = "true"\nhttp = "http://localhost"',
            "'run.hooks[0]': one of script, command and http is needed\n"
            'hint: script = "./check.sh", or command = ["…"], or http = "https://…"',
        ),
        (
            '[[run.hooks]]\nevent = "stage_start"\nscript = "true"\ntimeout = "x"',
            "'run.hooks[0].timeout': 'x' is not a duration\n"
            'hint: timeout = "30s", or ms, m, h, d',
        ),
        (
            '[[run.hooks]]\nevent = "stage_start"\nhttp = "http://[::1"',
            "'run.hooks[0].http': bad address 'http://[::1': invalid IPv6 URL\n"
            'hint: http = "https://example.org/path"',
        ),
        (
            "[run.env]\n'A=B' = 'c'",
            "'run.env': 'A=B' is no name of a variable\n"
            'hint: one line a variable: NAME = "value"',
        ),
        (
            '[run.env]\nA = "x\\u0000y"',
            f"'run.env.A' has a NUL byte\nhint: {NUL_HINT}",
        ),
        (
            '[[run.prepare.steps]]\nscript = "true \\u0000 y"',
            f"'run.prepare.steps[0].script' has a NUL byte\nhint: {NUL_HINT}",
        ),
        (
            '[agents.x]\ncommand = ["true", "\\u0000"]',
            f"'agents.x.command[1]' has a NUL byte\nhint: {NUL_HINT}",
        ),
        (
            "[run.env]\nA = 3",
            "'run.env.A': a string or a table is needed, not a number\nhint: A = \"3\"",
        ),
        (
            '[[run.hooks]]\nevnt = "stage_start"',
            "unknown key 'run.hooks[0].evnt'\nhint: did you mean 'run.hooks[0].event'?",
        ),
        (
            '[run.env]\nKEY = { from = "abc", secret = true }',
            "'run.env.KEY' is a secret that stands in the file\n"
            'hint: KEY = { from = "{{ env.KEY }}", secret = true } reads it from the environment',
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_before_anything_is_made(
    wf: Program, repo: Path, configure: Configure, toml: str, told: str
) -> None:
    path = configure(TWO, toml)
    with untouched(repo):
        wf.fails(128, ["run", str(path)], f"error: {path}: {told}\n")
        result = wf("validate", path, "--json")
    assert list((Path(os.environ["XDG_STATE_HOME"])).rglob("*")) == []
    (found,) = result.json["files"][0]["diagnostics"]
    assert (result.status, found["rule"], found["severity"]) == (1, "run_config", "error")
    assert found["message"] == told.partition("\n")[0]


# Hooks.

EVERY = """start -> f
f [shape=component] join [shape=tripleoctagon]
x [script="true"] y [script="echo t >>tries; test $(wc -l <tries) -gt 1", max_retries=1]
f -> x f -> y x -> join y -> join
bad [script="exit 3"] join -> bad
bad -> exit [condition="outcome=fail"] bad -> lost [condition="outcome=success"]
lost [script="exit 4"] lost -> exit"""


def tell(log: Path, event: str, more: str = "") -> str:
    """A hook that writes what it is told, a JSON object a line."""
    return (
        f'[[run.hooks]]\nevent = "{event}"\nscript = \'printf "%s\\n" "$(cat)" >>{log}\'\n{more}\n'
    )


def test_all_events(wf: Program, repo: Path, configure: Configure, tmp_path: Path) -> None:
    log = tmp_path / "log"
    git("config", "wf.retryDelay", "1ms", cwd=repo)
    hooks = "".join(tell(log, event, "blocking = true") for event in EVENTS)
    wf.ok("run", configure(EVERY, hooks))
    told = [json.loads(line) for line in log.read_text().splitlines()]
    seen = {one["event"] for one in told}
    assert seen == {*EVENTS} - {"run_failed"}
    assert told[0]["event"] == "run_start" and told[-1]["event"] == "run_complete"
    of = {one["event"]: one for one in told}
    common = {"event", "run_id", "workflow", "goal", "work_dir", "context"}
    assert all(common <= one.keys() for one in told)
    assert of["stage_failed"]["node"] == "bad" and of["stage_failed"]["reason"] == "exit status 3"
    assert of["stage_retrying"]["node"] == "y" and of["stage_retrying"]["attempt"] == 2
    assert of["parallel_start"]["node"] == of["parallel_complete"]["node"] == "f"
    assert of["run_complete"]["status"] == "success"
    log.unlink()
    configure(EVERY.replace('"outcome=fail"', '"outcome=never"'), hooks)
    assert wf("run", tmp_path / "run.toml").status == 1
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert told[-1]["event"] == "run_failed" and told[-1]["reason"]


def test_a_hook_that_blocks(wf: Program, repo: Path, configure: Configure) -> None:
    hook = (
        '[[run.hooks]]\nid = "gate"\nevent = "stage_start"\nmatcher = "^b$"\nblocking = true\n'
        'script = "echo not on a Friday >&2; exit 2"\n'
    )
    result = wf("run", configure(TWO.replace("cat ready", "echo"), hook))
    assert result.status == 1
    assert "  b@1 fail 0ms: hook 'gate': not on a Friday\n" in result.err


def test_hooks_of_the_project_and_of_the_run(
    wf: Program, repo: Path, configure: Configure, tmp_path: Path
) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    (repo / ".wf").mkdir()
    (repo / ".wf" / "project.toml").write_text(
        tell(one, "run_start", 'id = "a"') + tell(two, "run_start", 'id = "b"')
    )
    git("add", "-A", cwd=repo)
    git("commit", "-qm", "project", cwd=repo)
    wf.ok("run", configure("start -> exit", tell(three, "run_start", 'id = "a"')))
    assert not one.exists() and two.exists() and three.exists()


def test_a_hook_runs_in_the_worktree_with_the_runs_environment(
    wf: Program, repo: Path, configure: Configure
) -> None:
    toml = (
        '[run.env]\nCOLOUR = "blue"\n'
        '[[run.hooks]]\nevent = "stage_start"\nblocking = true\n'
        'command = ["sh", "-c", "echo $COLOUR $GIT_WF_NODE $GIT_WF_HOOK >>told"]\n'
    )
    wf.ok("run", configure(TWO.replace("cat ready", "echo"), toml))
    assert file_of(repo, "told").splitlines() == ["blue a stage_start", "blue b stage_start"]


# Secrets.

SECRET = "s3cr3t-värdet"


def test_a_secret_is_in_no_object_event_or_file(
    wf: Program, repo: Path, configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    agent = tmp_path / "agent"
    agent.write_text(
        "#!/bin/sh\ncat\n"
        'echo "{\\"outcome\\": \\"success\\", \\"notes\\": \\"$KEY\\","'
        '" \\"context_updates\\": {\\"k\\": \\"$KEY\\", \\"$MY_TOKEN\\": 1}}"\n'
    )
    agent.chmod(0o755)
    body = """a [script="echo $KEY; echo $MY_TOKEN >&2; test ${#KEY} -gt 9 && touch ok"]
b [script="echo {{ env.KEY | sh }}; exit 1", label="{{ env.KEY }}"]
c [prompt="use {{ env.KEY }} and {{ goal }}"]
d [script="echo '{\\"outcome\\": \\"fail\\", \\"failure_reason\\": \\"'$KEY'\\"}' >$GIT_WF_STATUS"]
start -> a -> b b -> c [condition="outcome=fail"] b -> exit c -> d d -> exit"""
    toml = f"""[run]
goal = "reach {{{{ env.MY_TOKEN }}}}"
[run.env]
KEY = {{ from = "Bearer {{{{ env.MY_TOKEN }}}}", secret = true }}
[[run.prepare.steps]]
script = "echo $KEY"
[[run.hooks]]
event = "stage_failed"
blocking = true
script = "echo $KEY >&2; exit 2"
[agents]
default = "it"
[agents.it]
command = ["{agent}"]
"""
    path = configure(body, toml)
    result = wf("run", path, "--json", "--input", f"x={SECRET}", "--label", f"y={SECRET}")
    assert result.status == 1
    assert file_of(repo, "ok") == ""
    outputs = [result.out, result.err, wf.ok("log").out, wf.ok("runs").out]
    outputs += [wf.ok("show", target, "--json").out for target in ("@1", "@2", "@3")]
    assert_nowhere(repo, outputs, [SECRET, json.dumps(SECRET)[1:-1]])


def assert_nowhere(repo: Path, outputs: list[str], words: list[str]) -> None:
    """The words are in no output, no object of the repository and no file of the state."""
    for word in words:
        assert not [output for output in outputs if word in output]
    listed = git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)", cwd=repo)
    batch = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=repo, input=listed.encode(), capture_output=True
    ).stdout
    assert b"***" in batch and run_id(1).encode() in batch
    for word in words:
        data = word.encode()
        at = batch.find(data)
        assert at < 0, batch[max(0, at - 300) : at + 100]
        for top, _, names in os.walk(os.environ["XDG_STATE_HOME"]):
            for name in names:
                assert data not in Path(top, name).read_bytes(), Path(top, name)


# `kanarie` is in every spelling of it, and nowhere else.
ODD_SECRETS = {
    "key": "-----BEGIN KEY-----\nkanarie/a+b==\nkanarie\n-----END KEY-----\n",
    "quotes": 'it\'s a "kanarie" \\o/ <é>',
}
TELLERS = {
    "agent": """
print("warning:", json.dumps(key), json.dumps(json.dumps({"key": key})))
print(json.dumps({"type": "item", "part": {"type": "text", "text": "have " + key}}))
print(json.dumps({"session_id": "id-" + key, "result": "got " + json.dumps({"k": key}) + key}))
print(json.dumps({"type": "tool", "input": json.dumps({"k": key}, ensure_ascii=False)}))
if os.environ["GIT_WF_NODE"] == "g":
    print(json.dumps({"error": "no service for " + key}))
""",
    "command": """
print(json.dumps(key))
answer = {"outcome": key, "suggested_next_ids": [key], "notes": key, "context_updates": {key: key}}
with open(os.environ["GIT_WF_STATUS"], "w") as stream:
    json.dump(answer, stream)
""",
    "hook": """
answer = {"decision": "override", "notes": key, "context_updates": {"k": json.dumps(key)}}
print(json.dumps(answer))
""",
}


@pytest.fixture
def tellers(tmp_path: Path) -> Path:
    """A directory of programs that tell `$KEY`."""
    (tmp_path / "bin").mkdir()
    for name, script in TELLERS.items():
        path = tmp_path / "bin" / name
        head = f"#!{sys.executable}\nimport json, os\nkey = os.environ['KEY']\n"
        path.write_text(head + script)
        path.chmod(0o755)
    return tmp_path / "bin"


@pytest.mark.parametrize("secret", ODD_SECRETS.values(), ids=list(ODD_SECRETS))
def test_a_secret_is_hidden_however_it_is_spelled(
    wf: Program,
    repo: Path,
    configure: Configure,
    tellers: Path,
    monkeypatch: pytest.MonkeyPatch,
    secret: str,
) -> None:
    monkeypatch.setenv("MY_KEY", secret)
    body = f"""a [script="printf '%s' {{{{ env.KEY | sh }}}}; cat $GIT_WF_CONTEXT >&2"]
b [prompt="use {{{{ env.KEY }}}}", fidelity=full, thread_id=t]
c [prompt="go on with {{{{ context.last_response }}}}", fidelity=full, thread_id=t]
d [script="{tellers}/command"]
e [script="cat $GIT_WF_CONTEXT; echo {{{{ context.command.output | sh }}}}"]
f [script="printf '%s' \\"$KEY\\" >&2; exit 7", auto_status=true]
g [prompt="fail", auto_status=true]
start -> a -> b -> c -> d -> e -> f -> g -> exit"""
    toml = f"""[run]
goal = "reach {{{{ env.MY_KEY }}}}"
[run.env]
KEY = {{ from = "{{{{ env.MY_KEY }}}}", secret = true }}
[[run.prepare.steps]]
script = "env; printf '%s' \\"$KEY\\""
[[run.hooks]]
event = "stage_complete"
matcher = "^e$"
blocking = true
command = ["{tellers}/hook"]
[[run.hooks]]
event = "stage_complete"
script = "cat >&2; printf '%s' \\"$KEY\\" >&2; exit 3"
[agents]
default = "it"
[agents.it]
command = ["{tellers}/agent"]
output = "json"
resume = ["--session", "{{session}}"]
"""
    result = wf("run", configure(body, toml), "--json", "--verbose", "--label", f"y={secret}")
    assert result.status == 0, result.err
    outputs = [result.out, result.err, wf.ok("log").out, wf.ok("runs").out]
    outputs += [wf.ok("show", f"@{number}", "--json").out for number in range(1, 8)]
    assert_nowhere(repo, outputs, ["kanarie"])
    codes = [event.get("code") for event in map(json.loads, result.out.splitlines())]
    assert codes.count("no_session") == 3


def test_a_secret_that_is_not_set(wf: Program, repo: Path, configure: Configure) -> None:
    toml = '[run.env]\nKEY = { from = "{{ env.NOT_SET }}", secret = true }'
    with untouched(repo):
        wf.fails(
            128, ["run", str(configure(TWO, toml))],
            "error: run.toml: 'run.env.KEY': undefined name 'env.NOT_SET'\n"
            "hint: export it before the run, or set a value\n",
        )  # fmt: skip


# Kinds of other packages.


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that adds the kind `shout`, as an installer lays it out."""
    site = tmp_path / "site"
    info = site / "shout-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shout\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[git_wf.handlers]\nshout = shout_package:shout\n")
    (site / "shout_package.py").write_text(
        "from git_wf.core.outcome import succeeded\n"
        "def shout(visit):\n"
        "    (visit.work_dir / 'said').write_text(visit.node.text('words').upper())\n"
        "    if (visit.run.env.get('STOP')):\n"
        "        raise SystemExit('stop')\n"
        "    return succeeded(notes='shouted')\n"
    )
    monkeypatch.syspath_prepend(site)
    plugins._entry_points.cache_clear()
    yield
    plugins._entry_points.cache_clear()


def test_an_installed_kind(wf: Program, repo: Path, configure: Configure, installed: None) -> None:
    path = configure('a [type="shout", words="hello"] start -> a -> exit', "")
    assert wf.ok("validate", "--strict", path).out.endswith("valid, 3 nodes, 2 edges\n")
    wf.ok("run", path)
    assert file_of(repo, "said") == "HELLO"


def test_a_crash_leaves_nothing_locked_for_ever(
    wf: Program,
    repo: Path,
    configure: Configure,
    installed: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever ends the process in the middle of a visit: the run can be resumed, or removed."""
    monkeypatch.setenv("STOP", "yes")
    path = configure(
        'a [script="echo a >a"] b [type="shout", words="x"] start -> a -> b -> exit', ""
    )
    for _ in range(2):
        with pytest.raises(SystemExit):
            wf("run", path)
    assert git("worktree", "list", "--porcelain", cwd=repo).count("\nlocked") == 2
    monkeypatch.delenv("STOP")
    wf.ok("resume", run_id(1))
    assert (file_of(repo, "a"), file_of(repo, "said")) == ("a", "X")
    wf.ok("rm", run_id(2))
    listed = git("worktree", "list", "--porcelain", cwd=repo)
    assert "locked" not in listed
    assert run_id(2) not in listed + git("branch", "--list", cwd=repo)
