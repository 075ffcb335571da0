"""One calibration: the set held against its rules, the guard of the test split, the measuring, the record."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from sandbox_judge.calibration.agreement import FIGURES, Agreement, require_science
from sandbox_judge.calibration.check import set_faults
from sandbox_judge.calibration.dataset import Dataset, Known, read_dataset, refuse
from sandbox_judge.calibration.edit import write_whole
from sandbox_judge.calibration.looks import Guarded, guard, look_rows
from sandbox_judge.calibration.measure import Measured, Measuring
from sandbox_judge.calibration.record import (
    MAX_BYTES,
    Answering,
    Asked,
    Look,
    Record,
    Result,
    endpoint_word,
    read_record,
    record_bytes,
)
from sandbox_judge.calibration.row import FixtureRow, Split
from sandbox_judge.calibration.shortcuts import Features, Shortcut, features, shortcuts
from sandbox_judge.calibration.trials import Grader
from sandbox_judge.clock import utc_now
from sandbox_judge.contract import CONTRACT_VERSION
from sandbox_judge.conversation.events import gate_events
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.gate.gate import Missed, decide
from sandbox_judge.gate.match import compile_gate
from sandbox_judge.nulls import Invalid
from sandbox_judge.recipe.judge import Judge

# A gate that takes longer would be a null in the hook too.
_GATE_S: Final = 1.0
_FLOORED: Final = ("fail_recall", "pass_recall")


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a calibration was asked for. `floors` by figure; `certify`: the interval's lower bound must reach
    them, on a first look; `again` is why spent rows are looked at again."""

    dataset: Path
    record: Path
    split: Split = "dev"
    repeats: int = 1
    concurrency: int = 8
    max_invalid: float = 0.05
    floors: dict[str, float] = {}
    certify: bool = False
    again: str | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A finished calibration. `look` is None but for the test split; `missed` are floors in words."""

    measured: Measured
    dataset_hash: str
    split: Split
    look: int | None
    shortcuts: tuple[Shortcut, ...]
    missed: tuple[str, ...]
    warnings: tuple[str, ...]
    certified: bool = False

    @property
    def passed(self) -> bool:
        return self.measured.agreement.withheld is None and not self.missed


def prepared(wish: Wish) -> tuple[Dataset, tuple[Known, ...]]:
    """The set, and its labelled rows of the split. Raises InputError where the set is not sound."""
    require_science()
    dataset = read_dataset(wish.dataset)
    refuse([*dataset.faults, *set_faults(dataset.rows)], wish.dataset)
    rows = tuple(row for row in dataset.fixtures if row.split == wish.split and row.expected is not None)
    if not rows:
        raise InputError(
            f"no labelled row stands in the split {wish.split}.",
            where=str(wish.dataset),
            remedy="`sandbox-judge fixture label` asks a person for labels.",
        )
    return dataset, rows


async def calibrate(
    wish: Wish, grader: Grader, dataset: Dataset, rows: Sequence[Known], *, step: Callable[[bool], None]
) -> Outcome:
    """Measures the judge on the rows. Raises UsageError (the guard, no key), InputError, MissingExtra."""
    endpoint = grader.endpoint
    if isinstance(endpoint, Invalid):
        raise UsageError(f"the model cannot be asked: {endpoint.message}.", remedy="Nothing was graded.")
    grader.model()
    llm = grader.judge.llm
    asked = Asked(provider=llm.provider, model=llm.model, endpoint=endpoint_word(endpoint))
    record, guarded = _guarded(wish, grader, dataset, asked) if wish.split == "test" else (None, None)
    measuring = Measuring(grader, dataset, repeats=wish.repeats, step=step)
    measured = await measuring.run(rows, concurrency=wish.concurrency, max_invalid=wish.max_invalid)
    found, missed = await _read_again(grader.judge, dataset, rows)
    outcome = Outcome(
        measured=measured,
        dataset_hash=dataset.dataset_hash,
        split=wish.split,
        look=guarded.look if guarded is not None else None,
        shortcuts=found,
        missed=tuple(_missed(measured.agreement, wish)),
        warnings=(*_gate_warning(missed, len(rows)), *_warnings(measured, found, wish)),
        certified=wish.certify,
    )
    if record is not None and measured.agreement.withheld is None:
        _append_result(wish, record, outcome, dataset, grader, asked)
    return outcome


def read_record_file(path: Path, judge: str) -> Record:
    """The record beside a judge; an empty one where there is none. Raises InputError."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return Record(judge=judge)
    except OSError as error:
        raise InputError(f"the record cannot be read ({error.strerror}).", where=str(path)) from error
    if len(data) > MAX_BYTES:
        raise InputError(f"the record is larger than {MAX_BYTES:,} bytes.", where=str(path))
    return read_record(data, where=str(path), judge=judge)


