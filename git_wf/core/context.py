"""The context: the values that nodes share; how they are found, bounded, cleaned, kept secret."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from git_wf.core.graph import Graph

INLINE_LIMIT = 256 * 1024  # bytes of an output that a context value keeps: the last ones
TRACE_LIMIT = 512 * 1024  # bytes of a file in a trace; what is longer is cut in the middle
ARTIFACT_LIMIT = 100_000  # bytes of JSON; a longer value becomes an artifact
RECORDED_LIMIT = 4096  # bytes of JSON of one update in a recorded outcome
PERCENT_ENCODED = "percent_encoded"  # `<key>.percent_encoded` flags a value
REDACTED = "***"

IDENTITY_KEYS = ("internal.run_id", "internal.work_dir")  # laid over a context, never stored in it

_DEPTH_LIMIT = 100  # of lists and objects in each other
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


def graph_values(graph: Graph, goal: str = "") -> dict[str, Any]:
    """The attributes of a graph as `graph.<attribute>`; `goal` is the run's, if it has another."""
    values = {f"graph.{key}": value for key, value in graph.attributes.items()}
    if goal:
        values["graph.goal"] = goal
    return values


def lookup(values: Mapping[str, Any], key: str) -> Any:
    """The value of `key` or `context.key`; None where there is none.

    A key may have dots of its own (`command.output`) and may reach into objects and lists
    (`parallel.results.0.status`): the longest key that is there wins.
    """
    return _find(values, key.removeprefix("context."))


def _find(values: Any, key: str) -> Any:
    if isinstance(values, list):
        head, _, rest = key.partition(".")
        if not head.isdecimal() or int(head) >= len(values):
            return None
        return _find(values[int(head)], rest) if rest else values[int(head)]
    if not isinstance(values, Mapping):
        return None
    if key in values:
        return values[key]
    cut = key.rfind(".")
    while cut > 0:
        if key[:cut] in values:
            found = _find(values[key[:cut]], key[cut + 1 :])
            if found is not None:
                return found
        cut = key.rfind(".", 0, cut)
    return None


# Values too large to stay inline.


