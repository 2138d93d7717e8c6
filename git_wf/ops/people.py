"""Where the answers of people come from: a terminal, a file, or the command line.

An answers file is TOML, or JSON where its name ends with `.json`. It maps human nodes to answers,
a text for the first visit of the node, or a list with one text a visit. A table holds the answers
of the child workflow that a manager loop runs; a name that the workflow itself does not have is
looked for in its children:

    review = "A"
    name = ["Ada", "Bob"]
    [build]
    review = "R"
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from git_wf.core.checkpoint import Checkpoint
from git_wf.core.children import Child
from git_wf.core.config_types import find_nul
from git_wf.core.graph import Graph
from git_wf.engine.people import (
    Ask,
    Choice,
    People,
    ask_from,
    fitting_choice,
    offered_choices,
    recorded_choices,
)
from git_wf.engine.people import Question as Question
from git_wf.engine.people import Silence as Silence
from git_wf.errors import UserError
from git_wf.ops.workflow import Workflow, read_file, read_toml

HUMAN = "human"
JSON_HINT = '{"node": "answer", "another": ["first visit", "second visit"]}'
# Human node → one a visit; manager loop → those of its child.
Answers = Mapping[str, "Sequence[str] | Answers"]


@dataclass(frozen=True)
class Answering:
    """How the people of a run are to be reached."""

    ask: Ask | None = None  # a terminal, where there is one
    auto_approve: bool = False
    answers: Answers | None = None
    answer: str | None = None  # to what the run waits for


@dataclass(frozen=True)
class Asked:
    """The visit that a run is about to make, or waits in, where it is that of a human node."""

    node: str
    visit: int
    choices: tuple[Choice, ...]
    deadline: datetime | None = None
    branch: str = ""  # the parallel branch that asks
    child: str | None = None  # the run of a child workflow that asks
    manager: str = ""  # the node whose child, or a child of it, asks


def read_answers(path: Path) -> Answers:
    """The answers of a file. Raises `UserError` where it is not of the form."""
    data = read_file(path)
    tables = _read_json(data, path) if path.suffix == ".json" else read_toml(data, str(path))
    where = find_nul(tables)
    if where is not None:
        raise UserError(f"{path}: '{where}' has a NUL byte", hint="no answer can have one")
    return _read_table(tables, path)


def _read_table(table: Mapping[str, Any], path: Path, above: str = "") -> Answers:
    found: dict[str, Sequence[str] | Answers] = {}
    for name, said in table.items():
        if isinstance(said, dict):
            found[name] = _read_table(said, path, f"{above}{name}.")
        else:
            found[name] = _texts(said, f"{above}{name}", path)
    return found


def _read_json(data: bytes, path: Path) -> dict[str, Any]:
    try:
        tables = json.loads(data)
    except (ValueError, RecursionError) as err:
        raise UserError(f"{path}: not JSON: {_told(err)}", hint=JSON_HINT) from err
    if not isinstance(tables, dict):
        raise UserError(f"{path}: not an object of nodes and answers", hint=JSON_HINT)
    return tables


def _told(err: Exception) -> str:
    return str(err)[:1].lower() + str(err)[1:]


def _texts(said: Any, node: str, path: Path) -> tuple[str, ...]:
    texts = said if isinstance(said, list) else [said]
    if not all(isinstance(text, str) for text in texts):
        form = '{"%s": "A"}' if path.suffix == ".json" else '%s = "A"'
        raise UserError(
            f"{path}: '{node}': an answer is a text, or a list of texts, one a visit",
            hint=form % node,
        )
    return tuple(texts)


def check_answers(
    answers: Answers, graph: Graph, children: Mapping[str, Child], above: str = ""
) -> None:
    """Raises `UserError` for a node that is no human one, and for an answer that fits nothing."""
    for name, said in answers.items():
        if isinstance(said, Mapping):
            if name not in children:
                raise _childless(f"{above}{name}", said, _is_human(graph, name), children)
            child = children[name]
            check_answers(said, child.graph, child.children, f"{above}{name}.")
            continue
        asking = list(_graphs_that_ask(name, graph, children))
        if not asking:
            known = [f"{above}{one}" for one in _human_names(graph, children)]
            near = _nearest(f"{above}{name}", known)
            hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(known)}"
            if not known:
                hint = "leave --answers out: the workflow asks nobody"
            raise UserError(f"answers: '{above}{name}' is no human node", hint=hint)
        for one in asking:
            _check_texts(said, f"{above}{name}", offered_choices(one.outgoing(name)))


def _childless(
    name: str, said: Answers, is_human: bool, children: Mapping[str, Child]
) -> UserError:
    """Answers for the child of a node that has none."""
    where = ".".join([name, *list(said)[:1]])
    hint = f"there are: {', '.join(children)}" if children else None
    if is_human:
        hint = f'write {name} = "A": an answer is a text, or a list of texts, one a visit'
    return UserError(f"answers: '{where}': '{name}' has no child workflow", hint=hint)


def _check_texts(texts: Sequence[str], name: str, choices: Sequence[Choice]) -> None:
    for text in texts:
        if fitting_choice(text, choices) is None:
            raise UserError(
                f"answers: '{text}' is no answer to '{name}'", hint=choice_lines(choices)
            )


def _is_human(graph: Graph, name: str) -> bool:
    return name in graph.nodes and graph.nodes[name].kind == HUMAN


def _graphs_that_ask(name: str, graph: Graph, children: Mapping[str, Child]) -> Iterator[Graph]:
    """Where a name is that of a human node: the workflow, else its children, else theirs."""
    if _is_human(graph, name):
        yield graph
        return
    for child in children.values():
        yield from _graphs_that_ask(name, child.graph, child.children)


def _human_names(graph: Graph, children: Mapping[str, Child]) -> Iterator[str]:
    """`review`, and `build.review` where the child of `build` has it."""
    yield from (node.id for node in graph.of_kind(HUMAN))
    for node, child in children.items():
        yield from (f"{node}.{name}" for name in _human_names(child.graph, child.children))


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """The human node that was meant, perhaps: by its whole name, else by its own."""
    own = {one.rpartition(".")[2]: one for one in known}
    found = difflib.get_close_matches(name, known, n=1)
    found += difflib.get_close_matches(name.rpartition(".")[2], own, n=1)
    return own.get(found[0], found[0]) if found else None


def own_answers(answers: Answers, graph: Graph) -> dict[str, Sequence[str]]:
    """Those that human nodes of the workflow itself take."""
    return {
        name: said
        for name, said in answers.items()
        if not isinstance(said, Mapping) and _is_human(graph, name)
    }


def child_answers(answers: Answers, graph: Graph, node: str, child: Child) -> Answers:
    """Those for the child workflow that `node` runs; its own table goes before plain names."""
    table = answers.get(node)
    plain = {
        name: said
        for name, said in answers.items()
        if not isinstance(said, Mapping)
        and not _is_human(graph, name)
        and any(_graphs_that_ask(name, child.graph, child.children))
    }
    return {**plain, **table} if isinstance(table, Mapping) else plain


def choice_lines(choices: Sequence[Choice]) -> list[str]:
    return [f"{one.key}  {one.text}{'  (any text)' if one.freeform else ''}" for one in choices]


def find_asked(
    graph: Graph, checkpoint: Checkpoint | None, waiting: Mapping[str, Any] | None
) -> Asked | None:
    """What an answer to the run would be the answer to; None where nobody is asked."""
    if waiting is not None:
        node, visit = str(waiting.get("node")), int(waiting.get("visit") or 1)
        told = waiting.get("deadline")
        deadline = datetime.fromisoformat(str(told).replace("Z", "+00:00")) if told else None
        child = waiting.get("child")
        if child is not None:
            return Asked(
                str(child.get("node")),
                int(child.get("visit") or 1),
                recorded_choices(waiting),
                deadline,
                child=str(child.get("run")),
                manager=node,
            )
        branch = str(waiting.get("branch") or "")
        return Asked(node, visit, offered_choices(graph.outgoing(node)), deadline, branch)
    if checkpoint is None:
        outgoing = graph.outgoing(graph.start.id)
        next_node = outgoing[0].target if len(outgoing) == 1 else None
    else:
        next_node = checkpoint.next_node_id
    if next_node not in graph.nodes or graph.nodes[next_node].kind != HUMAN:
        return None
    visit = checkpoint.node_visits.get(next_node, 0) + 1 if checkpoint else 1
    return Asked(next_node, visit, offered_choices(graph.outgoing(next_node)))


def make_people(
    answering: Answering,
    workflow: Workflow,
    waiting: Mapping[str, Any] | None = None,
    asked: Asked | None = None,
) -> People:
    """Checks the answers that were given beforehand. `asked` is what `--answer` is the answer to.

    Raises `UserError`.
    """
    given = answering.answers or {}
    check_answers(given, workflow.graph, workflow.children)
    own = own_answers(given, workflow.graph)
    ask = answering.ask
    if answering.auto_approve and (own or answering.answer is not None):
        ask = _agree
    if own:
        ask = ask_from(own, ask)
    if answering.answer is not None and asked is not None and asked.child is None:
        ask = _answer_once(asked, answering.answer, ask)
    return People(ask, answering.auto_approve and ask is answering.ask, waiting)


def _agree(question: Question, complaint: str) -> str | Silence:
    return Silence.AGREES


def _answer_once(asked: Asked, answer: str, otherwise: Ask | None) -> Ask:
    def ask(question: Question, complaint: str) -> str | Silence:
        where = (question.node, question.visit, question.branch)
        if where == (asked.node, asked.visit, asked.branch) and not complaint:
            return answer
        return otherwise(question, complaint) if otherwise else Silence.NOBODY

    return ask


def check_answer(answering: Answering, asked: Asked | None, run: str, now: datetime) -> None:
    """Raises `UserError` where the run asks nobody, and where the answer comes late or fits not."""
    if answering.answer is None:
        return
    if asked is None:
        raise UserError(f"run {run} waits for no answer", hint=f"git wf resume {run}")
    if asked.deadline is not None and now >= asked.deadline:
        raise UserError(
            f"the time to answer '{asked.node}' is over", hint=f"git wf resume {run} goes on"
        )
    if fitting_choice(answering.answer, asked.choices) is None:
        raise UserError(
            f"'{answering.answer}' is no answer to '{asked.node}'", hint=choice_lines(asked.choices)
        )


def is_unanswered(answering: Answering, workflow: Workflow, asked: Asked, now: datetime) -> bool:
    """Whether going on would come to wait at once again."""
    if answering.ask or answering.auto_approve or answering.answer is not None:
        return False
    answers = answering.answers or {}
    if asked.manager:
        child = workflow.children[asked.manager]
        answers = child_answers(answers, workflow.graph, asked.manager, child)
    is_over = asked.deadline is not None and now >= asked.deadline
    return _most_given(answers, asked.node) < asked.visit and not is_over


def _most_given(answers: Answers, node: str) -> int:
    """How many answers there are for a node of that name, at most, here or in children."""
    said = answers.get(node, ())
    counts = [0 if isinstance(said, Mapping) else len(said)]
    counts += [_most_given(one, node) for one in answers.values() if isinstance(one, Mapping)]
    return max(counts)
