"""What the program offers on the command line, asked of the program itself."""

from __future__ import annotations

import click

from git_wf.cli.group import VERBS, group


def every_command() -> list[str]:
    """The verbs, and those of the verbs that are groups: `snapshot save`."""
    names = []
    for name in VERBS:
        names.append(name)
        command = _command(name)
        if isinstance(command, click.Group):
            names += [f"{name} {sub}" for sub in command.commands]
    return names


def _command(words: str) -> click.Command:
    command: click.Command = group
    for word in words.split(" "):
        assert isinstance(command, click.Group), words
        found = command.get_command(click.Context(command), word)
        assert found is not None, words
        command = found
    return command


def program_options(verb: str) -> set[str]:
    """The long options of a verb, `--help` included."""
    command = _command(verb)
    params = command.get_params(click.Context(command, **command.context_settings))
    opts = [word for param in params for word in (*param.opts, *param.secondary_opts)]
    return {word for word in opts if word.startswith("--")}
