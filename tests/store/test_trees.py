"""An edited tree is the tree that git's own index makes of the same edits."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git_wf.core.names import Oid
from git_wf.store.objects import Entry, ObjectReader
from git_wf.store.packs import Pack
from git_wf.store.repo import Repo
from git_wf.store.trees import TreeEditor
from tests.conftest import git

NAMES = st.sampled_from(["a", "b", "a-", "a.b", "d"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
EDITS = st.dictionaries(PATHS, st.booleans(), max_size=8)


def by_git(repo: Repo, base: str, edits: dict[str, bool], blob: str) -> str:
    """`update-index` takes the removals first: what is added replaces what is in its way."""
    place = {"GIT_INDEX_FILE": os.fspath(repo.git_dir / "judge")}
    repo.git("read-tree", base, env=place)
    gone = [f"0 {repo.null_oid}\t{path}\0" for path, stays in edits.items() if not stays]
    made = [f"100644 {blob}\t{path}\0" for path, stays in sorted(edits.items()) if stays]
    repo.git("update-index", "-z", "--index-info", stdin="".join(gone + made).encode(), env=place)
    return repo.git("write-tree", env=place).decode().strip()


@settings(
    max_examples=40, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(rounds=st.lists(EDITS, min_size=1, max_size=3))
def test_edits_are_those_of_an_index(repo, rounds: list[dict[str, bool]]) -> None:
    here = Repo.find(repo, os.environ)
    blob = Oid(git("rev-parse", "HEAD:README", cwd=repo))
    tree = Oid(git("rev-parse", "HEAD^{tree}", cwd=repo))
    with ObjectReader(here) as reader:
        editor = TreeEditor(reader)
        for edits in rounds:
            # No index has a path and another below it.
            edits = {
                path: stays
                for path, stays in edits.items()
                if not (stays and any(edits.get(above) for above in parents(path)))
            }
            expected = by_git(here, tree, edits, blob)
            pack = Pack(here)
            made = editor.edit(
                pack,
                tree,
                {path.encode(): Entry("100644", blob) if stays else None
                 for path, stays in edits.items()},
            )  # fmt: skip
            assert made == expected
            assert (made in pack) == (made != tree)
            kept = pack.write()
            if kept is not None:
                kept.release()
            tree = made


def parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def test_nothing_is_left(repo) -> None:
    here = Repo.find(repo, os.environ)
    pack = Pack(here)
    with ObjectReader(here) as reader:
        tree = Oid(git("rev-parse", "HEAD^{tree}", cwd=repo))
        made = TreeEditor(reader).edit(pack, tree, {b"README": None})
    assert made == git("mktree", cwd=repo, stdin=b"")
    assert made in pack