async def _read_again(
    judge: Judge, dataset: Dataset, rows: Sequence[Known]
) -> tuple[tuple[Shortcut, ...], int]:
    """What surface features would reach on these rows, and how many of them the judge's gate lets pass by."""
    gate, missed = compile_gate(judge.on), 0
    seen: list[tuple[str, Features]] = []
    for _, row in dataset.read(rows):
        if isinstance(row, FixtureRow):
            seen.append((str(row.expected), features(row.conversation)))
            if gate.matchers:
                until = anyio.current_time() + _GATE_S
                outcomes = await decide([gate], list(gate_events(row.conversation)), deadline=until)
                missed += isinstance(outcomes[0], Missed)
    return shortcuts(seen), missed


def _gate_warning(missed: int, rows: int) -> tuple[str, ...]:
    if not missed:
        return ()
    return (
        f"{missed} of {rows} rows never reach this judge in the hook: its gate (`on`) does not match them",
    )


def _guarded(wish: Wish, grader: Grader, dataset: Dataset, asked: Asked) -> tuple[Record, Guarded]:
    """The record with this look in it, on disk before any call. Raises UsageError where it may not be."""
    judge = grader.judge
    record = read_record_file(wish.record, judge.name)
    rows = dataset.fixtures
    guarded = guard(
        record,
        rows,
        definition_hash=judge.definition_hash,
        contract_version=CONTRACT_VERSION,
        llm=asked,
    )
    if wish.certify and guarded.look > 1:
        raise UsageError(
            f"this would be look {guarded.look} at the test split; only a first look certifies.",
            where="--certify",
            remedy="Label fresh rows for the test split.",
        )
    if guarded.refusals and not wish.again:
        raise UsageError(
            f"the test split is spent: {'; '.join(guarded.refusals)}.",
            where=str(wish.record),
            remedy='Label fresh rows, or look again with --again "reason", which the record keeps.',
        )
    if not guarded.resumes:
        look = Look(
            definition_hash=judge.definition_hash,
            contract_version=CONTRACT_VERSION,
            llm=asked,
            at=utc_now(),
            rows=look_rows(rows),
            reason=wish.again if guarded.refusals else None,
        )
        record = msgspec.structs.replace(record, looks=(*record.looks, look))
        write_whole(wish.record, record_bytes(record))
    return record, guarded


def _append_result(
    wish: Wish, record: Record, outcome: Outcome, dataset: Dataset, grader: Grader, asked: Asked
) -> None:
    agreement = outcome.measured.agreement
    models = outcome.measured.response_models
    result = Result(
        definition_hash=grader.judge.definition_hash,
        contract_version=CONTRACT_VERSION,
        llm=Answering(
            provider=asked.provider,
            model=asked.model,
            endpoint=asked.endpoint,
            # Several models answered: no one of them has these figures.
            response_model=models[0] if len(models) == 1 else ", ".join(str(name) for name in models),
        ),
        dataset_hash=dataset.dataset_hash,
        test_split_hash=dataset.test_split_hash,
        split=outcome.split,
        look=outcome.look or 1,
        n=agreement.n,
        invalid=agreement.invalid,
        confusion=agreement.confusion,
        figures=agreement.figures,
        intervals=dict(agreement.intervals),
        floors={**{f"min_{name}": value for name, value in wish.floors.items()}, "certify": wish.certify},
        # Without a floor there was nothing to pass: any judge would count as calibrated.
        passed=outcome.passed and bool(wish.floors),
        at=utc_now(),
    )
    record = msgspec.structs.replace(record, results=(*record.results, result))
    write_whole(wish.record, record_bytes(record))


