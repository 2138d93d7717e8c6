from __future__ import annotations

import pytest

from git_wf.core.context import Redaction
from git_wf.engine.answers import routing_answer


def word_of(text):
    answer = routing_answer(text, Redaction())
    return answer and answer.word


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("no JSON", None),
        ('{"other": 1}', None),
        ('{"outcome": "a"} then {"outcome": "b"}', "b"),
        ('{"outcome": "a"} then {"other": "b"}', "a"),
        ('```json\n{"outcome": "a"}\n```', "a"),
        ('{"outcome": "a", "context_updates": {"outcome": "inner"}}', "a"),
        ('{ broken {"outcome": "a"}', "a"),
        ('say {"outcome": " a "} } {', "a"),
        ("{" * 3000, None),
        ('{"a":' * 3000, None),
    ],
)
def test_the_last_object_with_a_known_key(text, word):
    assert word_of(text) == word
