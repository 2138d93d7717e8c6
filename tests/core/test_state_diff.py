from __future__ import annotations

from git_wf.core.state_diff import StateChange, compare_states

BEFORE = {
    "context_values": {"a": 1, "gone": "x", "same": [1], "text": "one\ntwo\nthree"},
    "node_outcomes": {"plan": {"status": "success"}},
}
AFTER = {
    "context_values": {"a": True, "new": None, "same": [1], "text": "one\n2\nthree"},
    "node_outcomes": {"plan": {"status": "fail"}, "work": {"status": "success"}},
}


def test_what_changed() -> None:
    assert compare_states(BEFORE, AFTER) == [
        StateChange("context", "a", 1, True),  # which are equal in Python
        StateChange("context", "gone", "x", None, is_gone=True),
        StateChange("context", "new", None, None, is_new=True),
        StateChange("context", "text", "one\ntwo\nthree", "one\n2\nthree"),
        StateChange("outcome", "plan", {"status": "success"}, {"status": "fail"}),
        StateChange("outcome", "work", None, {"status": "success"}, is_new=True),
    ]
    assert compare_states(BEFORE, BEFORE) == []


def test_from_the_state_before_the_first_checkpoint() -> None:
    changes = compare_states(None, BEFORE)
    assert {change.to_json()["change"] for change in changes} == {"added"}
    assert compare_states(None, None) == []


def test_the_lines_of_a_change() -> None:
    by_key = {change.key: change for change in compare_states(BEFORE, AFTER)}
    assert by_key["text"].lines() == ["@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"]
    assert by_key["text"].counts() == (1, 1)
    assert by_key["gone"].lines() == ["@@ -1 +0,0 @@", "-x"]
    assert by_key["work"].lines() == ["@@ -0,0 +1,3 @@", "+{", '+  "status": "success"', "+}"]


def test_a_record_of_another_shape() -> None:
    assert compare_states({"context_values": [], "node_outcomes": None}, {}) == []
