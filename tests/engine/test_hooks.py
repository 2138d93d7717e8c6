from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from git_wf.engine.hooks import EVENTS, _post, read_hooks
from git_wf.errors import UserError
from tests.engine.conftest import RUN_ID

ONE = 'a [script="true"] start -> a -> exit'


def hook(event, script="", **keys):
    table = {"event": event, "script": script, "blocking": True, **keys}
    return {key: value for key, value in table.items() if value != ""}


@pytest.fixture
def play_hooked(play, stub):
    def play_it(body, *hooks, **options):
        agents = {"default": "stub", "stub": {"command": [str(stub)]}}
        config = {"agents": agents, "run": {"hooks": list(hooks)}}
        return play(body, given={"config": config}, **options)

    return play_it


def told(walked):
    lines = (walked.recorder.work_dir / "told").read_text().splitlines()
    return [json.loads(line) for line in lines]


NOTE = "cat >>told; echo >>told"


@pytest.mark.parametrize("blocking", [True, False])
def test_what_hooks_are_told(play_hooked, blocking):
    body = 'a [script="test -f x || { touch x; false; }", max_retries=1] start -> a -> exit'
    hooks = [hook(event, NOTE, blocking=blocking) for event in EVENTS]
    walked = play_hooked(body, *hooks)
    assert [one["event"] for one in told(walked)] == [
        "run_start", "edge_selected", "stage_start", "stage_retrying", "stage_complete",
        "edge_selected", "checkpoint_saved", "run_complete",
    ]  # fmt: skip
    start = told(walked)[2]
    assert sorted(start.pop("context")) == [
        "current_node", "internal.node_visit_count", "internal.run_id", "internal.work_dir",
    ]  # fmt: skip
    assert start == {
        "event": "stage_start",
        "run_id": RUN_ID,
        "workflow": "G",
        "goal": "",
        "work_dir": str(walked.recorder.work_dir),
        "node": "a",
        "visit": 1,
        "kind": "command",
    }
    assert told(walked)[3]["reason"] == "exit status 1"
    assert told(walked)[1]["edge"] == "start->a"


def test_a_failing_run(play_hooked):
    walked = play_hooked(
        'a [script="exit 3"] start -> a -> exit',
        hook("stage_failed", NOTE),
        hook("run_failed", NOTE),
    )
    assert [one["reason"] for one in told(walked)] == ["exit status 3", "exit status 3"]


@pytest.mark.parametrize(
    ("event", "matcher", "count"),
    [
        ("stage_start", "^command$", 2),
        ("stage_start", "^b$", 1),
        ("stage_start", "^c$", 0),
        ("edge_selected", "a->b", 1),
        ("run_start", "x", 0),
    ],
)
def test_matchers(play_hooked, event, matcher, count):
    walked = play_hooked(
        'a [script="true"] b [script="true"] start -> a -> b -> exit',
        hook(event, "echo >>count", matcher=matcher),
    )
    path = walked.recorder.work_dir / "count"
    assert (len(path.read_text().splitlines()) if path.exists() else 0) == count


# Decisions.


def test_skip(play_hooked):
    walked = play_hooked(
        'a [script="touch made"] start -> a -> exit',
        hook("stage_start", """echo '{"decision": "skip", "reason": "not today"}'"""),
    )
    assert walked.last.status == "skipped"
    assert walked.recorder.notes == ["not today"]
    assert not (walked.recorder.work_dir / "made").exists()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo no way >&2; exit 2", "no way"),
        ("""echo '{"decision": "block", "reason": "stop"}'""", "stop"),
        ("exit 2", "blocked"),
        ("echo bad >&2; exit 1", "ended with status 1: bad"),
        ("kill -9 $$", "ended with signal 9"),
        ("""echo '{"decision": "maybe"}'""", "unknown decision 'maybe'"),
    ],
)
def test_block(play_hooked, script, reason):
    walked = play_hooked(
        'a [script="touch made", max_retries=3] start -> a -> exit',
        hook("stage_start", script, id="gate"),
    )
    assert walked.conclusion.failure_reason == f"hook 'gate': {reason}"
    assert walked.last.node_outcomes["a"].failure.kind == "cancelled"
    assert not (walked.recorder.work_dir / "made").exists()


def test_a_hook_whose_time_is_over_blocks(play_hooked):
    walked = play_hooked(ONE, hook("stage_start", "sleep 60", timeout="100ms"))
    told = "hook 'run.hooks[0]': timed out after 0.1 s"
    assert walked.conclusion.failure_reason == told


def test_a_command_that_is_not_there_blocks(play_hooked):
    table = {"event": "stage_start", "command": ["/nowhere/hook"], "blocking": True}
    walked = play_hooked(ONE, table)
    assert walked.conclusion.failure_reason.endswith(
        "run '/nowhere/hook': No such file or directory"
    )


