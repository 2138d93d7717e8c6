"""Where runs can be beside the namespace that we write in: in other ones of ours, at Fabro, at Arc.

| ref | whose |
|---|---|
| `refs/heads/<namespace>/run/<id>` | the run branch of all of them |
| `refs/<namespace>/meta/<id>` | our metadata |
| `refs/heads/fabro/meta/<id>`, `refs/heads/arc/meta/<id>` | Fabro's and Arc's metadata |
| `refs/arc/<id>` | Arc's own metadata |

The two refs of one run need not be in one namespace: Fabro was called Arc once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from git_wf.core.names import CROCKFORD, FOREIGN_NAMESPACES, Names, RefName, RunId

_ID = rf"(?P<id>[{CROCKFORD}]{{4,26}})"


@dataclass(frozen=True)
class Place:
    """The refs of a run that are not where ours would be; one may be missing."""

    run_ref: RefName | None = None
    meta_ref: RefName | None = None

    @property
    def namespace(self) -> str:
        """Of the metadata, else of the run branch."""
        ref = self.meta_ref or self.run_ref or ""
        return ref.removeprefix("refs/").removeprefix("heads/").split("/", 1)[0]


def other_roots(names: Names) -> list[str]:
    """The directories of refs to look at, beside those of `names`."""
    roots = [f"refs/heads/{word}/meta" for word in FOREIGN_NAMESPACES]
    for word in names.read_namespaces:
        roots += [f"refs/heads/{word}/run", f"refs/{word}/meta"]
    return [*roots, "refs/arc"]


def other_places(names: Names, refs: Iterable[RefName]) -> dict[RunId, Place]:
    """The runs among `refs` by where they are, but for what is in the place of our own.

    Our own metadata comes before Fabro's and Arc's, and a namespace before those after it.
    """
    runs: dict[str, dict[int, RefName]] = {}
    states: dict[str, dict[int, RefName]] = {}
    words = "|".join(re.escape(word) for word in names.read_namespaces)
    foreign = "|".join(FOREIGN_NAMESPACES)
    order = {word: at for at, word in enumerate(names.read_namespaces)}
    shapes = (
        (re.compile(rf"refs/heads/(?P<word>{words})/run/{_ID}"), runs, 0),
        (re.compile(rf"refs/(?P<word>{words})/meta/{_ID}"), states, 0),
        (re.compile(rf"refs/heads/(?P<word>{foreign})/meta/{_ID}"), states, 10),
        (re.compile(rf"refs/(?P<word>arc)/{_ID}"), states, 20),
    )
    for ref in refs:
        for shape, found, weight in shapes:
            if matched := shape.fullmatch(ref):
                rank = weight + order[matched["word"]]
                found.setdefault(matched["id"], {})[rank] = ref
                break
    return {
        RunId(run): Place(_first(runs.get(run)), _first(states.get(run)))
        for run in sorted({*runs, *states})
    }


def _first(found: dict[int, RefName] | None) -> RefName | None:
    return found[min(found)] if found else None
