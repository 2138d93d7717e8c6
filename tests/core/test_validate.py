"""What validation finds, rule by rule."""

import re
import time
from collections.abc import Collection

import pytest

from git_wf.core.dot import parse, resolve_files
from git_wf.core.graph import KINDS, Diagnostic, Graph, Node
from git_wf.core.sections import find_join
from git_wf.core.validate import FIDELITIES, RULES, check, unsupported
from tests.tree import ROOT

ENDS = "start [shape=Mdiamond] exit [shape=Msquare]"


def read(body: str) -> Graph:
    return parse(f"digraph {{ {ENDS}\n{body} }}", "w.dot")


def findings(
    body: str, inputs: Collection[str] | None = None, kinds: Collection[str] = ()
) -> list[Diagnostic]:
    return check(read(body), inputs, kinds)


def error(rule: str, message: str, column: int | None, **fields: str) -> Diagnostic:
    return _found(rule, "error", message, column, **fields)


def warning(rule: str, message: str, column: int | None, **fields: str) -> Diagnostic:
    return _found(rule, "warning", message, column, **fields)


def _found(rule: str, severity: str, message: str, column: int | None, **fields: str) -> Diagnostic:
    line = None if column is None else 2
    return Diagnostic(rule, severity, message, line, column, **fields)


GOOD = "a [script=true] start -> a -> exit"


def test_nothing_is_wrong_with_a_good_workflow() -> None:
    assert findings(GOOD) == []


def test_rules_are_named_as_the_language_has_them() -> None:
    named = " ".join(rule.__name__ for rule in RULES)
    assert named == (
        "start_node terminal_node start_no_incoming exit_no_outgoing edge_target_exists "
        "condition_syntax stylesheet_syntax undefined_variable freeform_edge_count "
        "random_selection_no_conditions duplicate_accelerator attribute_value "
        "missing_attribute fan_out_join reachability all_conditional_edges dead_end "
        "goal_gate_has_retry retry_target_exists "
        "fidelity_valid thread_id_requires_fidelity_full type_known prompt_on_llm_nodes "
        "reserved_node_id unknown_attribute"
    )


# The ends.


def test_no_start_and_no_exit() -> None:
    assert check(parse("digraph { a [script=true] b [script=true] a -> b }", "w.dot")) == [
        error(
            "start_node", "no start node: 0 found, a workflow has exactly one", None,
            fix="declare start [shape=Mdiamond]",
        ),
        error(
            "terminal_node", "no exit node: 0 found, a workflow has exactly one", None,
            fix="declare exit [shape=Msquare]",
        ),
        Diagnostic(
            "dead_end", "warning", "no edge leads on from 'b'", 1, 27, "b", None,
            "lead it to the exit",
        ),
    ]  # fmt: skip


def test_two_starts_and_three_exits() -> None:
    found = findings("s [shape=Mdiamond] e [type=exit] end start -> exit s -> e start -> end")
    assert found == [
        error(
            "start_node",
            "more than one start node: 2 found ('start', 's'), a workflow has exactly one",
            1, node="s",
        ),
        error(
            "terminal_node",
            "more than one exit node: 3 found ('exit', 'e', 'end'), a workflow has exactly one",
            20, node="e",
        ),
    ]  # fmt: skip


def test_edges_into_the_start_and_out_of_the_exit() -> None:
    found = findings("a [script=true] start -> a -> exit a -> start exit -> a")
    assert found == [
        error(
            "start_no_incoming", "edge into the start node: 'a' -> 'start'", 41,
            edge="a->start", fix="lead it to the node after 'start'",
        ),
        error(
            "exit_no_outgoing", "edge out of the exit node: 'exit' -> 'a'", 47, edge="exit->a"
        ),
    ]  # fmt: skip


# Edges.


def test_ids_that_are_not_declared() -> None:
    rule = "edge_target_exists"
    assert findings("start -> exti b -> exit start -> exit") == [
        error(
            rule, "node is not declared: 'exti', the nearest id is 'exit'", 10,
            edge="start->exti", fix="write exit, or declare exti",
        ),
        error(rule, "node is not declared: 'b'", 15, edge="b->exit", fix="declare b"),
    ]  # fmt: skip


