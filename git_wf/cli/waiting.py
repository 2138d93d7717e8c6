"""How people are told what a run waits for, from the question or from `waiting.json`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from git_wf.core.routing import accelerator
from git_wf.core.trailers import one_line


def choice_table(choices: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line a choice: its key, its label without the key, and whether any text will do."""
    return [
        f"{one['key']}  {one_line(accelerator(str(one['label']))[1])}"
        + ("  (any text)" if one.get("freeform") else "")
        for one in choices
    ]


def waiting_lines(waiting: Mapping[str, Any]) -> list[str]:
    """What a run waits for, and until when."""
    question = one_line(str(waiting.get("question") or ""))
    until = f", until {waiting['deadline']}" if waiting.get("deadline") else ""
    return [
        f"waiting for an answer{until}",
        f"  {waiting.get('node')}@{waiting.get('visit')}: {question}",
        *(f"    {line}" for line in choice_table(waiting.get("choices") or ())),
    ]


def answer_option(waiting: Mapping[str, Any]) -> str:
    """`--answer A`, with the key of the first choice."""
    choices = waiting.get("choices") or [{}]
    return f"--answer {shlex.quote(str(choices[0].get('key') or 'A'))}"
