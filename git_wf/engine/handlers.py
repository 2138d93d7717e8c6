"""Which code executes which kind of node."""

from __future__ import annotations

from git_wf.core.graph import KINDS, Node
from git_wf.core.outcome import CONFIGURATION, Outcome, failed, normal_status
from git_wf.core.templates import TemplateError
from git_wf.engine.kinds.agent import ask_agent
from git_wf.engine.kinds.command import run_command
from git_wf.engine.kinds.conditional import route
from git_wf.engine.kinds.fan_in import join_branches
from git_wf.engine.kinds.human import ask_person
from git_wf.engine.kinds.manager_loop import supervise
from git_wf.engine.kinds.parallel import fan_out
from git_wf.engine.kinds.wait import wait
from git_wf.engine.people import Waiting
from git_wf.engine.plugins import installed_kinds, load_handler
from git_wf.engine.process import Interrupted, Stalled
from git_wf.engine.state import Handler, Visit
from git_wf.errors import UserError

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
    """The handler of a node. A type that nobody knows runs as an agent."""
    assert node.kind in HANDLED_KINDS or node.kind not in KINDS, node.kind
    if node.kind not in KINDS and node.kind in installed_kinds():
        return _run_installed
    return HANDLERS.get(node.kind, ask_agent)


def _run_installed(visit: Visit) -> Outcome:
    """Runs the handler of another package: what goes wrong in it is the failure of its visit.

    Raises `UserError` where it cannot be loaded, and what ends a visit or is told of it anyway.
    """
    kind = visit.node.kind
    try:
        outcome = load_handler(kind)(visit)
    except (Interrupted, Stalled, Waiting, UserError, OSError, TemplateError):
        raise
    except Exception as err:
        return failed(f"kind '{kind}' raised {type(err).__name__}: {err}")
    if not isinstance(outcome, Outcome) or normal_status(outcome.status) != outcome.status:
        told = f"status '{outcome.status}'" if isinstance(outcome, Outcome) else repr(outcome)
        return failed(f"kind '{kind}' returned no outcome: {told}", CONFIGURATION)
    return outcome
