"""The programs that answer agent and prompt nodes: which one, how it is called, how it is read.

A profile is data. `docs/backends.md` tells where the built-in ones are documented;
`[agents.NAME]` of run.toml makes another, or replaces a built-in one:

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
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_wf.core.graph import KINDS, Graph, Node
from git_wf.core.stylesheet import styled
from git_wf.engine.plugins import installed_kinds
from git_wf.errors import UserError

ANSWERED_KINDS = ("agent", "prompt")
DEFAULT_HINT = 'set default = "NAME" under [agents] in run.toml, or backend="NAME" on the node'


@dataclass(frozen=True)
class Profile:
    """How one program is called and read. The prompt is its stdin."""

    name: str
    command: tuple[str, ...]
    output: str = "text"  # or `json`
    resume: tuple[str, ...] = ()  # added to go on with `{session}`
    last: tuple[str, ...] = ()  # stands at the end of every command line
    prompt_command: tuple[str, ...] = ()  # for prompt nodes, where it is another: no tools

    @property
    def program(self) -> str:
        return self.command[0]

    def argv(
        self, values: Mapping[str, str], session: str | None = None, *, prompt_only: bool = False
    ) -> list[str]:
        """The command line; `values` fill the placeholders."""
        command = self.prompt_command if prompt_only and self.prompt_command else self.command
        words = _filled(command, values)
        if session and self.resume:
            words += _filled(self.resume, {**values, "session": session})
        return [*words, *self.last]


# What an agent may do unasked is what the program calls editing files; who wants more (or less)
# replaces the profile. A prompt node gets no tools, or only reading ones.
_CLAUDE = ("claude", "--print", "--output-format", "stream-json", "--verbose",
           "--model", "{model}", "--effort", "{effort}")  # fmt: skip
_CODEX = ("codex", "exec", "--json", "--model", "{model}",
          "--config", "model_reasoning_effort={effort}", "--sandbox")  # fmt: skip
_GEMINI = ("gemini", "--output-format", "json", "--model", "{model}")
_OPENCODE = ("opencode", "run", "--format", "json", "--model", "{model}", "--variant", "{effort}")
_AIDER = ("aider", "--message-file", "/dev/stdin", "--yes-always", "--no-auto-commits",
          "--no-dirty-commits", "--no-gitignore", "--no-stream", "--no-pretty",
          "--no-check-update", "--chat-history-file", "/dev/null", "--input-history-file",
          "/dev/null", "--model", "{model}", "--reasoning-effort", "{effort}")  # fmt: skip
BUILT_IN = {
    profile.name: profile
    for profile in (
        Profile(
            "claude",
            (*_CLAUDE, "--permission-mode", "acceptEdits"),
            "json",
            resume=("--resume", "{session}"),
            prompt_command=(*_CLAUDE, "--tools", "", "--strict-mcp-config"),
        ),
        Profile(
            "codex",
            (*_CODEX, "workspace-write"),
            "json",
            resume=("resume", "{session}"),
            last=("-",),
            prompt_command=(*_CODEX, "read-only"),
        ),
        Profile(
            "gemini",
            (*_GEMINI, "--approval-mode", "auto_edit"),
            "json",
            resume=("--resume", "{session}"),
            prompt_command=_GEMINI,
        ),
        Profile(
            "opencode",
            _OPENCODE,
            "json",
            resume=("--session", "{session}"),
            prompt_command=(*_OPENCODE, "--agent", "plan"),
        ),
        Profile("aider", _AIDER, prompt_command=(*_AIDER, "--chat-mode", "ask")),
        Profile("llm", ("llm", "prompt", "--no-stream", "--model", "{model}")),
    )
}
PROVIDERS = {"anthropic": "claude", "openai": "codex", "google": "gemini", "gemini": "gemini"}
_MODELS = (
    (re.compile(r"claude|sonnet|opus|haiku"), "anthropic"),
    (re.compile(r"gpt-|o\d|codex"), "openai"),
    (re.compile(r"gemini"), "gemini"),
)
# Ways of reaching a model in other programs' files: they name no backend of ours.
_NO_BACKENDS = ("api", "cli")


@dataclass(frozen=True)
class Reply:
    """`error` is what the program itself reports as one; `transient` where later may help."""

    text: str
    session: str | None = None
    usage: dict[str, Any] | None = None
    error: str = ""
    transient: bool = False


@dataclass(frozen=True)
class Missing:
    """A backend that a workflow needs and that cannot be called."""

    node: str
    backend: str  # empty where none is chosen
    message: str
    hint: str


def backend_name(node: Node, config: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """The backend of a node: its own, its model's provider's, else that of `[agents] default`.

    A default that was set stands in for a provider's program that is not there. Raises
    `UserError` where nothing names a backend.
    """
    agents = config.get("agents", {})
    own = node.text("backend")
    if own and own not in _NO_BACKENDS:
        return own
    default = str(agents.get("default") or "")
    provided = _provider_backend(node)
    if provided and (not default or provided in agents or _is_there(BUILT_IN[provided], env)):
        return provided
    if not default:
        raise UserError(f"no backend for node '{node.id}'", hint=DEFAULT_HINT)
    return default


def _provider_backend(node: Node) -> str:
    provider = node.text("provider").lower()
    if not provider:
        model = node.text("model").rpartition("/")[2].lower()
        provider = next((name for pattern, name in _MODELS if pattern.match(model)), "")
    return PROVIDERS.get(provider, "")


def find_profile(name: str, config: Mapping[str, Any]) -> Profile:
    """The profile of that name. Raises `UserError` where there is none."""
    table = config.get("agents", {}).get(name)
    if not isinstance(table, Mapping):
        if name in BUILT_IN:
            return BUILT_IN[name]
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
    before there is one. Raises `StylesheetError` where the graph's stylesheet cannot be read.
    """
    answered = [node for node in styled(graph).nodes.values() if is_answered(node)]
    found = [_missing(node, config, env) for node in answered]
    return [missing for missing in found if missing is not None]