def test_conditions_that_cannot_be_read() -> None:
    body = r"""a [script=true] start -> a a -> exit [condition="x=\"y\" &&  = "] a -> exit
    [condition="a matches '('"] a -> exit"""
    assert findings(body) == [
        error(
            "condition_syntax", "bad condition: found '=', expected a key", 62, edge="a->exit"
        ),
        Diagnostic(
            "condition_syntax", "error",
            "bad condition: bad regular expression: missing ), unterminated subpattern",
            3, 27, None, "a->exit",
        ),
    ]  # fmt: skip


def test_every_edge_has_a_condition() -> None:
    body = 'a [script=true] start -> a a -> exit [condition="outcome=success"]'
    assert findings(body) == [
        warning(
            "all_conditional_edges",
            "every edge from 'a' has a condition: if none holds, the run fails", 1,
            node="a", fix="add an edge without a condition",
        )
    ]  # fmt: skip


def test_conditions_where_edges_are_drawn() -> None:
    body = 'a [script=true, selection=random] start -> a -> exit a -> exit [condition="x"]'
    assert findings(body) == [
        error(
            "random_selection_no_conditions",
            "condition on an edge from 'a', which selects at random", 75, edge="a->exit",
        )
    ]  # fmt: skip


# Reaching nodes.


def test_nodes_that_are_not_reached() -> None:
    told = warning("reachability", "no way leads from the start to 'lost'", 17, node="lost")
    assert findings("a [script=true] lost [script=true] start -> a -> exit") == [told]


def test_retry_targets_reach_nodes() -> None:
    body = """a [script=true, retry_target=b] b [script=true, fallback_retry_target=c]
    c [script=true] d [script=true] retry_target=d start -> a -> exit b -> a c -> a d -> a"""
    assert findings(body) == []
    body = "a [script=true] b [script=true, retry_target=exit] start -> a -> exit a -> b -> b"
    assert findings(body) == []


def test_ways_that_end() -> None:
    body = "a [script=true] b [script=true] c [script=true] start -> exit start -> a -> b -> a"
    lost = warning("reachability", "no way leads from the start to 'c'", 33, node="c")
    assert findings(f"{body} start -> d [weight=1]") == [
        warning("dead_end", "no way leads from 'a' to the exit", 1, node="a"),
        warning("dead_end", "no way leads from 'b' to the exit", 17, node="b"),
        lost,
        error(
            "edge_target_exists", "node is not declared: 'd'", 93, edge="start->d", fix="declare d"
        ),
    ]
    assert findings("a [script=true] start -> exit start -> a") == [
        warning("dead_end", "no edge leads on from 'a'", 1, node="a", fix="lead it to the exit")
    ]


def test_goal_gates_without_a_way_back() -> None:
    gate = "a [script=true, goal_gate=true{}] start -> a -> exit"
    assert findings(gate.format("")) == [
        warning(
            "goal_gate_has_retry",
            "goal gate 'a' has no retry target: if it is missed, the run fails", 1,
            node="a", fix="set retry_target on the node or on the graph",
        )
    ]  # fmt: skip
    assert findings(gate.format(", fallback_retry_target=a")) == []
    assert findings("retry_target=a " + gate.format("")) == []


def test_retry_targets_that_are_no_nodes() -> None:
    body = "a [script=true, retry_target=b] fallback_retry_target=exti start -> a -> exit"
    assert findings(body) == [
        warning("retry_target_exists", "'retry_target' names no node: 'b'", 30, node="a"),
        warning(
            "retry_target_exists", "'fallback_retry_target' names no node: 'exti'", 55,
            fix="write exit",
        ),
    ]  # fmt: skip


# Fidelity and threads.


def test_fidelities() -> None:
    told = "known are full, compact, summary:high, summary:medium, summary:low, truncate"
    body = "default_fidelity=x a [script=true, fidelity=y] start -> a -> exit [fidelity=z]"
    assert findings(body) == [
        warning("fidelity_valid", f"unknown fidelity: 'x', {told}", 18),
        warning("fidelity_valid", f"unknown fidelity: 'y', {told}", 45, node="a"),
        warning("fidelity_valid", f"unknown fidelity: 'z', {told}", 77, edge="start->a"),
        warning("fidelity_valid", f"unknown fidelity: 'z', {told}", 77, edge="a->exit"),
    ]
    for fidelity in FIDELITIES:
        assert findings(f"default_fidelity={fidelity} {GOOD}") == []


