from __future__ import annotations

import json

import pytest

from git_wf.core.outcome import Outcome


def agent(prompt, **attributes):
    more = "".join(f", {key}={value}" for key, value in attributes.items())
    return f'a [prompt="{prompt}"{more}] start -> a -> exit'


def outcome_of(walked) -> Outcome:
    return walked.last.node_outcomes["a"]


def prompts(walked):
    """The arguments and prompts of all calls of the stub."""
    lines = (walked.recorder.work_dir / "prompts").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_an_agent_gets_its_prompt_and_its_response_is_kept(play):
    walked = play(agent("Write it"))
    assert prompts(walked) == [[[], "Write it"]]
    assert walked.trace("a@1/prompt.md") == "Write it"
    assert walked.trace("a@1/response.md") == "done\n"
    assert walked.context["last_response"] == "done"
    assert walked.context["response.a"] == "done\n"
    assert "".join(event["text"] for event in walked.of("agent_output")) == "done\n"


def test_which_program_answered_is_in_the_trace(play, stub):
    walked = play(agent("x", model="m1", provider="p1"))
    assert json.loads(walked.trace("a@1/provider_used.json")) == {
        "backend": "stub",
        "command": [str(stub)],
        "fidelity": "compact",
        "model": "m1",
        "provider": "p1",
        "session": None,
    }


@pytest.mark.parametrize(
    ("answer", "status", "word"),
    [
        ("outcome=fail", "fail", "fail"),
        ("outcome=failed", "fail", "fail"),
        ("outcome=succeeded", "success", "success"),
        ("outcome=partial_success", "partial_success", "partial_success"),
        ("outcome=skipped", "skipped", "skipped"),
        ("outcome=needs_work", "success", "needs_work"),
        ("nothing", "success", "success"),
    ],
)
def test_status_words(play, answer, status, word):
    walked = play(agent(f"stub: {answer}", on_failure="route"))
    assert outcome_of(walked).status == status
    assert walked.context["outcome"] == word


def test_an_agent_updates_the_context(play):
    walked = play(agent("stub: context_updates={k:1}"))
    assert walked.context["k"] == 1


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (
            '{"context_updates": {"n": NaN}}',
            "backend 'stub': answer: NaN and Infinity are not JSON",
        ),
        ('{"outcome": ["x"]}', "backend 'stub': answer: 'outcome' is not a text"),
    ],
)
def test_a_wrong_answer_fails_the_node(play, printed, message):
    text = printed.replace('"', '\\"')
    walked = play(agent(f"stub: raw={text}"))
    assert outcome_of(walked).failure.message == message
    assert outcome_of(walked).failure.kind == "deterministic"


def test_an_exit_status_is_a_failure_whatever_was_printed(play):
    walked = play(agent("stub: exit=3"))
    assert walked.conclusion.failure_reason == "exit status 3: gone"
    assert walked.context["response.a"] == "gone\n"


def test_an_agent_that_was_overloaded_says_so_with_75(play):
    walked = play(agent("stub: exit=75"))
    assert outcome_of(walked).failure.kind == "transient"


def test_no_backend_and_an_unknown_one(play):
    walked = play(agent("x", max_retries=2), given={"config": {}})
    assert outcome_of(walked).failure.message == "no backend for node 'a'"
    assert outcome_of(walked).failure.kind == "configuration"
    walked = play(agent("x", backend="gone"))
    assert outcome_of(walked).failure.message == "unknown backend 'gone'"


def test_a_program_that_cannot_be_started(play):
    config = {"agents": {"default": "x", "x": {"command": ["/nowhere/agent"]}}}
    walked = play(agent("x", max_retries=2), given={"config": config})
    told = "run '/nowhere/agent': No such file or directory"
    assert outcome_of(walked).failure.message == told
    assert outcome_of(walked).failure.kind == "configuration"
    assert walked.conclusion.total_retries == 0


def make_json_agent(tmp_path, printed):
    path = tmp_path / "json-agent"
    path.write_text(f"#!/bin/sh\ncat >/dev/null\ncat <<'END'\n{printed}\nEND\n")
    path.chmod(0o755)
    return {"agents": {"default": "j", "j": {"command": [str(path)], "output": "json"}}}


