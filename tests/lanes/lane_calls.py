"""A call for the lanes' tests to make."""

from typing import Any

from sandbox_judge.lanes.base import Call, Endpoint

KEY = "sk-canary-0123456789abcdef"
SCHEMA = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "verdict": {"type": "string", "enum": ["pass", "fail", "not_applicable"]},
    },
    "required": ["reasoning", "verdict"],
    "additionalProperties": False,
}


def a_call(**parts: Any) -> Call:
    whole = {
        "provider": "openai",
        "model": "scripted-1",
        "endpoint": Endpoint(base_url="http://127.0.0.1:9/v1", api_key=KEY),
        "messages": ({"role": "system", "content": "Judge."}, {"role": "user", "content": "[1] hello"}),
        "schema": SCHEMA,
        "temperature": 0.0,
        "max_tokens": 64,
    }
    return Call(**{**whole, **parts})
