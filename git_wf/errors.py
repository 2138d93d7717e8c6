"""The error family, and the exit statuses that each of them ends with.

Who must act decides the class. A workflow that ends in failure is not an exception: it is a
`fail` outcome and `EXIT_FAILED`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which takes as long to import as Python to start
if TYPE_CHECKING:
    from collections.abc import Sequence

    from git_wf.core.graph import Diagnostic

EXIT_OK = 0
EXIT_FAILED = 1  # the run failed, or a check found something
EXIT_WAITING = 3
EXIT_FATAL = 128
EXIT_USAGE = 129
EXIT_INTERRUPTED = 130


class WfError(Exception):
    """What a user is told: one line, then hints with the command that helps.

    `message` is lower case, names the fault first and its subject in single quotes, without a
    full stop. `hint` is a line, or several, each printed behind `hint: `.
    """

    code = EXIT_FATAL

    def __init__(self, message: str, *, hint: str | Sequence[str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hints: tuple[str, ...] = (hint,) if isinstance(hint, str) else tuple(hint or ())


class UserError(WfError):
    """Something asked for cannot be done as asked; the user can put it right."""


class WorkflowInvalid(WfError):
    """A workflow file has errors; `diagnostics` says where in `text`, which `file` holds."""

    def __init__(
        self,
        message: str,
        diagnostics: Sequence[Diagnostic],
        *,
        hint: str | Sequence[str] | None = None,
        file: str = "",
        text: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.diagnostics = tuple(diagnostics)
        self.file = file
        self.text = text


class GitFailed(WfError):
    """A git command ended with an unexpected status."""

    def __init__(
        self,
        argv: Sequence[str],
        status: int,
        stderr: str,
        *,
        hint: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__(f"git {git_verb(argv)}: {_told(stderr, status)}", hint=hint)
        self.argv = tuple(argv)
        self.status = status
        self.stderr = stderr


class StateUnreadable(WfError):
    """A run's record is missing, corrupt, or of a newer format than this program knows."""


class Conflict(WfError):
    """Somebody else moved a ref of ours, or holds the lock of a run."""


def _told(stderr: str, status: int) -> str:
    """The line of git's that says what is wrong; the last one where none is marked."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    return (marked or lines[-1:] or [f"exit status {status}"])[0]


def shell_quoted(text: str) -> str:
    """A path in a command that is told, always in quotes: it means nothing else to a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def git_verb(argv: Sequence[str]) -> str:
    """The subcommand in a git command line, past its global options."""
    words = iter(argv[1:] if argv and argv[0] == "git" else argv)
    for word in words:
        if word in ("-c", "-C", "--git-dir", "--work-tree", "--namespace"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""
