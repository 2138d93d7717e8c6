"""Kinds of node that other packages add: the entry point group `git_wf.handlers`.

The name of an entry point is the kind (a node has it as its `type`), its value a function from a
`Visit` to an `Outcome`. `docs/handlers.md` has an example.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from git_wf.errors import UserError

if TYPE_CHECKING:
    from git_wf.engine.state import Handler

GROUP = "git_wf.handlers"


def installed_kinds() -> frozenset[str]:
    """The kinds that installed packages add. Nothing of the packages is imported yet."""
    return frozenset(_entry_points())


def load_handler(kind: str) -> Handler:
    """The function of an installed kind. Raises `UserError` where it cannot be loaded."""
    point = _entry_points()[kind]
    try:
        handler: Handler = point.load()
    except (ImportError, AttributeError) as err:
        raise UserError(
            f"load the kind '{kind}' from '{point.value}': {err}",
            hint="install the package anew, or give the node another type",
        ) from err
    return handler


@cache
def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points  # heavy: only for kinds that are none of ours

    return {point.name: point for point in entry_points(group=GROUP)}
