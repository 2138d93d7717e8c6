from __future__ import annotations

import json
import threading

import pytest


def node(script, **attributes):
    more = "".join(f", {key}={value}" for key, value in attributes.items())
    text = script.replace("\\", "\\\\").replace('"', '\\"')
    return f'a [script="{text}"{more}] start -> a -> exit'


def outcome_of(walked):
    return walked.last.node_outcomes["a"]


def failure_of(walked):
    failure = outcome_of(walked).failure
    return (failure.message, failure.kind) if failure else None


def test_what_a_command_leaves_in_the_context(play):
    walked = play(node("echo out; echo err >&2"))
    kept = {key: walked.context[key] for key in walked.context if key.startswith("command.")}
    assert kept == {
        "command.output": "out\n",
        "command.stderr": "err\n",
        "command.exit_code": 0,
    }
    assert walked.context["tool.output"] == "out\n"
    assert walked.context["last_stage"] == "a"
    assert walked.context["outcome"] == "success"


def test_the_trace_of_a_command(play):
    walked = play(node("echo out; exit 3", timeout="5s"))
    assert walked.trace("a@1/stdout.log") == "out\n"
    assert walked.trace("a@1/stderr.log") == ""
    assert json.loads(walked.trace("a@1/script_invocation.json")) == {
        "command": "echo out; exit 3",
        "language": "shell",
        "timeout_ms": 5000,
    }
    assert json.loads(walked.trace("a@1/script_timing.json")) == {
        "duration_ms": 0,
        "exit_code": 3,
        "timed_out": False,
    }
    status = json.loads(walked.trace("a@1/status.json"))
    assert status["status"] == "fail"
    assert status["failure"]["class"] == "deterministic"


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("exit 3", ("exit status 3", "deterministic")),
        ("echo one; echo two; exit 1", ("exit status 1: two", "deterministic")),
        ("echo one; echo why >&2; exit 1", ("exit status 1: why", "deterministic")),
        # The class is that of the end, whatever words there are.
        (
            "echo 'timed out: connection refused, 503 overloaded' >&2; exit 1",
            ("exit status 1: timed out: connection refused, 503 overloaded", "deterministic"),
        ),
        ("exit 75", ("exit status 75", "transient")),
        ("exit 137", ("exit status 137", "signal")),
        ("exit 129", ("exit status 129", "deterministic")),
        ("kill -SEGV $$", ("ended by SIGSEGV", "signal")),
    ],
)
def test_how_a_command_fails(play, script, failure):
    assert failure_of(play(node(script))) == failure


def test_a_timeout(play):
    walked = play(node("sleep 60", timeout="200ms"))
    assert failure_of(walked) == ("timed out after 0.2 s", "timeout")
    assert walked.context["failure_class"] == "timeout"
    assert walked.of("notice") == []


def test_a_timeout_where_no_environment_tells_of_survivors(play, monkeypatch, tmp_path):
    monkeypatch.setattr("git_wf.engine.process._PROC", tmp_path / "no-proc")
    walked = play(node("sleep 60", timeout="200ms"))
    assert failure_of(walked) == ("timed out after 0.2 s", "timeout")
    assert [notice["message"] for notice in walked.of("notice")] == [
        "node 'a' was ended with its process group; whether it left processes outside of it "
        "cannot be seen on this system"
    ]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"language": "cobol"}, "unknown language 'cobol'"),
        ({"retry_policy": "eager"}, "unknown retry_policy 'eager' of node 'a'"),
    ],
)
def test_faults_of_the_workflow_are_not_retried(play, attributes, message):
    walked = play(node("true", max_retries=3, **attributes))
    assert failure_of(walked) == (message, "configuration")
    assert walked.conclusion.total_retries == 0


def test_an_undefined_name_in_a_script(play):
    walked = play(node("echo {{ inputs.nope }}", max_retries=3))
    assert failure_of(walked)[1] == "configuration"
    assert walked.conclusion.total_retries == 0


