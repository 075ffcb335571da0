"""Scripted judges for the tests of rubrics, one-step judges and graders."""

import json

import anyio

from sandbox_judge.lanes.base import Reply, ToolUse, Usage, Wire
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.recipe.judge import Llm
from sandbox_judge.rubric.judge_model import JudgeModel
from sandbox_judge.rubric.runbook import read_runbook
from sandbox_judge.settings import LiveSettings
from sandbox_judge.testing.scripted import ScriptedModel

RUBRIC = """\
| # | Criterion | 5 (Excellent) | 3 (Acceptable) | 1 (Poor) |
|---|---|---|---|---|
| 1 | **Accuracy** | every sum matches its rows | one sum is off | sums are invented |
| 2 | Completeness | all receipts have a row | one is missing and named | receipts are missing |
| 3 | Clarity | the total stands first | the total can be found | the total must be guessed |

**Pass threshold: overall average >= 4.0, no individual criterion below 3.**
"""


def runbook(text=RUBRIC, head=""):
    return read_runbook((head + text).encode(), name="RUNBOOK.md")


def judge(script, **options):
    """A `JudgeModel` over a scripted lane, and the lane. Call it inside an event loop."""
    lane = ScriptedModel(script)
    model = JudgeModel(
        Llm(model="m-1"),
        lanes=Lanes({}, given={"openai_wire": lane}),
        settings=LiveSettings(),
        environ={"OPENAI_API_KEY": "sk-canary-0123456789"},
        concurrency=options.pop("concurrency", 16),
        **options,
    )
    return model, lane


def said(call):
    """All text of a call's last message."""
    content = call.messages[-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def answer(score, *, key="score", reasoning="Looked at it.", quotes=()):
    evidence = [{"entry": entry, "quote": quote} for entry, quote in quotes]
    return json.dumps({"reasoning": reasoning, "evidence": evidence, key: score})


def sheet(reasoning="Went through all.", **scores):
    cells = {
        id.replace("_", "-"): {"reasoning": "Because.", "evidence": [], "score": score}
        if not isinstance(score, dict)
        else score
        for id, score in scores.items()
    }
    return json.dumps({"reasoning": reasoning, "scores": cells})


def uses(*calls, tokens=10):
    """A reply that calls tools: (name, arguments) each."""
    return Reply(
        wire=Wire(lane="openai_wire", output_mode="text"),
        finish="tool_calls",
        usage=Usage(input_tokens=tokens, output_tokens=0),
        tool_calls=tuple(
            ToolUse(id=f"c{n}", name=name, arguments=given if isinstance(given, str) else json.dumps(given))
            for n, (name, given) in enumerate(calls)
        ),
    )


def soon(seconds=30.0):
    return anyio.current_time() + seconds
