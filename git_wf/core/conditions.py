"""The conditions of edges: `outcome=success && (tries < 3 || !context.log contains "no luck")`.

`||` binds weakest, then `&&`, then `!`, which negates the comparison, test or group after it.

| form | true when |
|---|---|
| `key` | the value is neither empty nor `false` nor `0` |
| `key = text`, `key != text` | the text of the value is the same, or is not; case matters |
| `key > 5`, `<`, `>=`, `<=` | both are numbers and compare so |
| `key contains text` | text has the substring; a list has the element, an object the key |
| `key matches pattern` | the regular expression is found in the text |

A key that is missing has the empty text; an older notation puts `$` before a key. `succeeded`,
`failed` and `partially_succeeded` mean the same as the statuses that they stand for, where the key
is `outcome`. `true` and `false` alone are what they say.

Patterns are Python's. What takes time beyond all bounds is a repeated group that can match one
text in several ways, `(a+)+` or `(a|ab)*`; such a pattern is refused when it is read. What is left
is at worst polynomial in the text, and a Ctrl-C ends it.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from git_wf.core.outcome import normal_status
from git_wf.core.values import read_number

Values = Callable[[str], Any]

_TOKEN = re.compile(
    r"""(?P<blank>\s+)
    |(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<logic>&&|\|\||\(|\))
    |(?P<compare>!=|>=|<=|[=><])
    |(?P<negate>!)
    |(?P<word>[^\s&|()=<>!"']+)""",
    re.VERBOSE | re.DOTALL,
)
_WORD_OPERATORS = ("contains", "matches")
_KEY = re.compile(r"\$?[A-Za-z_][\w-]*(?:\.[\w-]+)*", re.ASCII)
_BINDING = {"||": 1, "&&": 2, "!": 3}


class ConditionError(Exception):
    """A condition cannot be read; `offset` counts characters from its beginning."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class _Token(NamedTuple):
    sort: str  # a group of _TOKEN, or `end`
    text: str
    offset: int


@dataclass(frozen=True)
class _Test:
    """A comparison, or, with the operator `is`, a key on its own."""

    key: str
    operator: str
    literal: str = ""
    pattern: re.Pattern[str] | None = None

    def holds(self, values: Values) -> bool:
        value = values(self.key)
        if self.operator == "is":
            return self.key == "true" or (self.key != "false" and _is_true(value))
        if self.operator in ("=", "!="):
            return self._is_equal(value) == (self.operator == "=")
        if self.operator == "contains":
            return _contains(value, self.literal)
        if self.pattern is not None:
            return self.pattern.search(text_of_json(value)) is not None
        return _is_ordered(text_of_json(value), self.operator, self.literal)

    def _is_equal(self, value: Any) -> bool:
        text, literal = text_of_json(value), self.literal
        if self.key in ("outcome", "context.outcome"):
            text = normal_status(text) or text
            literal = normal_status(literal) or literal
        return text == literal


@dataclass(frozen=True)
class Condition:
    """A condition that was read: tests and operators, each operator behind what it joins."""

    text: str
    _steps: tuple[_Test | str, ...]

    def holds(self, values: Values) -> bool:
        """Whether it is true. `values` gives what a key stands for, None where it is missing."""
        stack: list[bool] = []
        for step in self._steps:
            if isinstance(step, _Test):
                stack.append(step.holds(values))
            elif step == "!":
                stack.append(not stack.pop())
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(left and right if step == "&&" else left or right)
        return stack[0]


def text_of_json(value: Any) -> str:
    """A JSON value as conditions and templates see it: `true` is the word, nothing is empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_true(value: Any) -> bool:
    return bool(value) and value not in ("false", "0")


def _contains(value: Any, literal: str) -> bool:
    if isinstance(value, (list, tuple, dict)):
        return any(text_of_json(element) == literal for element in value)
    return literal in text_of_json(value)


def _is_ordered(left_text: str, operator: str, right_text: str) -> bool:
    left, right = read_number(left_text.strip()), read_number(right_text.strip())
    if left is None or right is None:
        return False
    if operator == ">":
        return left > right
    if operator == "<":
        return left < right
    return left >= right if operator == ">=" else left <= right


def parse(text: str) -> Condition:
    """Raises `ConditionError` where `text` is no condition, with the offset of the fault."""
    return _Reading(text).condition()


class _Reading:
    """Operators wait on a stack until what binds weaker, or a closing parenthesis, comes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0
        self.steps: list[_Test | str] = []
        self.waiting: list[_Token] = []

    def condition(self) -> Condition:
        while True:
            self._operand()
            while self._peek().text == ")":
                self._close(self._next())
            token = self._next()
            if token.sort == "end":
                break
            if token.text not in ("&&", "||"):
                raise ConditionError(_unexpected(token, "'&&' or '||'"), token.offset)
            self._reduce(_BINDING[token.text])
            self.waiting.append(token)
        self._reduce(0)
        if self.waiting:
            raise ConditionError("a parenthesis is not closed", self.waiting[-1].offset)
        return Condition(self.text, tuple(self.steps))

    def _peek(self) -> _Token:
        return self.tokens[self.at]

    def _next(self) -> _Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def _operand(self) -> None:
        while self._peek().text in ("!", "("):
            self.waiting.append(self._next())
        token = self._next()
        if token.sort != "word" or not _KEY.fullmatch(token.text):
            raise ConditionError(_unexpected(token, "a key"), token.offset)
        key, operator = token.text.removeprefix("$"), self._peek()
        if operator.sort == "compare" or operator.text in _WORD_OPERATORS:
            self.steps.append(self._comparison(key))
        else:
            self.steps.append(_Test(key, "is"))

    def _comparison(self, key: str) -> _Test:
        operator, literal = self._next(), self._next()
        if literal.sort not in ("word", "quoted"):
            raise ConditionError(_unexpected(literal, "a value"), literal.offset)
        text = _unquoted(literal)
        if operator.text != "matches":
            return _Test(key, operator.text, text)
        return _Test(key, operator.text, text, _pattern(text, literal.offset))

    def _close(self, token: _Token) -> None:
        self._reduce(0)
        if not self.waiting:
            raise ConditionError("a parenthesis closes nothing", token.offset)
        self.waiting.pop()

    def _reduce(self, binding: int) -> None:
        """Moves what waits and binds at least as strongly, up to an open parenthesis."""
        while self.waiting and self.waiting[-1].text != "(":
            if _BINDING[self.waiting[-1].text] < binding:
                return
            self.steps.append(self.waiting.pop().text)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ConditionError(_unreadable(text[at]), at)
        assert found.lastgroup is not None
        if found.lastgroup != "blank":
            tokens.append(_Token(found.lastgroup, found[0], at))
        at = found.end()
    tokens.append(_Token("end", "", len(text)))
    return tokens


def _unreadable(character: str) -> str:
    if character in "&|":
        return f"found '{character}', expected '{character * 2}'"
    return f"a quoted text is not closed: {character}"


def _unexpected(token: _Token, wanted: str) -> str:
    if token.sort == "end":
        return f"found the end of the condition, expected {wanted}"
    told = f"found '{token.text}', expected {wanted}"
    if token.text == "=" and wanted == "a value":
        return f"{told}: equality is a single '='"
    if token.sort == "word" and wanted.startswith("'&&'"):
        return f"{told}: quote a value of several words"
    return told


def _unquoted(token: _Token) -> str:
    if token.sort == "word":
        return token.text
    return re.sub(r"""\\(["'\\])""", r"\1", token.text[1:-1])


# Patterns.


def _pattern(text: str, offset: int) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of notation that a later Python may read otherwise
            pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as err:
        told = err.msg if isinstance(err, re.error) else "too large"
        raise ConditionError(f"bad regular expression: {told}", offset) from None
    if _is_explosive(text):
        raise ConditionError(
            "bad regular expression: a repeated group holds a repeat or like alternatives, "
            "which can take time without end",
            offset,
        )
    return pattern


_PIECE = re.compile(
    r"""(?P<class>\[\^?\]?(?:[^\]\\]|\\.)*\])
    |(?P<repeat>[*+?]|\{(?:\d+(?:,\d*)?|,\d*)\})[+?]?
    |(?P<open>\((?:\?(?:P?<\w+>|[:=!>]|<[=!]|P?[a-zA-Z-]*:?))?)
    |(?P<close>\))
    |(?P<or>\|)
    |(?P<one>\\.|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass
class _Group:
    varies: bool = False  # can match more than one length of text
    firsts: tuple[str, ...] = ()  # what the alternatives so far begin with
    first: str = ""  # what this alternative begins with; empty at its beginning
    clashes: bool = False  # two alternatives may begin alike

    def begin(self, piece: str) -> None:
        self.first = self.first or piece

    def end(self) -> None:
        literal = len(self.first) == 1 and self.first not in ".^$"
        self.clashes |= not literal or self.first.lower() in self.firsts
        self.firsts += (self.first.lower(),)
        self.first = ""


def _is_explosive(text: str) -> bool:
    """Whether a group that repeats can match one text in several ways (refuses a little more)."""
    groups = [_Group()]
    closed: _Group | None = None  # the group that ended just before
    for found in _PIECE.finditer(text):
        sort = found.lastgroup
        if sort == "open":
            groups[-1].begin(found[0] + ")")
            groups.append(_Group())
        elif sort == "close" and len(groups) > 1:
            closed = groups.pop()
            if closed.firsts:
                closed.end()
            groups[-1].varies |= closed.varies or closed.clashes
            continue
        elif sort == "or":
            groups[-1].end()
        elif sort == "repeat":
            if closed and _repeats(found[0]) and (closed.varies or closed.clashes):
                return True
            groups[-1].varies |= _varies(found[0])
        else:
            groups[-1].begin(found[0])
        closed = None
    return False


def _repeats(quantifier: str) -> bool:
    """Whether it allows more than one."""
    bounds = re.findall(r"\d+", quantifier)
    if quantifier.startswith("{"):
        return ",}" in quantifier or int(bounds[-1]) > 1
    return not quantifier.startswith("?")


def _varies(quantifier: str) -> bool:
    return not re.fullmatch(r"\{\d+\}[+?]?", quantifier)
