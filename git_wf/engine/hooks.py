"""Lifecycle hooks: programs and addresses that a run tells what happens, and may ask.

A hook gets one JSON object on stdin (or as the body of a POST): `event`, `run_id`, `workflow`,
`goal`, `work_dir`, the fields of the event, and `context`. It runs in the worktree. In a parallel
branch it gets `parallel_branch` (`f@1/1-a`) too, and runs in the branch's worktree.

| event | fields | what a blocking hook may decide |
|---|---|---|
| `run_start` | | block |
| `stage_start` | `node, visit, kind` | skip, block, override (the outcome) |
| `stage_retrying` | `node, visit, kind, attempt, reason` | block: no further attempt |
| `stage_complete`, `stage_failed` | `node, visit, kind, status, reason` | skip, block, override |
| `edge_selected` | `node, from, to, label` | block, override (`target`) |
| `checkpoint_saved` | `node, visit, ordinal, commit, metadata_commit` | |
| `parallel_start`, `parallel_complete` | `node, visit` | |
| `run_complete`, `run_failed` | `status, reason` | |

A hook decides by exit status 0 (proceed) or 2 (block, with its stderr as reason), or by a JSON
object on stdout: `{"decision": "proceed" | "skip" | "block" | "override", "reason": …}`; with
`override` also `target`, or what a status file says of an outcome. A blocking hook that cannot
decide (another status, no time left, no connection) blocks: a check that was not made has not
passed. Hooks that do not block run beside the run, one after the other; what they decide is not
heard, and where one fails a notice says so.
"""

from __future__ import annotations

import json
import queue
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from git_wf.core.context import Redaction, decode_output
from git_wf.core.values import DURATION_HINT, read_duration
from git_wf.engine.events import Announcer
from git_wf.engine.process import TICK, Interrupted, Program, Stalled, Watch, run_program
from git_wf.engine.recorder import Recorder
from git_wf.errors import UserError

if TYPE_CHECKING:
    from git_wf.engine.state import Run

EVENTS = (
    "run_start", "run_complete", "run_failed", "stage_start", "stage_complete", "stage_failed",
    "stage_retrying", "edge_selected", "parallel_start", "parallel_complete", "checkpoint_saved",
)  # fmt: skip
DECISIONS = ("proceed", "skip", "block", "override")
DEFAULT_TIMEOUT = 60.0  # seconds, whatever the kind of hook
BLOCKED_STATUS = 2
_OUTPUT_LIMIT = 64 * 1024  # bytes of an answer


@dataclass(frozen=True)
class Hook:
    name: str  # its `id`, or its place in the list
    event: str
    matcher: re.Pattern[str] | None
    argv: tuple[str, ...]  # empty for an address
    http: str
    blocking: bool
    timeout: float

    def matches(self, event: str, subjects: Mapping[str, str]) -> bool:
        """Whether the hook is meant: its matcher is looked for in each of the subjects."""
        if event != self.event:
            return False
        return self.matcher is None or any(map(self.matcher.search, subjects.values()))


@dataclass(frozen=True)
class Decision:
    word: str = "proceed"
    reason: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)  # what the hook said, for `override`


PROCEED = Decision()


def read_hooks(config: Mapping[str, Any]) -> list[Hook]:
    """The hooks of a run config, checked. Raises `UserError` that names the bad key."""
    tables = config.get("run", {}).get("hooks", [])
    return [_read_hook(table, f"run.hooks[{number}]") for number, table in enumerate(tables)]


def _read_hook(table: Mapping[str, Any], path: str) -> Hook:
    event = table.get("event")
    if event not in EVENTS:
        raise UserError(f"'{path}.event': unknown event '{event}'", hint=", ".join(EVENTS))
    ways = [key for key in ("script", "command", "http") if table.get(key)]
    if len(ways) != 1:
        raise UserError(
            f"'{path}': one of script, command and http is needed",
            hint='script = "./check.sh", or command = ["…"], or http = "https://…"',
        )
    script, command = table.get("script"), table.get("command")
    if command and not command[0]:
        raise UserError(f"'{path}.command' names no program", hint='command = ["…"]')
    return Hook(
        name=str(table.get("id") or path),
        event=str(event),
        matcher=_read_matcher(table.get("matcher"), path),
        argv=("sh", "-c", script) if script else tuple(command or ()),
        http=_read_address(table.get("http"), path),
        blocking=bool(table.get("blocking")),
        timeout=_read_timeout(table.get("timeout"), path),
    )