def test_a_run_that_may_not_start(play_hooked):
    walked = play_hooked(ONE, hook("run_start", "exit 2", id="x"), hook("run_failed", NOTE))
    assert walked.conclusion.failure_reason == "hook 'x': blocked"
    assert walked.visited == []
    assert [one["event"] for one in told(walked)] == ["run_failed"]


def test_a_block_after_a_node_fails_it(play_hooked):
    walked = play_hooked(ONE, hook("stage_complete", "exit 2", id="gate"))
    assert walked.last.status == "fail"
    assert walked.context["command.exit_code"] == 0


def test_an_override_of_an_outcome(play_hooked):
    answer = {"decision": "override", "outcome": "success", "context_updates": {"k": 1}}
    walked = play_hooked(
        'a [script="exit 3"] start -> a -> exit',
        hook("stage_failed", f"echo '{json.dumps(answer)}'"),
    )
    assert walked.conclusion.status == "success"
    assert walked.context["k"] == 1
    assert walked.context["command.exit_code"] == 3
    assert walked.last.node_outcomes["a"].failure is None


def test_no_further_attempt(play_hooked):
    walked = play_hooked(
        'a [script="exit 3", max_retries=5] start -> a -> exit', hook("stage_retrying", "exit 2")
    )
    assert walked.conclusion.total_retries == 0
    assert walked.conclusion.failure_reason == "exit status 3"


@pytest.mark.parametrize(
    ("answer", "visited", "reason"),
    [
        ('{"decision": "override", "target": "b"}', ["a@1", "b@1"], ""),
        ('{"decision": "override", "target": "z"}', ["a@1"],
         "a hook sent the run to 'z': no such node"),
        ('{"decision": "block", "reason": "no"}', ["a@1"], "hook 'e': no"),
        ('{"decision": "skip"}', ["a@1"], ""),
    ],
)  # fmt: skip
def test_decisions_about_an_edge(play_hooked, answer, visited, reason):
    walked = play_hooked(
        'a [script="true"] b [script="true"] start -> a -> exit a -> b [weight=-1] b -> exit',
        hook("edge_selected", f"echo '{answer}'", id="e", matcher="^a->exit$"),
    )
    assert walked.visited == visited
    assert walked.conclusion.failure_reason == reason


def test_the_first_that_does_not_proceed_decides(play_hooked):
    walked = play_hooked(
        ONE,
        hook("stage_start", "exit 0"),
        hook("stage_start", "exit 2", id="second"),
        hook("stage_start", "touch third"),
    )
    assert walked.conclusion.failure_reason == "hook 'second': blocked"
    assert not (walked.recorder.work_dir / "third").exists()


def test_a_hook_that_does_not_block_decides_nothing(play_hooked):
    walked = play_hooked(
        ONE,
        hook("stage_start", "echo x >&2; exit 2", id="a", blocking=False),
        hook("stage_complete", "exit 1", id="b", blocking=False),
    )
    assert walked.conclusion.status == "success"
    assert sorted(event["message"] for event in walked.of("notice")) == [
        "hook 'a': x",
        "hook 'b': ended with status 1",
    ]


def test_what_the_environment_of_a_hook_says(play_hooked):
    walked = play_hooked(
        ONE,
        hook("stage_start", "env | grep ^GIT_WF_ | grep -v =/ | sort >env; cat $GIT_WF_CONTEXT >c"),
    )
    assert (walked.recorder.work_dir / "env").read_text().splitlines() == [
        "GIT_WF_HOOK=stage_start",
        "GIT_WF_NODE=a",
        "GIT_WF_REPOSITORY=tests",
        f"GIT_WF_RUN_ID={RUN_ID}",
        "GIT_WF_VISIT=1",
    ]
    assert json.loads((walked.recorder.work_dir / "c").read_text())["current_node"] == "a"


def test_a_dry_run_calls_no_hooks(play, recorder):
    given = {"dry_run": True, "config": {"run": {"hooks": [hook("run_start", "touch made")]}}}
    assert play(ONE, given=given).conclusion.status == "success"
    assert not (recorder.work_dir / "made").exists()


# Addresses.


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.answer)
        self.server.may_end.wait(60)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    server = HTTPServer(("127.0.0.1", 0), Server)
    server.bodies, server.status, server.answer = [], 200, b""
    server.may_end = threading.Event()
    server.may_end.set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.may_end.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (200, b"", ""),
        (204, b"", ""),
        (200, b"thank you", ""),
        (200, b'{"decision": "block", "reason": "no"}', "hook 'h': no"),
        (500, b"", "hook 'h': post to 'URL': status 500"),
    ],
)
def test_posts(play_hooked, server, status, answer, reason):
    server.status, server.answer = status, answer
    url = f"http://127.0.0.1:{server.server_port}/"
    walked = play_hooked(ONE, {"event": "stage_start", "http": url, "blocking": True, "id": "h"})
    assert walked.conclusion.failure_reason == reason.replace("URL", url)
    assert json.loads(server.bodies[0])["node"] == "a"


