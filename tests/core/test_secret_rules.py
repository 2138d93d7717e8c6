from __future__ import annotations

import pytest

from git_wf.core.secret_rules import DECLARED, Finding, find_secrets

TOKEN = "ghp_" + "A1b2" * 9  # of the form of a token, and none


def found(text: str, *declared: str) -> list[tuple[int, str]]:
    return [(one.line, one.rule) for one in find_secrets("f", text.encode(), declared)]


def test_known_forms() -> None:
    assert found(f"a\n{TOKEN} and\n") == [(2, "GitHub Token")]
    assert found("x\n\n-----BEGIN RSA PRIVATE " + "KEY-----\n") == [(3, "Private Key")]
    assert found("AKIA" + "ABCDEFGHIJKLMNOP") == [(1, "AWS Access Key")]


@pytest.mark.parametrize(
    "text", ["", "password = 'hunter2'", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "10.1.2.3"]
)
def test_guesses_are_none(text: str) -> None:
    assert found(text) == []


def test_a_line_that_is_meant_to_be() -> None:
    assert found(f"{TOKEN}  # pragma: allowlist secret") == []
    assert found("hush-hush  # pragma: allowlist secret", "hush-hush") == [(1, DECLARED)]


def test_declared_values_in_every_spelling() -> None:
    secret = "a\"b'c/d"
    assert found(f"{secret}\n" + r"{\"x\": \"" + r"a\\\"b'c/d", secret)[0] == (1, DECLARED)
    assert found('{"x": "a\\"b\'c/d"}', secret) == [(1, DECLARED)]
    assert found("nothing", secret, "") == []


def test_binary_files_are_searched_for_values_only() -> None:
    data = b"\0" + TOKEN.encode() + b"hush-hush"
    assert list(find_secrets("f", data, ["hush-hush"])) == [Finding("f", 1, DECLARED)]
    assert str(Finding("f", 1, DECLARED)) == "f:1: declared secret"
