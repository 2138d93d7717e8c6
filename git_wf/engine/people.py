"""How the people of a run are asked, and what they are asked.

Who is asked, and how, is handed in as an `Ask`. Where there is nobody to ask, the run records
what it waits for and ends its process; a resumption asks again, with the same deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from git_wf.core.clock import rfc3339
from git_wf.core.graph import Edge
from git_wf.core.routing import accelerator


class Silence(Enum):
    """What it means that no answer came."""

    NOBODY = "nobody"  # there is nobody to ask
    TIMED_OUT = "timed out"
    AGREES = "agrees"  # to the choice that is offered first


@dataclass(frozen=True)
class Choice:
    key: str  # upper case
    label: str  # as it is written, or the target's id
    edge: Edge

    @property
    def target(self) -> str:
        return self.edge.target

    @property
    def freeform(self) -> bool:
        return self.edge.flag("freeform")

    @property
    def text(self) -> str:
        """The label without its key."""
        return accelerator(self.label)[1]


@dataclass(frozen=True)
class Question:
    node: str
    visit: int
    text: str
    choices: tuple[Choice, ...]
    since: datetime
    deadline: datetime | None
    is_over: Callable[[], bool]  # the run was cancelled: stop asking
    branch: str = ""  # the parallel branch that asks it
    child: Mapping[str, Any] | None = None  # `run, node, visit` where a child run asks it

    def to_json(self) -> dict[str, Any]:
        """As `waiting.json` has it."""
        choices = [
            {"key": one.key, "label": one.label, "to": one.target, "freeform": one.freeform}
            for one in self.choices
        ]
        return {
            "node": self.node,
            "visit": self.visit,
            "question": self.text,
            "choices": choices,
            "since": rfc3339(self.since),
            "deadline": rfc3339(self.deadline) if self.deadline else None,
            **({"branch": self.branch} if self.branch else {}),
            **({"child": dict(self.child)} if self.child else {}),
        }

    @classmethod
    def of_child(
        cls,
        node: str,
        visit: int,
        run: str,
        waiting: Mapping[str, Any],
        is_over: Callable[[], bool],
    ) -> Question:
        """What a manager loop waits for: a question that its child run recorded."""
        asked = waiting.get("child") or {
            "run": run, "node": waiting.get("node"), "visit": waiting.get("visit")
        }  # fmt: skip
        deadline = waiting.get("deadline")
        return cls(
            node,
            visit,
            str(waiting.get("question") or ""),
            recorded_choices(waiting),
            _read_time(str(waiting["since"])),
            _read_time(str(deadline)) if deadline else None,
            is_over,
            child=asked,
        )


class Ask(Protocol):
    def __call__(self, question: Question, complaint: str) -> str | Silence:
        """What the person said. `complaint` tells what was wrong with the answer before.

        Returns at `question.deadline` at the latest, and soon after `question.is_over()`.
        """


class Waiting(Exception):
    """There is nobody to ask: the run ends its process here. Caught in `loop.py`."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.node)
        self.question = question


@dataclass(frozen=True)
class People:
    """How the people of a run are reached.

    `waiting` is what an earlier process recorded when it found nobody (`waiting.json`).
    """

    ask: Ask | None = None
    auto_approve: bool = False
    waiting: Mapping[str, Any] | None = None


def ask_from(answers: Mapping[str, Sequence[str]], otherwise: Ask | None = None) -> Ask:
    """Answers that were given beforehand, by node, one a visit; else `otherwise` is asked.

    By visits, not by questions: a resumption with the same answers goes on where they stand.
    """

    def ask(question: Question, complaint: str) -> str | Silence:
        texts = answers.get(question.node, ())
        if not complaint and question.visit <= len(texts):
            return texts[question.visit - 1]
        return otherwise(question, complaint) if otherwise else Silence.NOBODY

    return ask


def offered_choices(edges: Sequence[Edge]) -> tuple[Choice, ...]:
    """The choices that edges offer, in file order."""
    found = []
    for edge in edges:
        label = edge.label.strip() or edge.target
        found.append(Choice(accelerator(label)[0], label, edge))
    return tuple(found)


def recorded_choices(waiting: Mapping[str, Any]) -> tuple[Choice, ...]:
    """The choices of a question as `waiting.json` has them."""
    return tuple(
        Choice(
            str(one.get("key") or ""),
            str(one.get("label") or ""),
            Edge("", str(one.get("to")), attrs={"freeform": bool(one.get("freeform"))}),
        )
        for one in waiting.get("choices") or []
    )


def _read_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def fitting_choice(answer: str, choices: Sequence[Choice]) -> Choice | None:
    """The choice that an answer means: by key, label, target or number; else the free one."""
    said = answer.strip().lower()
    readings: tuple[Callable[[Choice], str], ...] = (
        lambda choice: choice.key.lower(),
        lambda choice: choice.text.lower(),
        lambda choice: choice.label.lower(),
        lambda choice: choice.target.lower(),
    )
    for reading in readings if said else ():
        for choice in choices:
            if reading(choice) == said and not choice.freeform:
                return choice
    if said.isdecimal() and 1 <= int(said) <= len(choices):
        return choices[int(said) - 1]
    return next((choice for choice in choices if choice.freeform and said), None)
