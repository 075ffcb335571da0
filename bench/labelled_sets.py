"""Calibration on labelled sets: a scripted judge on every row, the local model on the first short ones.

    python bench/labelled_sets.py LABELLED_DIR [--local SECONDS] [--rows 60]

LABELLED_DIR holds agentprocessbench/, begin/, conture/ and pandalm/. Each figure is held against
scikit-learn's on the same rows. `--local` gives the local model so many seconds for all sets together; its
kappa will be near zero: it shows the path and is no judge.
"""

import argparse
import json
import math
import random
import tempfile
import time
import warnings
from pathlib import Path

import anyio
from sklearn import metrics

from sandbox_judge.calibration.dataset import read_dataset
from sandbox_judge.calibration.edit import append_rows
from sandbox_judge.calibration.imports import Plan, import_rows, parse_map
from sandbox_judge.calibration.measure import Measuring
from sandbox_judge.calibration.row import new_row
from sandbox_judge.calibration.trials import Grader
from sandbox_judge.calibration.verdict_log import VerdictLog
from sandbox_judge.cli.run_request import LOCAL_ALLOWANCE
from sandbox_judge.conversation.read import read_conversation
from sandbox_judge.grading.view import ALLOWANCE, build_view
from sandbox_judge.lanes.choose import Lanes
from sandbox_judge.probes.pairs import pair_view
from sandbox_judge.probes.session import Probing
from sandbox_judge.recipe.judge_file import read_judge_file
from sandbox_judge.settings import LiveSettings
from sandbox_judge.testing.scripted import ScriptedModel

SHORT_CHARS = 4_000  # 1,000 tokens at the usual four characters
JUDGES = {
    "agentprocessbench": "pass: the final answer is right and what the tools returned supports it.\n"
    "  fail: it is wrong, or nothing that was returned supports it.",
    "begin": "pass: every claim of the reply is supported by the source in the system message.\n"
    "  fail: a claim is not supported by it.\n  not_applicable: the reply makes no claim.",
    "conture": "pass: the last reply fits what the person said and makes sense.\n"
    "  fail: it does not fit, contradicts what was said, or makes no sense.",
    "pandalm": "pass: the answer does what was asked, correctly and completely.\n  fail: it does not.",
}


def judge_of(name):
    text = f"name: {name}\ninstructions: |\n  {JUDGES[name]}\nllm:\n  model: scripted\n"
    return read_judge_file(f"judges/{name}.yaml", text.encode()).judge


def agentprocessbench(folder):
    plan = Plan(
        expected="final_label",
        approved_by="AgentProcessBench",
        words=parse_map("1=pass,-1=fail"),
        split="dev",
    )
    path = folder / "agentprocessbench" / "hotpotqa.jsonl"
    return import_rows(path.read_bytes(), name=path.name, plan=plan).rows


def begin(folder):
    words = {"Fully attributable": "pass", "Not fully attributable": "fail", "Generic": "not_applicable"}
    plan = Plan(
        expected="begin_label", approved_by="BEGIN", words=words, split="dev",
        system="knowledge", user="message", assistant="response",
    )  # fmt: skip
    rows = []
    for name in ("begin_dev_cmu.tsv", "begin_dev_wow.tsv"):
        rows += import_rows((folder / "begin" / name).read_bytes(), name=name, plan=plan).rows
    return rows


def conture(folder):
    rows = []
    for dialog in json.loads((folder / "conture" / "data.json").read_text()):
        messages = []
        for number, turn in enumerate(dialog["turns"], 1):
            messages.append({"role": "user", "content": turn["user"].removeprefix("User: ")})
            messages.append({"role": "assistant", "content": turn["chatbot"].removeprefix("Chatbot: ")})
            label = {2: "pass", 0: "fail"}.get(turn["overall impression"])
            if label is not None:
                rows.append(
                    new_row(
                        read_conversation(list(messages)),
                        id=f"{dialog['dialog_id']}/{number}",
                        source=f"import:data.json dialog {dialog['dialog_id']} turn {number}",
                        expected=label,
                        split="dev",
                        approved_by="ConTurE",
                    )
                )
    return rows


def pandalm(folder):
    records = json.loads((folder / "pandalm" / "testset-v1.json").read_text())
    votes = [[record[f"annotator{n}"] for n in (1, 2, 3)] for record in records]
    for record, given in zip(records, votes, strict=True):
        best = max(set(given), key=given.count)
        record["majority"] = best if given.count(best) > 1 else "none"
    plan = Plan(
        expected="majority", approved_by="PandaLM", words=parse_map("0=tie,1=first,2=second,none=skip"),
        user="instruction,input", pair=("response1", "response2"), id="idx",
    )  # fmt: skip
    return import_rows(json.dumps(records).encode(), name="testset-v1.json", plan=plan).rows


