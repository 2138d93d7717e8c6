"""What the program offers on the command line, asked of the program itself."""

from __future__ import annotations

import click

from git_wf.cli.group import group


def program_options(verb: str) -> set[str]:
    """The long options of a verb, `--help` included."""
    context = click.Context(group)
    command = group.get_command(context, verb)
    assert command is not None, verb
    params = command.get_params(click.Context(command, **command.context_settings))
    opts = [word for param in params for word in (*param.opts, *param.secondary_opts)]
    return {word for word in opts if word.startswith("--")}