def test_names_in_a_script(play):
    walked = play(node("echo {{ inputs.repo }} {{ env.WORD }}"), given={
        "inputs": {"repo": "demo"}, "env": {"PATH": "/usr/bin:/bin", "WORD": "hello"},
    })  # fmt: skip
    assert walked.context["command.output"] == "demo hello\n"


def test_python(play):
    walked = play(node("import os; print(os.path.basename(os.getcwd()))", language="python"))
    assert walked.context["command.output"] == "work\n"


def test_the_program_named_in_the_first_line(play):
    walked = play(node("#!/usr/bin/env bash\na=(x y z)\necho ${#a[@]}"))
    assert walked.context["command.output"] == "3\n"


@pytest.mark.parametrize("language", ["shell", "python"])
def test_a_script_too_long_for_an_argument(play, language):
    last = {"shell": "exit 4", "python": "exit(4)"}[language]
    walked = play(node("#" * 200_000 + "\n" + last, language=language))
    assert walked.context["command.exit_code"] == 4


def test_what_a_command_is_told(play):
    walked = play(
        'a [script="true"] b [script="env | grep ^GIT_WF_ | sort; cat $GIT_WF_CONTEXT"]'
        " start -> a -> b -> exit"
    )
    *told, context = walked.context["command.output"].splitlines()
    names = dict(line.split("=", 1) for line in told)
    assert sorted(names) == [
        "GIT_WF_CONTEXT", "GIT_WF_NODE", "GIT_WF_REPOSITORY", "GIT_WF_RUN_ID", "GIT_WF_STATUS",
        "GIT_WF_VISIT",
    ]  # fmt: skip
    assert names["GIT_WF_REPOSITORY"] == "tests"
    assert (names["GIT_WF_NODE"], names["GIT_WF_VISIT"]) == ("b", "1")
    values = json.loads(context)
    assert values["last_stage"] == "a"
    assert values["internal.run_id"] == names["GIT_WF_RUN_ID"]
    assert values["internal.work_dir"] == str(walked.recorder.work_dir)


def test_a_status_file_says_more(play):
    answer = {
        "outcome": "partial_success",
        "preferred_next_label": "Fix",
        "suggested_next_ids": ["x"],
        "context_updates": {"k": {"n": 1}, "internal.run_id": "other"},
        "notes": "half done",
    }
    walked = play(node(f"echo '{json.dumps(answer)}' >$GIT_WF_STATUS"))
    outcome = outcome_of(walked)
    assert (outcome.status, outcome.preferred_label) == ("partial_success", "Fix")
    assert outcome.suggested_next_ids == ("x",)
    assert walked.recorder.notes == ["half done"]
    assert walked.context["k"] == {"n": 1}
    assert "internal.run_id" not in walked.context
    assert [event["code"] for event in walked.of("notice")] == ["reserved_key"]


def test_a_status_file_can_fail_a_command(play):
    answer = {"status": "failed", "failure_reason": "no route", "failure_class": "transient"}
    walked = play(node(f"echo '{json.dumps(answer)}' >$GIT_WF_STATUS"))
    assert failure_of(walked) == ("no route", "transient")


def test_the_exit_status_beats_a_status_file(play):
    walked = play(node('echo \'{"outcome": "success", "notes": "n"}\' >$GIT_WF_STATUS; exit 2'))
    assert failure_of(walked) == ("exit status 2", "deterministic")
    assert outcome_of(walked).notes == "n"


def test_a_status_file_gives_the_reason_of_an_exit_status(play):
    answer = {"outcome": "fail", "failure_reason": "lint"}
    walked = play(node(f"echo '{json.dumps(answer)}' >$GIT_WF_STATUS; exit 2"))
    assert failure_of(walked) == ("lint", "deterministic")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"context_updates": {"n": NaN}}', "answer: NaN and Infinity are not JSON"),
        ('{"context_updates": {"n": 1e999}}', "answer: NaN and Infinity are not JSON"),
        ('{"context_updates": [1]}', "answer: 'context_updates' is not an object"),
        ('{"suggested_next_ids": [1]}', "answer: 'suggested_next_ids' is not a list of texts"),
        ('{"outcome": 1}', "answer: 'outcome' is not a text"),
        ("[]", "status file: not a JSON object"),
        ('{"failure_class": "odd", "outcome": "fail"}', "the node reported a failure"),
    ],
)
def test_a_status_file_that_is_wrong_fails_the_node(play, text, message):
    walked = play(node(f"echo '{text}' >$GIT_WF_STATUS"))
    assert failure_of(walked) == (message, "deterministic")


