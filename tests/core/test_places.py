from __future__ import annotations

import pytest

from git_wf.core.names import Names, RefName, RunId
from git_wf.core.places import Place, other_places, other_roots

RUN = "01JKXYZ0000000000000000000"


def found(names: Names, *refs: str) -> dict[RunId, Place]:
    return other_places(names, [RefName(ref) for ref in refs])


@pytest.mark.parametrize(
    ("refs", "place"),
    [
        (["refs/heads/fabro/run/{}"], ("refs/heads/fabro/run/{}", None)),
        (["refs/heads/fabro/meta/{}"], (None, "refs/heads/fabro/meta/{}")),
        (["refs/arc/{}"], (None, "refs/arc/{}")),
        (
            ["refs/heads/arc/run/{}", "refs/heads/fabro/meta/{}"],
            ("refs/heads/arc/run/{}", "refs/heads/fabro/meta/{}"),
        ),
        # What comes first is ours, whatever the order.
        (["refs/heads/fabro/meta/{}", "refs/fabro/meta/{}"], (None, "refs/fabro/meta/{}")),
        (["refs/arc/{}", "refs/heads/arc/meta/{}"], (None, "refs/heads/arc/meta/{}")),
        (["refs/heads/arc/run/{}", "refs/heads/fabro/run/{}"], ("refs/heads/fabro/run/{}", None)),
    ],
)  # fmt: skip
def test_where_a_run_is(refs: list[str], place: tuple[str | None, str | None]) -> None:
    run, meta = (RefName(ref.format(RUN)) if ref else None for ref in place)
    assert found(Names(), *(ref.format(RUN) for ref in refs)) == {RunId(RUN): Place(run, meta)}


@pytest.mark.parametrize(
    "ref",
    ["refs/heads/fabro/run/attempt", "refs/heads/fabro/run/ABC", f"refs/heads/fabro/run/{RUN}/x",
     f"refs/heads/other/run/{RUN}", f"refs/arc/meta/x/{RUN}", "refs/heads/main",
     f"refs/heads/fabro/run/{RUN}0"],
)  # fmt: skip
def test_where_none_is(ref: str) -> None:
    assert found(Names(), ref) == {}


def test_the_namespace_is_that_of_the_metadata() -> None:
    assert Place(RefName("refs/heads/arc/run/X"), RefName("refs/heads/fabro/meta/X")).namespace == (
        "fabro"
    )
    assert Place(RefName("refs/heads/arc/run/X")).namespace == "arc"
    assert Place(None, RefName("refs/arc/X")).namespace == "arc"


def test_where_to_look() -> None:
    assert other_roots(Names("studio")) == [
        "refs/heads/fabro/meta", "refs/heads/arc/meta",
        "refs/heads/studio/run", "refs/studio/meta", "refs/heads/wf/run", "refs/wf/meta",
        "refs/heads/fabro/run", "refs/fabro/meta", "refs/heads/arc/run", "refs/arc/meta",
        "refs/arc",
    ]  # fmt: skip
