from __future__ import annotations

from typing import Any

import pytest

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.names import Names
from git_wf.core.summary import Summary, ending_trailers, read_summary, summary_trailers
from git_wf.core.trailers import metadata_message

NAMES = Names()
RUN = "01JKXYZ0000000000000000000"
CREATED = "2030-01-02T03:04:05.000000Z"
RECORD = {"workflow_slug": "build it", "created_at": CREATED, "labels": {"a": "1=2", "b": "x y"}}
TOLD = (
    ("Workflow", "build it"), ("Created", CREATED), ("Label", "a=1=2"), ("Label", "b=x y"),
)  # fmt: skip
LABELS = {"a": "1=2", "b": "x y"}


def written(title: str, *pairs: tuple[str, str], names: Names = NAMES) -> str:
    return metadata_message(names, RUN, title, pairs)


def test_a_run_that_has_just_begun() -> None:
    assert summary_trailers(RECORD) == TOLD
    found = Summary("build it", CREATED, "", 0, None, LABELS)
    assert read_summary(NAMES, written("init run", *TOLD)) == found


@pytest.mark.parametrize("namespace", ["wf", "fabro", "my-team"])
def test_a_run_at_a_checkpoint(namespace: str) -> None:
    names = Names(namespace)
    text = written("checkpoint plan@2", *TOLD, ("Ordinal", "12"), names=names)
    assert read_summary(names, text) == Summary("build it", CREATED, "", 12, "plan", LABELS)


def test_a_run_that_has_ended() -> None:
    checkpoint = Checkpoint(RUN, ordinal=7, current_node="ship")
    text = written("finalize run", *TOLD, *ending_trailers("fail", checkpoint))
    assert read_summary(NAMES, text) == Summary("build it", CREATED, "fail", 7, "ship", LABELS)
    text = written("finalize run", *TOLD, *ending_trailers("success", None))
    assert read_summary(NAMES, text) == Summary("build it", CREATED, "success", 0, None, LABELS)


@pytest.mark.parametrize(
    "odd",
    [
        {"forked_from": {"run": "x"}}, {"parent": {"run": "x"}}, {"workflow_slug": None},
        {"workflow_slug": ""}, {"workflow_slug": "a\nb"}, {"workflow_slug": "a  b"},
        {"created_at": None}, {"labels": {"a": "x\n"}}, {"labels": {"a=b": "x"}},
        {"labels": {"": "x"}}, {"labels": {"a": "\x1b[m"}},
    ],
)  # fmt: skip
def test_a_run_with_more_to_tell(odd: dict[str, Any]) -> None:
    assert summary_trailers({**RECORD, **odd}) == ()


@pytest.mark.parametrize(
    "text",
    [
        "", "init run\n", written("init run"), written("resume", *TOLD),
        written("wait ask@1", *TOLD), written("rewind to plan@1", *TOLD),
        written("init run of mine", *TOLD), written("finalize run", *TOLD),  # no status
        written("checkpoint plan@1", *TOLD, ("Status", "fail")),
        written("checkpoint plan@1", *TOLD, ("Ordinal", "-1")),
        written("init run", *TOLD, names=Names("fabro")),
    ],
)  # fmt: skip
def test_what_tells_nothing(text: str) -> None:
    assert read_summary(NAMES, text) is None