def _missed(agreement: Agreement, wish: Wish) -> list[str]:
    """The floors that do not hold, in words. An undefined figure reaches none."""
    missed = []
    for name in _FLOORED:
        floor = wish.floors.get(name)
        if floor is None or agreement.withheld is not None:
            continue
        value, interval = agreement.figures[name], agreement.intervals[name]
        held = interval.low if wish.certify and interval is not None else value
        what = f"the lower bound of {name}" if wish.certify else name
        if held is None or value is None:
            missed.append(f"{name} is undefined ({agreement.undefined[name]}); the floor is {floor:g}")
        elif held < floor and not math.isclose(held, floor, abs_tol=1e-12):
            missed.append(f"{what} is {held:.4f}, below the floor of {floor:g}")
    return missed


def _warnings(measured: Measured, found: Sequence[Shortcut], wish: Wish) -> list[str]:
    agreement = measured.agreement.figures["agreement"]
    baseline = measured.agreement.figures["majority_baseline"]
    told = []
    if agreement is not None and baseline is not None and agreement <= baseline:
        told.append(
            f"agreement {agreement:.1%} is no better than always saying the commonest label ({baseline:.1%})"
        )
    near = [one for one in found if one.nears(agreement)]
    told += [
        f"{one.feature} alone agrees with {one.agreement:.1%} of the labels ({one.rule}); the judge with "
        f"{agreement:.1%}"
        for one in near[:3]
        if agreement is not None
    ]
    if len(measured.response_models) > 1:
        names = ", ".join(str(name) for name in measured.response_models)
        told.append(f"several models answered: {names}")
    if wish.split == "test" and not wish.floors:
        told.append(
            "no floor was given: the look is recorded, but by it the judge does not count as calibrated; "
            "give --min-fail-recall and --min-pass-recall"
        )
    return told


def as_json(outcome: Outcome, *, judge: str, judge_id: str, definition_hash: str, llm: Any) -> dict[str, Any]:
    """The document of `calibrate -o json` (design, section 13), with what else the reports show."""
    measured, agreement = outcome.measured, outcome.measured.agreement
    stability = measured.stability
    return {
        "judge": judge,
        "judge_id": judge_id,
        "definition_hash": definition_hash,
        "contract_version": CONTRACT_VERSION,
        "dataset_hash": outcome.dataset_hash,
        "split": outcome.split,
        "look": outcome.look,
        "n": agreement.n,
        "invalid": agreement.invalid,
        "confusion": agreement.confusion,
        **{name: agreement.figures[name] for name in FIGURES},
        "intervals": {
            name: None if interval is None else [interval.low, interval.high]
            for name, interval in agreement.intervals.items()
        },
        "undefined": agreement.undefined,
        "disagreements": [msgspec.to_builtins(one) for one in measured.disagreements],
        "counts": {name: list(pair) for name, pair in agreement.counts.items()},
        "passed": outcome.passed,
        "missed": list(outcome.missed),
        "certified": outcome.certified and outcome.passed,
        "llm": {**llm, "response_models": list(measured.response_models)},
        "stability": None
        if stability is None
        else {
            "repeats": stability.repeats,
            "rows": stability.rows,
            "flipped": stability.flipped,
            "share": stability.share,
            "interval": None if stability.interval is None else list(stability.interval),
        },
        "shortcuts": [
            {"feature": one.feature, "agreement": one.agreement, "n": one.n, "rule": one.rule}
            | {"near_judge": one.nears(agreement.figures["agreement"]), "majority": one.majority}
            for one in outcome.shortcuts
        ],
        "faults": [{"message": message, "count": count} for message, count in measured.faults],
        "warnings": list(outcome.warnings),
    }
