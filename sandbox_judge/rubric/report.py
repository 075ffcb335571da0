"""`validation_report.json` (`spec/rubric.md`): reading versions 1 and 2, merging scores, the verdict. Pure.

`checks` is the truth; verdict, average and the mirrors for readers of version 1 follow from it. Entries that
others wrote stay as they are; a written verdict is only a hint. Only entries of kind `judge` are ours: their
score is read strictly, and their threshold is the runbook's.
"""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from sandbox_judge.canonical import sanitised
from sandbox_judge.caps import ERROR_CHARS, REASONING_CHARS, cut
from sandbox_judge.errors import InputError
from sandbox_judge.rubric.criteria import DEFAULT_AVERAGE, HIGHEST, Bar, Criterion, number, slug
from sandbox_judge.rubric.scores import INDEPENDENT, SOURCES, Score, mean_of, whole_score

VERSION: Final = 2
MOST_BYTES: Final = 16 * 1024 * 1024
STATUSES: Final = ("pass", "fail", "skipped", "error")
# What makes a run fail, by kind; an unknown kind is kept and counts for nothing.
FAILING: Final[Mapping[str, tuple[str, ...]]] = {
    "code_check": ("fail", "error"),
    "checklist": ("fail", "error"),
    "judge": ("fail", "error"),
    "step": ("fail", "error"),
}
_AVERAGE_IDS: Final = "overall-rubric-average-is-"
_OWN_VERDICT: Final = "version-1-verdict"
_ORDER: Final = (
    "version",
    "run_date",
    "parameters",
    "verdict",
    "overall_passed",
    "iterations",
    "checks",
    "overall_score",
    "pass_threshold",
    "output_files",
    "stages",
    "results",
    "rubric_scores",
)

Check = dict[str, Any]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A report as it was read. `version` 1 keeps its own `overall_passed` as the verdict."""

    version: int
    checks: tuple[Check, ...]
    rest: Mapping[str, Any] = {}

    @property
    def passed(self) -> bool:
        if self.version == 1:
            return self.rest.get("overall_passed") is True
        return verdict_of(self.checks)


def read_report(data: bytes, *, name: str) -> Report:
    """Raises InputError for what is no report. NaN, which is no JSON, is read as a word: no score."""
    if len(data) > MOST_BYTES:
        raise InputError("is larger than 16 MiB, which no report is.", where=name)
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}.", where=name) from error
    if not isinstance(value, dict):
        raise InputError("is no report: its JSON is not an object.", where=name)
    value = sanitised(value)
    checks = value.get("checks")
    if value.get("version") != VERSION and not isinstance(checks, list):
        return Report(version=1, checks=_of_version_1(value), rest=value)
    if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks):
        raise InputError("is no report of version 2: `checks` must be a list of objects.", where=name)
    rest = {key: given for key, given in value.items() if key != "checks"}
    return Report(version=VERSION, checks=tuple(checks), rest=rest)


def _of_version_1(value: Mapping[str, Any]) -> tuple[Check, ...]:
    """Stages as steps, scores as self-given ones, and the verdict as an item of its own."""
    checks: list[Check] = []
    stages = value.get("stages")
    for stage in stages if isinstance(stages, list) else ():
        if isinstance(stage, dict) and isinstance(stage.get("name"), str):
            status = "pass" if stage.get("passed") is True else "fail"
            step = {"kind": "step", "id": slug(stage["name"]), "name": stage["name"], "status": status}
            checks.append({**step, "message": _text(stage.get("message"))})
    scores = value.get("rubric_scores")
    for id, given in (scores if isinstance(scores, dict) else {}).items():
        score, notes = (given.get("score"), given.get("notes")) if isinstance(given, dict) else (given, "")
        entry = {"kind": "judge", "id": slug(id) or id, "name": id, "score": score, "source": "self"}
        checks.append({**entry, "message": _text(notes)})
    passed = value.get("overall_passed") is True
    own = {"kind": "checklist", "id": _OWN_VERDICT, "name": "The verdict of the version 1 report"}
    return (*checks, {**own, "status": "pass" if passed else "fail"})


def merged(
    report: Report | None,
    scores: Sequence[Score],
    *,
    bar: Bar,
    criteria: Sequence[Criterion] | None,
    fill: Mapping[str, Any],
) -> dict[str, Any]:
    """The report with `scores` in it, as JSON of version 2. `criteria` None: no runbook is known, and every
    judge entry counts. `fill` gives keys (run_date, output_files, …) where the report has none."""
    checks = [dict(check) for check in report.checks] if report is not None else []
    for score in scores:
        checks = _with_score(checks, score)
    checks = _one_each(checks)
    known = None if criteria is None else {criterion.id for criterion in criteria}
    checks = [_judged(check, bar, known) if check.get("kind") == "judge" else check for check in checks]
    counted = [
        check["score"]
        for check in checks
        if check.get("kind") == "judge"
        and "score" in check
        and (known is None or str(check.get("id")) in known)
    ]
    mean = mean_of(counted)
    if criteria is not None or mean is not None:
        checks = _with_average(checks, mean, bar)
    rest = dict(report.rest) if report is not None else {}
    for key, value in fill.items():
        if rest.get(key) in (None, [], {}, ""):
            rest[key] = value
    return _whole(rest, checks, mean, bar)


def verdict_of(checks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether `checks` pass: none fails the run, and there is one at all that passes."""
    statuses = [(check.get("kind"), check.get("status")) for check in checks]
    for kind, status in statuses:
        if isinstance(kind, str) and kind in FAILING and (status not in STATUSES or status in FAILING[kind]):
            return False
    return any(isinstance(kind, str) and kind in FAILING and status == "pass" for kind, status in statuses)


