"""What is wrong in a workflow, or looks wrong (language.md, section 9).

An error stops a run, a warning does not. `syntax` and `unresolved_file_ref` are found while a file
is read (dot.py); every other rule is a function here, named as the rule.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from git_wf.core import conditions, stylesheet, templates
from git_wf.core.graph import KINDS, TYPE_KINDS, Diagnostic, Edge, Graph, Node, Place
from git_wf.core.retry import POLICIES
from git_wf.core.routing import accelerator, retry_step
from git_wf.core.sections import JOIN_POLICIES, OLDER_POLICIES, PARALLEL, do_branches_meet
from git_wf.core.values import text_of

ERROR, WARNING = "error", "warning"
FIDELITIES = ("full", "compact", "summary:high", "summary:medium", "summary:low", "truncate")
RESERVED_IDS = ("node", "edge", "graph")

# The least that a count can say. N visits are allowed: with none, nothing could run.
_COUNTS = {
    "max_visits": 1, "max_node_visits": 1, "max_retries": 0, "default_max_retries": 0,
    "max_parallel": 1, "max_tokens": 1, "manager.max_cycles": 1,
    "loop_restart_signature_limit": 1,
}  # fmt: skip
_FLAGS = ("goal_gate", "auto_status", "allow_partial", "loop_restart", "freeform")
_DURATIONS = ("timeout", "duration", "stall_timeout", "manager.poll_interval")
_CHOICES = {
    "on_failure": ("exit", "route", "succeed"),
    "selection": ("deterministic", "random"),
    "language": ("shell", "python"),
    "retry_policy": tuple(POLICIES),
    "join_policy": JOIN_POLICIES,
    "merge": ("all", "best", "none"),
}
# Of what kind of node something is an attribute; another kind may mean something else by it.
_MEANT_BY = {"language": "command", "join_policy": PARALLEL, "merge": "fan_in"}
# What a node cannot do without, and what it could look like. Files of other systems have commands
# without a script: a walk need not come by them.
_NEEDED = {
    "wait": (ERROR, "duration", "duration=30s"),
    "command": (WARNING, "script", 'script="make test"'),
}
_GRAPH_KEYS = (
    "goal", "label", "model_stylesheet", "default_max_retries", "default_max_retry",
    "retry_target", "fallback_retry_target", "default_fidelity", "default_thread",
    "max_node_visits", "stall_timeout", "loop_restart_signature_limit", "rankdir", "on_failure",
)  # fmt: skip
_NODE_KEYS = (
    "label", "shape", "type", "class", "prompt", "script", "tool_command", "language", "timeout",
    "max_visits", "max_retries", "retry_policy", "retry_target", "fallback_retry_target",
    "goal_gate", "auto_status", "allow_partial", "on_failure", "selection", "fidelity",
    "thread_id", "model", "llm_model", "provider", "llm_provider", "backend", "reasoning_effort",
    "max_tokens", "duration", "join_policy", "max_parallel", "merge", "human.default_choice",
    "stack.child_workflow", "stack.child_dotfile", "stack.child_dot_source",
    "manager.poll_interval", "manager.max_cycles", "manager.stop_condition",
)  # fmt: skip
_EDGE_KEYS = (
    "label", "condition", "weight", "fidelity", "thread_id", "loop_restart", "freeform",
)  # fmt: skip
# Of Graphviz, and only for pictures: never slips of ours.
_DRAWING_KEYS = frozenset((
    "arrowhead", "arrowsize", "arrowtail", "bgcolor", "color", "colorscheme", "comment",
    "compound", "constraint", "decorate", "dir", "distortion", "fillcolor", "fixedsize",
    "fontcolor", "fontname", "fontsize", "group", "headlabel", "headport", "height", "href",
    "image", "labelangle", "labelfontcolor", "labelfontsize", "labeljust", "labelloc", "layout",
    "lhead", "ltail", "margin", "minlen", "nodesep", "ordering", "orientation", "overlap", "pad",
    "pencolor", "penwidth", "peripheries", "pos", "rank", "ranksep", "ratio", "regular", "rotate",
    "sides", "size", "skew", "splines", "style", "taillabel", "tailport", "target", "tooltip",
    "URL", "width", "xlabel",
))  # fmt: skip
_KNOWN_KEYS = _DRAWING_KEYS | {*_GRAPH_KEYS, *_NODE_KEYS, *_EDGE_KEYS}
_SLIP_LENGTH = 5  # shorter words resemble each other by chance
_SLIP_RATIO = 0.8
_LIKE_RATIO = 0.6
_NAMES_LIMIT = 20  # faulty names that are told of one text: each costs a pass over it
_FAN_OUTS_LIMIT = 50  # whose branches are followed: each costs a pass over all edges
_NEAREST_LIMIT = 50  # ids whose nearest neighbour is looked for: each costs a pass over all


@dataclass
class _Findings:
    """The graph under check, what is known beside it, and what was found."""

    graph: Graph
    inputs: Collection[str] | None
    kinds: Collection[str]
    found: list[Diagnostic] = field(default_factory=list)
    _nearest_ids: dict[str, str | None] = field(default_factory=dict)

    def nearest_id(self, id_: str) -> str | None:
        """The declared id that looks most like this one, for the first few that are asked for."""
        known = self._nearest_ids
        if id_ not in known and len(known) < _NEAREST_LIMIT:
            found = difflib.get_close_matches(id_, self.graph.nodes, n=1, cutoff=_LIKE_RATIO)
            known[id_] = found[0] if found else None
        return known.get(id_)

    def add(
        self,
        rule: str,
        severity: str,
        message: str,
        at: Node | Edge | None = None,
        place: Place | None = None,
        fix: str | None = None,
    ) -> None:
        where = place or (at.place if at else None)
        line, column = where or (None, None)
        node = at.id if isinstance(at, Node) else None
        edge = at.name if isinstance(at, Edge) else None
        self.found.append(Diagnostic(rule, severity, message, line, column, node, edge, fix))


def check(
    graph: Graph, inputs: Collection[str] | None = None, kinds: Collection[str] = ()
) -> list[Diagnostic]:
    """Everything that is wrong in a graph, in the order of the file.

    `inputs` are the names of the inputs that a run would have; None where they are not known.
    `kinds` are those of installed handlers, beside ours.
    """
    findings = _Findings(graph, inputs, kinds)
    for rule in RULES:
        rule(findings)
    unique = dict.fromkeys(findings.found)
    return sorted(unique, key=lambda one: (one.line or 0, one.column or 0))


def unsupported(graph: Graph, kinds: Collection[str]) -> list[Diagnostic]:
    """The nodes of a kind of the language that is not among `kinds`."""
    findings = _Findings(graph, None, kinds)
    for node in graph.nodes.values():
        if node.kind in KINDS and node.kind not in kinds:
            message = f"node '{node.id}': the kind '{node.kind}' is not supported yet"
            findings.add("kind_supported", ERROR, message, node)
    return findings.found


# The ends of a workflow.


def start_node(findings: _Findings) -> None:
    starts = findings.graph.of_kind("start")
    _exactly_one(findings, "start_node", "start node", "start [shape=Mdiamond]", starts)


def terminal_node(findings: _Findings) -> None:
    exits = findings.graph.of_kind("exit")
    _exactly_one(findings, "terminal_node", "exit node", "exit [shape=Msquare]", exits)


def _exactly_one(
    findings: _Findings, rule: str, word: str, example: str, nodes: list[Node]
) -> None:
    if not nodes:
        message = f"no {word}: 0 found, a workflow has exactly one"
        findings.add(rule, ERROR, message, fix=f"declare {example}")
    elif len(nodes) > 1:
        named = ", ".join(f"'{node.id}'" for node in nodes)
        message = f"more than one {word}: {len(nodes)} found ({named}), a workflow has exactly one"
        findings.add(rule, ERROR, message, nodes[1])


def start_no_incoming(findings: _Findings) -> None:
    for node in findings.graph.of_kind("start"):
        for edge in findings.graph.incoming(node.id):
            message = f"edge into the start node: '{edge.source}' -> '{node.id}'"
            fix = f"lead it to the node after '{node.id}'"
            findings.add("start_no_incoming", ERROR, message, edge, edge.target_place, fix)


def exit_no_outgoing(findings: _Findings) -> None:
    for node in findings.graph.of_kind("exit"):
        for edge in findings.graph.outgoing(node.id):
            message = f"edge out of the exit node: '{node.id}' -> '{edge.target}'"
            findings.add("exit_no_outgoing", ERROR, message, edge)


# Edges.


def edge_target_exists(findings: _Findings) -> None:
    undeclared = findings.graph.undeclared
    for edge in findings.graph.edges:
        for id_, place in ((edge.source, edge.place), (edge.target, edge.target_place)):
            if id_ in undeclared:
                close = findings.nearest_id(id_)
                message = f"node is not declared: '{id_}'"
                message += f", the nearest id is '{close}'" if close else ""
                fix = f"write {close}, or declare {id_}" if close else f"declare {id_}"
                findings.add("edge_target_exists", ERROR, message, edge, place, fix)


def condition_syntax(findings: _Findings) -> None:
    for edge in findings.graph.edges:
        if edge.condition:
            _condition(findings, edge, "condition")
    for node in findings.graph.nodes.values():
        if node.text("manager.stop_condition").strip():
            _condition(findings, node, "manager.stop_condition")


def _condition(findings: _Findings, owner: Node | Edge, key: str) -> None:
    try:
        conditions.parse(owner.text(key))
    except conditions.ConditionError as err:
        place = findings.graph.place_in(owner.attr_places.get(key), err.offset)
        message = f"bad condition: {err.message}"
        findings.add("condition_syntax", ERROR, message, owner, place)


def all_conditional_edges(findings: _Findings) -> None:
    for node in findings.graph.nodes.values():
        edges = findings.graph.outgoing(node.id)
        if edges and all(edge.condition for edge in edges):
            message = f"every edge from '{node.id}' has a condition: if none holds, the run fails"
            fix = "add an edge without a condition"
            findings.add("all_conditional_edges", WARNING, message, node, fix=fix)


def random_selection_no_conditions(findings: _Findings) -> None:
    for node in findings.graph.nodes.values():
        if node.text("selection") != "random":
            continue
        for edge in findings.graph.outgoing(node.id):
            if edge.condition:
                message = f"condition on an edge from '{node.id}', which selects at random"
                place = edge.attr_places.get("condition")
                findings.add("random_selection_no_conditions", ERROR, message, edge, place)


# Parallel sections.


def fan_out_join(findings: _Findings) -> None:
    graph = findings.graph
    for node in graph.of_kind(PARALLEL)[:_FAN_OUTS_LIMIT]:
        if not graph.outgoing(node.id):
            message = f"no edge leads out of fan-out '{node.id}': it has no branches"
            findings.add("fan_out_join", ERROR, message, node)
        elif not do_branches_meet(graph, node.id):
            message = f"the branches of fan-out '{node.id}' never meet"
            fix = "lead all of them to one join [shape=tripleoctagon]"
            findings.add("fan_out_join", ERROR, message, node, fix=fix)


# Reaching nodes.


def reachability(findings: _Findings) -> None:
    reached = _reached(findings.graph)
    for node in findings.graph.nodes.values():
        if reached is not None and node.id not in reached:
            message = f"no way leads from the start to '{node.id}'"
            findings.add("reachability", WARNING, message, node)


def dead_end(findings: _Findings) -> None:
    graph = findings.graph
    reached, leading = _reached(graph), _leading_to_exit(graph)
    for node in graph.nodes.values():
        if node.kind == "exit" or (reached is not None and node.id not in reached):
            continue
        if not graph.outgoing(node.id):
            message = f"no edge leads on from '{node.id}'"
            findings.add("dead_end", WARNING, message, node, fix="lead it to the exit")
        elif leading and node.id not in leading:
            message = f"no way leads from '{node.id}' to the exit"
            findings.add("dead_end", WARNING, message, node)


def _reached(graph: Graph) -> set[str] | None:
    """The nodes that a run can come to; None where it is not clear where it starts."""
    starts = graph.of_kind("start")
    if len(starts) != 1:
        return None
    ahead = {id_: [edge.target for edge in graph.outgoing(id_)] for id_ in graph.nodes}
    for node in graph.nodes.values():
        ahead[node.id] += _retry_targets(node)
    return _spread([starts[0].id, *_retry_targets(graph)], ahead)


def _leading_to_exit(graph: Graph) -> set[str]:
    """The nodes from which a run can come to an exit; empty where there is none."""
    behind = {id_: [edge.source for edge in graph.incoming(id_)] for id_ in graph.nodes}
    for node in graph.nodes.values():
        for target in _retry_targets(node):
            behind.get(target, []).append(node.id)
    return _spread([node.id for node in graph.of_kind("exit")], behind)


def _spread(waiting: list[str], onward: Mapping[str, Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    while waiting:
        id_ = waiting.pop()
        if id_ in onward and id_ not in reached:
            reached.add(id_)
            waiting += onward[id_]
    return reached


def _retry_targets(owner: Graph | Node) -> list[str]:
    keys = ("retry_target", "fallback_retry_target")
    return [target for target in map(owner.text, keys) if target]


def goal_gate_has_retry(findings: _Findings) -> None:
    for node in findings.graph.nodes.values():
        if node.flag("goal_gate") and retry_step(findings.graph, node) is None:
            message = f"goal gate '{node.id}' has no retry target: if it is missed, the run fails"
            fix = "set retry_target on the node or on the graph"
            findings.add("goal_gate_has_retry", WARNING, message, node, fix=fix)


def retry_target_exists(findings: _Findings) -> None:
    graph = findings.graph
    for owner in (graph, *graph.nodes.values()):
        for key in ("retry_target", "fallback_retry_target"):
            target = owner.text(key)
            if not target or target in graph.nodes:
                continue
            close = findings.nearest_id(target)
            message = f"'{key}' names no node: '{target}'"
            fix = f"write {close}" if close else None
            place = owner.attr_places.get(key)
            node = owner if isinstance(owner, Node) else None
            findings.add("retry_target_exists", WARNING, message, node, place, fix)


# Fidelity and threads.


def fidelity_valid(findings: _Findings) -> None:
    graph = findings.graph
    for owner, key in _fidelities(graph):
        value = owner.text(key)
        if value and value not in FIDELITIES:
            message = f"unknown fidelity: '{value}', known are {', '.join(FIDELITIES)}"
            at = None if isinstance(owner, Graph) else owner
            findings.add("fidelity_valid", WARNING, message, at, owner.attr_places.get(key))


def _fidelities(graph: Graph) -> Iterator[tuple[Graph | Node | Edge, str]]:
    yield graph, "default_fidelity"
    for node in graph.nodes.values():
        yield node, "fidelity"
    for edge in graph.edges:
        yield edge, "fidelity"


def thread_id_requires_fidelity_full(findings: _Findings) -> None:
    graph = findings.graph
    default = graph.text("default_fidelity")
    for node in graph.nodes.values():
        own = node.text("fidelity") or default
        reaching = [edge.text("fidelity") or own for edge in graph.incoming(node.id)]
        if node.text("thread_id") and "full" not in (own, *reaching):
            _thread_without_full(findings, node)
    for edge in graph.edges:
        target = graph.nodes.get(edge.target)
        own = edge.text("fidelity") or (target.text("fidelity") if target else "") or default
        if edge.text("thread_id") and own != "full":
            _thread_without_full(findings, edge)


def _thread_without_full(findings: _Findings, at: Node | Edge) -> None:
    message = f"'thread_id' without fidelity 'full': '{at.text('thread_id')}' has no effect"
    place = at.attr_places.get("thread_id")
    rule = "thread_id_requires_fidelity_full"
    findings.add(rule, WARNING, message, at, place, 'set fidelity="full"')


# Nodes.


def type_known(findings: _Findings) -> None:
    known = {*TYPE_KINDS, *findings.kinds}
    for node in findings.graph.nodes.values():
        type_ = node.text("type")
        if type_ and type_ not in known:
            close = _nearest(type_, tuple(sorted(known)), _LIKE_RATIO)
            message = f"unknown type: '{type_}', the node runs as an agent"
            fix = f"write {close}" if close else None
            findings.add("type_known", WARNING, message, node, node.attr_places.get("type"), fix)


def prompt_on_llm_nodes(findings: _Findings) -> None:
    for node in findings.graph.nodes.values():
        asks = node.kind in ("agent", "prompt") or node.kind not in (*KINDS, *findings.kinds)
        if asks and not node.text("prompt").strip() and not node.text("label").strip():
            message = f"node '{node.id}' has neither a prompt nor a label"
            fix = 'set prompt="…"'
            findings.add("prompt_on_llm_nodes", WARNING, message, node, fix=fix)


def reserved_node_id(findings: _Findings) -> None:
    for node in findings.graph.nodes.values():
        if node.id.lower() in RESERVED_IDS:
            message = f"node id is a word of the language: '{node.id}'"
            fix = f"write {node.id}_1"
            findings.add("reserved_node_id", WARNING, message, node, fix=fix)


def freeform_edge_count(findings: _Findings) -> None:
    for node in findings.graph.of_kind("human"):
        free = [edge for edge in findings.graph.outgoing(node.id) if edge.flag("freeform")]
        if len(free) > 1:
            message = f"more than one freeform edge from '{node.id}': {len(free)} found"
            place = free[1].attr_places.get("freeform")
            findings.add("freeform_edge_count", ERROR, message, free[1], place)


def duplicate_accelerator(findings: _Findings) -> None:
    for node in findings.graph.of_kind("human"):
        seen: dict[str, Edge] = {}
        for edge in findings.graph.outgoing(node.id):
            key = accelerator(edge.label or edge.target)[0]
            if edge.flag("freeform") or not key:
                continue
            if key in seen:
                message = (
                    f"two choices of '{node.id}' have the key '{key}': "
                    f"'{seen[key].label or seen[key].target}' and '{edge.label or edge.target}'"
                )
                fix = 'give them keys: label="[K] …"'
                place = edge.attr_places.get("label")
                findings.add("duplicate_accelerator", ERROR, message, edge, place, fix)
            seen.setdefault(key, edge)


# Texts in attributes.


def stylesheet_syntax(findings: _Findings) -> None:
    graph = findings.graph
    try:
        stylesheet.parse(graph.text("model_stylesheet"))
    except stylesheet.StylesheetError as err:
        place = graph.place_in(graph.attr_places.get("model_stylesheet"), err.offset)
        findings.add("stylesheet_syntax", ERROR, f"bad stylesheet: {err.message}", place=place)


def undefined_variable(findings: _Findings) -> None:
    graph = findings.graph
    _check_names(findings, graph, "goal")
    for node in graph.nodes.values():
        _check_names(findings, node, "prompt")
        _check_names(findings, node, "script")


def _check_names(findings: _Findings, owner: Graph | Node, key: str) -> None:
    graph, text = findings.graph, owner.text(key)
    node = owner if isinstance(owner, Node) else None
    value_place = owner.attr_places.get(key)
    first: dict[str, templates.Name] = {}
    for name in templates.names(text):
        first.setdefault(name.text, name)
    judged = ((name, _name_fault(findings, key, name)) for name in first.values())
    for name, fault in islice(((name, fault) for name, fault in judged if fault), _NAMES_LIMIT):
        severity, message, fix = fault
        if value_place in graph.loaded:
            line = text.count("\n", 0, name.offset) + 1
            message += f", in '{graph.loaded[value_place]}', line {line}"
        place = graph.place_in(value_place, name.offset)
        findings.add("undefined_variable", severity, message, node, place, fix)


def _name_fault(
    findings: _Findings, key: str, name: templates.Name
) -> tuple[str, str, str | None] | None:
    """What is wrong with a name in braces. What only a run can know is not judged."""
    if name.first not in templates.FIRST_NAMES:
        close = _nearest(name.first, templates.FIRST_NAMES, _SLIP_RATIO)
        if close is None:
            return None
        better = ".".join(filter(None, (close, name.rest)))
        message = (
            f"'{{{{ {name.text} }}}}' is not replaced: '{name.first}' is no name that is known"
        )
        return WARNING, message, f"write {{{{ {better} }}}}"
    known = _known_names(findings, key, name)
    if known is None or name.rest in known:
        return None
    close = _nearest(name.rest, tuple(sorted(known)), _LIKE_RATIO)
    fix = f"write {{{{ {name.first}.{close} }}}}" if close else None
    return ERROR, f"undefined name: '{name.text}'", fix


def _known_names(findings: _Findings, key: str, name: templates.Name) -> Collection[str] | None:
    """What may stand behind the first name; None where that is not known here."""
    if name.first == "goal":
        return ("",) if key != "goal" else ()
    if name.first == "inputs" and findings.inputs is not None:
        return findings.inputs
    if name.first == "graph":
        return {*findings.graph.attrs, "goal"}
    if name.first == "run":
        return templates.RUN_NAMES if key != "goal" else ()
    return None if name.rest else ()


# Attributes.


def unknown_attribute(findings: _Findings) -> None:
    graph = findings.graph
    for owner, known in _owners(graph):
        for key in owner.attrs:
            close = _slip_of(key, known)
            if close:
                message = f"unknown attribute: '{key}', did you mean '{close}'"
                place = graph.key_place(owner.attr_places.get(key))
                at = None if isinstance(owner, Graph) else owner
                findings.add("unknown_attribute", WARNING, message, at, place, f"write {close}")


def _slip_of(key: str, known: tuple[str, ...]) -> str | None:
    if key in _KNOWN_KEYS or len(key) < _SLIP_LENGTH:
        return None
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower().replace("-", "_")
    return _nearest(snake, known, _SLIP_RATIO)


def attribute_value(findings: _Findings) -> None:
    for owner, _ in _owners(findings.graph):
        for key in owner.attrs:
            fault = _value_fault(owner, key)
            if fault:
                at = None if isinstance(owner, Graph) else owner
                place = owner.attr_places.get(key)
                severity, message, fix = fault
                findings.add("attribute_value", severity, message, at, place, fix)


_Fault = tuple[str, str, str | None]  # severity, message, fix


def _value_fault(owner: Graph | Node | Edge, key: str) -> _Fault | None:
    text = text_of(owner.attrs[key])
    if not text.strip():
        return None
    if key in _COUNTS:
        return _count_fault(owner, key, text)
    wanted = None
    if key == "weight" and owner.number(key) is None:
        wanted, example = "a number", "1"
    elif key in _FLAGS and text.strip().lower() not in ("true", "false"):
        wanted, example = "true or false", "true"
    elif key in _DURATIONS and owner.seconds(key) is None:
        wanted, example = "a duration such as 30s or 15m", "30s"
    if wanted:
        return ERROR, f"'{key}' is not {wanted}: '{text}'", f"write {key}={example}"
    return _choice_fault(owner, key, text)


def _count_fault(owner: Graph | Node | Edge, key: str, text: str) -> _Fault | None:
    number, least = owner.integer(key), _COUNTS[key]
    if number is not None and number >= least:
        return None
    fix = f"write {least} or more, or leave {key} out"
    if number is None:
        return ERROR, f"'{key}' is not a whole number: '{text}'", fix
    return ERROR, f"'{key}' is less than {least}: '{text}'", fix


def _choice_fault(owner: Graph | Node | Edge, key: str, text: str) -> _Fault | None:
    choices = _CHOICES.get(key)
    if not choices or text in choices:
        return None
    if key == "join_policy" and text in OLDER_POLICIES:
        return WARNING, f"'{key}={text}' is read as '{OLDER_POLICIES[text]}'", None
    kind = owner.kind if isinstance(owner, Node) else None
    counts = not isinstance(owner, Edge) and _MEANT_BY.get(key, kind) == kind
    told = f"unknown value of '{key}': '{text}', known are {', '.join(choices)}"
    return ERROR if counts else WARNING, told, None


def missing_attribute(findings: _Findings) -> None:
    for node in findings.graph.nodes.values():
        severity, key, example = _NEEDED.get(node.kind, (WARNING, "", ""))
        if key and not node.text(key).strip():
            message = f"node '{node.id}' has no {key}: it fails when it is visited"
            findings.add("missing_attribute", severity, message, node, fix=f"add {example}")


def _owners(graph: Graph) -> Iterator[tuple[Graph | Node | Edge, tuple[str, ...]]]:
    yield graph, _GRAPH_KEYS
    for node in graph.nodes.values():
        yield node, _NODE_KEYS
    for edge in graph.edges:
        yield edge, _EDGE_KEYS


@lru_cache(maxsize=1024)
def _nearest(word: str, words: tuple[str, ...], ratio: float) -> str | None:
    found = difflib.get_close_matches(word, words, n=1, cutoff=ratio)
    return found[0] if found else None


RULES: tuple[Callable[[_Findings], None], ...] = (
    start_node,
    terminal_node,
    start_no_incoming,
    exit_no_outgoing,
    edge_target_exists,
    condition_syntax,
    stylesheet_syntax,
    undefined_variable,
    freeform_edge_count,
    random_selection_no_conditions,
    duplicate_accelerator,
    attribute_value,
    missing_attribute,
    fan_out_join,
    reachability,
    all_conditional_edges,
    dead_end,
    goal_gate_has_retry,
    retry_target_exists,
    fidelity_valid,
    thread_id_requires_fidelity_full,
    type_known,
    prompt_on_llm_nodes,
    reserved_node_id,
    unknown_attribute,
)
