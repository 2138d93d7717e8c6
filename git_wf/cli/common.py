"""What several verbs share: arguments, options, and opening the repository."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import click

from git_wf.cli.group import WfCommand
from git_wf.cli.output import paged, use_colour
from git_wf.ops.host import Host
from git_wf.ops.project import Project, open_project

Decorated = Callable[..., Any]

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
dry_run_option = click.option(
    "-n", "--dry-run", is_flag=True,
    help="Change nothing; print what would be done as a script of plain git.",
)  # fmt: skip
list_option = click.option(
    "--list", "list_targets", is_flag=True, help="List the checkpoints that can be named."
)
preview_option = click.option(
    "--list", "only_list", is_flag=True, help="Change nothing; list what it would be about."
)
words_argument = click.argument("words", nargs=-1, metavar="[RUN] [TARGET]")


class TailCommand(WfCommand):
    """What comes after `--`, whatever it looks like, is `context.meta["tail"]`."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            context.meta["tail"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(context, args)


def run_argument(function: Decorated) -> Decorated:
    return click.argument("run", required=False, metavar="[RUN]")(function)


@contextlib.contextmanager
def open_here(host: Host | None = None) -> Iterator[Project]:
    """For verbs that are over soon: looking for garbage would cost a long timeline a third more."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        project = open_project(host or current_host())
        try:
            yield project
        finally:
            project.close()
    finally:
        if was_enabled:
            gc.enable()


def current_host() -> Host:
    """The machine's, or the one that a test handed to the command line."""
    context = click.get_current_context(silent=True)
    handed = context.find_object(Host) if context is not None else None
    return handed or Host.system()


@contextlib.contextmanager
def reading(project: Project) -> Iterator[bool]:
    """stdout through git's pager; gives whether to use colour."""
    config = project.repo.config_values()
    colour = use_colour(config, project.host.env)
    pager = project.repo.pager() if _may_page(project) else ""
    with paged(pager, project.host.env):
        yield colour


def _may_page(project: Project) -> bool:
    import sys

    return sys.stdout.isatty() and project.host.env.get("TERM", "dumb") != "dumb"