def entry_of(score: Score) -> Check:
    """One scored criterion as an entry, before its threshold is known."""
    entry: Check = {"kind": "judge", "id": score.id, "name": score.name, "source": score.source}
    if score.error is not None:
        message = cut(f"{score.error.type}: {score.error.message}", ERROR_CHARS)
        return {**entry, "status": "error", "message": message, "max_score": HIGHEST}
    entry |= {"score": score.score, "max_score": HIGHEST, "message": cut(score.message, REASONING_CHARS)}
    entry["evidence"] = [msgspec.to_builtins(quote) for quote in score.evidence]
    if len(score.samples) > 1:
        entry["samples"] = list(score.samples)
    return entry


def self_scores(report: Report) -> dict[str, list[Check]]:
    """The judge entries that the agent itself wrote, by criterion."""
    found: dict[str, list[Check]] = {}
    for check in report.checks:
        if check.get("kind") == "judge" and check.get("source", "self") not in INDEPENDENT:
            found.setdefault(str(check.get("id")), []).append(check)
    return found


def _with_score(checks: list[Check], score: Score) -> list[Check]:
    """One judge entry a criterion: the latest independent score; a self-given one stands beside it."""
    mine = [check for check in checks if check.get("kind") == "judge" and check.get("id") == score.id]
    others = [check for check in checks if not any(check is one for one in mine)]
    entry = entry_of(score)
    given = [note for check in mine for note in _self_given(check)]
    independent = [check for check in mine if check.get("source") in INDEPENDENT]
    if score.source == "self":
        if not independent:
            return [*others, entry]
        given += _self_given(entry)
        entry = independent[-1]
    if given:
        entry = {**entry, "self_scores": _unlike(given)}
    return [*others, entry]


def _one_each(checks: Sequence[Check]) -> list[Check]:
    """One judge entry a criterion, whoever wrote several: the last independent one. Two self-given ones that
    differ are none: nobody can say which was meant."""
    groups: dict[str, list[Check]] = {}
    for check in checks:
        if check.get("kind") == "judge":
            groups.setdefault(str(check.get("id")), []).append(check)
    chosen: dict[int, Check] = {}
    for group in (group for group in groups.values() if len(group) > 1):
        independent = [check for check in group if check.get("source") in INDEPENDENT]
        entry = independent[-1] if independent else group[0]
        scores = _unlike([{"score": check.get("score")} for check in group])
        if independent:
            given = [note for check in group for note in _self_given(check)]
            entry = {**entry, "self_scores": _unlike(given)} if given else entry
        elif len(scores) > 1:
            shown = " and ".join(cut(json.dumps(one["score"]), 20) for one in scores[:3])
            entry = {key: value for key, value in entry.items() if key != "score"}
            entry |= {"status": "error", "message": f"scored more than once, as {shown}"}
        chosen |= {id(check): entry if check is group[0] else {} for check in group}
    return [one for check in checks if (one := chosen.get(id(check), check))]


def _self_given(check: Mapping[str, Any]) -> list[Check]:
    kept = check.get("self_scores")
    notes = [one for one in kept if isinstance(one, dict)] if isinstance(kept, list) else []
    if check.get("source", "self") not in INDEPENDENT:
        note = {"score": check.get("score"), "message": _text(check.get("message"))}
        notes.append({key: value for key, value in note.items() if value not in (None, "")})
    return [note for note in notes if note]


