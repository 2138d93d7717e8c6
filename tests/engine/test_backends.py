from __future__ import annotations

import pytest

from git_wf.core.dot import parse
from git_wf.engine.backends import Profile, missing_backends, read_reply

ENDS = "start [shape=Mdiamond] exit [shape=Msquare]"


def graph_of(body):
    return parse(f"digraph G {{ {ENDS} {body} }}", "test.dot")


def test_missing_backends_are_named_before_anything_runs(tmp_path):
    there = tmp_path / "there"
    there.write_text("")
    there.chmod(0o755)
    config = {
        "agents": {
            "default": "ok",
            "ok": {"command": ["there"]},
            "gone": {"command": ["not-there", "-x"]},
            "mine": {"command": ["./tools/agent"]},
        }
    }
    graph = graph_of(
        'a [prompt="x"] b [shape=tab, backend=gone] c [backend=what] d [script="true"]'
        " e [backend=mine] f [type=odd, backend=gone] start -> a -> b -> c -> d -> e -> f -> exit"
    )
    found = missing_backends(graph, config, {"PATH": str(tmp_path)})
    assert [(one.node, one.backend, one.message) for one in found] == [
        ("b", "gone", "backend 'gone' of node 'b': program 'not-there' is not on PATH"),
        ("c", "what", "unknown backend 'what'"),
        ("f", "gone", "backend 'gone' of node 'f': program 'not-there' is not on PATH"),
    ]
    assert missing_backends(graph_of('a [script="true"] start -> a -> exit'), {}, {}) == []


def test_without_a_default(tmp_path):
    found = missing_backends(graph_of("a start -> a -> exit"), {}, {"PATH": str(tmp_path)})
    assert [(one.node, one.backend, one.message) for one in found] == [
        ("a", "", "no backend for node 'a'")
    ]
    assert "[agents]" in found[0].hint


@pytest.mark.parametrize(
    ("values", "session", "argv"),
    [
        ({}, None, ["p", "run", "--json"]),
        ({"model": "m"}, None, ["p", "run", "--model", "m", "--json"]),
        ({"effort": "high"}, None, ["p", "run", "--effort=high", "--json"]),
        ({}, "s1", ["p", "run", "--json", "--resume", "s1"]),
    ],
)
def test_command_lines(values, session, argv):
    profile = Profile(
        "p",
        ("p", "run", "--model", "{model}", "--effort={effort}", "--json"),
        resume=("--resume", "{session}"),
    )
    assert profile.argv(values, session) == argv


@pytest.mark.parametrize(
    ("output", "text", "session", "usage"),
    [
        ('{"result": "hi", "session_id": "s"}', "hi", "s", None),
        ('{"response": "a"}\n{"response": "b", "sessionId": "t"}', "b", "t", None),
        ('noise\n{"text": "a"}', "a", None, None),
        ('[{"type": "x"}, {"message": {"content": "deep"}}]', "deep", None, None),
        ('{"text": "a", "usage": {"prompt_tokens": 3}}', "a", None, {"input_tokens": 3}),
        ('{"text": "a", "cost": 0.25, "usage": {"input_tokens": -1}}', "a", None,
         {"cost_usd": 0.25}),
        ('{"other": 1}', "", None, None),
    ],
)  # fmt: skip
def test_json_replies(output, text, session, usage):
    reply = read_reply(Profile("p", ("p",), "json"), output)
    assert (reply.text, reply.session, reply.usage) == (text, session, usage)


@pytest.mark.parametrize("output", ["", "hello", "[]", "{broken", "3"])
def test_replies_that_are_no_json(output):
    with pytest.raises(ValueError, match="JSON"):
        read_reply(Profile("p", ("p",), "json"), output)


def test_text_replies():
    assert read_reply(Profile("p", ("p",)), '{"result": "x"}').text == '{"result": "x"}'