def test_usage_is_read_and_added_up(play, tmp_path):
    config = make_json_agent(
        tmp_path,
        '{"result": "hi {\\"outcome\\": \\"go\\"}", "session_id": "s", "total_cost_usd": 0.5,'
        ' "usage": {"input_tokens": 10, "output_tokens": 2}}',
    )
    walked = play('a [prompt="x"] b [prompt="y"] start -> a -> b -> exit', given={"config": config})
    usage = {"cost_usd": 0.5, "input_tokens": 10, "output_tokens": 2}
    assert outcome_of(walked).usage == usage
    assert walked.context["outcome"] == "go"
    assert walked.trace("a@1/response.md") == 'hi {"outcome": "go"}'
    twice = {"cost_usd": 1.0, "input_tokens": 20, "output_tokens": 4}
    assert walked.conclusion.usage == twice
    assert walked.last.totals == {"duration_ms": 0, "retries": 0, **twice}
    assert walked.of("stage_completed")[0]["usage"] == usage


def test_output_that_should_be_json_and_is_not(play, tmp_path):
    walked = play(agent("x"), given={"config": make_json_agent(tmp_path, "hello")})
    assert outcome_of(walked).failure.message == "backend 'j': no JSON object"


def test_secrets_of_a_response(play):
    walked = play(
        'a [prompt="stub: raw={\\"context_updates\\": {\\"k\\": \\"pa\\\\u0073s\\"}} pass"]'
        " start -> a -> exit",
        secrets=["pass"],
    )
    assert walked.context["k"] == "***"
    assert "pass" not in str(walked.events)
    assert "pass" not in walked.trace("a@1/prompt.md") + walked.trace("a@1/response.md")


def test_secrets_that_only_decoding_shows(play, tmp_path):
    """What JSON spells in a way of its own is found where its values come in."""
    spelled = "".join(f"\\\\u{ord(letter):04x}" for letter in "pass")
    said = f'{{"thread_id":"t-{spelled}","error":{{"message":"no {spelled}"}}}}'
    program = f"cat >/dev/null; printf '{said}\\n'\n"
    walked = play(
        agent("x", fidelity="full", auto_status="true"),
        given={
            "env": make_program(tmp_path / "bin", "codex", program),
            "config": {"agents": {"default": "codex"}},
        },
        secrets=["pass"],
    )
    assert outcome_of(walked).notes == "auto_status: backend 'codex': no ***"
    assert "internal.sessions" not in walked.context
    assert walked.of("notice")[0]["message"] == (
        "node 'a': a secret is in the id of its session, which is not kept: "
        "nothing can go on with it"
    )
    assert "pass" not in str(walked.recorder.checkpoints) + str(walked.recorder.notes)
    assert "pass" not in str(walked.events)


# Sessions and fidelity.


