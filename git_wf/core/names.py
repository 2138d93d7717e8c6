"""Ids, and every ref and path that is made from them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NewType

RunId = NewType("RunId", str)
Oid = NewType("Oid", str)
RefName = NewType("RefName", str)

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID = re.compile(rf"[0-7][{CROCKFORD}]{{25}}")
_PREFIX = re.compile(rf"[{CROCKFORD}]{{4,26}}", re.IGNORECASE)
_PLAIN_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_NODE_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMESPACE = re.compile(r"[A-Za-z][A-Za-z0-9-]*")

DEFAULT_NAMESPACE = "wf"
FOREIGN_NAMESPACES = ("fabro", "arc")  # of the systems whose runs are read as they are
RUN_ID_HINT = "a run id is a ULID: 26 letters and digits"
META_NAMESPACE = "refs/wf/meta"


def is_run_id(text: str) -> bool:
    """Whether `text` is a ULID in its canonical, upper-case form."""
    return _ULID.fullmatch(text) is not None


def is_run_prefix(text: str) -> bool:
    """Whether `text` could be the beginning of a run id: 4 to 26 Crockford digits, any case."""
    return _PREFIX.fullmatch(text) is not None


def is_node_id(text: str) -> bool:
    return _NODE_ID.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    return _NAMESPACE.fullmatch(text) is not None


def ulid(milliseconds: int, randomness: bytes) -> str:
    """The ULID of a moment (milliseconds since 1970) and ten bytes of randomness."""
    assert len(randomness) == 10, len(randomness)
    number = (milliseconds << 80) | int.from_bytes(randomness, "big")
    return "".join(CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


def ulid_milliseconds(text: str) -> int:
    """The moment of a ULID, in milliseconds since 1970."""
    number = 0
    for digit in text[:10]:
        number = number << 5 | CROCKFORD.index(digit)
    return number


def operation_id(milliseconds: int, *seed: str) -> str:
    """The id of an operation on refs: a ULID whose random part is a digest of what it does.

    The same operation on the same state at the same moment has the same id, so that the script
    that `--dry-run` prints and the command itself make the same refs.
    """
    digest = hashlib.sha256("\0".join(seed).encode()).digest()
    return ulid(milliseconds, digest[:10])


def run_marks(run: str, repository: str) -> dict[str, str]:
    """The environment entries by which the processes of a run are found.

    `repository` is its key: the same run can go on in two clones on one machine.
    """
    return {"GIT_WF_RUN_ID": run, "GIT_WF_REPOSITORY": repository}


def visit_name(node: str, visit: int) -> str:
    return f"{node}@{visit}"


def trace_name(node: str, visit: int) -> str:
    """The directory of a visit's trace below `nodes/`."""
    return node if visit == 1 else f"{node}-visit_{visit}"


def safe_component(text: str) -> str:
    """A free text as one component of a path or ref, percent-encoded injectively."""
    encoded = "".join(
        chr(byte) if byte in _PLAIN_BYTES else f"%{byte:02X}" for byte in text.encode()
    )
    return encoded or "%"


def folded_components(nodes: Iterable[str]) -> dict[str, str]:
    """Node id → ref component. Upper-case letters are percent-encoded where a twin exists.

    On a file system that ignores case, `Fix` and `fix` would be one file.
    """
    names = list(nodes)
    seen: dict[str, int] = {}
    for name in names:
        seen[name.lower()] = seen.get(name.lower(), 0) + 1
    return {
        name: name
        if seen[name.lower()] == 1
        else re.sub(r"[A-Z]", lambda found: f"%{ord(found[0]):02X}", name)
        for name in names
    }


@dataclass(frozen=True)
class KeptTip:
    """Of a ref that keeps what an operation left behind: `side` is `run` or `meta`."""

    run: RunId
    operation: str
    side: str


