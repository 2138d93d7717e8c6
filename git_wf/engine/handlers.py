"""Which code executes which kind of node."""

from __future__ import annotations

from git_wf.core.graph import KINDS, Node
from git_wf.engine.kinds.agent import ask_agent
from git_wf.engine.kinds.command import run_command
from git_wf.engine.kinds.conditional import route
from git_wf.engine.kinds.fan_in import join_branches
from git_wf.engine.kinds.human import ask_person
from git_wf.engine.kinds.manager_loop import supervise
from git_wf.engine.kinds.parallel import fan_out
from git_wf.engine.kinds.wait import wait
from git_wf.engine.plugins import installed_kinds, load_handler
from git_wf.engine.state import Handler

HANDLERS: dict[str, Handler] = {
    "agent": ask_agent,
    "prompt": ask_agent,
    "command": run_command,
    "conditional": route,
    "human": ask_person,
    "wait": wait,
    "parallel": fan_out,
    "fan_in": join_branches,
    "manager_loop": supervise,
}
# What a workflow may contain; start and exit are the loop's own.
HANDLED_KINDS = frozenset({"start", "exit", *HANDLERS})


def find_handler(node: Node) -> Handler:
    """The handler of a node. A type that nobody knows runs as an agent.

    Raises `UserError` where the handler of an installed kind cannot be loaded.
    """
    assert node.kind in HANDLED_KINDS or node.kind not in KINDS, node.kind
    if node.kind not in KINDS and node.kind in installed_kinds():
        return load_handler(node.kind)
    return HANDLERS.get(node.kind, ask_agent)
