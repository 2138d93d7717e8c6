"""What `git config wf.*` says. Where a run is configured by a file, see `run_config`.

| key | meaning | default |
|---|---|---|
| `wf.namespace` | the word in refs, subjects and trailers | `wf` |
| `wf.metaNamespace` | where metadata refs live | `refs/<namespace>/meta` |
| `wf.excludeGlobs` | patterns kept out of checkpoints; may be given several times | |
| `wf.stateDir` | where run directories and worktrees live | the user's state directory |
| `wf.worktreePool` | how many worktrees are kept for the next run | 2 |
| `wf.dirty` | about uncommitted changes: `head`, `include`, `in-place`, `refuse` | `head` |
| `wf.durable` | flush new objects to disk before refs move | false |
| `wf.retryDelay` | replaces the first delay between attempts, e.g. `100ms` | |
| `wf.secretEnv` | names in the environment whose values are secrets; several | `*_TOKEN`, … |
| `wf.undoExpire` | how long what an operation left behind is kept; `never` | `90d` |
| `wf.snapshotMaxFile` | larger files are left out of snapshots, and named, e.g. `100m` | |
| `wf.snapshotAllow` | a folder that is saved though it is the home directory, or the like | |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from git_wf.core.names import DEFAULT_NAMESPACE, Names, is_namespace
from git_wf.core.values import read_duration
from git_wf.errors import UserError

DIRTY_MODES = ("head", "include", "in-place", "refuse")
_TRUE = ("true", "yes", "on", "1", "")
_FALSE = ("false", "no", "off", "0")
DAY = 86400.0  # seconds
SECRET_ENV = (
    "*_TOKEN", "*_SECRET", "*PASSWORD", "*_PASSWD", "*_API_KEY", "*_ACCESS_KEY", "*_SECRET_KEY",
    "*_PRIVATE_KEY",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    names: Names
    exclude_globs: tuple[str, ...] = ()
    state_dir: str | None = None
    worktree_pool: int = 2
    dirty: str = "head"
    durable: bool = False
    retry_delay: float | None = None  # seconds
    undo_expire: float | None = 90 * DAY  # seconds; None: for ever
    secret_env: tuple[str, ...] = SECRET_ENV
    snapshot_max_file: int | None = None  # bytes
    snapshot_allow: tuple[str, ...] = ()

    def is_secret(self, name: str) -> bool:
        """Whether the value of that environment variable is to be kept out of what is recorded."""
        return any(fnmatchcase(name.upper(), pattern.upper()) for pattern in self.secret_env)


def read_settings(config: Mapping[str, Sequence[str]]) -> Settings:
    """From git's configuration: key (lower case) → values, weakest first.

    Raises `UserError` that names the key, where a value is none that we know.
    """

    def last(key: str) -> str | None:
        values = config.get(f"wf.{key}".lower())
        return values[-1] if values else None

    return Settings(
        names=_names(last("namespace"), last("metaNamespace")),
        exclude_globs=tuple(config.get("wf.excludeglobs", ())),
        state_dir=last("stateDir") or None,
        worktree_pool=_count("worktreePool", last("worktreePool"), default=2),
        dirty=_dirty(last("dirty")),
        durable=_boolean("durable", last("durable")),
        retry_delay=_seconds("retryDelay", last("retryDelay")),
        undo_expire=_expiry("undoExpire", last("undoExpire")),
        secret_env=_added(SECRET_ENV, config.get("wf.secretenv", ())),
        snapshot_max_file=_size("snapshotMaxFile", last("snapshotMaxFile")),
        snapshot_allow=tuple(config.get("wf.snapshotallow", ())),
    )


def _wrong(key: str, value: str, wanted: str) -> UserError:
    return UserError(
        f"config 'wf.{key}': '{value}' is not {wanted}",
        hint=f"git config --show-origin wf.{key} tells where it is set",
    )


def _names(namespace: str | None, meta: str | None) -> Names:
    namespace = namespace or DEFAULT_NAMESPACE
    if not is_namespace(namespace):
        raise _wrong("namespace", namespace, "a word of letters, digits and hyphens")
    if meta is None:
        return Names(namespace)
    meta = meta.rstrip("/")
    if not meta.startswith("refs/") or any(part in ("", ".", "..") for part in meta.split("/")):
        raise _wrong("metaNamespace", meta, "a directory of refs, such as refs/heads/wf/meta")
    return Names(namespace, meta)


def _added(known: tuple[str, ...], values: Sequence[str]) -> tuple[str, ...]:
    """`known` and `values`; as in git's own lists, an empty one forgets what came before."""
    for value in values:
        known = (*known, value) if value else ()
    return known


def _count(key: str, value: str | None, default: int) -> int:
    if value is None:
        return default
    if not value.isdecimal():
        raise _wrong(key, value, "a number")
    return int(value)


def _dirty(value: str | None) -> str:
    if value is None:
        return "head"
    if value not in DIRTY_MODES:
        raise _wrong("dirty", value, f"one of {', '.join(DIRTY_MODES)}")
    return value


def _boolean(key: str, value: str | None) -> bool:
    if value is None or value.lower() in _FALSE:
        return False
    if value.lower() in _TRUE:
        return True
    raise _wrong(key, value, "true or false")


def _seconds(key: str, value: str | None) -> float | None:
    if value is None:
        return None
    duration = read_duration(value)
    if duration is None:
        raise _wrong(key, value, "a duration, such as 250ms or 5s")
    return duration.seconds


def _size(key: str, value: str | None) -> int | None:
    """Bytes, with the suffixes that git takes."""
    if value is None or value.lower() in ("none", "never"):
        return None
    matched = re.fullmatch(r"([0-9]+)([kmg]?)", value.lower())
    if matched is None:
        raise _wrong(key, value, "a size, such as 500k or 100m")
    return int(matched[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[matched[2]]


def _expiry(key: str, value: str | None) -> float | None:
    if value is None:
        return 90 * DAY
    if value.lower() in ("never", "false"):
        return None
    duration = read_duration(value)
    if duration is None:
        raise _wrong(key, value, "a duration, such as 90d, or 'never'")
    return duration.seconds
