"""Agent and prompt nodes: a backend program gets the prompt on stdin and answers in the worktree.

What it prints is the response. Its last JSON object with a routing key says what comes next; the
file `$GIT_WF_STATUS`, where the program wrote one, says it instead. An exit status other than 0
is a failure whatever was printed.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from git_wf.core import templates
from git_wf.core.context import PERCENT_ENCODED, REDACTED, cut_middle, decode_output, last_bytes
from git_wf.core.fidelity import FULL, HIGH, write_preamble
from git_wf.core.outcome import DETERMINISTIC, FAIL, TRANSIENT, Failure, Outcome
from git_wf.engine.answers import Answer, AnswerError, routing_answer, status_answer
from git_wf.engine.backends import (
    Profile,
    Reply,
    backend_name,
    find_profile,
    live_text,
    read_reply,
)
from git_wf.engine.process import Ended
from git_wf.engine.programs import (
    end_failure,
    run_node_program,
    start_failure,
    status_path,
    write_trace,
    write_trace_bytes,
)
from git_wf.engine.state import Visit

RESPONSE_LIMIT = 8 * 1024 * 1024  # bytes of output that a response is read from
LAST_RESPONSE = 200  # characters


def ask_agent(visit: Visit, more: str = "") -> Outcome:
    """`more` stands behind the node's prompt, as it is."""
    run, node = visit.run, visit.node
    profile = find_profile(backend_name(node, run.config, run.env), run.config)
    talk = _talk(visit, profile)
    prompt = _whole_prompt(visit, talk.fidelity)
    if more:
        prompt = f"{prompt}\n\n{more}"
    _write_text(visit, "prompt.md", prompt)
    argv = profile.argv(
        {"model": node.text("model"), "effort": node.text("reasoning_effort")},
        talk.session,
        prompt_only=node.kind in ("prompt", "fan_in"),
    )
    write_trace(visit, "provider_used.json", _provider(visit, profile, argv, talk))
    timeout = node.seconds("timeout")
    try:
        ended = run_node_program(
            visit,
            argv,
            stdin=prompt.encode("utf-8", "surrogateescape"),
            timeout=timeout,
            keep=RESPONSE_LIMIT,
            show=_shower(visit, profile),
        )
    except OSError as err:
        return Outcome(FAIL, failure=start_failure(argv, err))
    return _outcome(visit, profile, talk, ended, end_failure(ended, timeout))


@dataclass(frozen=True)
class _Talk:
    """How a visit goes on from what went before."""

    fidelity: str
    thread: str  # `backend:thread`
    session: str | None  # the session that goes on


def _talk(visit: Visit, profile: Profile) -> _Talk:
    fidelity, thread = visit.note_talk()
    if fidelity == FULL and not profile.resume:
        fidelity = HIGH
        visit.note("internal.fidelity", fidelity)
        visit.announce(
            "notice",
            code="no_session",
            message=f"node '{visit.node.id}': backend '{profile.name}' cannot go on with a "
            f"session; {HIGH} instead of {FULL}",
        )
    key = f"{profile.name}:{thread}"
    return _Talk(fidelity, key, visit.sessions.get(key) if fidelity == FULL else None)


def _whole_prompt(visit: Visit, fidelity: str) -> str:
    prompt = node_prompt(visit)
    preamble = write_preamble(
        fidelity,
        goal=visit.run.goal,
        run_id=visit.run.run_id,
        prompt=prompt,
        completed=visit.state.completed,
        outcomes=visit.state.outcomes,
        values=visit.values,
    )
    return f"{preamble}\n\n{prompt}" if preamble else prompt


def node_prompt(visit: Visit) -> str:
    """The prompt of a node, or its label, with the templates in it replaced."""
    text = visit.node.text("prompt")
    if not text.strip():
        text = visit.node.label
    return templates.render(text, visit.template_values(), prompt=True)


def _outcome(
    visit: Visit, profile: Profile, talk: _Talk, ended: Ended, failure: Failure | None
) -> Outcome:
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
    _keep_session(visit, talk, reply.session)
    if reply.error and (failure is None or failure.kind == DETERMINISTIC):
        kind = TRANSIENT if reply.transient else DETERMINISTIC
        failure = Failure(f"backend '{profile.name}': {reply.error}", kind)
    updates = _updates(visit, reply.text, encoded)
    outcome = answer.outcome(updates, usage=reply.usage)
    if failure is None:
        return outcome
    return replace(outcome, status=FAIL, failure=failure, extra={})


def _keep_session(visit: Visit, talk: _Talk, session: str | None) -> None:
    """Under its thread, unless a secret stood in it: what is left of it names no session."""
    if not session:
        return
    if REDACTED not in visit.redaction.text(session):
        visit.sessions[talk.thread] = session
        return
    visit.sessions.pop(talk.thread, None)
    visit.announce(
        "notice",
        code="no_session",
        message=f"node '{visit.node.id}': a secret is in the id of its session, which is not kept: "
        "nothing can go on with it",
    )


def _updates(visit: Visit, text: str, encoded: bool) -> dict[str, Any]:
    text = visit.redaction.text(text)
    key = f"response.{visit.node.id}"
    bounded = last_bytes(text.encode("utf-8", "replace")).decode()
    updates: dict[str, Any] = {"last_response": text.strip()[:LAST_RESPONSE], key: bounded}
    flag = f"{key}.{PERCENT_ENCODED}"
    if encoded or flag in visit.values:
        updates[flag] = encoded
    return updates


def _shower(visit: Visit, profile: Profile) -> Callable[[bytes], None]:
    """Announces what the agent says as it comes, in whole characters, or whole lines of JSON."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""

    def show(data: bytes) -> None:
        nonlocal rest
        text = decoder.decode(data)
        if profile.output == "json":
            *lines, rest = (rest + text).split("\n")
            text = "".join(f"{said}\n" for said in map(live_text, lines) if said)
        if text:
            visit.announce("agent_output", node=visit.node.id, text=text)

    return show


def _provider(visit: Visit, profile: Profile, argv: list[str], talk: _Talk) -> dict[str, Any]:
    return {
        "backend": profile.name,
        "provider": visit.node.text("provider") or None,
        "model": visit.node.text("model") or None,
        "command": argv,
        "fidelity": talk.fidelity,
        "session": visit.sessions.get(talk.thread) if talk.session else None,
    }


def _write_text(visit: Visit, name: str, text: str) -> None:
    data = visit.redaction.text(text).encode("utf-8", "replace")
    write_trace_bytes(visit, name, cut_middle(data))