def _read_matcher(text: str | None, path: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except (re.error, OverflowError) as err:
        raise UserError(
            f"'{path}.matcher': bad expression: {err}",
            hint="a regular expression as Python reads it, such as ^build$",
        ) from err


def _read_timeout(text: str | None, path: str) -> float:
    if not text:
        return DEFAULT_TIMEOUT
    duration = read_duration(text)
    if duration is None:
        raise UserError(f"'{path}.timeout': '{text}' is not a duration", hint=DURATION_HINT)
    return duration.seconds


def _read_address(text: str | None, path: str) -> str:
    fault = _address_fault(text) if text else ""
    if fault:
        raise UserError(
            f"'{path}.http': bad address '{text}': {fault}",
            hint='http = "https://example.org/path"',
        )
    return text or ""


def _address_fault(text: str) -> str:
    """Why nothing could be posted to an address, or nothing."""
    if not (text.isascii() and text.isprintable()) or " " in text:
        return "a blank, or what is no ASCII, stands as %XX in it"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as err:
        return str(err)[:1].lower() + str(err)[1:]
    if parts.scheme not in ("http", "https"):
        return "it begins with neither http:// nor https://"
    if not parts.hostname or port == 0:
        return "it names no host" if not parts.hostname else "nobody listens at port 0"
    return "it names a user" if "@" in parts.netloc else ""


def open_hooks(
    run: Run,
    recorder: Recorder,
    watch: Watch,
    redaction: Redaction,
    announce: Announcer,
    branch: str = "",
) -> Hooks:
    """The hooks of a run, or of a branch of it. A dry run has none."""
    about = {"run_id": run.run_id, "workflow": run.graph.name, "goal": run.goal}
    if run.dry_run:
        return Hooks([], about, {}, {}, Path(), watch, redaction, announce)
    about["work_dir"] = str(recorder.work_dir)
    marks = run.marks
    if branch:
        about["parallel_branch"] = marks["GIT_WF_BRANCH"] = branch
    hooks = read_hooks(run.config)
    return Hooks(hooks, about, run.env, marks, recorder.work_dir, watch, redaction, announce)


class Hooks:
    """The hooks of one walk."""

    def __init__(
        self,
        hooks: list[Hook],
        about: Mapping[str, Any],
        env: Mapping[str, str],
        marks: Mapping[str, str],
        work_dir: Path,
        watch: Watch,
        redaction: Redaction,
        announce: Announcer,
    ) -> None:
        self._hooks = hooks
        self._about = dict(about)  # what every hook is told
        self._env = env
        self._marks = marks  # that processes of the run, or of the branch, are found by
        self._work_dir = work_dir
        self._watch = watch
        self._redaction = redaction
        self._announce = announce
        self._worker: threading.Thread | None = None
        self._waiting: queue.Queue[tuple[Hook, dict[str, Any]] | None] = queue.Queue()
        self.scratch = Path()

    def fire(self, event: str, values: Mapping[str, Any], **fields: Any) -> Decision:
        """Tells the hooks of an event; the first blocking one that does not proceed decides.

        A matcher is looked for in `node`, `kind` and `edge` (`a->b`) of `fields`.
        """
        named = ("node", "kind", "edge")
        subjects: dict[str, str] = {key: str(fields[key]) for key in named if key in fields}
        told: dict[str, Any] | None = None
        for hook in self._hooks:
            if not hook.matches(event, subjects):
                continue
            if told is None:
                told = {"event": event, **self._about, **fields, "context": dict(values)}
            if not hook.blocking:
                self._run_beside(hook, told)
                continue
            decision = self._decide(hook, told, "hook")
            if decision.word != "proceed":
                return decision
        return PROCEED

    def close(self) -> None:
        """Waits for the hooks that run beside the run."""
        if self._worker is not None:
            self._waiting.put(None)
            while self._worker.is_alive():  # a signal is heard when this thread wakes
                self._worker.join(TICK)
            self._worker = None

    def _run_beside(self, hook: Hook, told: dict[str, Any]) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="hooks", daemon=True)
            self._worker.start()
        self._waiting.put((hook, told))

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            hook, told = item
            try:
                decision = self._decide(hook, told, "beside")
            except (Interrupted, Stalled):
                continue
            if decision.word == "block":
                self._announce("notice", code="hook_failed", message=decision.reason)

    def _decide(self, hook: Hook, told: Mapping[str, Any], place: str) -> Decision:
        data = json.dumps(told, ensure_ascii=False, sort_keys=True, default=str)
        body = data.encode("utf-8", "replace")
        if hook.http:
            decision = _post_in_time(hook, body, self._watch)
        else:
            decision = self._run(hook, told, body, place)
        reason = self._redaction.text(decision.reason)
        if decision.word == "block":
            reason = f"hook '{hook.name}': {reason or 'blocked'}"
        return Decision(decision.word, reason, self._redaction.value(dict(decision.data)))

    def _run(self, hook: Hook, told: Mapping[str, Any], body: bytes, place: str) -> Decision:
        marks = {
            **self._marks,
            "GIT_WF_NODE": str(told.get("node", "")),
            "GIT_WF_VISIT": str(told.get("visit", "")),
            "GIT_WF_HOOK": hook.event,
        }
        context = self.scratch / f"{place}-context.json"
        values = json.dumps(told["context"], ensure_ascii=False, sort_keys=True)
        context.write_bytes(values.encode("utf-8", "replace"))
        status = self.scratch / f"{place}-status.json"
        program = Program(
            hook.argv,
            cwd=self._work_dir,
            env={
                **self._env,
                **marks,
                "GIT_WF_CONTEXT": str(context),
                "GIT_WF_STATUS": str(status),
            },
            marks=marks,
            stdin=body,
            timeout=hook.timeout,
            keep=_OUTPUT_LIMIT,
        )
        traces = (self.scratch / f"{place}.out", self.scratch / f"{place}.err")
        try:
            ended = run_program(program, traces, self._watch, self._redaction)
        except OSError as err:
            return Decision("block", f"run '{hook.argv[0]}': {err.strerror or err}")
        if ended.timed_out:
            return _timed_out(hook)
        said = decode_output(ended.stderr)[0].strip()
        if ended.status not in (0, BLOCKED_STATUS):
            how = f"signal {ended.signal}" if ended.status is None else f"status {ended.status}"
            return Decision("block", f"ended with {how}" + (f": {said}" if said else ""))
        decision = _read_decision(decode_output(ended.stdout)[0])
        if ended.status == BLOCKED_STATUS:
            return Decision("block", decision.reason or said)
        return decision


