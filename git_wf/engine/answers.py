"""What a node's program says about its outcome: routing JSON in a response, or a status file.

Keys: `outcome` (or `status`), `preferred_next_label` (or `preferred_label`),
`suggested_next_ids`, `context_updates`, `failure_reason`, `notes`; in a status file also
`failure_class`, for a program that knows (say, that a service could not be reached).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from git_wf.core.context import Redaction, clean_value
from git_wf.core.outcome import (
    DETERMINISTIC,
    FAIL,
    FAILURE_CLASSES,
    SUCCESS,
    Failure,
    Outcome,
    normal_status,
)

ROUTING_KEYS = (
    "outcome",
    "preferred_next_label",
    "suggested_next_ids",
    "context_updates",
    "failure_reason",
)
STATUS_LIMIT = 4 * 1024 * 1024  # bytes of a status file


class AnswerError(Exception):
    """An answer that is not what it has to be; the text says how. It is that node's failure."""


@dataclass(frozen=True)
class Answer:
    word: str = ""  # what was said under `outcome`, as it was said
    label: str = ""
    suggested: tuple[str, ...] = ()
    updates: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    notes: str = ""
    failure_class: str = ""

    @property
    def status(self) -> str:
        """A word that is no status routes, and counts as a success."""
        return normal_status(self.word) or SUCCESS

    def outcome(self, updates: Mapping[str, Any], **fields: Any) -> Outcome:
        """The outcome that this answer means; `updates` are the handler's own."""
        failure = None
        if self.status == FAIL:
            reason = self.reason or "the node reported a failure"
            failure = Failure(reason, self.failure_class or DETERMINISTIC)
        extra = {"outcome": self.word} if self.word and not normal_status(self.word) else {}
        return Outcome(
            self.status,
            preferred_label=self.label,
            suggested_next_ids=self.suggested,
            context_updates={**updates, **self.updates},
            notes=self.notes,
            failure=failure,
            extra=extra,
            **fields,
        )


def routing_answer(text: str, redaction: Redaction) -> Answer | None:
    """The answer in a response: its last JSON object with a routing key. None without one.

    Raises `AnswerError`.
    """
    found = None
    for candidate in _objects(text):
        if any(key in candidate for key in ROUTING_KEYS):
            found = candidate
    return None if found is None else read_answer(found, redaction)


def status_answer(path: Path, redaction: Redaction) -> Answer | None:
    """The answer in a status file; None where the program wrote none. Raises `AnswerError`."""
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return None
        if path.stat().st_size > STATUS_LIMIT:
            raise AnswerError(f"status file: larger than {STATUS_LIMIT} bytes")
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as err:
        raise AnswerError(f"status file: not valid JSON: {err}") from err
    if not isinstance(data, dict):
        raise AnswerError("status file: not a JSON object")
    return read_answer(data, redaction)


def _objects(text: str) -> list[dict[str, Any]]:
    """The outermost JSON objects in a text, in order."""
    decoder = json.JSONDecoder()
    found = []
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append(value)
        at = text.find("{", end)
    return found


def read_answer(data: dict[str, Any], redaction: Redaction) -> Answer:
    """The answer that an object gives. Raises `AnswerError`."""
    try:
        data = redaction.value(clean_value(data))
    except ValueError as err:
        raise AnswerError(f"answer: {err}") from err
    kind = _text(data, "failure_class")
    return Answer(
        word=(_text(data, "outcome") or _text(data, "status")).strip(),
        label=_text(data, "preferred_next_label") or _text(data, "preferred_label"),
        suggested=_texts(data, "suggested_next_ids"),
        updates=_table(data, "context_updates"),
        reason=_text(data, "failure_reason"),
        notes=_text(data, "notes"),
        failure_class=kind if kind in FAILURE_CLASSES else "",
    )


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    raise AnswerError(f"answer: '{key}' is not a text")


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key)
    if isinstance(value, str):
        return (value,)
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise AnswerError(f"answer: '{key}' is not a list of texts")


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    if value is None or isinstance(value, dict):
        return value or {}
    raise AnswerError(f"answer: '{key}' is not an object")
