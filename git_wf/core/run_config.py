"""What run.toml and .wf/project.toml say (language.md, section 10).

Both files have the same keys; run.toml is laid over the project file: tables merge by key, lists
replace, `exclude_globs` add up, hooks with the same `id` replace each other.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

import msgspec

from git_wf.core.config_types import choices_of, fields_of, find_nul, find_type_fault
from git_wf.core.templates import names
from git_wf.core.values import DURATION_HINT, read_duration
from git_wf.errors import UserError

RUN_CONFIG_VERSION = 1
OWN_VARIABLES = "GIT_WF_"


class _Table(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A table of run.toml: unknown keys are errors."""


class WorkflowTable(_Table):
    graph: str | None = None


class CheckpointTable(_Table):
    exclude_globs: list[str] = []
    syntax: str = "gitignore"
    builtin_excludes: bool = True


class CheckpointsTable(_Table):
    auto: bool = True  # whether `git wf run` saves a snapshot first


class EnvironmentEntry(_Table):
    from_: str = msgspec.field(name="from")
    secret: bool = False


class PrepareStep(_Table):
    script: str
    timeout: str | None = None


class PrepareTable(_Table):
    steps: list[PrepareStep] = []


class Hook(_Table):
    event: str
    id: str | None = None
    matcher: str | None = None
    script: str | None = None
    command: list[str] | None = None
    http: str | None = None
    blocking: bool = False
    timeout: str | None = None


class PushTable(_Table):
    remote: str | None = None


class RunTable(_Table):
    goal: str | None = None
    inputs: dict[str, str | int | float | bool] = {}
    checkpoint: CheckpointTable | None = None
    env: dict[str, str | EnvironmentEntry] = {}
    prepare: PrepareTable = msgspec.field(default_factory=PrepareTable)
    hooks: list[Hook] = []
    push: PushTable = msgspec.field(default_factory=PushTable)


class Agent(_Table):
    command: list[str]
    prompt: str = "stdin"
    output: str = "text"
    resume: list[str] = []


class RunConfig(_Table):
    version: int = msgspec.field(name="_version", default=RUN_CONFIG_VERSION)
    workflow: WorkflowTable = msgspec.field(default_factory=WorkflowTable)
    run: RunTable = msgspec.field(default_factory=RunTable)
    checkpoint: CheckpointTable = msgspec.field(default_factory=CheckpointTable)
    checkpoints: CheckpointsTable | None = None
    agents: dict[str, Agent | str] = {}


def read_run_config(data: Mapping[str, Any], origin: str) -> RunConfig:
    """The decoded tables of a run.toml, checked; `[run.checkpoint]` is moved to `[checkpoint]`.

    Raises `UserError` that names the dotted path of the bad key, and for an unknown one the
    nearest known.
    """
    for path, key, known in _unknown_keys(data, RunConfig, ""):
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        raise UserError(
            f"{origin}: unknown key '{path}{key}'",
            hint=f"did you mean '{path}{near[0]}'?" if near else _known_hint(path, known),
        )
    where = find_nul(data)
    if where is not None:
        told = f"{origin}: '{where}' has a NUL byte"
        raise UserError(told, hint="write it without: no program could be given one")
    fault = find_type_fault(data, RunConfig)
    if fault is not None:
        raise UserError(f"{origin}: {fault.message}", hint=fault.hint)
    config = msgspec.convert(with_checkpoint_table(data), RunConfig)
    _check_values(config, origin)
    return config