def _post_in_time(hook: Hook, body: bytes, watch: Watch) -> Decision:
    """Posts, with the time that a program would have, however the answer trickles in.

    Raises `Interrupted` or `Stalled`; a connection that is still open then is left to itself.
    """
    answers: queue.Queue[Decision] = queue.Queue()
    post = threading.Thread(target=lambda: answers.put(_post(hook, body)), name="post", daemon=True)
    post.start()
    until = time.monotonic() + (hook.timeout or float("inf"))
    while (left := until - time.monotonic()) > 0:
        with suppress(queue.Empty):
            return answers.get(timeout=min(TICK, left))
        watch.check()
    return _timed_out(hook)


def _post(hook: Hook, body: bytes) -> Decision:
    import http.client  # heavy, and few runs post anything
    import urllib.error
    import urllib.request

    request = urllib.request.Request(
        hook.http, data=body, headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=hook.timeout or None) as response:
            return _read_decision(response.read(_OUTPUT_LIMIT).decode("utf-8", "replace"))
    except urllib.error.HTTPError as err:
        err.close()
        return Decision("block", f"post to '{hook.http}': status {err.code}")
    except (OSError, ValueError, http.client.HTTPException) as err:
        reason = getattr(err, "reason", err)
        if isinstance(reason, TimeoutError) and hook.timeout:
            return _timed_out(hook)
        return Decision("block", f"post to '{hook.http}': {reason}")


def _timed_out(hook: Hook) -> Decision:
    return Decision("block", f"timed out after {hook.timeout:g} s")


def _read_decision(text: str) -> Decision:
    """What an answer says; one that is no JSON object says nothing: proceed."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return PROCEED
    if not isinstance(data, dict):
        return PROCEED
    word = str(data.get("decision") or "proceed")
    if word not in DECISIONS:
        return Decision("block", f"unknown decision '{word}'")
    return Decision(word, str(data.get("reason") or ""), data)