def test_a_status_file_of_an_earlier_visit_does_not_count(play):
    walked = play(
        'a [script="echo \'{\\"outcome\\": \\"fail\\"}\' >$GIT_WF_STATUS"] b [script="true"]'
        ' start -> a a -> b [condition="outcome=fail"] b -> exit'
    )
    assert walked.last.status == "success"


def test_bytes_that_are_not_utf_8(play):
    walked = play('a [script="printf \'\\\\377 5%%\'"] b [script="true"] start -> a -> b -> exit')
    first, second = (c.context_values for c in walked.recorder.checkpoints)
    assert first["command.output"] == "%FF 5%25"
    assert first["command.output.percent_encoded"] is True
    assert second["command.output.percent_encoded"] is False


def test_a_large_output_becomes_an_artifact_of_its_end(play):
    walked = play(node("yes 1234567 | head -c 400000; echo last"))
    assert walked.context["command.output"] == {"$artifact": "command.output"}
    text = json.loads(walked.recorder.artifacts[-1]["command.output"])
    assert len(text) == 256 * 1024
    assert text.endswith("1234567\nlast\n")
    assert outcome_of(walked).context_updates["command.output"] == {"$omitted": 294_915}


NUL = "the script has a NUL byte, which no program can be given"


@pytest.mark.parametrize(
    "script",
    [
        "printf 'a\\000b'",
        """echo '{"context_updates": {"command.output": "\\u0000"}}' >$GIT_WF_STATUS""",
    ],
)
@pytest.mark.parametrize("language", ["shell", "python"])
def test_a_nul_byte_from_another_node_fails_the_visit(play, script, language):
    body = f"""{node(script).replace("a -> exit", "a -> b -> exit")}
b [script="{{{{ context.command.output | sh }}}}", language={language}, max_retries=2]"""
    walked = play(body)
    failure = walked.last.node_outcomes["b"].failure
    assert (failure.kind, failure.message) == ("configuration", NUL)
    assert (walked.conclusion.status, walked.conclusion.failure_reason) == ("fail", NUL)
    assert play(body.replace("max_retries=2", "on_failure=succeed")).conclusion.status == "success"


def test_secrets_are_nowhere(play, tmp_path):
    walked = play(
        node("echo {{ env.KEY }} $KEY; echo $KEY >&2; exit 1"),
        given={"env": {"PATH": "/usr/bin:/bin", "KEY": "pa55word"}},
        secrets=["pa55word"],
    )
    assert walked.context["command.output"] == "*** ***\n"
    assert walked.conclusion.failure_reason == "exit status 1: ***"
    seen = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(seen) == 5
    assert not any(b"pa55word" in data for data in seen)
    assert "pa55word" not in str(walked.events) + str(walked.recorder.checkpoints)


def test_an_interrupted_visit_is_not_recorded(play):
    cancel = threading.Event()

    def press(event):
        if event["event"] == "stage_started" and event["node"] == "b":
            threading.Timer(0.1, cancel.set).start()

    walked = play(
        'a [script="true"] b [script="sleep 60"] start -> a -> b -> exit',
        cancel=cancel,
        listen=press,
    )
    assert walked.conclusion.status == "interrupted"
    assert [c.current_node for c in walked.recorder.checkpoints] == ["a"]
    assert walked.events[-1]["status"] == "interrupted"


def test_a_status_file_that_is_no_json(play):
    walked = play(node("echo '{broken' >$GIT_WF_STATUS"))
    assert failure_of(walked)[0].startswith("status file: not valid JSON: ")


def test_a_status_file_that_is_too_large(play):
    walked = play(node("head -c 5000000 /dev/zero >$GIT_WF_STATUS"))
    assert failure_of(walked)[0] == "status file: larger than 4194304 bytes"