THREAD = "a [prompt=p, thread_id=t{}] start -> a{} -> exit"


@pytest.mark.parametrize(
    "body",
    [
        THREAD.format(", fidelity=full", ""),
        THREAD.format("", "") + " default_fidelity=full",
        "a [prompt=p, thread_id=t] start -> a [fidelity=full] a -> exit",
        "a [prompt=p, fidelity=full] start -> a [thread_id=t] a -> exit",
        "a [prompt=p] start -> a [thread_id=t, fidelity=full] a -> exit",
    ],
)
def test_threads_with_fidelity_full(body: str) -> None:
    assert findings(body) == []


def test_threads_without_fidelity_full() -> None:
    rule, fix = "thread_id_requires_fidelity_full", 'set fidelity="full"'
    told = "'thread_id' without fidelity 'full': 't' has no effect"
    assert findings(THREAD.format("", "")) == [warning(rule, told, 24, node="a", fix=fix)]
    body = "a [prompt=p] start -> a [thread_id=t] a -> exit start -> b [thread_id=t]"
    assert [one for one in findings(body) if one.rule == rule] == [
        warning(rule, told, 36, edge="start->a", fix=fix),
        warning(rule, told, 71, edge="start->b", fix=fix),
    ]


# Nodes.


def test_types() -> None:
    body = "a [type=comand, label=x] b [type=frobnicate, label=x] start -> a -> b -> exit"
    told = "unknown type: '{}', the node runs as an agent"
    assert findings(body) == [
        warning("type_known", told.format("comand"), 9, node="a", fix="write command"),
        warning("type_known", told.format("frobnicate"), 34, node="b"),
    ]
    assert findings("a [type=frobnicate] start -> a -> exit", kinds=["frobnicate"]) == []


def test_prompts() -> None:
    nodes = "a b [shape=tab] c [type=other] d [label=x] e [prompt=p] f [shape=diamond]"
    body = f"{nodes} start -> a -> b -> c -> d -> e -> f -> exit"
    rule, told = "prompt_on_llm_nodes", "node '{}' has neither a prompt nor a label"
    assert [one for one in findings(body) if one.rule == rule] == [
        warning(rule, told.format("a"), 1, node="a", fix='set prompt="…"'),
        warning(rule, told.format("b"), 3, node="b", fix='set prompt="…"'),
        warning(rule, told.format("c"), 17, node="c", fix='set prompt="…"'),
    ]


def test_ids_that_are_words_of_the_language() -> None:
    told = "node id is a word of the language: '{}'"
    body = '"node" [script=true] Edge [script=true] start -> node -> Edge -> exit'
    assert findings(body) == [
        warning("reserved_node_id", told.format("node"), 1, node="node", fix="write node_1"),
        warning("reserved_node_id", told.format("Edge"), 22, node="Edge", fix="write Edge_1"),
    ]


def test_one_freeform_edge_is_enough() -> None:
    body = "h [shape=hexagon] start -> h h -> exit [freeform=true, label=x]"
    assert findings(body) == []
    assert findings(f"{body} h -> exit [freeform=true]") == [
        error(
            "freeform_edge_count", "more than one freeform edge from 'h': 2 found", 85,
            edge="h->exit",
        )
    ]  # fmt: skip


def test_choices_with_the_same_key() -> None:
    body = 'h [shape=hexagon] start -> h h -> exit [label="[A] Yes"] h -> exit [label=Also]'
    fix = 'give them keys: label="[K] …"'
    assert findings(body) == [
        error(
            "duplicate_accelerator", "two choices of 'h' have the key 'A': '[A] Yes' and 'Also'",
            75, edge="h->exit", fix=fix,
        )
    ]  # fmt: skip
    assert findings("h [shape=hexagon] start -> h h -> exit h -> exit") == [
        error(
            "duplicate_accelerator", "two choices of 'h' have the key 'E': 'exit' and 'exit'", 40,
            edge="h->exit", fix=fix,
        )
    ]  # fmt: skip
    free = 'h -> exit [label=Yes] h -> exit [label=You, freeform=true] h -> exit [label="…"]'
    assert findings(f'h [shape=hexagon] start -> h {free} h -> exit [label="!"]') == []


# Texts in attributes.