def merge_tables(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` laid over `below`: tables merge by key, lists replace, but see the module's text."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            merged[key] = merge_tables(under, value)
        elif key == "exclude_globs" and isinstance(under, list) and isinstance(value, list):
            merged[key] = under + value
        elif key == "hooks" and isinstance(under, list) and isinstance(value, list):
            merged[key] = _merged_hooks(under, value)
        else:
            merged[key] = value
    return merged


def to_tables(config: RunConfig) -> dict[str, Any]:
    """As plain tables, for the run record; defaults are left out."""
    tables: dict[str, Any] = msgspec.to_builtins(config)
    return tables


def _merged_hooks(below: list[Any], above: list[Any]) -> list[Any]:
    replaced = {hook.get("id") for hook in above if isinstance(hook, Mapping)} - {None}
    kept = [
        hook for hook in below if not (isinstance(hook, Mapping) and hook.get("id") in replaced)
    ]
    return kept + above


def with_checkpoint_table(data: Mapping[str, Any]) -> dict[str, Any]:
    """`[run.checkpoint]` moved to `[checkpoint]`: to be done before a file is laid over another."""
    run = data.get("run")
    if not isinstance(run, Mapping) or not isinstance(run.get("checkpoint"), Mapping):
        return dict(data)
    moved = {
        **data,
        "run": {key: value for key, value in run.items() if key != "checkpoint"},
    }
    return merge_tables({"checkpoint": run["checkpoint"]}, moved)


def _known_hint(path: str, known: list[str]) -> str:
    place = f"'{path.rstrip('.')}'" if path else "the top level"
    return f"known in {place}: {', '.join(sorted(known))}"


def _unknown_keys(data: Any, kind: Any, path: str) -> Iterator[tuple[str, str, list[str]]]:
    """The path, key and known neighbours of each key that the type does not have."""
    for one in choices_of(kind):
        fields = fields_of(one)
        if isinstance(data, Mapping) and fields is not None:
            for key, value in data.items():
                if key not in fields:
                    yield path, str(key), list(fields)
                else:
                    yield from _unknown_keys(value, fields[key].type, f"{path}{key}.")
        elif isinstance(data, Mapping) and get_origin(one) is dict:
            for key, value in data.items():
                yield from _unknown_keys(value, get_args(one)[1], f"{path}{key}.")
        elif isinstance(data, list) and get_origin(one) is list:
            for position, value in enumerate(data):
                inside = f"{path.removesuffix('.')}[{position}]."
                yield from _unknown_keys(value, get_args(one)[0], inside)


def _check_values(config: RunConfig, origin: str) -> None:
    if config.version != RUN_CONFIG_VERSION:
        told = f"{origin}: '_version' {config.version} is not known"
        raise UserError(
            told, hint=f"upgrade git-wf; this one knows _version = {RUN_CONFIG_VERSION}"
        )
    if config.checkpoint.syntax not in ("gitignore", "glob"):
        raise UserError(
            f"{origin}: 'checkpoint.syntax': '{config.checkpoint.syntax}' is neither "
            "'gitignore' nor 'glob'",
            hint='leave it out for gitignore\'s rules, or write syntax = "glob"',
        )
    _check_steps(config.run.prepare, origin)
    _check_environment(config.run, origin)
    for name, agent in config.agents.items():
        _check_agent(name, agent, origin)


def _check_steps(prepare: PrepareTable, origin: str) -> None:
    for number, step in enumerate(prepare.steps):
        path = f"{origin}: 'run.prepare.steps[{number}]"
        if not step.script.strip():
            raise UserError(f"{path}.script' is empty", hint='script = "make deps"')
        if step.timeout is not None and read_duration(step.timeout) is None:
            raise UserError(
                f"{path}.timeout': '{step.timeout}' is not a duration", hint=DURATION_HINT
            )


def _check_environment(run: RunTable, origin: str) -> None:
    for name, entry in run.env.items():
        if not name or "=" in name:
            raise UserError(
                f"{origin}: 'run.env': '{name}' is no name of a variable",
                hint='one line a variable: NAME = "value"',
            )
        if name.startswith(OWN_VARIABLES):
            raise UserError(
                f"{origin}: 'run.env.{name}' is a variable of git-wf's own",
                hint=f"another name: '{OWN_VARIABLES}…' is what git-wf tells programs",
            )
        if isinstance(entry, str) or not entry.secret:
            continue
        if not any(one.first == "env" for one in names(entry.from_)):
            raise UserError(
                f"{origin}: 'run.env.{name}' is a secret that stands in the file",
                hint=f'{name} = {{ from = "{{{{ env.{name} }}}}", secret = true }} reads it from '
                "the environment",
            )


def _check_agent(name: str, agent: Agent | str, origin: str) -> None:
    path = f"agents.{name}"
    if isinstance(agent, str):
        if name != "default":
            raise UserError(
                f"{origin}: unknown key '{path}'",
                hint=f'a backend is a table: [{path}] command = ["…"]',
            )
        return
    if not agent.command or not agent.command[0].strip():
        raise UserError(f"{origin}: '{path}.command' is empty", hint='command = ["…"]')
    if agent.prompt != "stdin":
        raise UserError(
            f"{origin}: '{path}.prompt': '{agent.prompt}' is not 'stdin'",
            hint="leave it out: a program gets its prompt on stdin",
        )
    if agent.output not in ("text", "json"):
        raise UserError(
            f"{origin}: '{path}.output': '{agent.output}' is neither 'text' nor 'json'",
            hint='output = "json" for one JSON object, or one a line; else leave it out',
        )
