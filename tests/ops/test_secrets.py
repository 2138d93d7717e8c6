"""Values of the environment that are secrets by their names (`wf.secretEnv`)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import git
from tests.program import Program, run_id, write_workflow

RUN = run_id(1)
TOKEN, SHORT, OWN = "tok-0123456789", "abcde", "my-own-value"
BODY = """
a [script="echo t=$MY_TOKEN s=$SHORT_TOKEN o=$OWN_VALUE; echo $MY_TOKEN >&2; echo $MY_TOKEN >file"]
h [shape=hexagon, label="$MY_TOKEN"]
b [script="echo t=$MY_TOKEN s=$SHORT_TOKEN o=$OWN_VALUE; echo $my_token; exit 3"]
start -> a -> h h -> b [label="[Y] Yes"] b -> exit
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"MY_TOKEN": TOKEN, "SHORT_TOKEN": SHORT, "OWN_VALUE": OWN, "my_token": TOKEN[::-1]}
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def output(repo: Path) -> str:
    told = json.loads(git("show", f"wf/meta/{RUN}:checkpoint.json", cwd=repo))
    text: str = told["context_values"]["command.output"]
    return text


def stored(repo: Path) -> bytes:
    """Everything that was recorded, but the files of the worktree; in git and beside it."""
    metadata = git("rev-list", "--objects", f"wf/meta/{RUN}", cwd=repo)
    oids = "\n".join(line.split(" ")[0] for line in metadata.splitlines()).encode()
    batch = ["git", "cat-file", "--batch"]
    told = subprocess.run(batch, cwd=repo, input=oids, capture_output=True, check=True).stdout
    (run_dir,) = Path(os.environ["XDG_STATE_HOME"]).glob("git-wf/*/runs/*")
    return told + b"".join(path.read_bytes() for path in run_dir.rglob("*") if path.is_file())


def test_values_are_kept_out_of_what_is_recorded(wf: Program, repo: Path, tmp_path: Path) -> None:
    result = wf("run", write_workflow(tmp_path / "w.dot", BODY), "--json")
    assert result.status == 3
    assert output(repo) == f"t=*** s={SHORT} o={OWN}\n"
    resumed = wf("resume", "--answer", "Y", "--json")
    assert resumed.status == 1
    assert output(repo) == f"t=*** s={SHORT} o={OWN}\n***\n"
    told = (stored(repo).decode("utf-8", "replace"), result.out, result.err, resumed.out)
    assert [one for one in told if TOKEN in one or TOKEN[::-1] in one] == []
    # What a program writes into the worktree is the program's.
    assert git("show", f"wf/run/{RUN}:file", cwd=repo) == TOKEN


@pytest.mark.parametrize(
    ("patterns", "told"),
    [
        (["OWN_*"], f"t=*** s={SHORT} o=***\n"),
        ([""], f"t={TOKEN} s={SHORT} o={OWN}\n"),
        (["", "OWN_*"], f"t={TOKEN} s={SHORT} o=***\n"),
    ],
)
def test_the_setting_adds_and_forgets(
    wf: Program, repo: Path, tmp_path: Path, patterns: list[str], told: str
) -> None:
    for pattern in patterns:
        git("config", "--add", "wf.secretEnv", pattern, cwd=repo)
    assert wf("run", write_workflow(tmp_path / "w.dot", BODY)).status == 3
    assert output(repo) == told


def test_short_values_are_secrets_where_the_run_config_says_so(
    wf: Program, repo: Path, tmp_path: Path
) -> None:
    write_workflow(tmp_path / "w.dot", BODY)
    config = tmp_path / "run.toml"
    config.write_text(
        '[workflow]\ngraph = "w.dot"\n'
        '[run.env]\nSHORT_TOKEN = { from = "{{ env.SHORT_TOKEN }}", secret = true }\n'
        'OTHER_SECRET = "of the run config"\n'
    )
    assert wf("run", config).status == 3
    assert output(repo) == f"t=*** s=*** o={OWN}\n"


def test_in_place_too(wf: Program, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    workflow = write_workflow(tmp_path / "w.dot", BODY)
    result = wf("run", "--in-place", workflow, cwd=folder)
    assert result.status == 3
    (path,) = Path(os.environ["XDG_STATE_HOME"]).glob("git-wf/*/runs/*/checkpoint.json")
    values = json.loads(path.read_text())["context_values"]
    assert values["command.output"] == f"t=*** s={SHORT} o={OWN}\n"
    assert wf("run", "--resume", path, "--answer", "Y", cwd=folder).status == 1
    values = json.loads(path.read_text())["context_values"]
    assert values["command.output"] == f"t=*** s={SHORT} o={OWN}\n***\n"