def test_stylesheets_that_cannot_be_read() -> None:
    body = f'model_stylesheet="* {{\n model a; }}" {GOOD}'
    told = "bad stylesheet: found 'a', expected ':'"
    assert findings(body) == [Diagnostic("stylesheet_syntax", "error", told, 3, 8)]


NAMES = 'a [script="{}"] start -> a -> exit'


@pytest.mark.parametrize(
    "text",
    [
        "{{ goal }}", "{{ inputs.repo }}", "{{ inputs.repo | sh }}", "{{ env.X }}", "{{ run.id }}",
        "{{ context.x.y }}", "{{ graph.goal }}", "{{ graph.label }}", "{{ foo }}", "{{.State}}",
        "${{ inputs.nope }}", "{{ matrix.os }}",
    ],
)  # fmt: skip
def test_names_that_are_known_or_not_ours(text: str) -> None:
    assert findings("label=L " + NAMES.format(text), ["repo"]) == []


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("{{ inputs.nope }}", "undefined name: 'inputs.nope'", None),
        ("{{ inputs.rep }}", "undefined name: 'inputs.rep'", "write {{ inputs.repo }}"),
        ("{{ goal.x }}", "undefined name: 'goal.x'", None),
        ("{{ inputs }}", "undefined name: 'inputs'", "write {{ inputs.repo }}"),
        ("{{ env }}", "undefined name: 'env'", None),
        ("{{ run.nope }}", "undefined name: 'run.nope'", None),
        ("{{ run.workdir }}", "undefined name: 'run.workdir'", "write {{ run.work_dir }}"),
        ("{{ context }}", "undefined name: 'context'", None),
        ("{{ graph.labl }}", "undefined name: 'graph.labl'", "write {{ graph.label }}"),
    ],
)
def test_names_that_stand_for_nothing(text: str, message: str, fix: str | None) -> None:
    (found,) = findings("label=L " + NAMES.format(f"\\n{text} {text}"), ["repo"])
    want = Diagnostic("undefined_variable", "error", message, 2, 22, "a", fix=found.fix)
    assert found == want
    assert found.fix == (fix if text != "{{ inputs }}" else None)


def test_names_that_look_like_ours() -> None:
    assert findings(NAMES.format("{{ input.repo }}")) == [
        warning(
            "undefined_variable",
            "'{{ input.repo }}' is not replaced: 'input' is no name that is known", 12,
            node="a", fix="write {{ inputs.repo }}",
        )
    ]  # fmt: skip


def test_inputs_that_are_not_known_are_not_judged() -> None:
    assert findings(NAMES.format("{{ inputs.nope }}")) == []


def test_a_goal_cannot_name_itself() -> None:
    assert findings(f'goal="x {{{{ goal }}}} {{{{ env.X }}}}" {GOOD}') == [
        error("undefined_variable", "undefined name: 'goal'", 9)
    ]


def test_names_in_a_file() -> None:
    graph = read('a [prompt="@p.md"] start -> a -> exit')
    loaded, _ = resolve_files(graph, {"p.md": "one\n{{ inputs.x }}"}.get)
    assert check(loaded, []) == [
        error("undefined_variable", "undefined name: 'inputs.x', in 'p.md', line 2", 11, node="a")
    ]


def test_of_many_undefined_names_some_are_told() -> None:
    text = " ".join(f"{{{{ inputs.x{n} }}}}" for n in range(100))
    assert len(findings(NAMES.format(text), [])) == 20


# Attributes.


def test_attributes_that_look_like_slips() -> None:
    rule = "unknown_attribute"
    body = """gaol=x defautl_fidelity=full color=red a [script=true, maxRetries=2, "max-visits"=3,
    mode=x, promt=p, fontnme=x, acp.command=c] start -> a -> exit [lable=x, wieght=1]"""
    told = "unknown attribute: '{}', did you mean '{}'"

    def slip(key: str, known: str, line: int, column: int, **at: str) -> Diagnostic:
        message, fix = told.format(key, known), f"write {known}"
        return Diagnostic(rule, "warning", message, line, column, fix=fix, **at)

    assert findings(body) == [
        slip("defautl_fidelity", "default_fidelity", 2, 8),
        slip("maxRetries", "max_retries", 2, 56, node="a"),
        slip("max-visits", "max_visits", 2, 70, node="a"),
        slip("promt", "prompt", 3, 13, node="a"),
        slip("lable", "label", 3, 68, edge="start->a"),
        slip("lable", "label", 3, 68, edge="a->exit"),
        slip("wieght", "weight", 3, 77, edge="start->a"),
        slip("wieght", "weight", 3, 77, edge="a->exit"),
    ]