def is_answered(node: Node) -> bool:
    """Whether a backend answers this node. A type that nobody knows runs as an agent.

    A fan-in with a prompt has a backend pick the best branch.
    """
    if node.kind == "fan_in":
        return bool(node.text("prompt").strip()) and node.text("merge") == "best"
    if node.kind in KINDS:
        return node.kind in ANSWERED_KINDS
    return node.kind not in installed_kinds()


def _missing(node: Node, config: Mapping[str, Any], env: Mapping[str, str]) -> Missing | None:
    name = ""
    try:
        name = backend_name(node, config, env)
        profile = find_profile(name, config)
    except UserError as err:
        return Missing(node.id, name, err.message, err.hints[0])
    if _is_there(profile, env):
        return None
    return Missing(
        node.id,
        name,
        f"backend '{name}' of node '{node.id}': program '{profile.program}' is not on PATH",
        f"install '{profile.program}', or choose another backend: {DEFAULT_HINT}",
    )


def _is_there(profile: Profile, env: Mapping[str, str]) -> bool:
    program = profile.program
    if "/" in program and not program.startswith("/"):
        return True
    return shutil.which(program, path=env.get("PATH", "")) is not None


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


# Reading what a program printed. No profile has a reader of its own: these are the names that
# the programs use, and a line of one is not mistaken for a line of another.

_TEXT_KEYS = ("result", "response", "text", "message", "content", "output")
_SESSION_KEYS = ("session_id", "sessionId", "sessionID", "thread_id", "conversation_id")
_USAGE_KEYS = {
    "input_tokens": ("input_tokens", "prompt_tokens", "inputTokens", "input", "prompt"),
    "output_tokens": ("output_tokens", "completion_tokens", "outputTokens", "output", "candidates"),
    "cost_usd": ("total_cost_usd", "cost_usd", "cost"),
}
_USAGE_TABLES = ("usage", "tokens", "stats")
_PART_KEYS = ("item", "part")  # what a line of a stream is about
_TEXT_PARTS = ("agent_message", "text")  # the parts that are the answer
_STATUS_KEYS = ("api_error_status", "status", "code")
_TRANSIENT_STATUSES = frozenset((408, 429, 500, 502, 503, 504, 529))


