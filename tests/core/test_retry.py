from __future__ import annotations

import pytest

from git_wf.core.graph import Graph, Node
from git_wf.core.retry import Policy, attempts, failure_signature, jittered
from git_wf.errors import UserError


def policy_of(node=None, graph=None, first_delay=None) -> Policy:
    return attempts(Node("a", attrs=node or {}), Graph(attrs=graph or {}), first_delay)


@pytest.mark.parametrize(
    ("node", "graph", "count", "delays"),
    [
        ({}, {}, 1, []),
        ({"max_retries": 2}, {}, 3, [5, 10]),
        ({}, {"default_max_retries": 1}, 2, [5]),
        ({"max_retries": 0}, {"default_max_retries": 3}, 1, []),
        ({"max_retries": -1}, {}, 1, []),
        ({"max_retries": 6}, {}, 7, [5, 10, 20, 40, 60, 60]),
        ({"retry_policy": "none", "max_retries": 5}, {}, 1, []),
        ({"retry_policy": "standard"}, {}, 5, [5, 10, 20, 40]),
        ({"retry_policy": "aggressive"}, {}, 5, [0.5, 1, 2, 4]),
        ({"retry_policy": "linear"}, {}, 3, [0.5, 0.5]),
        ({"retry_policy": "patient"}, {}, 3, [2, 6]),
    ],
)
def test_policies(node, graph, count, delays):
    policy = policy_of(node, graph)
    assert policy.attempts == count
    assert [policy.delay(retry) for retry in range(1, count)] == delays


def test_another_first_delay():
    policy = policy_of({"retry_policy": "patient"}, first_delay=0.1)
    assert policy.delay(2) == pytest.approx(0.3)
    assert policy_of({"max_retries": 10**9}, first_delay=0).delay(10**9) == 0


def test_an_unknown_policy_is_named():
    with pytest.raises(UserError) as caught:
        policy_of({"retry_policy": "eager"})
    assert caught.value.message == "unknown retry_policy 'eager' of node 'a'"
    assert caught.value.hints == ("one of none, standard, aggressive, linear, patient",)


def test_jitter():
    assert [jittered(10, draw) for draw in (0, 0.5, 1)] == [5, 10, 15]


@pytest.mark.parametrize(
    ("message", "normalised"),
    [
        ("exit status 7", "exit status <n>"),
        ("took 1.53s, then 20 ms", "took <time>, then <time>"),
        ("at main.c:12:4", "at main.c:<place>"),
        ("syntax error, line 3, column 9", "syntax error, <place>"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id <uuid>"),
        ("object deadbeef01 at 0xFF00", "object <hex> at <hex>"),
        ("open /tmp/x-81/a.txt: no", "open <tmp>: no"),
        ("open /var/folders/zz/T/a: no", "open <tmp>: no"),
        ("two\n  lines", "two lines"),
        ("defaced the facade", "defaced the facade"),
        ("x" * 5000, "x" * 200),
    ],
)
def test_signatures_are_normalised(message, normalised):
    assert failure_signature("a", "timeout", message) == f"a|timeout|{normalised}"
