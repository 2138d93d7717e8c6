from __future__ import annotations

import pytest

from git_wf.core.names import Oid
from git_wf.core.timeline import Entry, Sections, find_target, is_target_form
from git_wf.errors import UserError

START = Entry(0, "", 0, "", Oid("b0"), Oid("m0"), "R")


def entry(ordinal: int, node: str, visit: int) -> Entry:
    return Entry(ordinal, node, visit, "success", Oid(f"c{ordinal}"), Oid(f"m{ordinal}"), "R")


ENTRIES = [
    entry(1, "plan", 1), entry(2, "work", 1), entry(3, "plan", 2), entry(4, "plan", 3),
    entry(5, "c1", 1),
]  # fmt: skip


def find(text: str, entries: list[Entry] = ENTRIES) -> Entry:
    by_commit = {one.commit: one for one in [START, *entries]}
    known = {"c2": "c2", "b0": "b0", "elsewhere": "elsewhere", "c1": "c1", "main": "b0"}
    return find_target(
        text,
        entries,
        START,
        lambda word: Oid(known[word]) if word in known else None,
        by_commit.get,
    )


@pytest.mark.parametrize(
    ("text", "ordinal"),
    [
        ("plan", 4), ("plan@1", 1), ("plan@2", 3), ("plan@02", 3), ("work", 2), ("@0", 0),
        ("@4", 4), ("@004", 4), ("0", 5), ("1", 4), ("5", 0), ("00005", 0), ("c2", 2), ("b0", 0),
        ("c1", 5),
    ],
)  # fmt: skip
def test_targets(text: str, ordinal: int) -> None:
    """A node's name comes before a commit that is called the same."""
    assert find(text).ordinal == ordinal


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ("@6", "no checkpoint '@6': the run has @1 to @5", "git wf log lists them"),
        ("6", "cannot go 6 checkpoints back: the run has 5",
         "@0 is the state before the first node"),
        ("plan@4", "no checkpoint 'plan@4'", "there is plan@1, plan@2, plan@3"),
        ("wrok", "no node 'wrok' in the timeline", "did you mean 'work'?"),
        ("wrok@1", "no node 'wrok' in the timeline", "did you mean 'work'?"),
        ("zzz", "no node, ordinal or commit 'zzz' in the timeline", "git wf log lists them"),
        ("zzz@1", "no node, ordinal or commit 'zzz' in the timeline", "git wf log lists them"),
        ("000006", "no node, ordinal or commit '000006' in the timeline", "git wf log lists them"),
        ("main", "'main' is where the run began, not one of its checkpoints",
         "@0 is the state before the first node"),
        ("elsewhere", "commit 'elsewhere' is not one of the run", "git wf log lists them"),
    ],
)  # fmt: skip
def test_what_is_not_there(text: str, told: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        find(text)
    assert (caught.value.message, caught.value.hints) == (told, (hint,))


def test_a_run_without_checkpoints() -> None:
    assert find("@0", []).ordinal == 0
    assert find("0", []).ordinal == 0
    with pytest.raises(UserError, match="no checkpoint '@1': the run has none yet, only '@0'"):
        find("@1", [])


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ("plan@2", True), ("@4", True), ("12345", True), ("123456", False), ("plan", False),
        ("a@b", False), ("@", False), ("", False), ("a@b@2", True), ("٣", False),
    ],
)  # fmt: skip
def test_forms(text: str, only: bool) -> None:
    assert is_target_form(text) is only


def test_names() -> None:
    assert (START.name, ENTRIES[2].name) == ("@0", "plan@2")


def test_json() -> None:
    told = ENTRIES[0]._replace(merged=(Oid("x"),), notes=("no metadata",), timestamp="t").to_json()
    assert told == {
        "ordinal": 1, "node": "plan", "visit": 1, "status": "success",
        "recorded_status": "success", "next_node_id": None, "commit": "c1",
        "metadata_commit": "m1", "timestamp": "t", "duration_ms": None, "merged": ["x"],
        "notes": ["no metadata"],
    }  # fmt: skip
    assert ENTRIES[0]._replace(recorded_status="succeeded").to_json()["recorded_status"] == (
        "succeeded"
    )


# Nodes inside parallel sections.

SPLIT = [
    entry(1, "plan", 1)._replace(next_node_id="split"), entry(2, "split", 1), entry(3, "join", 1),
    entry(4, "plan", 2), entry(5, "split", 2), entry(6, "join", 2),
]  # fmt: skip


def find_inside(text: str, entries: list[Entry]) -> Entry:
    # `a` was visited once in the first section and twice more in the second.
    counts = {2: 1, 5: 3}
    sections = Sections({"a": "split"}, lambda one, node: counts.get(one.ordinal, 0))
    return find_target(text, entries, START, lambda word: None, lambda oid: None, lambda: sections)


@pytest.mark.parametrize(
    ("text", "ordinal"), [("a", 4), ("a@1", 1), ("a@2", 4), ("a@3", 4), ("split", 5)]
)
def test_a_node_inside_a_section(text: str, ordinal: int) -> None:
    found = find_inside(text, SPLIT)
    assert (found.ordinal, found.section) == (ordinal, "" if text == "split" else "split")


@pytest.mark.parametrize(("count", "ordinal"), [(0, 0), (1, 1), (4, 1)])
def test_a_section_that_is_open_or_about_to_be(count: int, ordinal: int) -> None:
    assert find_inside("a", SPLIT[:count]).ordinal == ordinal


def test_a_visit_that_no_section_had() -> None:
    with pytest.raises(UserError, match="no node, ordinal or commit 'a' in the timeline"):
        find_inside("a@4", SPLIT)
