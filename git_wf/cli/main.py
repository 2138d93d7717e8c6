"""The command group, and the one place where errors are printed and the program exits.

Verbs are loaded when they are called: `git wf log` imports neither what `run` needs nor rich,
which draws help and nothing else.
"""

from __future__ import annotations

import io
import os
import sys

from git_wf import __version__
from git_wf.errors import EXIT_FATAL, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, WfError

TYPE_CHECKING = False  # as in `typing`, which takes as long to import as Python to start
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    import click

    from git_wf.ops.host import Host

EXIT_CLOSED_PIPE = 141  # as the shell tells of a program that SIGPIPE ended


def main(argv: Sequence[str] | None = None) -> NoReturn:
    _open_standard_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    sys.exit(exit_status(words))


def run_command(words: Sequence[str], host: Host | None = None) -> int:
    """Runs one command line and gives its exit status; errors of ours are raised."""
    if list(words) == ["--version"]:
        sys.stdout.write(f"git-wf {__version__}\n")
        return EXIT_OK
    import click

    from git_wf.cli.group import CONTEXT, group

    if not words:
        sys.stdout.write(click.Context(group, info_name="git wf", **CONTEXT).get_help() + "\n")
        return EXIT_USAGE
    # Not by `group.main`: it would answer a closed pipe with status 1.
    with group.make_context("git wf", list(words), obj=host) as context:
        answer = group.invoke(context)
    return answer if isinstance(answer, int) else EXIT_OK


def exit_status(words: Sequence[str], host: Host | None = None) -> int:
    """The boundary: every error becomes one line, its hints and an exit status.

    `host` stands in for the machine's clock, ids and environment.
    """
    _speak_utf8()
    try:
        status = run_command(words, host)
        sys.stdout.flush()
        return status
    except WfError as err:
        return _tell(err)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return EXIT_CLOSED_PIPE
    except Exception as err:
        return _usage_or_crash(err)


def _open_standard_streams() -> None:
    """Where the shell closed one (`>&-`), so that no file of ours takes its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == number, opened
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _speak_utf8() -> None:
    """UTF-8 whatever the locale, as git does; what is no UTF-8 is shown as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _tell(err: WfError) -> int:
    from git_wf.cli.output import tell_error

    tell_error(err)
    return err.code


def _usage_or_crash(err: Exception) -> int:
    import click

    if isinstance(err, click.exceptions.Exit):
        return err.exit_code
    if isinstance(err, click.Abort):
        return EXIT_INTERRUPTED
    if isinstance(err, click.ClickException):
        _tell_usage(err)
        return EXIT_USAGE
    if isinstance(err, OSError):
        return _tell_machine(err)
    return _report_crash(err)


def _tell_machine(err: OSError) -> int:
    """A full disk, a read-only repository: nothing that we could have done better."""
    from git_wf.cli.output import write_error

    told = err.strerror or str(err)
    place = f": '{os.fsdecode(err.filename)}'" if isinstance(err.filename, (str, bytes)) else ""
    write_error(f"fatal: {told[:1].lower()}{told[1:]}{place}")
    if not place:
        _forget_stdout()
    return EXIT_FATAL


def _tell_usage(err: click.ClickException) -> None:
    import click

    from git_wf.cli.output import write_error

    text = err.format_message().rstrip(".")
    write_error(f"error: {text[:1].lower()}{text[1:]}")
    context = err.ctx if isinstance(err, click.UsageError) else None
    write_error(f"hint: {context.command_path if context else 'git wf'} -h")


def _report_crash(err: Exception) -> int:
    """A fault of ours: the traceback goes to a file that the user can send."""
    import tempfile
    import traceback

    from git_wf.cli.output import write_error

    with tempfile.NamedTemporaryFile(
        "w", prefix="git-wf-crash-", suffix=".log", delete=False, encoding="utf-8"
    ) as stream:
        stream.write(f"git-wf {__version__}, Python {sys.version}\n\n")
        traceback.print_exception(err, file=stream)
    write_error(f"fatal: a fault in git-wf: {type(err).__name__}: {err}")
    write_error(f"hint: the details are in '{stream.name}'")
    return EXIT_FATAL


def _forget_stdout() -> None:
    """Nobody reads any more: what is still buffered must not fail again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