def make_program(directory, name, script):
    """A stand-in for a backend, put first on PATH."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin"}


CODEX = """\
printf '%s\\n' "$*" >>calls
cat >>prompts
echo >>prompts
case "$*" in *resume*) ;; *) echo '{"type":"thread.started","thread_id":"t-'$GIT_WF_NODE'"}';; esac
echo '{"type":"item.completed","item":{"type":"agent_message","text":"did '$GIT_WF_NODE'"}}'
"""
FULL = 'fidelity="full"'
EXEC = "exec --json --sandbox workspace-write"


def calls(walked):
    return (walked.recorder.work_dir / "calls").read_text().splitlines()


def play_codex(play, tmp_path, body, **options):
    given = {"env": make_program(tmp_path / "bin", "codex", CODEX)}
    given["config"] = {"agents": {"default": "codex"}}
    return play(body, given=given, **options)


def test_nodes_of_a_thread_share_a_session(play, tmp_path):
    walked = play_codex(
        play,
        tmp_path,
        f'a [prompt="p", {FULL}, thread_id="t"] b [prompt="p", {FULL}, thread_id="t"]'
        f' c [prompt="p", {FULL}, thread_id="u"] start -> a -> b -> c -> exit',
    )
    assert calls(walked) == [f"{EXEC} -", f"{EXEC} resume t-a -", f"{EXEC} -"]
    assert walked.context["internal.sessions"] == {"codex:t": "t-a", "codex:u": "t-c"}
    assert walked.context["internal.fidelity"] == "full"
    assert walked.context["internal.thread_id"] == "u"
    assert json.loads(walked.trace("b@1/provider_used.json"))["session"] == "t-a"
    assert walked.trace("b@1/prompt.md") == "p"


def test_a_session_that_no_program_can_be_given(play, tmp_path):
    said = '{"thread_id":"t\\\\u0000","item":{"type":"agent_message","text":"x"}}'
    program = f"cat >/dev/null; printf '{said}\\n'\n"
    walked = play(
        f'a [prompt="p", {FULL}, thread_id=t] b [prompt="p", {FULL}, thread_id=t]'
        " start -> a -> b -> exit",
        given={
            "env": make_program(tmp_path / "bin", "codex", program),
            "config": {"agents": {"default": "codex"}},
        },
    )
    failure = walked.last.node_outcomes["b"].failure
    assert (failure.kind, failure.message) == (
        "configuration",
        "run 'codex': argument 6 has a NUL byte, which no program can be given",
    )


def test_the_first_resumed_node_gets_a_summary(play, recorder, tmp_path):
    body = (
        f'a [prompt="p", {FULL}, thread_id=t] b [prompt="p", {FULL}, thread_id=t]'
        f' c [prompt="p", {FULL}, thread_id=t] start -> a -> b -> c -> exit'
    )
    play_codex(play, tmp_path, body)
    (recorder.work_dir / "calls").unlink()
    walked = play_codex(play, tmp_path, body, checkpoint=recorder.checkpoints[0])
    assert calls(walked) == [f"{EXEC} -", f"{EXEC} resume t-b -"]
    assert walked.trace("b@1/prompt.md") == "Done so far:\n- a: success\n    did a\n\np"
    assert walked.trace("c@1/prompt.md") == "p"


def test_a_backend_without_sessions(play):
    walked = play(f'a [prompt="x"] b [prompt="y", {FULL}] start -> a -> b -> exit')
    assert [event["code"] for event in walked.of("notice")] == ["no_session"]
    assert walked.context["internal.fidelity"] == "summary:high"
    assert walked.trace("b@1/prompt.md") == "Done so far:\n- a: success\n    done\n\ny"


def test_a_preamble_stands_before_the_prompt(play):
    walked = play('graph [goal="Build it"] a [prompt="x"] b [prompt="y"] start -> a -> b -> exit')
    assert walked.trace("a@1/prompt.md") == "Goal: Build it\n\nx"
    assert walked.trace("b@1/prompt.md") == ("Goal: Build it\n\nDone so far:\n- a: success\n\ny")
    assert walked.context["internal.fidelity"] == "compact"


def test_an_error_that_the_program_reports(play, tmp_path):
    error = '{"type":"result","is_error":true,"api_error_status":529,"result":"overloaded"}'
    env = make_program(tmp_path / "bin", "claude", f"cat >/dev/null; echo '{error}'; exit 1\n")
    walked = play(agent("x"), given={"env": env, "config": {"agents": {"default": "claude"}}})
    assert outcome_of(walked).failure.message == "backend 'claude': overloaded"
    assert outcome_of(walked).failure.kind == "transient"


def test_what_an_agent_says_in_json_is_shown_as_text(play, tmp_path):
    walked = play_codex(play, tmp_path, agent("x"))
    assert "".join(event["text"] for event in walked.of("agent_output")) == "did a\n"


def test_a_visit_is_told_its_own_fidelity_and_thread(play):
    """Not those of the agent before it: in its prompt, its context file and its hooks."""
    seen = "fid={{ context.internal.fidelity }} thread={{ context.internal.thread_id }}"
    walked = play(
        f'a [prompt="x"] b [prompt="{seen}", fidelity="summary:low", thread_id="t"]\n'
        "start -> a -> b -> exit"
    )
    assert prompts(walked)[1][1].endswith("fid=summary:low thread=t")
