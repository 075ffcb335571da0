"""Every recording is read as what it is, and what was said in it appears in the view: once, in order.

`manifest` says what each file is; `walk_<format>` reads the raw JSON by the format's own rules and knows
nothing of the adapters: `texts(raw)` gives what was said, each call's name and the leaves of its arguments,
and what came back, in order, without hidden reasoning. A text may stand in the view as it is or inside JSON.
"""

import importlib
import json
from collections import Counter
from fnmatch import fnmatchcase

import pytest
from conversation.shown import shown
from manifest import SAMPLES

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.read import read_conversation, read_conversations
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view

# Shorter texts (a word, a number) may stand in others by chance.
LONG = 30


def row_of(name):
    """The manifest's row for a file, or None."""
    return next((pattern for pattern in SAMPLES if fnmatchcase(name, pattern)), None)


def files_of(shared, pattern=None):
    """(name, path) of the recordings, or of those whose row is `pattern`."""
    data = shared / "data"
    for folder in ("conversations", "hosts"):
        for path in sorted((data / folder).rglob("*")):
            name = path.relative_to(data).as_posix()
            if path.is_file() and (pattern is None or row_of(name) == pattern):
                yield name, path


def material(path):
    """(what is handed over, what the walker reads): a request with its answer beside it is a pair."""
    if path.name.endswith("request.json"):
        answers = sorted(path.parent.glob(path.name.removesuffix("request.json") + "response.*"))
        if answers:
            pair = {"request": parsed(path), "response": parsed(answers[0])}
            return json.dumps(pair).encode(), pair
    return path.read_bytes(), parsed(path)


def parsed(path):
    if path.suffix == ".eval":
        return path.read_bytes()
    text = path.read_text(encoding="utf-8", errors="replace").removeprefix("\ufeff")
    if path.suffix == ".jsonl":
        rows = []
        for line in text.split("\n"):
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
        return rows
    try:
        return json.loads(text)
    except ValueError:
        return text


def forms(text):
    """How a text may stand in a view: as it is, or inside JSON."""
    inside = json.dumps(text, ensure_ascii=False)[1:-1]
    return {shown(text), shown(inside)}


def missing(view, texts):
    """The first of `texts` that does not stand in the view after all those before it, or None."""
    at = 0
    for text in texts:
        ends = [found + len(form) for form in forms(text) if (found := view.find(form, at)) >= 0]
        if not ends:
            return text
        at = min(ends)
    return None


def repeated(view, texts):
    """The long texts that stand in the view more often than they were said."""
    said = Counter(texts)
    everything = "\0".join(shown(text) for text in texts)
    return [
        text
        for text in said
        if len(text) >= LONG and sum(map(view.count, forms(text))) > sum(map(everything.count, forms(text)))
    ]


@pytest.mark.parametrize("pattern", [pattern for pattern, told in SAMPLES.items() if " " not in told])
def test_what_was_said_appears_once_and_in_order(shared, pattern):
    walk = importlib.import_module(f"walk_{SAMPLES[pattern]}")
    for name, path in files_of(shared, pattern):
        given, raw = material(path)
        found = read_conversations(given)
        assert {c.source_format for c in found} == {SAMPLES[pattern]}, name
        texts = [text for text in walk.texts(raw) if text]
        views = [build_view(c, allowance=10**9) for c in found]
        view = "\n".join(v.text for v in views)
        assert missing(view, texts) is None, name
        assert repeated(view, texts) == [], name
        for conversation, seen in zip(found, views, strict=True):
            again = read_conversation(canonical_json(conversation))
            assert canonical_json(again) == canonical_json(conversation), name
            assert build_view(again, allowance=10**9) == seen, name


@pytest.mark.parametrize("pattern", [pattern for pattern, told in SAMPLES.items() if " " in told])
def test_what_holds_no_conversation_is_refused(shared, pattern):
    for name, path in files_of(shared, pattern):
        with pytest.raises(InputError) as caught:
            read_conversations(path.read_bytes())
        assert caught.value.message, name


def test_every_recorded_conversation_has_a_row(shared):
    unlisted = {
        "/".join(name.split("/")[:2])
        for name, _ in files_of(shared)
        if name.startswith("conversations/") and row_of(name) is None
    }
    assert not unlisted
