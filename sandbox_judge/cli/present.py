"""What came of a run, for a person: plain lines, nothing that a program should parse. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sandbox_judge.durations import shown
from sandbox_judge.hook_input import Subject
from sandbox_judge.recipe.loaded import LoadedRecipe
from sandbox_judge.run_ports import RunReport
from sandbox_judge.terminal import escaped

_REASONING_SHOWN: Final = 600
_QUOTES_SHOWN: Final = 3
_BUNDLED: Final = (
    "The local model shows the path from conversation to judgement. The bundled one has 135M parameters "
    "and is no judge: do not read anything into its verdicts."
)
_COUNTED: Final = {
    "null": "without a verdict",
    "gate_miss": "not applicable by their gates",
    "not_sampled": "not sampled",
    "disabled": "switched off",
    "definition_invalid": "invalid",
    "not_online": "not for this hook",
    "would_run": "would run",
}
_WORDS: Final = {
    "gate_miss": "does not apply",
    "not_sampled": "not sampled",
    "disabled": "switched off",
    "definition_invalid": "definition invalid",
    "not_online": "not for this hook",
    "would_run": "would run",
}


def summary(report: RunReport) -> Iterable[str]:
    """One line on the whole run, and one for each null."""
    ledger = report.ledger
    results = Counter(event["payload"]["result"] for event in report.events if event["payload"]["result"])
    told = [f"{n} {word}" for word, n in sorted(results.items())]
    number = len(ledger["judges"])
    told += [f"{n} {_COUNTED[key]}" for key, n in sorted(ledger["counts"].items()) if key != "verdict"]
    yield (
        f"sandbox-judge: {number} judge{'' if number == 1 else 's'}: {', '.join(told) or 'none'}; "
        f"{_time(ledger)}; conversation {escaped(ledger['conversation_id'])}"
    )
    for event in report.events:
        error = event["payload"].get("error")
        if error is not None:
            name = escaped(event["payload"]["judge_name"])
            yield f"sandbox-judge: {name}: no verdict, {error['type']}: {escaped(error['message'])}"


def progress(line: bytes) -> str:
    """One event that has just come, in a few words."""
    payload = json.loads(line)["payload"]
    error = payload.get("error", {}).get("type")
    took = payload.get("timing", {}).get("duration_ms")
    after = "" if took is None else f" after {shown(took / 1000)}"
    return f"{escaped(payload['judge_name'])}: {payload['result'] or f'no verdict ({error})'}{after}"


def person(subject: Subject, recipe: LoadedRecipe, report: RunReport, *, local: bool) -> Iterable[str]:
    """The whole story of one conversation: which judges applied and why, verdicts with reasons, time used."""
    ledger = report.ledger
    yield f"Conversation  {escaped(subject.conversation_id)} ({len(subject.conversation.entries)} entries)"
    where = recipe.commit or "work tree (not committed)"
    yield f"Recipe        {escaped(recipe.recipe_id)} at {where}"
    yield ""
    events = {event["payload"]["judge_id"]: event["payload"] for event in report.events}
    for line in ledger["judges"]:
        payload = events.get(line.get("judge_id", ""))
        yield f"  {_headline(line, payload)}"
        for detail in _details(line, payload):
            yield f"      {detail}"
    yield ""
    yield f"Time          {_time(ledger)}"
    if local:
        yield f"Note          {_BUNDLED}"


def _time(ledger: Mapping[str, Any]) -> str:
    budget = ledger["budget"]
    return f"{shown(budget['used_ms'] / 1000)} of {shown(budget['total_ms'] / 1000)} used"


def _headline(line: Mapping[str, Any], payload: Mapping[str, Any] | None) -> str:
    name = escaped(line.get("name") or line["path"])
    if payload is None:
        return f"{name}: {_WORDS.get(line['outcome'], line['outcome'])}"
    if payload["result"] is None:
        return f"{name}: no verdict ({payload['error']['type']})"
    return f"{name}: {payload['result'].upper()}"


def _details(line: Mapping[str, Any], payload: Mapping[str, Any] | None) -> Iterable[str]:
    matched = line.get("matched")
    if matched:
        field = f", {escaped(matched['field'])}" if matched.get("field") else ""
        yield f"applies because of entry [{matched['entry']}] ({matched['event']}{field})"
    elif line["outcome"] in ("verdict", "null", "would_run"):
        yield "applies always (no gate)"
    if line.get("nearest_miss"):
        yield f"nearest miss: {escaped(str(line['nearest_miss']))}"
    if payload is None:
        return
    if payload.get("error"):
        yield escaped(payload["error"]["message"])
    if payload.get("reasoning"):
        text = payload["reasoning"]
        yield escaped(text if len(text) <= _REASONING_SHOWN else f"{text[:_REASONING_SHOWN]}…")
    for quote in payload.get("evidence", [])[:_QUOTES_SHOWN]:
        mark = "" if quote.get("verified") else " (not found in the conversation)"
        yield f'[{quote["entry"]}] "{escaped(quote["quote"])}"{mark}' if "entry" in quote else ""
    if payload.get("timing", {}).get("duration_ms") is not None:
        yield f"took {shown(payload['timing']['duration_ms'] / 1000)}"
