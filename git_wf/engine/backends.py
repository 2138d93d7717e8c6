"""The programs that answer agent and prompt nodes: which one, how it is called, how it is read.

A profile is data. `[agents.NAME]` of run.toml makes one:

    [agents.NAME]
    command = ["my-agent", "--model", "{model}"]
    prompt = "stdin"
    output = "text"          # or "json"
    resume = ["--session", "{session}"]

`{model}` stands for the node's model, and `{effort}` for its reasoning effort; a word of the
command with a placeholder that has no value goes, and the option word before it too. `resume` is
added when a session goes on. With `output = "json"` the program prints one JSON object, or one a
line; the last text, session id, and the tokens and cost in them are read by the names that
programs use for them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_wf.core.graph import KINDS, Graph, Node
from git_wf.errors import UserError

ANSWERED_KINDS = ("agent", "prompt")
DEFAULT_HINT = 'set default = "NAME" under [agents] in run.toml, or backend="NAME" on the node'

_TEXT_KEYS = ("result", "response", "text", "message", "content", "output")
_SESSION_KEYS = ("session_id", "sessionId", "sessionID", "thread_id", "conversation_id")
_INPUT_KEYS = ("input_tokens", "prompt_tokens", "inputTokens", "input")
_OUTPUT_KEYS = ("output_tokens", "completion_tokens", "outputTokens", "output")
_COST_KEYS = ("total_cost_usd", "cost_usd", "cost")
_USAGE_KEYS = ("usage", "tokens", "stats")


@dataclass(frozen=True)
class Profile:
    """How one program is called and read."""

    name: str
    command: tuple[str, ...]
    output: str = "text"  # or `json`
    resume: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return self.command[0]

    def argv(self, values: Mapping[str, str], session: str | None) -> list[str]:
        """The command line; `values` fill the placeholders."""
        words = _filled(self.command, values)
        if session and self.resume:
            words += _filled(self.resume, {**values, "session": session})
        return words


@dataclass(frozen=True)
class Reply:
    text: str
    session: str | None = None
    usage: dict[str, Any] | None = None


@dataclass(frozen=True)
class Missing:
    """A backend that a workflow needs and that cannot be called."""

    node: str
    backend: str  # empty where none is chosen
    message: str
    hint: str


def backend_name(node: Node, config: Mapping[str, Any]) -> str:
    """The backend of a node: its own, else that of `[agents] default`. Raises `UserError`."""
    name = node.text("backend") or config.get("agents", {}).get("default", "")
    if not name:
        raise UserError(f"no backend for node '{node.id}'", hint=DEFAULT_HINT)
    return str(name)


def find_profile(name: str, config: Mapping[str, Any]) -> Profile:
    """The profile of that name. Raises `UserError` where there is none."""
    table = config.get("agents", {}).get(name)
    if not isinstance(table, Mapping):
        raise UserError(
            f"unknown backend '{name}'", hint=f'define it: [agents.{name}] command = ["…"]'
        )
    return Profile(
        name,
        tuple(table["command"]),
        table.get("output", "text"),
        tuple(table.get("resume", ())),
    )


def missing_backends(
    graph: Graph, config: Mapping[str, Any], env: Mapping[str, str]
) -> list[Missing]:
    """The backends that agent and prompt nodes need and that are not there, in graph order.

    A program named with a slash but no leading one lies in the worktree: it cannot be looked for
    before there is one.
    """
    found = []
    for node in graph.nodes.values():
        if is_answered(node):
            missing = _missing(node, config, env)
            if missing is not None:
                found.append(missing)
    return found


def is_answered(node: Node) -> bool:
    """Whether a backend answers this node. A type that nobody knows runs as an agent."""
    return node.kind in ANSWERED_KINDS or node.kind not in KINDS


def _missing(node: Node, config: Mapping[str, Any], env: Mapping[str, str]) -> Missing | None:
    name = ""
    try:
        name = backend_name(node, config)
        profile = find_profile(name, config)
    except UserError as err:
        return Missing(node.id, name, err.message, err.hints[0])
    program = profile.program
    if "/" in program and not program.startswith("/"):
        return None
    if shutil.which(program, path=env.get("PATH", "")):
        return None
    return Missing(
        node.id,
        name,
        f"backend '{name}' of node '{node.id}': program '{program}' is not on PATH",
        f"install '{program}', or choose another backend: {DEFAULT_HINT}",
    )


def _filled(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    filled: list[str] = []
    for word in words:
        names = [name for name in ("model", "effort", "session") if f"{{{name}}}" in word]
        if any(not values.get(name) for name in names):
            if filled and filled[-1].startswith("-") and "=" not in filled[-1]:
                filled.pop()
            continue
        for name in names:
            word = word.replace(f"{{{name}}}", values[name])
        filled.append(word)
    return filled


# Reading what a program printed.


def read_reply(profile: Profile, output: str) -> Reply:
    """Raises `ValueError` with the fault where a `json` program printed something else."""
    if profile.output == "text":
        return Reply(output)
    texts, session, usage = "", None, None
    for record in _records(output):
        texts = _text_in(record) or texts
        session = _first_text(record, _SESSION_KEYS) or session
        usage = _usage_in(record) or usage
    return Reply(texts, session, usage)


def _records(output: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in an output: one document (an object or a list), or one a line."""
    try:
        whole = json.loads(output)
    except (ValueError, RecursionError):
        lines = [line for line in output.splitlines() if line.strip()]
        try:
            whole = [json.loads(line) for line in lines if line.lstrip().startswith("{")]
        except (ValueError, RecursionError) as err:
            raise ValueError(f"not valid JSON: {err}") from err
    records = whole if isinstance(whole, list) else [whole]
    found = [record for record in records if isinstance(record, dict)]
    if not found:
        raise ValueError("no JSON object")
    yield from found


def _text_in(record: Mapping[str, Any]) -> str:
    for key in _TEXT_KEYS:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, Mapping):
            inner = _text_in(value)
            if inner:
                return inner
    return ""


def _first_text(record: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def _usage_in(record: Mapping[str, Any]) -> dict[str, Any] | None:
    usage: dict[str, Any] = {}
    for table in (record, *(record[key] for key in _USAGE_KEYS if key in record)):
        if isinstance(table, Mapping):
            _take_number(usage, "input_tokens", table, _INPUT_KEYS, int)
            _take_number(usage, "output_tokens", table, _OUTPUT_KEYS, int)
            _take_number(usage, "cost_usd", table, _COST_KEYS, float)
    return usage or None


def _take_number(
    usage: dict[str, Any],
    name: str,
    table: Mapping[str, Any],
    keys: Sequence[str],
    kind: type[int] | type[float],
) -> None:
    for key in keys:
        value = table.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15:
            usage.setdefault(name, kind(value))
            return
