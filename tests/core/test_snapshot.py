from __future__ import annotations

from dataclasses import replace

import pytest

from git_wf.core.checkpoint import dump_json, load_json
from git_wf.core.snapshot import (
    FileChange,
    Record,
    Snapshot,
    by_step,
    resolve,
    rewound,
    short_id,
)
from git_wf.errors import StateUnreadable, UserError

RECORD = Record("m", "2030-01-02T03:04:05.000000Z")


def snapshot(number: int, since: int | None = None, **fields: object) -> Snapshot:
    """The id is `a1…`, `a2…`; they all begin with the same letter."""
    since_id = None if since is None else f"a{since:039x}"
    record = replace(RECORD, since=since_id, **fields)
    return Snapshot(f"a{number:039x}", f"01JK{number:022}", number, record)


def test_a_record_comes_back_as_it_was() -> None:
    record = Record(
        "m\n|é", "2030", "s", 3, 7, "restore", "abc", ("664", "775"), {"k\udcff": "600"}, ("e",),
        {"x/": "cannot be read"}, "h", "main", "t", {"new": 1},
    )  # fmt: skip
    data = load_json(dump_json(record.to_json()), "x")
    assert Record.from_json(data, "x") == replace(
        record, usual_modes=["664", "775"], empty_dirs=["e"]
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 2}, "read 'x': format 2 is newer than this git-wf knows (1)"),
        ({"message": 1}, "read snapshot 'x': 'message' has the wrong type"),
        ({"step": True}, "read snapshot 'x': 'step' has the wrong type"),
        ({"modes": {"a": "9"}}, "read snapshot 'x': permissions are not octal numbers"),
        ({"modes": {"a": 644}}, "read snapshot 'x': permissions are not octal numbers"),
        ({"usual_modes": ["644"]}, "read snapshot 'x': permissions are not octal numbers"),
        ({"empty_dirs": [1]}, "read snapshot 'x': a path is not a text"),
        ({"left_out": {"a": None}}, "read snapshot 'x': a path is not a text"),
    ],
)
def test_a_record_that_is_none(change: dict[str, object], told: str) -> None:
    with pytest.raises(StateUnreadable) as err:
        Record.from_json({**RECORD.to_json(), **change}, "x")
    assert err.value.message == told


def test_a_record_without_its_parts() -> None:
    with pytest.raises(StateUnreadable, match="no message or no created_at"):
        Record.from_json({"format": 1, "message": "m"}, "x")


SOME = [snapshot(1), snapshot(2, 1, step=4), snapshot(3, 2, automatic="restore")]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("last", 2), ("latest", 2), ("@1", 1), ("@3", 3), (SOME[0].id, 1),
        (SOME[1].id.upper(), 2), (SOME[2].key, 3), (SOME[2].key.lower(), 3),
    ],
)  # fmt: skip
def test_references(text: str, number: int) -> None:
    assert resolve(text, SOME).ordinal == number


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("@4", "no snapshot '@4'"), ("deadbeef", "no snapshot 'deadbeef'"),
        ("a00", "no snapshot 'a00'"), ("--quiet", "no snapshot '--quiet'"),
        ("a000", f"'a000' is ambiguous: {', '.join(one.id for one in SOME)}"),
    ],
)  # fmt: skip
def test_references_to_nothing(text: str, told: str) -> None:
    with pytest.raises(UserError) as err:
        resolve(text, SOME)
    assert (err.value.message, err.value.hints) == (told, ("git wf snapshot list",))


@pytest.mark.parametrize("text", ["last", "@1", "deadbeef"])
def test_nothing_is_saved(text: str) -> None:
    with pytest.raises(UserError, match="no snapshot of this workspace yet"):
        resolve(text, [])


def test_last_is_none_that_a_restore_made() -> None:
    with pytest.raises(UserError, match="no snapshot of this workspace yet"):
        resolve("last", SOME[2:])


def test_steps_have_numbers() -> None:
    newer = snapshot(4, step=4)
    assert by_step(4, [*SOME, newer]) == newer
    with pytest.raises(UserError, match="no snapshot of step 5"):
        by_step(5, SOME)


def test_short_ids() -> None:
    one = replace(SOME[0], id="abcdef0123" + "0" * 30)
    other = replace(SOME[0], id="abcdef0124" + "0" * 30)
    assert short_id(one.id, [one, SOME[1]]) == "abcdef012"
    assert short_id(one.id, [one, other, one]) == "abcdef0123"


def going_back(snapshots: list[Snapshot], cursor: int | None, is_changed: bool) -> list[int]:
    """Where one, two, … steps back lead."""
    found: list[int] = []
    here = None if cursor is None else snapshot(cursor).id
    for count in range(1, 9):
        try:
            found.append(rewound(snapshots, here, is_changed, count).ordinal)
        except UserError:
            break
    return found


LINE = [snapshot(1), snapshot(2, 1), snapshot(3, 2)]


@pytest.mark.parametrize(
    ("snapshots", "cursor", "is_changed", "steps"),
    [
        (LINE, 3, True, [3, 2, 1]),  # edits are the first step
        (LINE, 3, False, [2, 1]),
        (LINE, 1, True, [1]),  # after a restore of the first
        (LINE, 1, False, []),
        (LINE, None, False, [3, 2, 1]),  # the current one was deleted
        # 4 was made after a restore of 1: the step before it is 1
        ([*LINE, snapshot(4, 1)], 4, False, [1]),
        ([*LINE, snapshot(4, 1)], 4, True, [4, 1]),
        # A kept state that was restored: edits on what it was made on.
        ([*LINE, snapshot(4, 3, automatic="restore")], 4, False, [3, 2, 1]),
        ([*LINE, snapshot(4, 3, automatic="restore")], 4, True, [3, 2, 1]),
        ([*LINE, snapshot(4, 3, automatic="run"), snapshot(5, 4)], 5, False, [3, 2, 1]),
        # What it was made on was deleted: then what is before it in the list.
        ([snapshot(1), snapshot(3, 2)], 3, False, [1]),
        ([snapshot(1, 2), snapshot(2, 1)], 2, False, [1]),  # no end
    ],
)
def test_steps_as_a_person_counts(
    snapshots: list[Snapshot], cursor: int | None, is_changed: bool, steps: list[int]
) -> None:
    assert going_back(snapshots, cursor, is_changed) == steps


@pytest.mark.parametrize(
    ("snapshots", "count", "told", "hint"),
    [
        ([], 1, "no snapshot of this workspace yet", "git wf snapshot save MESSAGE"),
        (SOME[2:], 1, "nothing to rewind to", "git wf snapshot restore last"),
        (LINE, 4, "cannot go back 4: there is only 2", "git wf snapshot list"),
        (LINE[:1], 1, "cannot go back 1: there is no step", "git wf snapshot list"),
    ],
)
def test_no_such_step(snapshots: list[Snapshot], count: int, told: str, hint: str) -> None:
    with pytest.raises(UserError) as err:
        rewound(snapshots, snapshots[-1].id if snapshots else None, False, count)
    assert (err.value.message, err.value.hints) == (told, (hint,))


def test_a_change_as_json() -> None:
    assert FileChange("R", "b", "a", None, None).to_json() == {
        "path": "b", "status": "renamed", "old_path": "a", "insertions": None, "deletions": None,
    }  # fmt: skip
    assert FileChange("X", "b", None, 1, 2).word == "X"
