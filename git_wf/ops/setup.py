"""`git wf setup`: one `include.path` line that teaches plain git to show runs, and its undoing.

The file that it names holds `pretty.wf` (one line a checkpoint: node, visit, status) and
`pretty.wf-full` (all six trailers), made from the trailers by git itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from git_wf.core.names import Names
from git_wf.ops.host import Host
from git_wf.store.files import write_atomic
from git_wf.store.user_config import add_include, global_includes, remove_include


@dataclass(frozen=True)
class SetUp:
    path: Path  # of our file
    changed: bool


def setup(host: Host, names: Names) -> SetUp:
    """Writes our file and the line that includes it. Doing it again brings the file up to date."""
    path = config_file(host.env)
    text = config_text(names).encode()
    included = str(path) in global_includes(host.env)
    if not included:
        add_include(host.env, path)
    written = not path.is_file() or path.read_bytes() != text
    if written:
        write_atomic(path, text, mode=0o644)
    return SetUp(path, written or not included)


def undo_setup(host: Host) -> SetUp:
    path = config_file(host.env)
    included = str(path) in global_includes(host.env)
    if included:
        remove_include(host.env, path)
    existed = path.is_file()
    if existed:
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    return SetUp(path, included or existed)


def config_file(env: Mapping[str, str]) -> Path:
    """`git-wf/gitconfig` in the user's configuration directory."""
    given = env.get("XDG_CONFIG_HOME", "")
    if given.startswith("/"):
        return Path(given) / "git-wf" / "gitconfig"
    from platformdirs import user_config_path

    return user_config_path("git-wf", appauthor=False) / "gitconfig"


def config_text(names: Names) -> str:
    def values(*keys: str) -> str:
        named = ",".join(f"key={names.trailer(key)}" for key in keys)
        return f"%(trailers:{named},valueonly,separator=%x20)"

    def labelled(key: str) -> str:
        return f"%(trailers:key={names.trailer(key)},separator=)"

    line = f"%C(auto)%h%C(reset) %C(bold)%<(28,trunc){values('Node', 'Visit', 'Status')}%C(reset)"
    line += " %C(dim)%<(14)%cr%C(reset) %s%C(auto)%d"
    full = "%n".join(
        f"    {labelled(key)}"
        for key in ("Run", "Node", "Visit", "Status", "Completed", "Checkpoint")
    )
    return (
        "# Written by git wf setup; git wf setup --undo removes it.\n"
        "[pretty]\n"
        f'\twf = "{line}"\n'
        f'\twf-full = "%C(auto)commit %H%d%nDate: %cd%n%n{full}%n"\n'
        "[alias]\n"
        '\twf-log = "log --format=wf --first-parent"\n'
    )
