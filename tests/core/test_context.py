from __future__ import annotations

import json
import math
import shlex

import pytest

from git_wf.core.context import (
    Redaction,
    clean_value,
    cut_middle,
    decode_output,
    graph_values,
    join_artifacts,
    last_bytes,
    lookup,
    recorded_updates,
    split_artifacts,
)
from git_wf.core.graph import Duration, Graph

VALUES = {
    "plain": 1,
    "command.output": "text",
    "plan": {"steps": ["a", {"name": "b"}], "deep.er": 2},
    "plan.own": "dotted",
    "zero": 0,
}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("plain", 1),
        ("context.plain", 1),
        ("command.output", "text"),
        ("context.command.output", "text"),
        ("plan.steps.1.name", "b"),
        ("plan.steps.2", None),
        ("plan.steps.x", None),
        ("plan.steps.0.x", None),
        ("plan.deep.er", 2),
        ("plan.own", "dotted"),
        ("plan.none", None),
        ("zero", 0),
        ("missing", None),
        ("missing.too", None),
        ("context.", None),
    ],
)
def test_lookup(key, expected):
    assert lookup(VALUES, key) == expected


def test_graph_values_mirror_the_attributes_and_the_goal_of_the_run():
    graph = Graph(attrs={"goal": "old", "stall_timeout": Duration(60, "1m"), "n": 3})
    assert graph_values(graph, "new") == {
        "graph.goal": "new",
        "graph.stall_timeout": "1m",
        "graph.n": 3,
    }
    assert graph_values(Graph()) == {}


def test_large_values_become_artifacts_and_come_back():
    values = {
        "small": "x",
        "n": 1,
        "none": None,
        "a/b": "y" * 200,
        "list": list(range(100)),
        "fake": {"$artifact": "small"},
    }
    inline, artifacts = split_artifacts(values, limit=100)
    assert inline == {
        "small": "x",
        "n": 1,
        "none": None,
        "a/b": {"$artifact": "a%2Fb"},
        "list": {"$artifact": "list"},
        "fake": {"$artifact": "fake"},
    }
    assert sorted(artifacts) == ["a%2Fb", "fake", "list"]
    assert json.loads(artifacts["list"]) == values["list"]
    assert join_artifacts(inline, artifacts.__getitem__) == values


def test_a_text_below_the_limit_stays_inline_whatever_it_holds():
    assert split_artifacts({"k": "é" * 40}, limit=100) == ({"k": "é" * 40}, {})


def test_an_artifact_of_a_long_key_has_a_short_name():
    _, artifacts = split_artifacts({"k" * 500: "x" * 200}, limit=100)
    assert [len(name) for name in artifacts] == [64]


def test_recorded_updates_leave_out_what_is_large():
    assert recorded_updates({"a": 1, "b": "x" * 100}, limit=50) == {
        "a": 1,
        "b": {"$omitted": 102},
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"plain 100%", ("plain 100%", False)),
        ("é".encode(), ("é", False)),
        (b"\xff 5%", ("%FF 5%25", True)),
        (b"a\xc3", ("a%C3", True)),
        (b"\xed\xa0\x80", ("%ED%A0%80", True)),
    ],
)
def test_decode_output(data, expected):
    assert decode_output(data) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "bcd"), ("aéb", 2, "b"), ("€€", 4, "€"), ("€€", 5, "€")],
)
def test_last_bytes_cuts_between_characters(text, limit, expected):
    assert last_bytes(text.encode(), limit).decode() == expected


def test_last_bytes_of_what_is_no_text():
    assert last_bytes(b"\x80" * 9, 5) == b"\x80" * 2


def test_cut_middle_says_what_is_missing():
    data = bytes(range(65, 91)) * 10
    cut = cut_middle(data, 100)
    assert len(cut) == 100
    assert cut[:50] == data[:50]
    assert cut[50:80] == b"\n[git-wf: 190 bytes left out]\n"
    assert cut[80:] == data[-20:]
    assert cut_middle(data, 260) == data


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"k": {"n": -math.inf}}])
def test_what_is_no_json_number_is_refused(value):
    with pytest.raises(ValueError, match="NaN and Infinity are not JSON"):
        clean_value(value)


def test_values_without_end_are_refused():
    value: list[object] = []
    for _ in range(150):
        value = [value]
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        clean_value(value)


def test_half_characters_become_replacement_characters():
    assert clean_value({"\ud800": ["a\udfff", 1, None, True, 1.5]}) == {
        "\ufffd": ["a\ufffd", 1, None, True, 1.5]
    }


def test_redaction_replaces_exact_values_everywhere():
    redaction = Redaction(["s3cret", "", "s3cret-longer"])
    assert redaction.text("a s3cret-longer and a s3cret") == "a *** and a ***"
    assert redaction.value({"s3cret": ["x s3cret", 1, {"k": ("s3cret",)}]}) == {
        "***": ["x ***", 1, {"k": ["***"]}]
    }
    assert redaction.text("S3CRET") == "S3CRET"


PEM = "-----BEGIN KEY-----\nab/c+d==\n-----END KEY-----\n"
ODD = 'it\'s "a\\b" <é>\t&'


@pytest.mark.parametrize("secret", [PEM, ODD])
@pytest.mark.parametrize(
    "spell",
    [
        str,
        str.strip,
        json.dumps,
        lambda text: json.dumps(text, ensure_ascii=False),
        lambda text: json.dumps(text).replace("/", "\\/"),
        lambda text: json.dumps(text, ensure_ascii=False)
        .replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
        lambda text: json.dumps({"said": json.dumps({"key": text})}),
        lambda text: json.dumps(json.dumps(text, ensure_ascii=False), ensure_ascii=False),
        shlex.quote,
        lambda text: "'" + text.replace("'", "'\\''") + "'",
        lambda text: json.dumps({"script": f"echo {shlex.quote(text)}"}),
    ],
)  # fmt: skip
def test_redaction_knows_the_spellings_of_a_secret(secret, spell):
    redaction = Redaction([secret])
    told = f"<{spell(secret)}>"
    shown = redaction.text(told)
    assert "***" in shown
    assert not [
        word for word in ("BEGIN", "END", "ab", "it", "a\\b", "u00e9", "é") if word in shown
    ]
    stream, data = redaction.stream(), told.encode()
    assert b"".join(
        stream.feed(data[at : at + 1]) for at in range(len(data))
    ) + stream.finish() == (shown.encode())


def test_redaction_without_secrets_gives_back_what_it_got():
    value = {"k": ["v"]}
    assert Redaction().value(value) is value
    stream = Redaction().stream()
    assert stream.feed(b"abc") + stream.finish() == b"abc"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_a_stream_is_redacted_across_the_borders_of_its_pieces(size):
    data = b"abcabd abcd xabcde abc ab abcabcde"
    redaction = Redaction(["abcd", "abcde", "zz"])
    stream = redaction.stream()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    shown = b"".join(stream.feed(piece) for piece in pieces) + stream.finish()
    assert shown == redaction.text(data.decode()).encode()
    assert shown == b"abcabd *** x*** abc ab abc***"


def test_a_stream_holds_back_no_more_than_it_must():
    stream = Redaction(["secret"]).stream()
    assert stream.feed(b"hello se") == b"hello "
    assert stream.feed(b"a") == b"sea"
    assert stream.feed(b"secre") == b""
    assert stream.finish() == b"secre"
