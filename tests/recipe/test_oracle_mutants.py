"""Thousands of judge files, made by changing keys and values, read as the format's own checker reads them."""

import copy
import json
import random
import re
from typing import Any

import pytest
import yaml
from format_checker import asked, difference, ours

BASES: list[dict[str, Any]] = [
    {"name": "tone", "instructions": "Judge the tone.", "llm": {"model": "gpt-5"}},
    {
        "name": "refund-policy",
        "description": "Was the policy kept?",
        "on": [
            {"event": "message", "match": {"role": "user", "text": ["/refund/i", "money back"]}},
            {"event": "tool", "match": {"name": "issue_refund", "args.amount": 100, "status": "error"}},
            {"event": "feedback"},
        ],
        "instructions": "pass: kept.\nfail: broken.\n\n  Indented, with: a colon # and a hash\n",
        "llm": {
            "provider": "openai",
            "model": "gpt-5-mini",
            "request": {"temperature": 0.5, "max_tokens": 512, "reasoning_effort": "low"},
            "transport": {"timeout_ms": 1000, "max_retries": 2, "max_retry_delay_ms": 100},
            "local": {"base_url": "http://localhost:1234/v1", "api_key_env": "JUDGE_KEY"},
        },
    },
]
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 2.0, 2.0000001, 0.1, -0.0, 1e-300, 131072, 131073, 600000, 600001,
    60001, 11,
    2**63, 2**64, -(2**63) - 1, 10**30, "", " ", "a", "A", "a-b", "a--b", "-a", "a-", "a\n", " a",
    "yes", "no", "on",
    "null", "~", "1", "1.5", "1_000", "0x1F", "007", ".5", "1e3", ".nan", ".inf", "inf", "12:30:45",
    "2025-08-07",
    "/a/", "/a/i", "/a/ii", "/a/x", "/usr/bin", "/", "//", "///",
    "/(/", "/(?=a)/", r"/\1/", r"/\d+\b/mu", "/a{1,2}/s",
    "message", "tool", "feedback", "Message", "online", "openai", "https://a.example/v1", "http://a.example",
    "https://a@b", "https://a/?q", "https://a/#f", "http://[::1]:8080", "ftp://a", "http://127.1",
    "x" * 64, "x" * 65,
    "x" * 255, "x" * 256, "é" * 127, "é" * 128, "d" * 2000, "d" * 2001, "\x1c", "\u3000", "\u200b",
    "\x00", "\x85",
    "tab\tin", "😀", "a: b", "a #b", "- a", "? a", "'", '"', "\\",
    "{", "[]", "%", "@", "`", "|", ">", "&a", "*a", "!a",
    [], {}, [None], [[]], ["a", ["b"]], {"a": 1}, {"": 1}, [{"event": "tool"}], [{}],
    [{"event": "tool", "x": 1}],
    [{"event": "message", "match": {"text": "/[/"}}], [{"event": "tool", "match": None}], ["message"],
]  # fmt: skip
KEYS = [
    "name", "judge", "description", "instructions", "on", "llm", "model", "provider", "request",
    "transport", "local",
    "temperature", "max_tokens", "timeout_ms", "max_retries", "base_url", "api_key_env", "event",
    "match", "text",
    "verdicts", "threshold", "enabled", "sample_rate", "environment", "runtime_group", "pattern_id",
    "a.pattern_id",
    "pattern_id.a", "environment.a", "Name", "name ", "yes", "5", "", "null", "<<x", "args.x", "a b", "é",
]  # fmt: skip


# An emitter that is not ours; the C one where it is built.
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or index) in a tree."""
    out: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        out.append((value, key))
        out += places(inner)
    return out


def mutated(rng: random.Random) -> dict[str, Any]:
    tree = copy.deepcopy(rng.choice(BASES))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        spots = places(tree)
        if not spots:
            break
        container, key = rng.choice(spots)
        kind = rng.random()
        if kind < 0.6:
            container[key] = copy.deepcopy(rng.choice(VALUES))
        elif kind < 0.75:
            del container[key]
        elif isinstance(container, dict):
            value = container.pop(key) if kind < 0.88 else copy.deepcopy(rng.choice(VALUES))
            container[rng.choice(KEYS)] = value
        else:
            container.insert(key, copy.deepcopy(rng.choice(VALUES)))
    return tree


def emitted(tree: dict[str, Any], rng: random.Random) -> str:
    style = rng.randrange(6)
    if style == 0:
        return json.dumps(tree)
    if style == 1:
        return json.dumps(tree, ensure_ascii=False, indent=2)
    if style == 2:
        return yaml.dump(tree, Dumper=DUMPER, default_flow_style=True, sort_keys=False)
    if style == 3:
        return yaml.dump(tree, Dumper=DUMPER, default_style='"', sort_keys=True)
    return yaml.dump(
        tree,
        Dumper=DUMPER,
        allow_unicode=style == 4,
        sort_keys=False,
        width=rng.choice((20, 80)),
        indent=rng.choice((2, 4)),
    )


def deviates(text: str) -> bool:
    """What we refuse on purpose, of what these emitters can write (see tests/corpus/judge_files.json)."""
    # Line breaks of YAML 1.1 and characters that are not printable, raw.
    return re.search("[\x85\u2028\u2029]", text) is not None


@pytest.mark.parametrize("seed", range(8))
def test_mutants_read_as_the_checker_reads_them(seed: int) -> None:
    rng = random.Random(seed)
    valid = 0
    for _ in range(500):
        text = emitted(mutated(rng), rng)
        if deviates(text):
            assert not ours(text).is_valid
            continue
        found = difference(text)
        assert found is None, f"{text}\n{found}"
        valid += asked(text)[0] is not None
    assert 40 < valid < 430, "the mutants do not try both answers"


SEEDS = (
    """name: a
description: "two
  lines"
on:
  - event: message
    match: {role: user, text: [/a/i, 'b c']}
  - event: tool
    match:
      args.x: y
      n: [1, yes, ~]
# note
instructions: |
  One.

    Two.
llm:
  model: m
  request: {temperature: 0.5}
""",
    """---
name: a
instructions: >-
  folded
  text
llm: &l
  model: 'm'
on:
- event: tool
  match:
    x:
    - a
    - "b
      c"
    y: plain
      goes on
    w: &x v
    z: *x
...
""",
    """{name: a, "instructions": "i", llm: {model: m,
 local: null}, on: [{event: tool, match: {a: [b], ? d : e}}]}
""",
)
PIECES = [
    *" \t\n-:?,[]{}#&*!|>'\"%@`ab01.~\\/",
    *("\n  ", "- ", ": ", " #", "\r\n", "---\n", "...\n", "<<", "\xa0"),
]


@pytest.mark.parametrize("seed", range(4))
def test_no_edit_of_the_text_makes_us_take_what_the_checker_refuses(seed: int) -> None:
    """Refusing more in syntax is allowed; accepting more, or reading other text, never is."""
    rng = random.Random(seed)
    for _ in range(1_000):
        text = rng.choice(SEEDS)
        for _ in range(rng.choice((1, 1, 2, 3))):
            at, cut = rng.randrange(len(text) + 1), rng.choice((0, 0, 1, 1, 5))
            text = text[:at] + rng.choice(("", *PIECES)) + text[at + cut :]
        file = ours(text)
        if file.judge is None:
            continue
        form, codes = asked(text)
        assert form == file.judge.normalised, f"{text!r}: {codes}"
