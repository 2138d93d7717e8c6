from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_wf.core.names import (
    CROCKFORD,
    KeptTip,
    Names,
    folded_components,
    is_namespace,
    is_node_id,
    is_run_id,
    is_run_prefix,
    operation_id,
    safe_component,
    trace_name,
    ulid,
    ulid_milliseconds,
    visit_name,
)

RUN = "01JKXYZ0000000000000000000"


@pytest.mark.parametrize(
    ("text", "is_id", "is_prefix"),
    [
        (RUN, True, True), (RUN.lower(), False, True), (RUN + "0", False, False),
        ("8" + RUN[1:], False, True), (RUN[:4], False, True), (RUN[:3], False, False),
        ("01JU", False, False), ("01J\n", False, False), (RUN + "\n", False, False),
        ("", False, False), ("٠١٢٣", False, False),
    ],
)  # fmt: skip
def test_run_ids(text: str, is_id: bool, is_prefix: bool) -> None:
    assert (is_run_id(text), is_run_prefix(text)) == (is_id, is_prefix)


@pytest.mark.parametrize(
    ("text", "known"),
    [("a", True), ("_A9", True), ("9a", False), ("a-b", False), ("", False), ("é", False),
     ("a\n", False)],
)  # fmt: skip
def test_node_ids(text: str, known: bool) -> None:
    assert is_node_id(text) is known


@pytest.mark.parametrize(
    ("text", "known"),
    [("wf", True), ("my-flows2", True), ("2wf", False), ("a/b", False), ("", False), ("a.", False)],
)
def test_namespaces(text: str, known: bool) -> None:
    assert is_namespace(text) is known


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_ulids_are_ordered_by_time_and_give_back_what_they_hold(
    moment: int, randomness: bytes
) -> None:
    made = ulid(moment, randomness)
    assert is_run_id(made)
    number = 0
    for digit in made:
        number = number * 32 + CROCKFORD.index(digit)
    assert number == (moment << 80) | int.from_bytes(randomness, "big")
    assert made < ulid(moment + 1, bytes(10)) or moment == 2**48 - 1


def test_operations_have_an_id_by_what_they_do() -> None:
    one = operation_id(5, "rewind", "x")
    assert one == operation_id(5, "rewind", "x") and is_run_id(one)
    others = {operation_id(6, "rewind", "x"), operation_id(5, "rewindx"), operation_id(5, "x")}
    assert len(others | {one}) == 4


def test_visits() -> None:
    assert visit_name("plan", 2) == "plan@2"
    assert (trace_name("plan", 1), trace_name("plan", 2)) == ("plan", "plan-visit_2")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_components_are_safe_in_a_ref(text: str) -> None:
    made = safe_component(text)
    assert re.fullmatch(r"[A-Za-z0-9_%-]+", made)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4, unique=True))
def test_components_are_told_apart(texts: list[str]) -> None:
    assert len({safe_component(text) for text in texts}) == len(texts)


def test_twins_in_another_case_are_folded() -> None:
    assert folded_components(["Fix", "fix", "Plan", "FIX"]) == {
        "Fix": "%46ix", "fix": "fix", "Plan": "Plan", "FIX": "%46%49%58",
    }  # fmt: skip


@given(st.lists(st.text("aAbB_1", min_size=1, max_size=4), unique=True))
def test_folded_components_differ_in_more_than_case(nodes: list[str]) -> None:
    assert len({name.lower() for name in folded_components(nodes).values()}) == len(nodes)


def test_the_names_of_the_default_namespace() -> None:
    names = Names()
    assert names.run_branch(RUN) == f"refs/heads/wf/run/{RUN}"
    assert names.short_branch(RUN) == f"wf/run/{RUN}"
    assert names.meta_ref(RUN) == f"refs/wf/meta/{RUN}"
    assert names.old_ref(RUN, "O", "run") == f"refs/wf/old/{RUN}/O/run"
    assert names.old_ref(RUN, "O", "meta") == f"refs/wf/old/{RUN}/O/meta"
    assert names.rescue_ref(RUN, "R") == f"refs/wf/rescue/{RUN}/R"
    assert names.section_root(RUN, "f@1") == f"refs/wf/par/{RUN}/f@1"
    assert names.branch_ref(RUN, "f@1/1-a", "run") == f"refs/wf/par/{RUN}/f@1/1-a/run"
    assert names.subject(RUN, "plan", "success") == f"wf({RUN}): plan (success)"
    assert names.trailer("Node") == "WF-Node"


def test_another_namespace_changes_the_word_everywhere() -> None:
    names = Names("fabro", "refs/heads/fabro/meta")
    assert names.run_branch(RUN) == f"refs/heads/fabro/run/{RUN}"
    assert names.meta_ref(RUN) == f"refs/heads/fabro/meta/{RUN}"
    assert names.rescue_root == "refs/fabro/rescue"
    assert names.subject(RUN, "a", "fail") == f"fabro({RUN}): a (fail)"
    assert names.trailer("Node") == "Fabro-Node"


@pytest.mark.parametrize(
    ("ref", "run"),
    [
        (f"refs/heads/wf/run/{RUN}", RUN), (f"refs/wf/meta/{RUN}", RUN),
        (f"refs/heads/wf/run/{RUN}/x", None), ("refs/heads/wf/run/", None),
        ("refs/heads/main", None), (f"refs/wf/old/{RUN}/O/run", None),
    ],
)  # fmt: skip
def test_the_run_of_a_ref(ref: str, run: str | None) -> None:
    assert Names().run_of_ref(ref) == run


@given(st.integers(0, (1 << 48) - 1))
def test_the_moment_of_a_ulid(milliseconds: int) -> None:
    assert ulid_milliseconds(ulid(milliseconds, bytes(10))) == milliseconds


def test_what_the_name_of_a_kept_tip_says() -> None:
    names = Names()
    operation = ulid(1, bytes(10))
    assert names.kept_tip(names.old_ref(RUN, operation, "meta")) == KeptTip(RUN, operation, "meta")
    for ref in (f"refs/wf/old/{RUN}/odd/run", f"refs/wf/old/{RUN}/{operation}", "refs/wf/older"):
        assert names.kept_tip(ref) is None


def test_what_the_name_of_a_rescue_says() -> None:
    names = Names("fabro")
    rescue = ulid(1, bytes(10))
    assert names.rescued_run(names.rescue_ref(RUN, rescue)) == (RUN, rescue)
    for ref in (f"refs/fabro/rescue/{RUN}/odd", f"refs/wf/rescue/{RUN}/{rescue}"):
        assert names.rescued_run(ref) is None
    assert names.archive_ref == "refs/fabro/archive"
