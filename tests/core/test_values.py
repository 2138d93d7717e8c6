"""Values as they are written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_wf.core.values import (
    Duration,
    Value,
    literal_end,
    read_bare,
    read_duration,
    read_number,
    read_quoted,
    source_offset,
    text_of,
    write_quoted,
    write_value,
)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("2", 2),
        ("-3", -3),
        ("+4", 4),
        ("1.5", 1.5),
        (".5", 0.5),
        ("2.", 2.0),
        ("1e3", 1000.0),
        ("-1.5e-3", -0.0015),
        ("1e999", "1e999"),
        ("123456789012345678", 123456789012345678),
        ("1234567890123456789", 1234567890123456789.0),
        ("250ms", Duration(0.25, "250ms")),
        ("30s", Duration(30, "30s")),
        ("900s", Duration(900, "900s")),
        ("15m", Duration(900, "15m")),
        ("1.5h", Duration(5400, "1.5h")),
        ("1d", Duration(86400, "1d")),
        ("36500d", Duration(36500 * 86400, "36500d")),
        ("36501d", "36501d"),  # no clock counts so far
        ("9" * 400 + "d", "9" * 400 + "d"),
        ("9" * 400, "9" * 400),
        ("1h30m", "1h30m"),
        ("10x", "10x"),
        ("1.2.3", "1.2.3"),
        ("gpt-5.2", "gpt-5.2"),
        ("summary:high", "summary:high"),
        ("a/b", "a/b"),
        ("٣", "٣"),
    ],
)
def test_bare_words_have_types(word: str, value: object) -> None:
    read = read_bare(word)
    assert (read, type(read)) == (value, type(value))


def test_a_duration_is_a_number_and_a_unit() -> None:
    assert read_duration("15m") == Duration(900, "15m")
    assert read_duration("15") is None
    assert read_duration("-15m") is None


def test_a_number_is_finite() -> None:
    assert read_number("12") == 12
    assert read_number("1e999") is None
    assert read_number("nan") is None
    assert read_number("1_000") is None


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (r'"l1\nl2\t\"q\" \\ end"', 'l1\nl2\t"q" \\ end'),
        (r'"\d+ \$x \r"', r"\d+ \$x \r"),
        ('"one \\\ntwo"', "one two"),
        ('"one \\\r\ntwo"', "one two"),
        ('"one\r\ntwo"', "one\ntwo"),
        ('"one\rtwo"', "one\rtwo"),
        (r'"a\\nb"', r"a\nb"),
        ('""', ""),
    ],
)
def test_escapes_of_quoted_texts(literal: str, text: str) -> None:
    assert read_quoted(literal) == text


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from('ab"\\nt\n\r é')) | st.text())
def test_what_is_written_reads_the_same(text: str) -> None:
    assert read_quoted(write_quoted(text)) == text


def test_values_as_text() -> None:
    values: list[Value] = [True, False, 2, 1.5, Duration(30, "30s"), "x"]
    assert [text_of(value) for value in values] == ["true", "false", "2", "1.5", "30s", "x"]
    assert [write_value(value) for value in values] == ["true", "false", "2", "1.5", "30s", '"x"']


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"abc" rest', '"abc"'),
        (r'"a\"b" "c"', r'"a\"b"'),
        ('"a" + "b" + "c", x', '"a" + "b" + "c"'),
        ('"a" /* + */ + // "\n "b"]', '"a" /* + */ + // "\n "b"'),
    ],
)
def test_the_end_of_a_quoted_value(text: str, value: str) -> None:
    assert text[: literal_end(text, 0)] == value


@pytest.mark.parametrize(
    ("literal", "offset", "marked"),
    [
        ("abc", 1, 1),
        ('"abc"', 1, 2),
        (r'"\"\"b"', 2, 5),
        (r'"ab\n"', 1, 2),
        (r'"\n\\b"', 1, 3),
        ('"\\\n\\\nb"', 0, 5),
        ('"a" + "b"', 1, 7),
        ('"a\\n" + "cb"', 3, 10),
    ],
)
def test_where_a_character_of_a_value_stands(literal: str, offset: int, marked: int) -> None:
    assert source_offset(literal, 0, offset) == marked


def test_the_end_of_a_value_has_a_place_too() -> None:
    assert source_offset('"ab"', 0, 2) == 3
    assert source_offset('"ab"', 0, 9) == 3
    assert source_offset('"a" + "b"', 0, 2) == 8
