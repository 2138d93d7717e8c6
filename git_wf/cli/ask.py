"""Asking on a terminal, and the options that say who answers human nodes."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from git_wf.cli.output import write_error
from git_wf.cli.waiting import choice_table
from git_wf.core.trailers import plain_text

if TYPE_CHECKING:
    from git_wf.core.clock import Clock
    from git_wf.ops.people import Answering, Question, Silence

LOOK_UP = 0.1  # seconds between two looks at whether the question still stands
Decorated = Callable[..., Any]


def answering_options(function: Decorated) -> Decorated:
    """`--auto-approve`, `--answers` and `--answer`, as parameters of a verb."""
    options = (
        click.option(
            "--auto-approve", is_flag=True, help="Take the first choice wherever a person is asked."
        ),
        click.option(
            "--answers", "answers_file", type=click.Path(path_type=Path), metavar="FILE",
            help="Answers by human node, TOML or JSON: a text, or a list with one a visit.",
        ),
        click.option(
            "--answer", metavar="A", help="Answer what a run waits for: a key, a label or a text."
        ),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def make_answering(
    clock: Clock, auto_approve: bool, answers_file: Path | None, answer: str | None
) -> Answering:
    """Raises `UserError` for an answers file that cannot be read."""
    from git_wf.ops.people import Answering, read_answers

    answers = read_answers(answers_file) if answers_file is not None else None
    ask = TerminalAsk(clock) if is_terminal() else None
    return Answering(ask, auto_approve, answers, answer)


def is_terminal() -> bool:
    """Whether a person can be asked: stdin and stderr are a terminal, and it is ours just now."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False


class TerminalAsk:
    """Puts a question on stderr and reads lines from stdin."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._typed = b""

    def __call__(self, question: Question, complaint: str) -> str | Silence:
        if not complaint:
            for line in question_lines(question):
                write_error(line)
        sys.stderr.write(_prompt(question))
        sys.stderr.flush()
        return self._line(question)

    def _line(self, question: Question) -> str | Silence:
        from git_wf.ops.people import Silence

        stdin = sys.stdin.fileno()
        while b"\n" not in self._typed:
            if question.is_over():
                return Silence.NOBODY
            if question.deadline is not None and self._clock.now() >= question.deadline:
                write_error("")
                return Silence.TIMED_OUT
            if select.select([stdin], [], [], LOOK_UP)[0]:
                data = os.read(stdin, 4096)
                if not data:  # Ctrl-D: the person has gone
                    write_error("")
                    return Silence.NOBODY
                self._typed += data
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")


def question_lines(question: Question) -> list[str]:
    lines = plain_text(question.text).strip().splitlines() or [""]
    table = choice_table(question.to_json()["choices"])
    return [f"{question.node}: {lines[0]}", *lines[1:], *(f"  {line}" for line in table)]


def _prompt(question: Question) -> str:
    if question.deadline is None:
        return "answer: "
    return f"answer before {question.deadline.astimezone():%Y-%m-%d %H:%M:%S}: "