def read_reply(profile: Profile, output: str) -> Reply:
    """Raises `ValueError` with the fault where a `json` program printed something else."""
    if profile.output == "text":
        return Reply(output)
    text, error, transient, session = "", "", False, None
    usage: dict[str, Any] = {}
    for record in _records(output):
        said = _text_in(record)
        text = said or text
        fault = _error_in(record)
        if fault or said:
            error, transient = fault, _is_transient(record)
        session = _first_text(record, _SESSION_KEYS) or session
        for key, value in _usage_in(record).items():
            usage[key] = usage.get(key, 0) + value
    return Reply(text, session, usage or None, error, bool(error) and transient)


def _records(output: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in an output: one document (an object or a list), or one a line."""
    try:
        whole = json.loads(output)
    except (ValueError, RecursionError):
        whole = [_json_line(line) for line in output.splitlines()]
    records = whole if isinstance(whole, list) else [whole]
    found = [record for record in records if isinstance(record, dict)]
    if not found:
        raise ValueError("no JSON object")
    yield from found


def _json_line(line: str) -> Any:
    """None for a line that is no JSON: a warning, or the rest of a line of a long output."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def live_text(line: str) -> str:
    """What a line of a JSON stream says to a person who watches; often nothing."""
    record = _json_line(line)
    if not isinstance(record, dict) or record.get("type") == "result":
        return ""
    message = record.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    if record.get("type") == "assistant" and isinstance(content, list):
        blocks = [block for block in content if isinstance(block, Mapping)]
        return "\n".join(_first_text(block, ("text",)) or "" for block in blocks).strip()
    return _text_in(record)


def _text_in(record: Mapping[str, Any]) -> str:
    for key in _PART_KEYS:
        part = record.get(key)
        if isinstance(part, Mapping):
            return _text_in(part) if part.get("type") in _TEXT_PARTS else ""
    if record.get("type") == "error":
        return ""
    for key in _TEXT_KEYS:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, Mapping):
            inner = _text_in(value)
            if inner:
                return inner
    return ""


def _error_in(record: Mapping[str, Any]) -> str:
    error = record.get("error")
    if isinstance(error, Mapping):
        data = error.get("data")
        error = error.get("message") or (data.get("message") if isinstance(data, Mapping) else "")
        return str(error or "the program reported an error")
    if isinstance(error, str) and error:
        return error
    if record.get("is_error") is True or record.get("type") == "error":
        told = _first_text(record, ("result", "message"))
        return told or str(record.get("subtype") or "the program reported an error")
    return ""


def _is_transient(record: Mapping[str, Any]) -> bool:
    """Whether a status in an error says that a service was not reachable or overloaded."""
    error = record.get("error")
    tables = [record, error] if isinstance(error, Mapping) else [record]
    return any(table.get(key) in _TRANSIENT_STATUSES for table in tables for key in _STATUS_KEYS)


def _first_text(record: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def _usage_in(record: Mapping[str, Any]) -> dict[str, Any]:
    usage: dict[str, Any] = {}
    for table in _usage_tables(record):
        for name, keys in _USAGE_KEYS.items():
            number = next((table[key] for key in keys if _is_count(table.get(key))), None)
            if number is not None:
                kind = float if name == "cost_usd" else int
                usage[name] = usage.get(name, 0) + kind(number)
    return usage


def _usage_tables(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Where a record counts: in itself, its usage, its part, and its statistics by model."""
    yield record
    for key in (*_USAGE_TABLES, *_PART_KEYS):
        table = record.get(key)
        if isinstance(table, Mapping):
            yield from _usage_tables(table)
    models = record.get("models")
    if isinstance(models, Mapping):
        for model in models.values():
            if isinstance(model, Mapping) and isinstance(model.get("tokens"), Mapping):
                yield model["tokens"]


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15
