"""`git wf log --format`: git's pretty formats, with names of ours in them.

`%(node)` and the others are replaced for each commit; all else is git's own. Before git gets a
format, each of our names becomes a mark with the commit's id; in what git prints, the mark becomes
the value. A width before it (`%<(20)%(node)`, `%>(6,trunc)%(duration)`) holds for it as for a name
of git's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

FIELDS = (
    "node", "visit", "status", "ordinal", "duration", "cost", "run", "commit", "meta", "title",
)  # fmt: skip

_PADDING = r"%(?P<side><|>|><)\((?P<width>[0-9]{1,4})(?:,(?P<cut>trunc|ltrunc|mtrunc))?\)"
_PART = re.compile(rf"%%|(?:{_PADDING})?%\((?P<name>{'|'.join(FIELDS)})\)")


@dataclass(frozen=True)
class _Place:
    """Where one of our names stands: `side` and `width` are of the padding before it."""

    name: str
    side: str = ""
    width: int = 0
    cut: str = ""

    def padded(self, value: str) -> str:
        if self.cut and len(value) > self.width:
            value = _cut(value, self.width, self.cut)
        pad = {"<": value.ljust, ">": value.rjust, "><": value.center}.get(self.side)
        return pad(self.width) if pad else value


def _cut(value: str, width: int, how: str) -> str:
    """As git cuts: two dots stand for what is missing."""
    room = max(width - 2, 0)
    if how == "ltrunc":
        return ".." + value[len(value) - room :]
    if how == "mtrunc":
        left = (room + 1) // 2
        return value[:left] + ".." + value[len(value) - (room - left) :]
    return value[:room] + ".."


@dataclass(frozen=True)
class LogFormat:
    """A format as git gets it, and what is to be put into its output."""

    git: str  # for `git log --format=…`
    _mark: str
    _places: tuple[_Place, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(place.name for place in self._places)

    def fill(self, text: str, values: Callable[[str], Mapping[str, str]]) -> str:
        """`text` as git printed it, with the values of each commit that it names."""
        if not self._places:
            return text

        def value(found: re.Match[str]) -> str:
            place = self._places[int(found[1])]
            return place.padded(values(found[2]).get(place.name, ""))

        return re.sub(rf"\x01{self._mark}([0-9]+):([0-9a-f]+)\x02", value, text)


def parse_format(text: str, mark: str) -> LogFormat:
    """`mark` is a word that no output can hold by chance. A name of a format, such as `oneline`
    or `wf`, stays as it is."""
    places: list[_Place] = []

    def marked(found: re.Match[str]) -> str:
        if found["name"] is None:
            return found[0]
        place = _Place(
            found["name"], found["side"] or "", int(found["width"] or 0), found["cut"] or ""
        )
        places.append(place)
        return f"%x01{mark}{len(places) - 1}:%H%x02"

    return LogFormat(_PART.sub(marked, text), mark, tuple(places))
