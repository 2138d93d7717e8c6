from __future__ import annotations

import pytest

from git_wf.core.names import Names
from git_wf.core.settings import Settings, read_settings
from git_wf.errors import UserError


def test_defaults() -> None:
    assert read_settings({"user.name": ["Me"]}) == Settings(Names())


def test_all_that_can_be_set() -> None:
    """The last of several values holds, but patterns add up."""
    assert read_settings(
        {
            "wf.namespace": ["no one", "fabro"],
            "wf.metanamespace": ["refs/heads/fabro/meta/"],
            "wf.excludeglobs": ["*.log", "/dist"],
            "wf.statedir": ["~/state"],
            "wf.worktreepool": ["0"],
            "wf.dirty": ["refuse"],
            "wf.durable": ["Yes"],
            "wf.retrydelay": ["100ms"],
        }
    ) == Settings(
        names=Names("fabro", "refs/heads/fabro/meta"),
        exclude_globs=("*.log", "/dist"),
        state_dir="~/state",
        worktree_pool=0,
        dirty="refuse",
        durable=True,
        retry_delay=0.1,
    )


@pytest.mark.parametrize(
    ("patterns", "name", "wanted"),
    [
        ([], "GITHUB_TOKEN", True),
        ([], "client_secret", True),
        ([], "PGPASSWORD", True),
        ([], "OPENAI_API_KEY", True),
        ([], "AWS_SECRET_ACCESS_KEY", True),
        ([], "AWS_ACCESS_KEY_ID", False),
        ([], "TOKENIZERS_PARALLELISM", False),
        ([], "PATH", False),
        (["MINE_*"], "MINE_1", True),
        (["MINE_*"], "GITHUB_TOKEN", True),
        ([""], "GITHUB_TOKEN", False),
        (["MINE_*", ""], "MINE_1", False),
        (["", "MINE_*"], "MINE_1", True),
    ],
)
def test_names_of_secrets(patterns: list[str], name: str, wanted: bool) -> None:
    settings = read_settings({"wf.secretenv": patterns} if patterns else {})
    assert settings.is_secret(name) is wanted


@pytest.mark.parametrize(
    ("word", "wanted"),
    [("true", True), ("on", True), ("1", True), ("", True), ("FALSE", False), ("off", False),
     ("no", False), ("0", False)],
)  # fmt: skip
def test_booleans(word: str, wanted: bool) -> None:
    assert read_settings({"wf.durable": [word]}).durable is wanted


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("namespace", "a b", "a word of letters, digits and hyphens"),
        ("namespace", "../x", "a word of letters, digits and hyphens"),
        ("metaNamespace", "wf/meta", "a directory of refs, such as refs/heads/wf/meta"),
        ("metaNamespace", "refs/../x", "a directory of refs, such as refs/heads/wf/meta"),
        ("metaNamespace", "refs//x", "a directory of refs, such as refs/heads/wf/meta"),
        ("worktreePool", "-1", "a number"),
        ("worktreePool", "two", "a number"),
        ("durable", "maybe", "true or false"),
        ("retryDelay", "soon", "a duration, such as 250ms or 5s"),
        ("undoExpire", "soon", "a duration, such as 90d, or 'never'"),
    ],
)
def test_a_value_that_is_none(key: str, value: str, wanted: str) -> None:
    with pytest.raises(UserError) as caught:
        read_settings({f"wf.{key}".lower(): [value]})
    assert caught.value.message == f"config 'wf.{key}': '{value}' is not {wanted}"
    assert caught.value.hints == (f"git config --show-origin wf.{key} tells where it is set",)


def test_a_way_with_changes_that_is_none() -> None:
    with pytest.raises(UserError, match=r"config 'wf\.dirty': 'odd' is not one of head, "):
        read_settings({"wf.dirty": ["odd"]})


@pytest.mark.parametrize(
    ("value", "seconds"), [(None, 90 * 86400.0), ("30d", 30 * 86400.0), ("Never", None)]
)
def test_how_long_things_are_kept(value: str | None, seconds: float | None) -> None:
    config = {} if value is None else {"wf.undoexpire": [value]}
    assert read_settings(config).undo_expire == seconds
