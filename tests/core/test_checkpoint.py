from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_wf.core.checkpoint import Checkpoint, check_format, dump_json, load_json
from git_wf.core.outcome import failed, succeeded
from git_wf.errors import StateUnreadable

FULL = Checkpoint(
    run_id="01A",
    ordinal=3,
    timestamp="2026-11-30T12:00:00.000000Z",
    current_node="plan",
    next_node_id="work",
    incoming_edge={"from": "plan", "to": "work", "fidelity": None, "thread_id": None},
    completed_nodes=["start", "plan", "plan"],
    node_visits={"plan": 2},
    node_outcomes={"plan": failed("no")},
    context_values={"a": "\u00fc", "b": [1, None]},
    extra={"later": {"x": 1}},
)


def test_json_and_back() -> None:
    """Unknown fields survive a rewrite."""
    told = load_json(dump_json(FULL.to_json()), "x")
    assert Checkpoint.from_json(told, "x") == FULL
    assert told["format"] == 1 and told["later"] == {"x": 1}


def test_what_it_says_of_its_node() -> None:
    assert (FULL.visit, FULL.status, FULL.outcome) == (2, "fail", failed("no"))
    other = Checkpoint("01A", current_node="x", node_outcomes={"plan": succeeded()})
    assert (other.visit, other.status, other.outcome) == (1, "", None)


def test_what_the_next_says_of_it() -> None:
    assert FULL.as_previous("c", None) == {
        "ordinal": 3, "node": "plan", "visit": 2, "status": "fail", "commit": "c",
        "metadata_commit": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"run_id": 3}, "read checkpoint 'x': 'run_id' has the wrong type"),
        ({"ordinal": "3"}, "read checkpoint 'x': 'ordinal' has the wrong type"),
        ({"ordinal": True}, "read checkpoint 'x': 'ordinal' has the wrong type"),
        ({"previous": []}, "read checkpoint 'x': 'previous' has the wrong type"),
        ({"completed_nodes": {}}, "read checkpoint 'x': 'completed_nodes' has the wrong type"),
        ({"completed_nodes": [1]}, "read checkpoint 'x': 'completed_nodes' has the wrong type"),
        ({"node_visits": {"plan": "2"}}, "read checkpoint 'x': 'node_visits' has the wrong type"),
        ({"node_retries": {"a": 1.5}}, "read checkpoint 'x': 'node_retries' has the wrong type"),
        ({"loop_failure_signatures": {"a": None}},
         "read checkpoint 'x': 'loop_failure_signatures' has the wrong type"),
        ({"node_outcomes": [1]}, "read checkpoint 'x': 'node_outcomes' has the wrong type"),
        ({"node_outcomes": {"a": 1}}, "read checkpoint 'x': 'node_outcomes' has the wrong type"),
        ({"node_outcomes": {"a": {"suggested_next_ids": 1}}},
         "read checkpoint 'x': 'node_outcomes' has the wrong type"),
        ({"node_outcomes": {"a": {"duration_ms": "long"}}},
         "read checkpoint 'x': 'node_outcomes' has the wrong type"),
        ({"node_outcomes": {"a": {"context_updates": [1]}}},
         "read checkpoint 'x': 'node_outcomes' has the wrong type"),
        ({"run_id": ""}, "read checkpoint 'x': no run_id or no current_node"),
        ({"current_node": ""}, "read checkpoint 'x': no run_id or no current_node"),
        ({"format": 2}, "read 'x': format 2 is newer than this git-wf knows (1)"),
        ({"format": "1"}, "read 'x': 'format' has the wrong type"),
    ],
)  # fmt: skip
def test_what_is_no_checkpoint(change: dict[str, object], told: str) -> None:
    with pytest.raises(StateUnreadable) as caught:
        Checkpoint.from_json({**FULL.to_json(), **change}, "x")
    assert caught.value.message == told


def test_what_is_left_out() -> None:
    read = Checkpoint.from_json({"run_id": "01A", "current_node": "a"}, "x")
    assert read == Checkpoint("01A", current_node="a")


@pytest.mark.parametrize("data", [[], "x", None, 1])
def test_what_is_no_object(data: object) -> None:
    with pytest.raises(StateUnreadable) as caught:
        check_format(data, "x")
    assert caught.value.message == "read 'x': not a JSON object"


def test_how_records_are_written() -> None:
    assert dump_json({"b": "\u00fc", "a": [1]}) == (
        b'{\n  "a": [\n    1\n  ],\n  "b": "\xc3\xbc"\n}\n'
    )
    with pytest.raises(ValueError):
        dump_json({"a": float("nan")})
    assert load_json(dump_json({"a": "\udcff".encode("utf-8", "surrogateescape").hex()}), "x")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe\xfa", b"[" * 100_000])
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(StateUnreadable) as caught:
        load_json(data, "x")
    assert caught.value.message.startswith("read 'x': not valid JSON: ")
    assert json.dumps(caught.value.hints) == "[]"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(VALUES)
def test_records_are_written_as_json_writes_them(value: object) -> None:
    told = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    assert dump_json(value) == told.encode("utf-8", "backslashreplace") + b"\n"


def test_a_key_that_is_no_text() -> None:
    with pytest.raises(TypeError, match="a key is no text"):
        dump_json({1: "x"})
