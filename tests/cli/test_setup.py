from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import LoopRun
from tests.conftest import git
from tests.program import Program


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration is found by HOME, as it is outside of tests."""
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    return Path(os.environ["HOME"], ".gitconfig")


def ours() -> Path:
    return Path(os.environ["XDG_CONFIG_HOME"], "git-wf", "gitconfig")


def test_plain_git_shows_runs(loop: LoopRun, config: Path) -> None:
    before = git("log", "-1", "--format=%h", loop.branch, cwd=loop.repo)
    result = loop.wf.ok("setup")
    assert (result.out, result.err) == (
        f"wrote '{ours()}'\ntry: git log --format=wf wf/run/ID\n", ""
    )  # fmt: skip
    assert config.read_text() == f"[include]\n\tpath = {ours()}\n"
    shown = git("log", "--format=wf", f"main..{loop.branch}", cwd=loop.repo).splitlines()
    assert [line.split()[1:4] for line in shown] == [
        ["check", "2", "success"], ["work", "2", "success"], ["plan", "2", "success"],
        ["check", "1", "fail"], ["work", "1", "success"], ["plan", "1", "success"],
    ]  # fmt: skip
    assert shown[0].startswith(before)
    full = git("log", "-1", "--format=wf-full", loop.branch, cwd=loop.repo)
    for line in (f"WF-Run: {loop.run}", "WF-Node: check", "WF-Visit: 2", "WF-Status: success",
                 "WF-Completed: 7", f"WF-Checkpoint: {loop.metadata()[6]}"):  # fmt: skip
        assert f"    {line}\n" in full + "\n"
    assert git("wf-log", loop.branch, "^main", cwd=loop.repo).splitlines() == shown


def test_again_and_undone(wf: Program, config: Path) -> None:
    """Undone, nothing is left of it, and nothing of the user's has changed."""
    assert wf.ok("setup", "--json").json == {"format": 1, "file": str(ours()), "changed": True}
    again = wf.ok("setup")
    assert again.out == f"up to date: '{ours()}'\ntry: git log --format=wf wf/run/ID\n"
    assert wf.ok("setup", "--json").json["changed"] is False
    assert wf.ok("setup", "--undo").out == f"removed '{ours()}'\n"
    assert not config.exists() and not ours().parent.exists()
    assert wf.ok("setup", "--undo").out == "nothing to remove\n"
    assert wf.ok("setup", "--undo", "--json").json["changed"] is False


def test_what_is_the_users_stays(wf: Program, config: Path) -> None:
    text = "# mine\n[user]\n\tname = Me\n[include]\n\tpath = ~/other\n"
    config.write_text(text)
    wf.ok("setup")
    assert git("config", "--global", "--get-all", "include.path", cwd=wf.cwd) == (
        f"~/other\n{ours()}"
    )
    wf.ok("setup", "--undo")
    assert config.read_text() == text


def test_a_file_of_an_older_version_is_replaced(wf: Program) -> None:
    wf.ok("setup")
    text = ours().read_text()
    ours().write_text("[pretty]\n\twf = old\n")
    assert wf.ok("setup", "--json").json["changed"] is True
    assert ours().read_text() == text


def test_outside_a_repository(wf: Program, tmp_path: Path) -> None:
    wf.ok("setup", cwd=tmp_path)
    assert ours().is_file()


def test_a_configuration_that_git_cannot_read(wf: Program, config: Path) -> None:
    config.write_text("[broken\n")
    result = wf("setup")
    assert (result.status, result.out) == (128, "")
    assert result.err == f"fatal: git config: fatal: bad config line 1 in file {config}\n"


def test_a_configuration_that_is_no_file(
    wf: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """git would put a file in the place of a device, and root may."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.fspath(tmp_path))
    for words in (["setup"], ["setup", "--undo"]):
        wf.fails(
            128,
            words,
            f"error: GIT_CONFIG_GLOBAL names '{tmp_path}', which is no file\n"
            "hint: env -u GIT_CONFIG_GLOBAL git wf setup\n",
        )
    assert not ours().exists()