def test_an_address_has_the_time_that_a_program_has(play_hooked, server):
    server.may_end.clear()  # the answer begins and does not end
    url = f"http://127.0.0.1:{server.server_port}/"
    table = {"event": "stage_start", "http": url, "blocking": True, "id": "h", "timeout": "200ms"}
    walked = play_hooked(ONE, table)
    assert walked.conclusion.failure_reason == "hook 'h': timed out after 0.2 s"


def test_the_address_itself_is_out_of_time_first(server):
    server.may_end.clear()
    url = f"http://127.0.0.1:{server.server_port}/"
    (one,) = read_hooks(
        {"run": {"hooks": [{"event": "stage_start", "http": url, "timeout": "100ms"}]}}
    )
    decision = _post(one, b"{}")
    assert (decision.word, decision.reason) == ("block", "timed out after 0.1 s")


def test_a_cancelled_run_does_not_wait_for_an_address(play_hooked, server):
    server.may_end.clear()
    url = f"http://127.0.0.1:{server.server_port}/"
    cancel = threading.Event()
    timer = threading.Timer(0.2, cancel.set)
    timer.start()
    table = {"event": "stage_start", "http": url, "blocking": True}
    assert play_hooked(ONE, table, cancel=cancel).conclusion.status == "interrupted"
    timer.join()


def test_an_address_without_a_time_limit(play_hooked, server):
    url = f"http://127.0.0.1:{server.server_port}/"
    table = {"event": "stage_start", "http": url, "blocking": True, "timeout": "0s"}
    assert play_hooked(ONE, table).conclusion.status == "success"


def test_an_address_where_nobody_answers(play_hooked):
    table = {"event": "stage_start", "http": "http://127.0.0.1:1/", "blocking": True}
    walked = play_hooked(ONE, table)
    assert "Connection refused" in walked.conclusion.failure_reason
    table["http"] = f"http://{'a' * 64}.example.org/"
    assert "label" in play_hooked(ONE, table).conclusion.failure_reason


# Reading.


ONE_WAY = 'script = "./check.sh", or command = ["…"], or http = "https://…"'


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ({"event": "evnt", "script": "x"}, "'run.hooks[0].event': unknown event 'evnt'",
         ", ".join(EVENTS)),
        ({}, "'run.hooks[0]': one of script, command and http is needed", ONE_WAY),
        ({"script": "x", "http": "y"},
         "'run.hooks[0]': one of script, command and http is needed", ONE_WAY),
        ({"command": [""]}, "'run.hooks[0].command' names no program", 'command = ["…"]'),
        ({"script": "x", "timeout": "soon"}, "'run.hooks[0].timeout': 'soon' is not a duration",
         'timeout = "30s", or ms, m, h, d'),
        ({"script": "x", "matcher": "("},
         "'run.hooks[0].matcher': bad expression: missing ), unterminated subpattern at position 0",
         "a regular expression as Python reads it, such as ^build$"),
    ],
)  # fmt: skip
def test_faults(table, message, hint):
    with pytest.raises(UserError) as caught:
        read_hooks({"run": {"hooks": [{"event": "run_start", **table}]}})
    assert (caught.value.message, caught.value.hints) == (message, (hint,))


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("ftp://example.org/x", "it begins with neither http:// nor https://"),
        ("file:///x", "it begins with neither http:// nor https://"),
        ("example.org", "it begins with neither http:// nor https://"),
        ("http:///x", "it names no host"),
        ("http://:80/x", "it names no host"),
        ("http://[::1", "invalid IPv6 URL"),
        ("http://127.0.0.1:1/x y", "a blank, or what is no ASCII, stands as %XX in it"),
        ("http://127.0.0.1/x\r\nHost: y", "a blank, or what is no ASCII, stands as %XX in it"),
        ("http://127.0.0.1/ä", "a blank, or what is no ASCII, stands as %XX in it"),
        ("http://127.0.0.1:99999/", "port out of range 0-65535"),
        ("http://127.0.0.1:0/", "nobody listens at port 0"),
        ("http://127.0.0.1:x/", "port could not be cast to integer value as 'x'"),
        ("http://me:pw@127.0.0.1/", "it names a user"),
    ],
)
def test_bad_addresses(address, fault):
    with pytest.raises(UserError) as caught:
        read_hooks({"run": {"hooks": [{"event": "run_start", "http": address}]}})
    assert caught.value.message == f"'run.hooks[0].http': bad address '{address}': {fault}"
    assert caught.value.hints == ('http = "https://example.org/path"',)


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1", "https://[::1]:8443/a?b=%20#c", "HTTP://example.org/x"]
)
def test_good_addresses(address):
    (hook,) = read_hooks({"run": {"hooks": [{"event": "run_start", "http": address}]}})
    assert hook.http == address
