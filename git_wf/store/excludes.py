"""Which paths stay out of checkpoints: the user's globs, and the built-in directories."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from git_wf.errors import UserError
from git_wf.store.files import write_atomic
from git_wf.store.repo import Repo

BUILTIN_EXCLUDES = (
    ".venv", "venv", "node_modules", ".pnpm-store", ".npm", "__pycache__", ".tox",
    ".pytest_cache", ".mypy_cache", ".cache", ".next",
)  # fmt: skip
SYNTAXES = ("gitignore", "glob")
_VERDICTS = 100_000  # directories whose verdict is remembered

# A newline is no wildcard's match in a regular expression, and the fast backends of pathspec take
# valid UTF-8 only: both become characters for private use.
_MATCHABLE = {0x0A: 0xF800, **{0xDC80 + low: 0xF700 + low for low in range(128)}}
_CLASSES: dict[bytes, Callable[[int], bool]] = {
    b"alnum": lambda byte: chr(byte).isalnum(),
    b"alpha": lambda byte: chr(byte).isalpha(),
    b"blank": lambda byte: byte in b" \t",
    b"cntrl": lambda byte: byte < 32 or byte == 127,
    b"digit": lambda byte: chr(byte).isdigit(),
    b"graph": lambda byte: 32 < byte < 127,
    b"lower": lambda byte: chr(byte).islower(),
    b"print": lambda byte: 32 <= byte < 127,
    b"punct": lambda byte: 32 < byte < 127 and not chr(byte).isalnum(),
    b"space": lambda byte: byte in b" \t\n\v\f\r",
    b"upper": lambda byte: chr(byte).isupper(),
    b"xdigit": lambda byte: byte in b"0123456789abcdefABCDEF",
}


class Excludes:
    """What stays out of the checkpoints of one run.

    `patterns` are gitignore lines, or with `syntax` `glob` what git takes in `:(glob,exclude)…`.
    They hold for tracked and untracked files; `builtin` directories hold for untracked ones only.
    A bad pattern raises `UserError`. Paths are relative to the worktree, bytes that are not UTF-8
    as surrogates; that of a directory (a submodule, a nested repository) ends with a slash.
    """

    def __init__(
        self, patterns: Sequence[str] = (), syntax: str = "gitignore", builtin: bool = True
    ) -> None:
        if syntax not in SYNTAXES:
            raise UserError(
                f"no such syntax of exclude globs: '{syntax}'", hint="it is gitignore, or glob"
            )
        self.patterns = tuple(patterns)
        self.syntax = syntax
        self.builtin = builtin
        # Built-in names that a scan has met once: from then on git does not descend into them.
        self.met: set[str] = set()
        self._held: Callable[[str], bool] | None = None
        if self.patterns:
            compiled = _gitignore_matcher if syntax == "gitignore" else _glob_matcher
            self._held = compiled(self.patterns)
        self._users_file: dict[Path, Path] = {}

    def holds(self, path: str) -> bool:
        """Whether a pattern of the user keeps `path` out."""
        return self._held is not None and self._held(path)

    def builtin_directory(self, path: str) -> str | None:
        """The topmost built-in directory that `path` is in, with a slash at its end."""
        if not self.builtin:
            return None
        parts = path.split("/")
        for position, part in enumerate(parts[:-1], 1):
            if part in BUILTIN_EXCLUDES:
                return "/".join(parts[:position]) + "/"
        return None

    def scan_options(self, repo: Repo) -> tuple[str, ...]:
        """Options that keep git out of the built-in directories met before.

        They go into a file of ours behind the user's own `core.excludesFile`.
        """
        if not self.met:
            return ()
        try:
            users = self._users_excludes(repo).read_bytes()
        except OSError:
            users = b""
        text = users + b"\n" + "".join(f"{name}/\n" for name in sorted(self.met)).encode()
        ours = repo.git_dir / "git-wf" / "exclude"
        if not ours.exists() or ours.read_bytes() != text:
            write_atomic(ours, text)
        return ("-c", f"core.excludesFile={ours}")

    def _users_excludes(self, repo: Repo) -> Path:
        """The user's own `core.excludesFile`, asked for once."""
        if repo.git_dir not in self._users_file:
            named = repo.line("config", "--type=path", "--get", "core.excludesFile", ok=(0, 1))
            home = Path(repo.env.get("HOME") or os.sep)
            config = Path(repo.env.get("XDG_CONFIG_HOME") or home / ".config")
            path = Path(named) if named else config / "git" / "ignore"
            self._users_file[repo.git_dir] = (repo.work_tree or repo.git_dir) / path
        return self._users_file[repo.git_dir]


