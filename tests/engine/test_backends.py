from __future__ import annotations

import json

import pytest

from git_wf.core.dot import parse
from git_wf.engine.backends import (
    BUILT_IN,
    Profile,
    Reply,
    backend_name,
    live_text,
    missing_backends,
    read_reply,
)

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


STREAMS = {
    "claude": (
        [
            {"type": "system", "subtype": "init", "session_id": "s1", "model": "m"},
            {
                "type": "assistant",
                "message": {
                    "content": [{"type": "text", "text": "working"}],
                    "usage": {"input_tokens": 7},
                },
                "session_id": "s1",
            },
            {
                "type": "result",
                "subtype": "success",
                "is_error": False,
                "result": "all done",
                "session_id": "s1",
                "total_cost_usd": 0.25,
                "usage": {"input_tokens": 10, "output_tokens": 2},
            },
        ],
        Reply("all done", "s1", {"cost_usd": 0.25, "input_tokens": 10, "output_tokens": 2}),
    ),
    "claude, overloaded": (
        [
            {
                "type": "result",
                "is_error": True,
                "api_error_status": 529,
                "result": "overloaded",
                "session_id": "s1",
            }
        ],
        Reply("overloaded", "s1", None, "overloaded", True),
    ),
    "codex": (
        [
            {"type": "thread.started", "thread_id": "t1"},
            {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
            {"type": "item.completed", "item": {"type": "agent_message", "text": "so"}},
            {"type": "item.completed", "item": {"type": "agent_message", "text": "it is"}},
            {"type": "turn.completed", "usage": {"input_tokens": 9, "output_tokens": 4}},
        ],
        Reply("it is", "t1", {"input_tokens": 9, "output_tokens": 4}),
    ),
    "codex, failed": (
        [
            {"type": "thread.started", "thread_id": "t1"},
            {"type": "error", "message": "reconnecting"},
            {"type": "turn.failed", "error": {"message": "no luck"}},
        ],
        Reply("", "t1", None, "no luck"),
    ),
    "codex, recovered": (
        [
            {"type": "error", "message": "reconnecting"},
            {"type": "item.completed", "item": {"type": "agent_message", "text": "fine"}},
        ],
        Reply("fine"),
    ),
    "opencode": (
        [
            {"type": "step_start", "sessionID": "o1", "part": {"type": "step-start"}},
            {"type": "tool_use", "part": {"type": "tool", "state": {"output": "x"}}},
            {"type": "step_finish", "part": {"tokens": {"input": 5, "output": 1}, "cost": 0.5}},
            {"type": "text", "part": {"type": "text", "text": "hello"}, "sessionID": "o1"},
            {"type": "step_finish", "part": {"tokens": {"input": 6, "output": 2}, "cost": 0.25}},
        ],
        Reply("hello", "o1", {"cost_usd": 0.75, "input_tokens": 11, "output_tokens": 3}),
    ),
    "gemini": (
        [
            {
                "session_id": "g1",
                "response": "yes",
                "stats": {
                    "models": {
                        "one": {"tokens": {"prompt": 3, "candidates": 2, "total": 5}},
                        "two": {"tokens": {"prompt": 4, "candidates": 1, "total": 5}},
                    }
                },
            }
        ],
        Reply("yes", "g1", {"input_tokens": 7, "output_tokens": 3}),
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_what_the_built_in_programs_print(name):
    records, reply = STREAMS[name]
    output = "".join(json.dumps(record) + "\n" for record in records)
    assert read_reply(BUILT_IN[name.partition(",")[0]], output) == reply


def test_what_is_shown_of_a_stream():
    lines = [json.dumps(record) for record in STREAMS["claude"][0]]
    assert [live_text(line) for line in (*lines, "noise")] == ["", "working", "", ""]


COMMANDS = {
    "claude": "claude --print --output-format stream-json --verbose --model m --effort high"
    " --permission-mode acceptEdits --resume s",
    "codex": "codex exec --json --model m --config model_reasoning_effort=high"
    " --sandbox workspace-write resume s -",
    "gemini": "gemini --output-format json --model m --approval-mode auto_edit --resume s",
    "opencode": "opencode run --format json --model m --variant high --session s",
    "aider": "aider --message-file /dev/stdin --yes-always --no-auto-commits --no-dirty-commits"
    " --no-gitignore --no-stream --no-pretty --no-check-update --chat-history-file /dev/null"
    " --input-history-file /dev/null --model m --reasoning-effort high",
    "llm": "llm prompt --no-stream --model m",
}
SHORT = {
    "claude": "claude --print --output-format stream-json --verbose --tools  --strict-mcp-config",
    "codex": "codex exec --json --sandbox read-only -",
    "gemini": "gemini --output-format json",
    "opencode": "opencode run --format json --agent plan",
    "llm": "llm prompt --no-stream",
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_how_the_built_in_programs_are_called(name):
    argv = BUILT_IN[name].argv({"model": "m", "effort": "high"}, "s")
    assert " ".join(argv) == COMMANDS[name]


@pytest.mark.parametrize("name", SHORT)
def test_how_they_are_called_for_a_prompt_node(name):
    assert " ".join(BUILT_IN[name].argv({}, prompt_only=True)) == SHORT[name]


@pytest.mark.parametrize(
    ("attributes", "config", "there", "name"),
    [
        ("", {"default": "x"}, "", "x"),
        ("backend=mine", {"default": "x"}, "", "mine"),
        ("backend=api", {"default": "x"}, "", "x"),
        ("provider=openai", {}, "", "codex"),
        ("provider=openai", {"default": "x"}, "", "x"),
        ("provider=openai", {"default": "x"}, "codex", "codex"),
        ("provider=openai", {"default": "x", "codex": {"command": ["c"]}}, "", "codex"),
        ("provider=mistral", {"default": "x"}, "", "x"),
        ('model="claude-sonnet-4-5"', {}, "", "claude"),
        ('model="gpt-5.2"', {}, "", "codex"),
        ('model="o3"', {}, "", "codex"),
        ('model="google/gemini-3-pro"', {}, "", "gemini"),
    ],
)
def test_which_backend_answers(tmp_path, attributes, config, there, name):
    if there:
        (tmp_path / there).write_text("")
        (tmp_path / there).chmod(0o755)
    node = graph_of(f"a [{attributes}] start -> a -> exit").nodes["a"]
    assert backend_name(node, {"agents": config}, {"PATH": str(tmp_path)}) == name


@pytest.mark.parametrize("output", ["", "hello", "[]", "{broken", "3"])
def test_replies_that_are_no_json(output):
    with pytest.raises(ValueError, match="JSON"):
        read_reply(Profile("p", ("p",), "json"), output)


def test_text_replies():
    assert read_reply(Profile("p", ("p",)), '{"result": "x"}').text == '{"result": "x"}'
