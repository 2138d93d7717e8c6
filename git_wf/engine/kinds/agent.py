"""Agent and prompt nodes: a backend program gets the prompt on stdin and answers in the worktree.

What it prints is the response. Its last JSON object with a routing key says what comes next; the
file `$GIT_WF_STATUS`, where the program wrote one, says it instead. An exit status other than 0
is a failure whatever was printed.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from git_wf.core import templates
from git_wf.core.context import PERCENT_ENCODED, cut_middle, decode_output, last_bytes
from git_wf.core.outcome import FAIL, Failure, Outcome
from git_wf.engine.answers import Answer, AnswerError, routing_answer, status_answer
from git_wf.engine.backends import Profile, Reply, backend_name, find_profile, read_reply
from git_wf.engine.process import Ended
from git_wf.engine.programs import (
    end_failure,
    run_node_program,
    start_failure,
    status_path,
    write_trace,
)
from git_wf.engine.state import Visit

RESPONSE_LIMIT = 8 * 1024 * 1024  # bytes of output that a response is read from
LAST_RESPONSE = 200  # characters


def ask_agent(visit: Visit) -> Outcome:
    profile = find_profile(backend_name(visit.node, visit.run.config), visit.run.config)
    prompt = node_prompt(visit)
    _write_text(visit, "prompt.md", prompt)
    argv = profile.argv(_placeholders(visit), None)
    write_trace(visit, "provider_used.json", _provider(visit, profile, argv))
    timeout = visit.node.seconds("timeout")
    try:
        ended = run_node_program(
            visit,
            argv,
            stdin=prompt.encode("utf-8", "surrogateescape"),
            timeout=timeout,
            keep=RESPONSE_LIMIT,
            show=_shower(visit),
        )
    except OSError as err:
        return Outcome(FAIL, failure=start_failure(argv, err))
    return _outcome(visit, profile, ended, end_failure(ended, timeout))


def node_prompt(visit: Visit) -> str:
    """The prompt of a node, or its label, with the templates in it replaced."""
    text = visit.node.text("prompt")
    if not text.strip():
        text = visit.node.label
    return templates.render(text, visit.template_values(), prompt=True)


def _outcome(visit: Visit, profile: Profile, ended: Ended, failure: Failure | None) -> Outcome:
    text, encoded = decode_output(ended.stdout)
    reply = Reply(text)
    answer = Answer()
    try:
        reply = read_reply(profile, text)
        answer = (
            status_answer(status_path(visit), visit.redaction)
            or routing_answer(reply.text, visit.redaction)
            or answer
        )
    except (AnswerError, ValueError) as err:
        failure = failure or Failure(f"backend '{profile.name}': {err}")
    _write_text(visit, "response.md", reply.text)
    updates = _updates(visit, reply.text, encoded)
    outcome = answer.outcome(updates, usage=reply.usage)
    if failure is None:
        return outcome
    return replace(outcome, status=FAIL, failure=failure, extra={})


def _updates(visit: Visit, text: str, encoded: bool) -> dict[str, Any]:
    text = visit.redaction.text(text)
    key = f"response.{visit.node.id}"
    bounded = last_bytes(text.encode("utf-8", "replace")).decode()
    updates: dict[str, Any] = {"last_response": text.strip()[:LAST_RESPONSE], key: bounded}
    flag = f"{key}.{PERCENT_ENCODED}"
    if encoded or flag in visit.values:
        updates[flag] = encoded
    return updates


def _shower(visit: Visit) -> Callable[[bytes], None]:
    """Announces the output as it comes, in whole characters."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def show(data: bytes) -> None:
        text = decoder.decode(data)
        if text:
            visit.announce("agent_output", node=visit.node.id, text=text)

    return show


def _placeholders(visit: Visit) -> dict[str, str]:
    return {
        "model": visit.node.text("model"),
        "effort": visit.node.text("reasoning_effort"),
    }


def _provider(visit: Visit, profile: Profile, argv: list[str]) -> dict[str, Any]:
    return {
        "backend": profile.name,
        "provider": visit.node.text("provider") or None,
        "model": visit.node.text("model") or None,
        "command": argv,
    }


def _write_text(visit: Visit, name: str, text: str) -> None:
    data = visit.redaction.text(text).encode("utf-8", "replace")
    (visit.trace / name).write_bytes(cut_middle(data))