def split_artifacts(
    values: Mapping[str, Any], limit: int = ARTIFACT_LIMIT
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The context with its large values replaced by `{"$artifact": name}`, and their JSON by name.

    A value that only looks like such a reference becomes an artifact too, so that joining gives
    back exactly what was split.
    """
    inline: dict[str, Any] = {}
    artifacts: dict[str, bytes] = {}
    for key, value in values.items():
        data = _large_json(value, limit)
        if data is None:
            inline[key] = value
        else:
            name = _artifact_name(key)
            inline[key] = {"$artifact": name}
            artifacts[name] = data
    return inline, artifacts


def join_artifacts(values: Mapping[str, Any], read: Callable[[str], bytes]) -> dict[str, Any]:
    """The context with every reference replaced by its value; `read` gives an artifact's JSON."""
    return {
        key: json.loads(read(value["$artifact"])) if _is_reference(value) else value
        for key, value in values.items()
    }


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$artifact"), str)


def _large_json(value: Any, limit: int) -> bytes | None:
    """The JSON of a value that is to be an artifact, else None."""
    if value is None or isinstance(value, (bool, int, float)):
        return None
    if isinstance(value, str) and len(value) * 6 + 2 <= limit:  # `\u0000` is the longest escape
        return None
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
    data = text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes an escape
    return data if len(data) > limit or _is_reference(value) else None


def _artifact_name(key: str) -> str:
    """The name of a key's artifact: a safe file name, different for different keys."""
    name = quote(key, safe="")
    return name if len(name) <= 150 else hashlib.sha256(key.encode()).hexdigest()


def recorded_updates(updates: Mapping[str, Any], limit: int = RECORDED_LIMIT) -> dict[str, Any]:
    """The context updates as a recorded outcome keeps them.

    The values themselves are in the context; large ones would be stored once more for every node.
    """
    kept: dict[str, Any] = {}
    for key, value in updates.items():
        data = _large_json(value, limit)
        kept[key] = value if data is None else {"$omitted": len(data)}
    return kept


# Values from outside.


def decode_output(data: bytes) -> tuple[str, bool]:
    """The text of an output, and whether it had to be percent-encoded (it is not UTF-8).

    Then every byte that is no part of a character, and every `%`, stands as `%XX`.
    """
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        text = data.replace(b"%", b"%25").decode("utf-8", "surrogateescape")
        return _ESCAPED_BYTE.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", text), True


def last_bytes(data: bytes, limit: int = INLINE_LIMIT) -> bytes:
    """The end of `data`, cut between characters."""
    if len(data) <= limit:
        return data
    cut = len(data) - limit
    for _ in range(3):
        if data[cut] & 0xC0 != 0x80:
            break
        cut += 1
    return data[cut:]


def cut_middle(data: bytes, limit: int = TRACE_LIMIT) -> bytes:
    """`data`, or its two ends with a line between them that says how much was left out."""
    if len(data) <= limit:
        return data
    head = data[: limit // 2]
    line = cut_line(len(data) - limit)
    return head + line + data[len(head) + len(line) + len(data) - limit :]


def cut_line(over: int) -> bytes:
    """What stands where bytes are missing; `over` is how much was too much, without this line."""
    line = b""
    for _ in range(2):  # the line takes place too, and so more has to go
        line = b"\n[git-wf: %d bytes left out]\n" % (over + len(line))
    return line


def clean_value(value: Any, depth: int = 0) -> Any:
    """A decoded JSON value as the context may hold it.

    Raises `ValueError` with the fault: NaN or Infinity, nested beyond all reason, or of a type
    that no JSON gives (of a handler of another package). Half characters (`"\\ud800"`), which no
    UTF-8 can hold, become U+FFFD.
    """
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and Infinity are not JSON")
    if isinstance(value, (list, tuple, dict)) and depth > _DEPTH_LIMIT:
        raise ValueError(f"nested more than {_DEPTH_LIMIT} deep")
    if isinstance(value, (list, tuple)):
        return [clean_value(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean_value(str(key)): clean_value(item, depth + 1) for key, item in value.items()}
    if value is not None and not isinstance(value, (bool, int, float)):
        raise ValueError(f"{type(value).__name__} is not JSON")
    return value


def spellings(secret: str) -> set[str]:
    """A secret as programs write it: as it is, in the quotes of a shell, in JSON, in JSON in JSON.

    The quotes around it are no part of a spelling, nor are blanks at its ends.
    """
    bare = {secret, secret.strip()} - {""}
    plain = {text.replace("'", quoted) for text in bare for quoted in ("'", *_SHELL_QUOTES)}
    escaped = {escape(text) for text in plain for escape in _JSON_ESCAPES}
    twice = {escape(text) for text in escaped for escape in _JSON_ESCAPES}
    return plain | escaped | twice


def _json_text(text: str, **options: bool) -> str:
    return json.dumps(text, **options)[1:-1]  # type: ignore[arg-type]


_SHELL_QUOTES = ("'\"'\"'", "'\\''")  # a quote within quotes: as Python writes it, and as git does
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
# What encoders escape beside what they must: all but ASCII (Python), nothing (JavaScript, jq),
# slashes too (PHP), and what HTML could take for its own (Go).
_JSON_ESCAPES: tuple[Callable[[str], str], ...] = (
    _json_text,
    lambda text: _json_text(text, ensure_ascii=False),
    lambda text: _json_text(text).replace("/", "\\/"),
    lambda text: _json_text(text, ensure_ascii=False).translate(_HTML),
)


class Redaction:
    """Replaces secret values by `***`: exactly, in each of their `spellings`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found = {spelling for text in secrets if text for spelling in spellings(text)}
        self._secrets = sorted(found, key=len, reverse=True)
        self._texts = re.compile("|".join(map(re.escape, self._secrets)))
        self._bytes = [text.encode("utf-8", "surrogateescape") for text in self._secrets]
        self._bytes.sort(key=len, reverse=True)

    def text(self, text: str) -> str:
        return self._texts.sub(REDACTED, text) if self._secrets else text

    def value(self, value: Any) -> Any:
        """`value` with every text in it redacted, keys too."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        return value

    def stream(self) -> RedactedStream:
        return RedactedStream(self._bytes)


class RedactedStream:
    """Redacts bytes that come in pieces: a secret may lie across their borders.

    What could be the beginning of a secret is held back until it is known.
    """

    def __init__(self, secrets: list[bytes]) -> None:
        self._secrets = secrets  # the longest first
        self._pattern = re.compile(b"|".join(map(re.escape, secrets)))
        self._first = re.compile(b"|".join({re.escape(secret[:1]) for secret in secrets}))
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """What is safe to show now."""
        if not self._secrets:
            return chunk
        return self._redact(self._held + chunk, final=False)

    def finish(self) -> bytes:
        """What was still held back."""
        return self._redact(self._held, final=True) if self._secrets else b""

    def _redact(self, data: bytes, final: bool) -> bytes:
        border = len(data) if final else self._border(data)
        shown: list[bytes] = []
        done = 0
        for found in self._pattern.finditer(data):
            if found.start() >= border:
                break
            shown += (data[done : found.start()], REDACTED.encode())
            done = found.end()
        border = max(border, done)
        shown.append(data[done:border])
        self._held = data[border:]
        return b"".join(shown)

    def _border(self, data: bytes) -> int:
        """Where the longest end of `data` begins that a secret begins with."""
        start = max(0, len(data) - len(self._secrets[0]) + 1)
        for found in self._first.finditer(data, start):
            border = found.start()
            rest = data[border:]
            if any(len(secret) > len(rest) and secret.startswith(rest) for secret in self._secrets):
                return border
        return len(data)
