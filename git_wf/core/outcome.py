"""What a visit ended with: a status, and the data that routing and later nodes read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

SUCCESS = "success"
PARTIAL_SUCCESS = "partial_success"
FAIL = "fail"
SKIPPED = "skipped"
RETRY = "retry"  # inside the engine only: never recorded

STATUSES = (SUCCESS, PARTIAL_SUCCESS, FAIL, SKIPPED)
_SYNONYMS = {
    "succeeded": SUCCESS,
    "failed": FAIL,
    "failure": FAIL,
    "partially_succeeded": PARTIAL_SUCCESS,
}

# How a node ended, never what its output says. Only `deterministic` counts towards the limit of
# equal failures; `transient`, `timeout` and `signal` may cross a `loop_restart` edge.
DETERMINISTIC = "deterministic"
TIMEOUT = "timeout"
SIGNAL = "signal"
TRANSIENT = "transient"
CANCELLED = "cancelled"
CONFIGURATION = "configuration"
FAILURE_CLASSES = (DETERMINISTIC, TIMEOUT, SIGNAL, TRANSIENT, CANCELLED, CONFIGURATION)


def normal_status(word: str) -> str | None:
    """The status that a word means, in any of its spellings; None where it means none."""
    word = _SYNONYMS.get(word, word)
    return word if word in STATUSES or word == RETRY else None


@dataclass(frozen=True)
class Failure:
    message: str
    kind: str = DETERMINISTIC  # one of FAILURE_CLASSES; `class` in JSON
    signature: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"message": self.message, "class": self.kind, "signature": self.signature}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Failure:
        kind = str(data.get("class") or DETERMINISTIC)
        if kind == "transient_infra":
            kind = TRANSIENT
        return cls(str(data.get("message") or ""), kind, str(data.get("signature") or ""))


@dataclass(frozen=True)
class Outcome:
    """Statuses as in STATUSES (and RETRY inside the engine).

    `usage` holds `input_tokens`, `output_tokens` (integers) and `cost_usd` (a float) where a
    backend reported them. `extra` keeps fields that this version does not know.
    """

    status: str
    preferred_label: str = ""
    suggested_next_ids: tuple[str, ...] = ()
    context_updates: dict[str, Any] = field(default_factory=dict)
    notes: str = ""
    failure: Failure | None = None
    usage: dict[str, Any] | None = None
    files_touched: tuple[str, ...] = ()
    duration_ms: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_success(self) -> bool:
        return self.status in (SUCCESS, PARTIAL_SUCCESS)

    def with_status(self, status: str) -> Outcome:
        return replace(self, status=status)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.extra,
            "status": self.status,
            "preferred_label": self.preferred_label,
            "suggested_next_ids": list(self.suggested_next_ids),
            "context_updates": self.context_updates,
            "notes": self.notes,
            "failure": self.failure.to_json() if self.failure else None,
            "usage": self.usage,
            "files_touched": list(self.files_touched),
            "duration_ms": self.duration_ms,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        known = dict(data)
        word = str(known.pop("status", ""))
        failure = known.pop("failure", None)
        return cls(
            status=normal_status(word) or word,
            preferred_label=str(known.pop("preferred_label", None) or ""),
            suggested_next_ids=tuple(known.pop("suggested_next_ids", None) or ()),
            context_updates=dict(known.pop("context_updates", None) or {}),
            notes=str(known.pop("notes", None) or ""),
            failure=Failure.from_json(failure) if isinstance(failure, dict) else None,
            usage=known.pop("usage", None),
            files_touched=tuple(known.pop("files_touched", None) or ()),
            duration_ms=int(known.pop("duration_ms", None) or 0),
            extra=known,
        )


def succeeded(**fields: Any) -> Outcome:
    return Outcome(SUCCESS, **fields)


def failed(message: str, kind: str = DETERMINISTIC, **fields: Any) -> Outcome:
    return Outcome(FAIL, failure=Failure(message, kind), **fields)
