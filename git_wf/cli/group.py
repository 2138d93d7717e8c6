"""`git wf`: the verbs, loaded when they are called, and help drawn by rich-click."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import click

from git_wf import __version__

# Verb → its line in the list of commands; the verb's module is `git_wf.cli.<verb>`, with `_`
# in place of `-`.
VERBS = {
    "run": "Walk a workflow, recording a checkpoint after every node",
    "resume": "Go on with a run that was interrupted",
    "log": "Show the timeline of a run",
    "runs": "List the runs in this repository",
    "show": "Show one checkpoint",
    "inspect": "Show what was recorded of a checkpoint",
    "diff": "Compare two checkpoints",
    "graph": "Draw a workflow, or a run",
    "reflog": "Tell the story of a run's refs",
    "bisect": "Find the node that broke it",
    "rewind": "Take a run back to a checkpoint",
    "fork": "Start a new run from a checkpoint",
    "undo": "Take back the newest operation",
    "redo": "Make once more what was undone",
    "rm": "Remove runs",
    "prune": "Remove the runs that nobody needs any more",
    "archive": "Fold finished runs into one ref",
    "push": "Send runs to a remote",
    "fetch": "Bring runs from a remote",
    "pull": "Bring a run from a remote, also where it went back",
    "export": "Write a run to a file",
    "import": "Take runs from a file",
    "verify": "Check what runs have recorded",
    "du": "Tell what runs cost on the disk",
    "validate": "Check workflow files",
    "snapshot": "Save what a workspace holds, and give it back",
    "undo-edits": "Take back what was edited since the last snapshot",
    "setup": "Teach plain git to show runs",
}
CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class WfCommand(click.Command):
    """Help through rich-click, which is imported when help is asked for and not before."""

    def format_help(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from git_wf.cli.help import draw_help

        draw_help(self, context, formatter)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(context, args)
        except click.UsageError as err:  # some do not tell which verb they are about
            err.ctx = err.ctx or context
            raise


class SubGroup(WfCommand, click.Group):
    """A verb with verbs of its own, listed in the order of their use."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        _refuse_unknown(context, args[0], self.list_commands(context))
        return super().resolve_command(context, args)


def _refuse_unknown(context: click.Context, name: str, known: Sequence[str]) -> None:
    """Raises a usage error, with what may have been meant."""
    if name in known or name.startswith("-"):
        return
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    told = f"'{name}' is not a {context.command_path} command"
    context.fail(f"{told}; did you mean '{near[0]}'?" if near else told)


def _module(verb: str) -> str:
    return f"git_wf.cli.{verb.replace('-', '_')}"


class WfGroup(WfCommand, click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(_module(name)).command
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        _refuse_unknown(context, args[0], list(VERBS))
        return super().resolve_command(context, args)


def verb(name: str) -> Callable[[Callable[..., Any]], WfCommand]:
    """Declares the command of a verb's module."""
    return click.command(name, cls=WfCommand, context_settings=CONTEXT, short_help=VERBS[name])


@click.group(cls=WfGroup, context_settings=CONTEXT)
@click.version_option(__version__, "--version", message="git-wf %(version)s")
def group() -> None:
    """Workflows over a git repository: every step a commit that you can see, undo and fork."""
