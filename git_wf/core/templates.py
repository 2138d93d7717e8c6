"""`{{ name }}` in goals, prompts, scripts and run configs.

Replaced is what begins with one of FIRST_NAMES, `{{ inputs.repo }}`, and, in prompts, `$goal`.
`{{ inputs.repo | sh }}` is quoted for the shell. Everything else stays as it is, since much of it
is ordinary shell or belongs to other programs: `${#a[@]}`, `{{.State}}`, `${{ github.sha }}`.
What a replacement brings in is not read again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from git_wf.core.conditions import text_of_json
from git_wf.core.context import lookup

GOAL_HINT = "a goal can name {{ inputs.NAME }}, {{ env.NAME }} and {{ graph.NAME }}"
FIRST_NAMES = ("goal", "inputs", "run", "env", "graph", "context")
RUN_NAMES = ("id", "work_dir")  # what a run is asked for; a goal is there before it
_TEMPLATE = re.compile(
    r"""(?<!\$)\{\{\s*(?P<name>[A-Za-z_]\w*(?:\.[\w-]+)*)\s*(?P<quote>\|\s*sh\s*)?\}\}
    |(?P<older>\$goal)(?!\w)""",
    re.VERBOSE | re.ASCII,
)


class TemplateError(Exception):
    """A name stands for nothing; `offset` counts characters from the beginning of the text."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class Name(NamedTuple):
    """A name in braces, as it is written, whether it is one of ours or not."""

    text: str
    offset: int

    @property
    def first(self) -> str:
        return self.text.partition(".")[0]

    @property
    def rest(self) -> str:
        return self.text.partition(".")[2]


def names(text: str) -> list[Name]:
    """Every name in braces, in order."""
    return [
        Name(found["name"], found.start()) for found in _TEMPLATE.finditer(text) if found["name"]
    ]


def render(text: str, values: Mapping[str, Any], *, prompt: bool) -> str:
    """`text` with its names replaced; `values` has a text or a mapping for each first name.

    Raises `TemplateError` at the first name that stands for nothing.
    """

    def replaced(found: re.Match[str]) -> str:
        if found["older"]:
            return text_of_json(values.get("goal")) if prompt else found[0]
        name = Name(found["name"], found.start())
        if name.first not in FIRST_NAMES:
            return found[0]
        value = text_of_json(_value(name, values))
        return shlex.quote(value) if found["quote"] else value

    return _TEMPLATE.sub(replaced, text)


def _value(name: Name, values: Mapping[str, Any]) -> Any:
    value = values.get(name.first)
    if name.rest:
        value = lookup(value, name.rest) if isinstance(value, Mapping) else None
    if value is None or (not name.rest and isinstance(value, Mapping)):
        raise TemplateError(f"undefined name '{name.text}'", name.offset)
    return value
