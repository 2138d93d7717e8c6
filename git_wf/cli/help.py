"""Draws help through rich-click. Imported only when help is asked for."""

from __future__ import annotations

import click
import rich_click
from rich_click.rich_context import RichContext

_CONFIGURATION = {
    "theme": "default-slim",
    "text_markup": "ansi",
    "max_width": 100,
    "commands_before_options": True,
    "text_paragraph_linebreaks": "\n\n",
}


def draw_help(
    command: click.Command, context: click.Context, formatter: click.HelpFormatter
) -> None:
    """Writes the help of a command that click parses, drawn by a twin that rich-click knows."""
    twin = _twin(command, context)
    drawn = RichContext(
        twin,
        info_name=context.command_path,
        rich_help_config=_CONFIGURATION,
        help_option_names=context.help_option_names,
    )
    lines = twin.get_help(drawn).rstrip("\n").split("\n")
    formatter.write("\n".join(line.rstrip() for line in lines))  # rich fills them up


class _OrderedGroup(rich_click.RichGroup):
    """Lists verbs in the order of their use, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def _twin(command: click.Command, context: click.Context) -> rich_click.RichCommand:
    if not isinstance(command, click.Group):
        return rich_click.RichCommand(
            name=command.name, params=command.params, help=command.help, epilog=command.epilog,
            add_help_option=True, context_settings=context.command.context_settings,
        )  # fmt: skip
    verbs: dict[str, click.Command] = {}
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None, name
        verbs[name] = rich_click.RichCommand(name=name, help=found.get_short_help_str(limit=80))
    return _OrderedGroup(
        name=command.name, commands=verbs, params=command.params, help=command.help,
        epilog=command.epilog, context_settings=context.command.context_settings,
    )  # fmt: skip
