from __future__ import annotations

import re

import pytest

from git_wf.core.log_format import FIELDS, parse_format

ONE = {"node": "plan", "visit": "2", "status": "success", "duration": "1.2s", "commit": "abc"}


def filled(text: str, **values: str) -> str:
    """A format with the values of one commit, git's own names left as they are."""
    form = parse_format(text, "mark")
    printed = re.sub(r"%x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), form.git)
    return form.fill(printed.replace("%H", "0f"), lambda commit: values if commit == "0f" else {})


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("%(node)@%(visit) %s", "plan@2 %s"),
        ("%h %(status)%n", "%h success%n"),
        ("%%(node)", "%%(node)"),
        ("%%%(node)", "%%plan"),
        ("%(trailers:key=WF-Node) %(nodes)", "%(trailers:key=WF-Node) %(nodes)"),
        ("[%<(6)%(node)]", "[plan  ]"),
        ("[%>(6)%(node)]", "[  plan]"),
        ("[%><(6)%(node)]", "[ plan ]"),
        ("[%<(6)%(status)]", "[success]"),
        ("[%<(6,trunc)%(status)]", "[succ..]"),
        ("[%<(6,ltrunc)%(status)]", "[..cess]"),
        ("[%<(6,mtrunc)%(status)]", "[su..ss]"),
        ("[%<(1,trunc)%(status)]", "[..]"),
        ("[%<(6)%h]", "[%<(6)%h]"),
        ("%(cost)|%(meta)", "|"),
        ("oneline", "oneline"),
    ],
)
def test_values(text: str, out: str) -> None:
    assert filled(text, **ONE) == out


@pytest.mark.parametrize("name", FIELDS)
def test_every_field(name: str) -> None:
    assert filled(f"<%({name})>", **{name: "x"}) == "<x>"


def test_a_value_is_no_format() -> None:
    assert filled("%(node)", node="\\1 %H %(visit)") == "\\1 %H %(visit)"


def test_a_commit_that_is_no_checkpoint() -> None:
    form = parse_format("%(node)", "mark")
    assert form.fill("\x01mark0:ff\x02.", lambda commit: {}) == "."


def test_marks_of_others_stay() -> None:
    form = parse_format("%(node)", "mark")
    assert form.fill("\x01other0:0f\x02", lambda commit: ONE) == "\x01other0:0f\x02"
