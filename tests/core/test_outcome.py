from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_wf.core.outcome import (
    FAIL,
    PARTIAL_SUCCESS,
    RETRY,
    SKIPPED,
    STATUSES,
    SUCCESS,
    TIMEOUT,
    TRANSIENT,
    Failure,
    Outcome,
    failed,
    normal_status,
    succeeded,
)


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("success", SUCCESS), ("succeeded", SUCCESS), ("failed", FAIL), ("failure", FAIL),
        ("fail", FAIL), ("partial_success", PARTIAL_SUCCESS), ("skipped", SKIPPED),
        ("partially_succeeded", PARTIAL_SUCCESS), ("retry", RETRY), ("Success", None), ("", None),
    ],
)  # fmt: skip
def test_words_of_a_status(word: str, status: str | None) -> None:
    assert normal_status(word) == status


def test_what_counts_as_success() -> None:
    assert [status for status in (*STATUSES, RETRY) if Outcome(status).is_success] == [
        SUCCESS, PARTIAL_SUCCESS,
    ]  # fmt: skip
    assert failed("no").with_status(PARTIAL_SUCCESS).is_success


def test_makers() -> None:
    assert succeeded(notes="x") == Outcome(SUCCESS, notes="x")
    assert failed("no") == Outcome(FAIL, failure=Failure("no", "deterministic"))
    assert failed("late", TIMEOUT, notes="x").failure == Failure("late", TIMEOUT)


def test_json_of_a_failure() -> None:
    told = failed("no", preferred_label="a", suggested_next_ids=("b",)).to_json()
    assert told == {
        "status": "fail", "preferred_label": "a", "suggested_next_ids": ["b"],
        "context_updates": {}, "notes": "",
        "failure": {"message": "no", "class": "deterministic", "signature": ""},
        "usage": None, "files_touched": [], "duration_ms": 0,
    }  # fmt: skip


def test_json_of_the_older_format() -> None:
    """Other words for a status and a class; fields left out, or null."""
    read = Outcome.from_json(
        {"status": "succeeded", "notes": None, "usage": {"input_tokens": 3}, "odd": [1],
         "failure": {"class": "transient_infra", "message": None}}
    )  # fmt: skip
    assert read == Outcome(
        SUCCESS, failure=Failure("", TRANSIENT), usage={"input_tokens": 3}, extra={"odd": [1]}
    )
    assert Outcome.from_json({"status": "odd", "failure": "text"}) == Outcome("odd")
    assert Outcome.from_json({}) == Outcome("")
    assert Failure.from_json({}) == Failure("")


VALUES = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)
OUTCOMES = st.builds(
    Outcome,
    status=st.sampled_from(STATUSES),
    preferred_label=st.text(max_size=3),
    suggested_next_ids=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    context_updates=VALUES,
    notes=st.text(max_size=5),
    failure=st.none() | st.builds(Failure, st.text(max_size=3), st.just(TIMEOUT), st.text()),
    usage=st.none() | VALUES,
    files_touched=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    duration_ms=st.integers(0, 10**6),
    extra=st.dictionaries(st.sampled_from(["x", "y"]), st.integers(), max_size=2),
)


@given(OUTCOMES)
def test_json_and_back(outcome: Outcome) -> None:
    assert Outcome.from_json(outcome.to_json()) == outcome