def _unlike(notes: Sequence[Check]) -> list[Check]:
    unlike: list[Check] = []
    for note in notes:
        if note not in unlike:
            unlike.append(note)
    return unlike


def _judged(check: Check, bar: Bar, known: set[str] | None) -> Check:
    """A judge entry with the status that its score has. An entry for no criterion of the rubric keeps its own
    threshold; what is no score is an error, and is said."""
    ours = known is None or str(check.get("id")) in known
    own = check.get("threshold")
    usable = isinstance(own, int | float) and not isinstance(own, bool)
    if ours and (known is not None or not usable):
        threshold: float = bar.floor_of(str(check.get("id")))
    else:
        threshold = float(own) if usable and own is not None else bar.floor
    judged = {**check, "max_score": check.get("max_score", HIGHEST), "threshold": number(threshold)}
    if judged.get("source") not in SOURCES:
        judged["source"] = "self"
    if "score" not in check:
        return {**judged, "status": check.get("status") if check.get("status") == "skipped" else "error"}
    score = whole_score(check["score"])
    if score is None:
        del judged["score"]
        shown = cut(json.dumps(check["score"]), 60)
        message = f"the score {shown} is not a whole number from 1 to 5"
        said = _text(check.get("message"))
        return {**judged, "status": "error", "message": f"{message}; {said}" if said else message}
    return {**judged, "score": score, "status": "pass" if score >= threshold else "fail"}


def _with_average(checks: Sequence[Check], mean: Fraction | None, bar: Bar) -> list[Check]:
    """The computed item about the average, in the place of one that was written."""
    name = bar.item
    item: Check = {"kind": "checklist", "id": slug(name), "name": name}
    item["status"] = "pass" if mean is not None and bar.reached_by(mean) else "fail"
    item["message"] = "nothing was scored" if mean is None else f"the average is {_exact(mean)}"
    written = [n for n, check in enumerate(checks) if check.get("id") == item["id"]]
    if not written:
        judges = [n for n, check in enumerate(checks) if check.get("kind") == "judge"]
        at = judges[0] if judges else len(checks)
        return [*checks[:at], item, *checks[at:]]
    kept = [check for n, check in enumerate(checks) if n not in written[1:]]
    return [{**check, **item} if check.get("id") == item["id"] else check for check in kept]


def _whole(
    rest: Mapping[str, Any], checks: Sequence[Check], mean: Fraction | None, bar: Bar
) -> dict[str, Any]:
    passed = verdict_of(checks)
    whole: dict[str, Any] = {
        **rest,
        "version": VERSION,
        "verdict": "pass" if passed else "fail",
        "overall_passed": passed,
        "checks": list(checks),
        "overall_score": None if mean is None else float(mean),
        "pass_threshold": bar.average,
        "stages": _stages(checks),
        "rubric_scores": _rubric_scores(checks),
    }
    whole.setdefault("iterations", 1)
    whole.setdefault("parameters", {})
    whole.setdefault("output_files", [])
    if not isinstance(whole.get("results"), dict):
        whole["results"] = {"pass": 0, "partial": 0, "fail": 0}
    first: dict[str, Any] = {key: whole[key] for key in _ORDER if key in whole}
    return {**first, **{key: value for key, value in whole.items() if key not in first}}


def _stages(checks: Sequence[Check]) -> list[Check]:
    return [
        {
            "name": check.get("id") or check.get("name") or "",
            "passed": check.get("status") in ("pass", "skipped"),
            "message": _text(check.get("message")),
        }
        for check in checks
        if check.get("kind") == "step"
    ]


def _rubric_scores(checks: Sequence[Check]) -> dict[str, Check]:
    return {
        str(check.get("id")): {"score": check["score"], "notes": _text(check.get("message"))}
        for check in checks
        if check.get("kind") == "judge" and "score" in check
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _exact(mean: Fraction) -> str:
    """The mean as a decimal where it is one, else the fraction beside it: never rounded up to the bar."""
    decimal = f"{float(mean):.4f}".rstrip("0").rstrip(".")
    return (
        decimal if Fraction(decimal) == mean else f"{mean.numerator}/{mean.denominator} ({float(mean):.4f})"
    )


def bar_of(report: Report | None) -> Bar:
    """The bar that a report itself states, where no runbook is at hand."""
    stated = None if report is None else report.rest.get("pass_threshold")
    usable = isinstance(stated, int | float) and not isinstance(stated, bool) and 1 <= stated <= HIGHEST
    return Bar(average=float(stated) if usable and stated is not None else DEFAULT_AVERAGE)