class Watching(Grader):
    """A grader that keeps each answer by its view."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.answers = {}

    async def trial(self, conversation, *, view=None, **more):
        trial = await super().trial(conversation, view=view, **more)
        self.answers[view.sequence_hash] = trial.answer
        return trial


def scripted(call):
    """By the dice of the prompt, the same each time; one reply of fifty is a refusal."""
    content = call.messages[-1]["content"]
    dice = random.Random(content)
    if dice.random() < 0.02:
        return "I can't assist with this request."
    pair = '"label"' in content
    word = dice.choice(("first", "second", "tie") if pair else ("pass", "fail", "not_applicable"))
    return json.dumps({"reasoning": "By the dice.", "evidence": [], ("label" if pair else "verdict"): word})


def against_sklearn(pairs, figures):
    """Whether the figures are scikit-learn's on the rows that have a verdict."""
    valid = [(label, said) for label, said in pairs if said is not None]
    if not valid:
        return all(value is None for value in figures.values())
    labels, said = zip(*valid, strict=True)
    one = {"average": None, "zero_division": math.nan}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = {
            "fail_recall": metrics.recall_score(labels, said, labels=["fail"], **one)[0],
            "pass_recall": metrics.recall_score(labels, said, labels=["pass"], **one)[0],
            "fail_precision": metrics.precision_score(labels, said, labels=["fail"], **one)[0],
            "agreement": metrics.accuracy_score(labels, said),
            "kappa": metrics.cohen_kappa_score(labels, said),
        }
    return all(
        (figures[name] is None) if math.isnan(value) else math.isclose(figures[name], value, abs_tol=1e-12)
        for name, value in theirs.items()
    )


def told(name, who, taken, found, equal, seconds):
    shown = {key: None if value is None else round(value, 3) for key, value in found.figures.items()}
    print(f"{name}, {who}: {taken} rows, {found.n} with a verdict, {seconds:.1f} s; invalid {found.invalid}")
    print(f"    {shown}")
    interval = found.intervals["kappa"]
    print(
        f"    kappa between {interval and [round(v, 3) for v in interval]}; as scikit-learn: {equal}",
        flush=True,
    )


async def fixtures(name, dataset, rows, grader, who):
    began = time.monotonic()
    measuring = Measuring(grader, dataset, repeats=1, step=lambda reused: None)
    measured = await measuring.run(rows, concurrency=1 if grader.local else 8, max_invalid=1.0)
    views = {row.sequence_hash: row for row in rows}
    if grader.allowance != ALLOWANCE:
        views = {}
        for known, row in dataset.read(rows):
            views[build_view(row.conversation, allowance=grader.allowance).sequence_hash] = known
    pairs = [(views[key].expected, answer) for key, answer in grader.answers.items()]
    if len(pairs) < len(rows):  # equal views were asked once: the figures count each row
        by_view = grader.answers
        pairs = [(row.expected, by_view.get(row.sequence_hash)) for row in rows]
    told(name, who, len(rows), measured.agreement, against_sklearn(pairs, measured.agreement.figures),
         time.monotonic() - began)  # fmt: skip


async def pairs(name, dataset, rows, grader, who):
    began = time.monotonic()
    probing = Probing(grader, dataset, wanted=frozenset({"pairs"}), step=lambda reused: None)
    await probing.run(rows, concurrency=1 if grader.local else 8)
    found = probing.pairs
    print(
        f"{name}, {who}: {len(rows)} pairs both ways, {found.n} with two answers, {found.kept} keep their "
        f"preference, {found.agreed} of {found.labelled} of these agree with the label; first both times "
        f"{found.first_both_times}, second {found.second_both_times}; {time.monotonic() - began:.1f} s",
        flush=True,
    )


def short(dataset, rows, most):
    taken = []
    for known, row in dataset.read(rows):
        view = (
            pair_view(*row.candidates, allowance=ALLOWANCE)
            if known.kind == "judge_pair"
            else build_view(row.conversation)
        )
        if len(view.text) <= SHORT_CHARS:
            taken.append(known)
        if len(taken) == most:
            break
    return taken


async def main(folder, local_s, most):
    with tempfile.TemporaryDirectory() as scratch:
        for number, make in enumerate((begin, conture, pandalm, agentprocessbench)):
            name = make.__name__
            path = Path(scratch) / f"{name}.jsonl"
            append_rows(path, make(folder))
            dataset = read_dataset(path)
            assert not dataset.faults, dataset.faults[:3]
            run = pairs if dataset.pairs else fixtures
            lanes = Lanes({}, given=None if local_s else {"openai_wire": ScriptedModel(scripted)})
            log = VerdictLog(Path(scratch) / "log", {"set": name, "local": bool(local_s)})
            grader = Watching(
                judge_of(name),
                settings=LiveSettings(sources=()),
                environ={"OPENAI_API_KEY": "none"},
                lanes=lanes,
                log=log,
                deadline=anyio.current_time() + local_s / (4 - number) if local_s else math.inf,
                local=bool(local_s),
                allowance=LOCAL_ALLOWANCE if local_s else ALLOWANCE,
            )
            began = anyio.current_time()
            rows = dataset.rows if not local_s else short(dataset, dataset.rows, most)
            await run(name, dataset, rows, grader, "local model" if local_s else "scripted judge")
            local_s = max(1.0, local_s - (anyio.current_time() - began)) if local_s else 0.0
            log.close()
            await lanes.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="LABELLED_DIR")
    parser.add_argument("--local", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--rows", type=int, default=60)
    asked = parser.parse_args()
    anyio.run(main, asked.folder, asked.local, asked.rows)