@pytest.mark.parametrize(
    ("attribute", "message", "fix"),
    [
        ("max_visits=many", "'max_visits' is not a whole number: 'many'",
         "write 1 or more, or leave max_visits out"),
        ("max_retries=1.5", "'max_retries' is not a whole number: '1.5'",
         "write 0 or more, or leave max_retries out"),
        ("goal_gate=yes", "'goal_gate' is not true or false: 'yes'", "write goal_gate=true"),
        ("timeout=soon", "'timeout' is not a duration such as 30s or 15m: 'soon'",
         "write timeout=30s"),
        ("timeout=-5", "'timeout' is not a duration such as 30s or 15m: '-5'", "write timeout=30s"),
        ('duration="-5s"', "'duration' is not a duration such as 30s or 15m: '-5s'",
         "write duration=30s"),
        ("timeout=99999d", "'timeout' is not a duration such as 30s or 15m: '99999d'",
         "write timeout=30s"),
        ("weight=heavy", "'weight' is not a number: 'heavy'", "write weight=1"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_read(attribute: str, message: str, fix: str) -> None:
    assert findings(f"a [script=true, {attribute}] start -> a -> exit") == [
        error("attribute_value", message, 18 + attribute.index("="), node="a", fix=fix)
    ]


COUNTS = {
    "max_visits": 1, "max_node_visits": 1, "max_retries": 0, "default_max_retries": 0,
    "max_parallel": 1, "max_tokens": 1, "manager.max_cycles": 1,
    "loop_restart_signature_limit": 1,
}  # fmt: skip


def test_the_documented_limits() -> None:
    table = (ROOT / "docs" / "limits.md").read_text()
    rows = re.findall(r"^\| `([a-z_.]+)` \| [^|]+ \| (\d+) \|", table, re.MULTILINE)
    assert {**{key: int(least) for key, least in rows}, "max_tokens": 1} == COUNTS


@pytest.mark.parametrize(("key", "least"), COUNTS.items())
def test_counts_that_allow_nothing(key: str, least: int) -> None:
    body = "a [script=true, {}={}] start -> a -> exit"
    assert findings(body.format(key, least)) == []
    for less in (least - 1, -7, f'"{least - 1}"'):
        told = str(less).strip('"')
        assert findings(body.format(key, less)) == [
            error(
                "attribute_value", f"'{key}' is less than {least}: '{told}'", 18 + len(key),
                node="a", fix=f"write {least} or more, or leave {key} out",
            )
        ]  # fmt: skip


@pytest.mark.parametrize(
    "attribute",
    ["max_retries=0", 'max_visits="3"', 'timeout=""', 'timeout="15m"', "timeout=900", "merge=best",
     'auto_status="False"', "weight=1.5", "join_policy=wait_all"],
)  # fmt: skip
def test_values_that_can_be_read(attribute: str) -> None:
    assert findings(f"a [script=true, {attribute}] start -> a -> exit") == []


def test_values_that_are_none_of_the_choices() -> None:
    found = findings("on_failure=rout a [script=true] start -> a -> exit [loop_restart=1]")
    told = "unknown value of 'on_failure': 'rout', known are exit, route, succeed"
    bad = "'loop_restart' is not true or false: '1'"
    assert found == [
        error("attribute_value", told, 12),
        error("attribute_value", bad, 66, edge="start->a", fix="write loop_restart=true"),
        error("attribute_value", bad, 66, edge="a->exit", fix="write loop_restart=true"),
    ]


@pytest.mark.parametrize(
    ("node", "key", "known"),
    [
        ("script=true, language=perl", "language", "shell, python"),
        ("shape=component, join_policy=quorum", "join_policy", "wait_all, first_success"),
        ("shape=tripleoctagon, merge=some", "merge", "all, best, none"),
        (
            "script=true, retry_policy=often", "retry_policy",
            "none, standard, aggressive, linear, patient",
        ),
        ("script=true, on_failure=rout", "on_failure", "exit, route, succeed"),
        ("script=true, selection=some", "selection", "deterministic, random"),
    ],
)  # fmt: skip
def test_words_that_no_run_could_follow(node: str, key: str, known: str) -> None:
    word = node.rpartition("=")[2]
    told = f"unknown value of '{key}': '{word}', known are {known}"
    column = len("a [") + node.rindex("=") + 2
    assert findings(f"a [{node}] start -> a -> exit") == [
        error("attribute_value", told, column, node="a")
    ]


def test_such_words_elsewhere() -> None:
    """Another kind of node may mean something else by them."""
    found = findings("a [type=mine, language=perl] start -> a -> exit", kinds=["mine"])
    told = "unknown value of 'language': 'perl', known are shell, python"
    assert found == [warning("attribute_value", told, 24, node="a")]


def test_an_older_word() -> None:
    body = "f [shape=component, join_policy=all_success] a [script=true] start -> f -> a -> exit"
    told = "'join_policy=all_success' is read as 'wait_all'"
    assert findings(body) == [warning("attribute_value", told, 33, node="f")]


def test_what_a_node_cannot_do_without() -> None:
    found = findings(
        'w [shape=insulator] c [shape=parallelogram, script=" "] start -> w -> c -> exit'
    )
    rule = "missing_attribute"
    assert found == [
        error(
            rule, "node 'w' has no duration: it fails when it is visited", 1,
            node="w", fix="add duration=30s",
        ),
        warning(
            rule, "node 'c' has no script: it fails when it is visited", 21,
            node="c", fix='add script="make test"',
        ),
    ]  # fmt: skip


def test_a_graph_that_was_not_read_from_a_file() -> None:
    graph = Graph(nodes={"a": Node("a", attrs={"promt": "x", "script": "{{ goal.x }}"})})
    assert [(one.rule, one.line) for one in check(graph)] == [
        ("start_node", None),
        ("terminal_node", None),
        ("undefined_variable", None),
        ("dead_end", None),
        ("unknown_attribute", None),
    ]


# Parallel sections.

FAN_OUT = "f [shape=component] a [script=true] b [script=true] start -> f f -> a f -> b a -> exit "


def test_branches_that_never_meet() -> None:
    found = [one for one in findings(FAN_OUT) if one.rule == "fan_out_join"]
    message = "the branches of fan-out 'f' never meet"
    fix = "lead all of them to one join [shape=tripleoctagon]"
    assert found == [error("fan_out_join", message, 1, node="f", fix=fix)]


@pytest.mark.parametrize(
    ("more", "meet"),
    [
        ("b -> exit", True),
        ("b -> a", True),
        ("a -> b", True),
        ("b -> b", False),
        ("b -> f", False),  # only by way of the fan-out itself
        ("c [script=true] a -> c b -> c c -> c", True),
    ],
)
def test_branches_that_meet(more: str, meet: bool) -> None:
    found = [one.rule for one in findings(FAN_OUT + more)]
    assert ("fan_out_join" not in found) == meet
    assert (find_join(read(FAN_OUT + more), "f") is not None) == meet


def test_a_fan_out_without_branches() -> None:
    found = findings("f [shape=component] start -> exit start -> f")
    assert [(one.rule, one.message) for one in found if one.severity == "error"] == [
        ("fan_out_join", "no edge leads out of fan-out 'f': it has no branches")
    ]


# Kinds.


def test_kinds_that_are_not_supported_yet() -> None:
    graph = read("a [shape=house] b [type=other] c [script=true]")
    assert unsupported(graph, KINDS) == []
    assert unsupported(graph, KINDS - {"manager_loop", "agent"}) == [
        error(
            "kind_supported", "node 'a': the kind 'manager_loop' is not supported yet", 1, node="a"
        )
    ]


# Time.


def test_the_time_is_linear() -> None:
    def cost(size: int) -> float:
        nodes = "".join(
            f'n{n} [promt{n}=1, retry_target=x{n}, type=t{n}, prompt="{{{{ inputs.i{n} }}}}"]\n'
            f'n{n} -> m{n} [condition="a="] n{n} -> n{n + 1}\n'
            for n in range(size)
        )
        graph = read(nodes)
        best = []
        for _ in range(2):
            began = time.process_time()
            assert len(check(graph, ["i"])) > 4 * size
            best.append(time.process_time() - began)
        return min(best)

    assert cost(1000) <= 3 * cost(500) + 0.1
