"""The values of a workflow file: how they are written, and what they are.

A quoted text is always a `str`. A bare word is an integer, a float, a boolean, a duration, or,
when it is none of them, a `str`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

LONGEST = 100 * 365 * 86400.0  # seconds of a duration: what clocks and dates can count
DURATION_HINT = 'timeout = "30s", or ms, m, h, d'
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?", re.ASCII)
# `\"`, `\\`, `\n`, `\t`; a backslash before the end of a line; an end of line of two characters.
_ESCAPE = re.compile(r'\\(?:["\\nt]|\r?\n)|\r\n')
_DECODED = {'\\"': '"', "\\\\": "\\", "\\n": "\n", "\\t": "\t", "\r\n": "\n"}
_ENCODED = {'"': '\\"', "\\": "\\\\", "\r\n": "\r\\n"}
_CONTENT = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_GAP = r"(?:\s|//[^\n]*|/\*.*?\*/)*"
_JOIN = re.compile(rf'"{_GAP}\+{_GAP}"', re.DOTALL)


@dataclass(frozen=True)
class Duration:
    """A span of time. `str()` gives it as it was written."""

    seconds: float
    text: str

    def __str__(self) -> str:
        return self.text


Value = str | int | float | bool | Duration


def read_duration(text: str) -> Duration | None:
    """`250ms`, `30s`, `15m`, `2h`, `1d`; None where `text` is none of that, or beyond `LONGEST`."""
    matched = _DURATION.fullmatch(text)
    if matched is None:
        return None
    seconds = float(matched[1]) * UNITS[matched[2]]
    return Duration(seconds, text) if seconds <= LONGEST else None


def read_number(text: str) -> int | float | None:
    """The finite number that a text is, in the notation of workflow files; else None."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) or re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        number = float(text)
        return number if math.isfinite(number) else None
    return None


def read_bare(text: str) -> Value:
    """What a bare word is."""
    if text in ("true", "false"):
        return text == "true"
    number = read_number(text)
    if number is not None:
        return number
    return read_duration(text) or text


def read_quoted(literal: str) -> str:
    """The text of one literal with its quotes. Backslashes before anything else stay."""
    return _ESCAPE.sub(lambda found: _DECODED.get(found[0], ""), literal[1:-1])


def text_of(value: Value) -> str:
    """A value as text: `true` and `false`, durations as written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def write_quoted(text: str) -> str:
    """A literal that reads as `text`."""
    return '"' + re.sub(r'["\\]|\r\n', lambda found: _ENCODED[found[0]], text) + '"'


def write_value(value: Value) -> str:
    return write_quoted(value) if isinstance(value, str) else text_of(value)


def literal_end(text: str, start: int) -> int:
    """Where the quoted value at `start`, with all that is joined to it by `+`, ends."""
    at = start + 1
    while True:
        content = _CONTENT.match(text, at)
        assert content is not None
        at = content.end()
        joined = _JOIN.match(text, at)
        if joined is None:
            return at + 1
        at = joined.end()


def source_offset(text: str, start: int, offset: int) -> int:
    """Where in `text` the character `offset` of the value that is written at `start` stands."""
    if text[start : start + 1] != '"':
        return start + offset
    at = start + 1
    while True:
        content = _CONTENT.match(text, at)
        assert content is not None
        for found in _ESCAPE.finditer(text, at, content.end()):
            if offset < found.start() - at:
                return at + offset
            offset -= found.start() - at + len(_DECODED.get(found[0], ""))
            at = found.end()
            if offset < 0:
                return found.start()
        joined = _JOIN.match(text, content.end())
        if offset < content.end() - at or joined is None:
            return min(at + offset, content.end())
        offset -= content.end() - at
        at = joined.end()