@dataclass(frozen=True)
class Names:
    """Every ref, subject and trailer key of one namespace (`wf`, or what `wf.namespace` says)."""

    namespace: str = DEFAULT_NAMESPACE
    meta_namespace: str | None = None

    @cached_property
    def read_namespaces(self) -> tuple[str, ...]:
        """Where readers look: here first, and wherever runs can be."""
        every = (self.namespace, DEFAULT_NAMESPACE, *FOREIGN_NAMESPACES)
        return tuple(dict.fromkeys(every))

    @cached_property
    def read_prefixes(self) -> tuple[str, ...]:
        """What the trailer keys begin with there: `WF-`."""
        return tuple(Names(word).trailer("") for word in self.read_namespaces)

    @property
    def run_namespace(self) -> str:
        """The directory of the run branches, below `refs/heads/`."""
        return f"{self.namespace}/run"

    @property
    def meta_root(self) -> str:
        return self.meta_namespace or f"refs/{self.namespace}/meta"

    @property
    def is_shared(self) -> bool:
        """Whether Fabro's or Arc's refs can have the names that ours have here."""
        return self.namespace in FOREIGN_NAMESPACES or self.has_shared_metadata

    @property
    def has_shared_metadata(self) -> bool:
        shared = {f"refs/heads/{word}/meta" for word in FOREIGN_NAMESPACES}
        return self.meta_root in (*shared, "refs/arc")

    @property
    def old_root(self) -> str:
        return f"refs/{self.namespace}/old"

    @property
    def archive_ref(self) -> RefName:
        return RefName(f"refs/{self.namespace}/archive")

    @property
    def rescue_root(self) -> str:
        return f"refs/{self.namespace}/rescue"

    @property
    def par_root(self) -> str:
        return f"refs/{self.namespace}/par"

    @property
    def trailer_prefix(self) -> str:
        """`WF` for `wf`, `Fabro` for `fabro`."""
        if self.namespace == DEFAULT_NAMESPACE:
            return "WF"
        return self.namespace[:1].upper() + self.namespace[1:]

    def run_branch(self, run: str) -> RefName:
        return RefName(f"refs/heads/{self.run_namespace}/{run}")

    def short_branch(self, run: str) -> str:
        """The run branch as `git switch` takes it."""
        return f"{self.run_namespace}/{run}"

    def meta_ref(self, run: str) -> RefName:
        return RefName(f"{self.meta_root}/{run}")

    def roots_of(self, run: str) -> tuple[str, ...]:
        """Each ref of a run is one of these, or in a directory of this name."""
        kept = (self.old_root, self.rescue_root, self.par_root)
        return (self.run_branch(run), self.meta_ref(run), *(f"{root}/{run}" for root in kept))

    def old_ref(self, run: str, operation: str, side: str) -> RefName:
        assert side in ("run", "meta"), side
        return RefName(f"{self.old_root}/{run}/{operation}/{side}")

    def kept_tip(self, ref: str) -> KeptTip | None:
        """What the name of a ref that keeps a tip says; None of any other ref."""
        root = f"{self.old_root}/"
        parts = ref[len(root) :].split("/") if ref.startswith(root) else []
        if len(parts) != 3 or not is_run_id(parts[1]):
            return None
        return KeptTip(RunId(parts[0]), parts[1], parts[2])

    def rescued_run(self, ref: str) -> tuple[RunId, str] | None:
        """The run, and the id, of a rescue ref; None of any other ref."""
        root = f"{self.rescue_root}/"
        parts = ref[len(root) :].split("/") if ref.startswith(root) else []
        return (RunId(parts[0]), parts[1]) if len(parts) == 2 and is_run_id(parts[1]) else None

    def rescue_ref(self, run: str, rescue: str) -> RefName:
        return RefName(f"{self.rescue_root}/{run}/{rescue}")

    def claim_ref(self, run: str) -> RefName:
        """At a remote: who goes on with a run."""
        return RefName(f"refs/{self.namespace}/claim/{run}")

    def incoming_ref(self, operation: str, number: int) -> RefName:
        """What holds a commit that is being fetched, for as long as that takes."""
        return RefName(f"{self.incoming_root}/{operation}/{number}")

    @property
    def incoming_root(self) -> str:
        return f"refs/{self.namespace}/incoming"

    def hosted_ref(self, ref: str) -> RefName:
        """The name of a ref of ours on a host that takes branches only."""
        if ref.startswith("refs/heads/"):
            return RefName(ref)
        if ref.startswith(f"{self.meta_root}/"):
            return RefName(f"refs/heads/{self.namespace}/meta/{ref[len(self.meta_root) + 1 :]}")
        return RefName(f"refs/heads/{ref.removeprefix('refs/')}")

    def snapshots_root(self, workspace: str) -> str:
        """The directory of the snapshots of a workspace, which is safe as a component."""
        return f"refs/{self.namespace}/snapshots/{workspace}"

    def cursor_ref(self, workspace: str) -> RefName:
        return RefName(f"refs/{self.namespace}/cursor/{workspace}")

    def session_ref(self, workspace: str, session: str) -> RefName:
        name = safe_component(session)
        return RefName(f"refs/{self.namespace}/sessions/{workspace}/{name}")

    def section_root(self, run: str, section: str) -> str:
        """The directory of the branches of an open section; `section` is folded, as `f@1`."""
        return f"{self.par_root}/{run}/{section}"

    def branch_ref(self, run: str, branch: str, side: str) -> RefName:
        """A ref of an open parallel branch; `branch` is folded, as `f@1/1-a`."""
        assert side in ("run", "meta"), side
        return RefName(f"{self.par_root}/{run}/{branch}/{side}")

    def subject(self, run: str, node: str, status: str) -> str:
        """The subject of a run commit."""
        return f"{self.namespace}({run}): {node} ({status})"

    def trailer(self, key: str) -> str:
        """`Node` → `WF-Node`."""
        return f"{self.trailer_prefix}-{key}"

    def run_of_ref(self, ref: str) -> RunId | None:
        """The run that a run branch or metadata ref belongs to."""
        for root in (f"refs/heads/{self.run_namespace}/", f"{self.meta_root}/"):
            if ref.startswith(root):
                rest = ref[len(root) :]
                return RunId(rest) if rest and "/" not in rest else None
        return None