def _bad_pattern(pattern: str, why: str) -> UserError:
    return UserError(
        f"bad exclude pattern '{pattern}': {why}",
        hint="exclude_globs, and git config wf.excludeGlobs, hold lines of a .gitignore",
    )


# gitignore


def _gitignore_matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """pathspec's verdict where no pattern negates; else entry by entry, as gitignore(5) has it.

    To pathspec `!b` includes all that is below `b`, and a file below an excluded directory can
    come back; to git a pattern speaks of an entry alone, and an excluded directory is final.
    """
    from pathspec import GitIgnoreSpec  # 40 ms to import: only where there are patterns

    for pattern in patterns:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            try:
                GitIgnoreSpec.from_lines([pattern.translate(_MATCHABLE)])
            except FutureWarning as err:
                raise _bad_pattern(pattern, "character classes are not known here") from err
            except (ValueError, re.error) as err:
                raise _bad_pattern(pattern, "git takes it for no pattern") from err
    spec = GitIgnoreSpec.from_lines([pattern.translate(_MATCHABLE) for pattern in patterns])
    if all(pattern.include is not False for pattern in spec.patterns):
        return lambda path: spec.match_file(path.translate(_MATCHABLE))
    rules = [
        (pattern.regex, pattern.include)
        for pattern in reversed(list(spec.patterns))
        if pattern.regex is not None and pattern.include is not None
    ]
    return _EntryByEntry(rules).holds


class _EntryByEntry:
    """A path is held where it, or a directory that it is in, is excluded by its last match."""

    def __init__(self, rules: Sequence[tuple[re.Pattern[str], bool]]) -> None:
        self._rules = rules  # the last one first
        self._directories: dict[str, bool] = {"": False}

    def holds(self, path: str) -> bool:
        text = path.translate(_MATCHABLE)
        if text.endswith("/"):
            return self._holds_directory(text)
        return self._holds_directory(_parent(text)) or self._is_excluded(text)

    def _holds_directory(self, text: str) -> bool:
        if text not in self._directories:
            held = self._holds_directory(_parent(text)) or self._is_excluded(text)
            if len(self._directories) >= _VERDICTS:
                self._directories = {"": False}
            self._directories[text] = held
        return self._directories[text]

    def _is_excluded(self, text: str) -> bool:
        for regex, excludes in self._rules:
            if any(_is_of_entry(matched, text) for matched in regex.finditer(text)):
                return excludes
        return False


def _is_of_entry(matched: re.Match[str], text: str) -> bool:
    """Whether a pattern matched the entry, and not just a directory that the entry is in.

    pathspec's group `ps_d` is the slash behind the directory that matched.
    """
    if matched.groupdict().get("ps_d") is not None:
        return matched.end("ps_d") == len(text)
    # `a/**` matches what is in `a`, not `a/`.
    return not (text.endswith("/") and matched.end() == len(text))


def _parent(text: str) -> str:
    """The directory that an entry is in, with a slash at its end."""
    return text[: text.rstrip("/").rfind("/") + 1]


# git's glob pathspecs


def _glob_matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    tests = [_glob_test(pattern) for pattern in patterns]
    return lambda path: any(test(os.fsencode(path)) for test in tests)


