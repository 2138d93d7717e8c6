"""Conditions: reading them, and whether they hold."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_wf.core.conditions import ConditionError, parse, text_of_json

VALUES: dict[str, Any] = {
    "outcome": "success",
    "preferred_label": "Fix it",
    "word": "two words here",
    "n": 7,
    "text_n": " 7.5 ",
    "yes": True,
    "no": False,
    "zero": 0,
    "zero_text": "0",
    "false_text": "false",
    "empty": "",
    "null": None,
    "empty_list": [],
    "list": ["a", 2, True, "two words"],
    "object": {"k": 1},
    "a.b-c": "dotted",
    "context.k": "K",
    "float": 1.0,
}


def holds(text: str) -> bool:
    return parse(text).holds(VALUES.get)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("outcome=success", True),
        ("outcome = success", True),
        ("outcome=succeeded", True),
        ("outcome!=succeeded", False),
        ("outcome=Success", False),
        ("outcome=fail", False),
        ("outcome!=fail", True),
        ("context.k=K", True),
        ('missing=""', True),
        ("missing!=x", True),
        ("$missing = x", False),
        ("$n = 7", True),
        ('preferred_label="Fix it"', True),
        ("preferred_label='Fix it'", True),
        ("yes=true", True),
        ("no=false", True),
        ("n=7", True),
        ("n=7.0", False),
        ("float=1.0", True),
        ("a.b-c=dotted", True),
        ('list="[\\"a\\", 2, true, \\"two words\\"]"', True),
        ("n > 5", True),
        ("n>7", False),
        ("n >= 7", True),
        ("n < 7.5", True),
        ("n<=6", False),
        ("text_n > 7", True),
        ("missing > 5", False),
        ("missing <= 5", False),
        ("word > 5", False),
        ("yes > 0", False),
        ("n > five", False),
        ('word contains "two words"', True),
        ("word contains Two", False),
        ("missing contains x", False),
        ("list contains a", True),
        ("list contains 2", True),
        ("list contains true", True),
        ("list contains two", False),
        ("object contains k", True),
        ('word matches "^two\\s+w"', True),
        ("word matches ^words", False),
        ("n matches ^[0-9]$", True),
        ("n matches ^7$", True),
        ('word matches "wor(d|k)s"', True),
        ("missing matches .", False),
        ("yes", True),
        ("no", False),
        ("zero", False),
        ("zero_text", False),
        ("false_text", False),
        ("empty", False),
        ("null", False),
        ("empty_list", False),
        ("list", True),
        ("missing", False),
        ("true", True),
        ("false", False),
        ("!false", True),
        ("!outcome=fail", True),
        ("!!yes", True),
        ("!word contains two", False),
        ("!(outcome=success)", False),
        ("(outcome=success)", True),
        ("((yes))", True),
        ("outcome=success && missing=x", False),
        ("outcome=success&&yes", True),
        ("no || yes", True),
        ("yes || no && no", True),
        ("(yes || no) && no", False),
        ("no && no || yes", True),
        ("!no && !no", True),
        ("no && yes || yes && yes", True),
        ("!(no || no) && (yes)", True),
        ("context.k=K && (n > 5 || word contains x)", True),
    ],
)
def test_truth(text: str, truth: bool) -> None:
    assert holds(text) is truth


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("", "found the end of the condition, expected a key", 0),
        ("a = ", "found the end of the condition, expected a value", 4),
        ("a == b", "found '=', expected a value: equality is a single '='", 3),
        ("a & b", "found '&', expected '&&'", 2),
        ("a | b", "found '|', expected '||'", 2),
        ("a &&", "found the end of the condition, expected a key", 4),
        ("(a", "a parenthesis is not closed", 0),
        ("a)", "a parenthesis closes nothing", 1),
        ("()", "found ')', expected a key", 1),
        ("a=Fix it", "found 'it', expected '&&' or '||': quote a value of several words", 6),
        ('a="x', 'a quoted text is not closed: "', 2),
        ("a='x", "a quoted text is not closed: '", 2),
        ("a=b=c", "found '=', expected '&&' or '||'", 3),
        ('"a"=b', "found '\"a\"', expected a key", 0),
        ("5 > 3", "found '5', expected a key", 0),
        ("a..b", "found 'a..b', expected a key", 0),
        ("a ! b", "found '!', expected '&&' or '||'", 2),
        ("a matches (", "found '(', expected a value", 10),
        ('a matches "("', "bad regular expression: missing ), unterminated subpattern", 10),
        ('a matches "x{99999999999}"', "bad regular expression: too large", 10),
    ],
)
def test_what_cannot_be_read(text: str, message: str, offset: int) -> None:
    with pytest.raises(ConditionError) as caught:
        parse(text)
    assert (caught.value.message, caught.value.offset) == (message, offset)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+", "(a*)*$", "(?:a+b?)*", "(a|a)*", "(a|ab)*", "(A|(?i:a))+", "(a|)+", r"(\w|\d)+",
        "(a?){30}", "((a+)b)+", "(a+){2,}", "(a+){,9}", "(?P<x>a+)*", "([ab]|a)*", "((a|a))*",
        "(.|a)*", "(a{1,2})+", "(x(a|a)y)+?",
    ],
)  # fmt: skip
def test_patterns_that_can_take_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse(f"a matches '{pattern}'")
    assert caught.value.offset == 10
    assert caught.value.message.startswith("bad regular expression: a repeated group")


@pytest.mark.parametrize(
    "pattern",
    [
        "a+b*c?", "(abc)+", "(a|b)*", "(foo|bar)+", "(?:a|b)?x+", "(a+)?", "(a+){1}", "(a{3})+",
        "^(feat|fix)(\\(.+\\))?: ", "[(+*]+", r"\(a+\)+", "a{}", "a{,x}", "[]a]+", "(?i)a+",
        "(?=a+)b+", "(?x) a+ # ) \n b", "((a|b)c)*", "(?:x)*",
    ],
)  # fmt: skip
def test_other_patterns_are_read(pattern: str) -> None:
    parse(f"a matches '{pattern}'")


def test_a_pattern_that_python_warns_of_is_read_without_a_word() -> None:
    assert parse("word matches '[[a-z]o'").holds(VALUES.get)


def test_patterns_nested_too_deep_are_refused() -> None:
    with pytest.raises(ConditionError) as caught:
        parse("a matches '" + "(" * 20_000 + ")" * 20_000 + "'")
    assert caught.value.message == "bad regular expression: too large"


def test_json_as_text() -> None:
    values: list[Any] = [None, "x", True, 3, 1.5, [1, "é"], {"a": None}]
    texts = ["", "x", "true", "3", "1.5", '[1, "é"]', '{"a": null}']
    assert [text_of_json(value) for value in values] == texts


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from(list("ab=!&|()<> \"'.$\\")), max_size=30) | st.text())
def test_any_text_is_read_or_has_a_fault_with_a_place(text: str) -> None:
    try:
        parse(text).holds(VALUES.get)
    except ConditionError as err:
        assert 0 <= err.offset <= len(text)


Truth = tuple[str, bool]
_LEAVES = st.sampled_from([("yes", True), ("no", False), ("n>5", True), ("outcome=fail", False)])


def _joined(operator: str) -> Any:
    def join(pair: tuple[Truth, Truth]) -> Truth:
        (left, is_left), (right, is_right) = pair
        truth = is_left and is_right if operator == "&&" else is_left or is_right
        return f"({left}) {operator} ({right})", truth

    return join


@settings(deadline=None)
@given(
    st.recursive(
        _LEAVES,
        lambda inner: (
            st.tuples(inner, inner).map(_joined("&&"))
            | st.tuples(inner, inner).map(_joined("||"))
            | inner.map(lambda one: (f"!({one[0]})", not one[1]))
        ),
    )
)
def test_groups_hold_as_they_are_nested(condition: Truth) -> None:
    assert holds(condition[0]) is condition[1]


@settings(deadline=None)
@given(st.lists(st.lists(_LEAVES, min_size=1, max_size=4), min_size=1, max_size=4))
def test_and_binds_tighter_than_or(rows: list[list[Truth]]) -> None:
    text = " || ".join(" && ".join(leaf for leaf, _ in row) for row in rows)
    assert holds(text) is any(all(truth for _, truth in row) for row in rows)


def test_depth_and_length_are_no_matter() -> None:
    def cost(size: int) -> float:
        text = "(" * size + "yes" + ")" * size + " && !" + "!" * size + "no" + " || no" * size
        best = []
        for _ in range(2):
            began = time.process_time()
            assert holds(text) is True
            best.append(time.process_time() - began)
        return min(best)

    assert cost(20_000) <= 3 * cost(10_000) + 0.3  # quadratic: 4 times, and seconds
