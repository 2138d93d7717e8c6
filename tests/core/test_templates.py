"""Names in braces."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_wf.core.templates import Name, TemplateError, names, render

VALUES: dict[str, Any] = {
    "goal": "Build it",
    "inputs": {"repo": "demo", "odd": "it's {{ goal }}", "my-key": 3},
    "run": {"id": "01J"},
    "env": {"HOME": "/home/user", "EMPTY": ""},
    "graph": {"label": "G", "flag": True},
    "context": {"command.output": "out", "results": [{"id": "a"}], "null": None},
}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("Do: {{ goal }}", "Do: Build it"),
        ("{{goal}}{{ goal}}", "Build itBuild it"),
        ("{{ inputs.repo }}", "demo"),
        ("{{ inputs.my-key }}", "3"),
        ("{{ inputs.odd }}", "it's {{ goal }}"),
        ("{{ inputs.odd | sh }}", "'it'\"'\"'s {{ goal }}'"),
        ("{{ inputs.repo|sh }}", "demo"),
        ("{{ env.EMPTY | sh }}", "''"),
        ("{{ env.EMPTY }}", ""),
        ("{{ run.id }}", "01J"),
        ("{{ graph.flag }}", "true"),
        ("{{ context.command.output }}", "out"),
        ("{{ context.results.0.id }}", "a"),
        ("{{ context.results }}", '[{"id": "a"}]'),
        ("{{\n  goal\n}}", "Build it"),
        ("{{{ goal }}}", "{Build it}"),
    ],
)
def test_names_are_replaced(text: str, rendered: str) -> None:
    assert render(text, VALUES, prompt=False) == rendered
    assert render(text, VALUES, prompt=True) == rendered


@pytest.mark.parametrize(
    "text",
    [
        "", "${#a[@]}", "{{.State}}", "{{ .State }}", "${{ github.sha }}", "${{ env.HOME }}",
        "{{ foo }}", "{{ matrix.os }}", "{{ goal | upper }}", "{{ }}", "{{ goal", "{goal}",
        "{{ 'goal' }}", "{{ goal() }}",
    ],
)  # fmt: skip
def test_everything_else_stays(text: str) -> None:
    assert render(text, VALUES, prompt=True) == text


def test_the_older_name_of_the_goal_in_prompts() -> None:
    text = "Do: $goal, $goals, $goal_1, $goal."
    assert render(text, VALUES, prompt=True) == "Do: Build it, $goals, $goal_1, Build it."
    assert render(text, VALUES, prompt=False) == text
    assert render("<$goal>", {}, prompt=True) == "<>"


@pytest.mark.parametrize(
    ("text", "name", "offset"),
    [
        ("a {{ inputs.nope }}", "inputs.nope", 2),
        ("{{ inputs }}", "inputs", 0),
        ("{{ goal.x }}", "goal.x", 0),
        ("{{ env.NOPE | sh }}", "env.NOPE", 0),
        ("{{ context.null }}", "context.null", 0),
    ],
)
def test_undefined_names(text: str, name: str, offset: int) -> None:
    with pytest.raises(TemplateError) as caught:
        render(text, VALUES, prompt=False)
    assert (caught.value.message, caught.value.offset) == (f"undefined name '{name}'", offset)
    assert str(caught.value) == caught.value.message


def test_a_name_without_any_values() -> None:
    with pytest.raises(TemplateError):
        render("{{ goal }}", {}, prompt=False)


def test_names_of_a_text() -> None:
    found = names("$goal {{ inputs.a.b }} ${{ env.X }} {{ foo|sh }}")
    assert found == [Name("inputs.a.b", 6), Name("foo", 36)]
    assert [(name.first, name.rest) for name in found] == [("inputs", "a.b"), ("foo", "")]


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from(list("{}$ .|goalshinputs"))) | st.text())
def test_any_text_is_rendered_or_has_a_place(text: str) -> None:
    try:
        render(text, VALUES, prompt=True)
    except TemplateError as err:
        assert text[err.offset :].startswith("{{")