def _glob_test(pattern: str) -> Callable[[bytes], bool]:
    """The path itself, what is below it, or a match of the whole path."""
    literal = _anchored(pattern)
    below = literal if literal.endswith(b"/") else literal + b"/"
    if not any(byte in literal for byte in b"*?[\\"):
        return lambda path: path == literal or path.startswith(below)
    whole = re.compile(_wildmatch_regex(literal, pattern), re.DOTALL)
    return lambda path: (
        path == literal
        or path.startswith(below)
        or whole.fullmatch(path.removesuffix(b"/")) is not None
    )


def _anchored(pattern: str) -> bytes:
    """A pattern relative to the top, as git normalises the path in a pathspec."""
    if pattern.startswith("/"):
        raise _bad_pattern(pattern, "glob patterns are relative to the top of the worktree")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise _bad_pattern(pattern, "it names nothing in the worktree")
    return os.fsencode("/".join(parts) + ("/" if pattern.endswith("/") else ""))


def _wildmatch_regex(pattern: bytes, shown: str) -> bytes:
    """What git's wildmatch means with WM_PATHNAME: only `**` between slashes crosses them."""
    # git matches what stands before the first wildcard by itself, so that to wildmatch the
    # wildcard is at the beginning: `b**/c` matches `b/x/c`.
    begin = re.search(rb"[*?[\\]|$", pattern)
    at = start = begin.start() if begin else 0
    regex = re.escape(pattern[:start])
    while at < len(pattern):
        byte = pattern[at : at + 1]
        if byte == b"*":
            piece, at = _stars(pattern, at, start)
        elif byte == b"?":
            piece, at = b"[^/]", at + 1
        elif byte == b"[":
            piece, at = _bracket(pattern, at + 1, shown)
        else:
            at += byte == b"\\"
            if at == len(pattern):
                raise _bad_pattern(shown, "it ends in a backslash")
            piece, at = re.escape(pattern[at : at + 1]), at + 1
        regex += piece
    return regex


def _stars(pattern: bytes, at: int, start: int) -> tuple[bytes, int]:
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    starts = at == start or pattern[at - 1 : at] == b"/"
    if end - at < 2 or not starts:
        return b"[^/]*", end
    if end == len(pattern) or pattern[end : end + 2] == b"\\/":
        return b".*", end
    if pattern[end : end + 1] == b"/":
        return b"(?:.*/)?", end + 1
    return b"[^/]*", end


def _bracket(pattern: bytes, at: int, shown: str) -> tuple[bytes, int]:
    """A bracket expression, from behind its `[`: which bytes it matches, never a slash."""
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    matched: set[int] = set()
    first, previous = at, None
    while at == first or pattern[at : at + 1] != b"]":
        named = re.compile(rb"\[:([^]]*):\]").match(pattern, at)
        if named:
            test = _CLASSES.get(named[1])
            if test is None:
                raise _bad_pattern(shown, f"no character class '{os.fsdecode(named[1])}'")
            matched |= {byte for byte in range(128) if test(byte)}
            at, previous = named.end(), None
            continue
        rest = pattern[at + 1 : at + 2]
        is_range = pattern[at : at + 1] == b"-" and previous is not None and rest not in (b"", b"]")
        low, at = _bracket_byte(pattern, at + is_range, shown)
        matched |= set(range(previous, low + 1)) if is_range and previous is not None else {low}
        previous = None if is_range else low
    chosen = (set(range(256)) - matched if negated else matched) - {ord("/")}
    listed = b"".join(b"\\x%02x" % byte for byte in sorted(chosen))
    return (b"[" + listed + b"]" if listed else rb"(?!)"), at + 1


def _bracket_byte(pattern: bytes, at: int, shown: str) -> tuple[int, int]:
    at += pattern[at : at + 1] == b"\\"
    if at >= len(pattern):
        raise _bad_pattern(shown, "a bracket is not closed")
    return pattern[at], at + 1
