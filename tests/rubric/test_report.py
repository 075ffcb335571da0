"""validation_report.json: the verdict follows from the checks, whoever wrote what."""

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rubric_scripts import runbook

from sandbox_judge.errors import InputError
from sandbox_judge.nulls import Invalid
from sandbox_judge.rubric.criteria import Bar
from sandbox_judge.rubric.report import merged, read_report, verdict_of
from sandbox_judge.rubric.report_schema import report_schema
from sandbox_judge.rubric.scores import Located, Score

BOOK = runbook()
SCHEMA = jsonschema.Draft202012Validator(report_schema())


def score(id, value, source="judge", **more):
    return Score(id=id, name=id.title(), source=source, score=value, message="because", **more)


def merge(report=None, scores=(), *, book=BOOK, bar=None):
    read = None if report is None else read_report(json.dumps(report).encode(), name="r")
    whole = merged(
        read, scores, bar=bar or (book.bar if book else Bar()), criteria=book and book.criteria, fill={}
    )
    json.dumps(whole, allow_nan=False)
    SCHEMA.validate(whole)
    return whole


def judges(whole):
    return {check["id"]: check for check in whole["checks"] if check["kind"] == "judge"}


def item(whole, bar=BOOK.bar):
    (found,) = [check for check in whole["checks"] if check["id"] == bar.item_id]
    return found


def test_the_shared_example_keeps_its_shape_and_its_verdict(shared):
    data = (shared / "cases" / "runbooks" / "validation_report_v2_example.json").read_bytes()
    before = json.loads(data)
    report = read_report(data, name="example")
    assert report.passed is False
    whole = merged(report, (), bar=Bar(), criteria=None, fill={})
    SCHEMA.validate(whole)
    assert whole["verdict"] == "fail"
    for key in ("run_date", "parameters", "iterations", "output_files", "overall_score", "stages",
                "rubric_scores", "results"):  # fmt: skip
        assert whole[key] == before[key], key
    others = [check for check in before["checks"] if check["kind"] != "judge"]
    kept = [check for check in whole["checks"] if check["kind"] != "judge"]
    assert [{k: v for k, v in check.items() if k != "message"} for check in kept] == [
        {k: v for k, v in check.items() if k != "message"} for check in others
    ]
    assert list(whole)[:7] == list(before)[:7]


def test_scores_make_a_report_with_its_mirrors():
    evidence = (Located(quote="380.70", verified=True, file="report.md", line=3),)
    whole = merge(
        None, [score("accuracy", 5, evidence=evidence), score("completeness", 4), score("clarity", 3)]
    )
    assert (whole["version"], whole["verdict"], whole["overall_score"]) == (2, "pass", 4.0)
    assert item(whole)["status"] == "pass"
    assert judges(whole)["accuracy"] == {
        "kind": "judge",
        "id": "accuracy",
        "name": "Accuracy",
        "source": "judge",
        "score": 5,
        "max_score": 5,
        "message": "because",
        "evidence": [{"quote": "380.70", "verified": True, "file": "report.md", "line": 3}],
        "threshold": 3,
        "status": "pass",
    }
    assert whole["rubric_scores"]["clarity"] == {"score": 3, "notes": "because"}


def test_a_mean_just_below_the_bar_fails():
    book = runbook(
        "| Criterion | 5 | 3 | 1 |\n|-|-|-|-|\n"
        + "".join(f"| C{n} | a | b | c |\n" for n in range(20))
        + "\nPass threshold: average >= 4.0, no criterion below 3\n"
    )
    whole = merge(None, [score(f"c{n}", 3 if n == 0 else 4) for n in range(20)], book=book)
    assert (whole["overall_score"], whole["verdict"]) == (3.95, "fail")
    assert item(whole)["message"] == "the average is 3.95"


def test_an_error_has_no_score_and_is_not_averaged():
    null = Score(
        id="clarity", name="Clarity", source="judge", error=Invalid(type="timeout", message="too late")
    )
    whole = merge(None, [score("accuracy", 5), score("completeness", 5), null])
    assert judges(whole)["clarity"]["status"] == "error"
    assert "score" not in judges(whole)["clarity"]
    assert (whole["overall_score"], whole["verdict"]) == (5.0, "fail")
    assert "clarity" not in whole["rubric_scores"]


def test_a_criterion_that_nobody_reported_gets_no_entry():
    whole = merge(
        {"version": 2, "checks": [{"kind": "judge", "id": "accuracy", "status": "pass", "score": 4}]}
    )
    assert set(judges(whole)) == {"accuracy"}


def test_an_independent_score_moves_the_agents_own_aside():
    own = {
        "kind": "judge",
        "id": "accuracy",
        "name": "Accuracy",
        "status": "pass",
        "score": 5,
        "message": "great",
    }
    whole = merge({"version": 2, "checks": [own]}, [score("accuracy", 2)])
    entry = judges(whole)["accuracy"]
    assert (entry["score"], entry["status"], entry["source"]) == (2, "fail", "judge")
    assert entry["self_scores"] == [{"score": 5, "message": "great"}]
    assert whole["overall_score"] == 2.0
    again = merge(whole, [score("accuracy", 4, source="grader")])
    assert judges(again)["accuracy"]["source"] == "grader"
    assert judges(again)["accuracy"]["self_scores"] == [{"score": 5, "message": "great"}]
    later = merge(again, [score("accuracy", 5, source="self")])
    assert judges(later)["accuracy"]["score"] == 4
    assert {"score": 5, "message": "because"} in judges(later)["accuracy"]["self_scores"]


LIES = [
    ({"score": 2, "status": "pass"}, "fail"),
    ({"score": 2, "status": "pass", "threshold": 1}, "fail"),
    ({"score": "5", "status": "pass"}, "error"),
    ({"score": "4/5", "status": "pass"}, "error"),
    ({"score": 4.5, "status": "pass"}, "error"),
    ({"score": 50, "status": "pass", "max_score": 50}, "error"),
    ({"score": True, "status": "pass"}, "error"),
    ({"score": None, "status": "pass"}, "error"),
    ({"score": float("nan"), "status": "pass"}, "error"),
    ({"score": [5], "status": "pass"}, "error"),
    ({"status": "pass"}, "error"),
    ({"status": "skipped"}, "skipped"),
    ({"score": 3.0, "status": "fail"}, "pass"),
]


@pytest.mark.parametrize(("entry", "status"), LIES)
def test_a_written_status_is_only_a_hint(entry, status):
    report = {"version": 2, "verdict": "pass", "overall_passed": True,
              "checks": [{"kind": "judge", "id": "accuracy", **entry}]}  # fmt: skip
    whole = merge(report)
    assert judges(whole)["accuracy"]["status"] == status
    assert whole["verdict"] == "fail"  # 3 of 5 is no 4.0 either


def test_invented_criteria_do_not_raise_the_mean():
    checks = [
        {"kind": "judge", "id": "accuracy", "status": "pass", "score": 3},
        *(
            {"kind": "judge", "id": f"bonus-{n}", "status": "pass", "score": 5, "threshold": 1}
            for n in range(9)
        ),
    ]
    whole = merge({"version": 2, "checks": checks})
    assert (whole["overall_score"], whole["verdict"]) == (3.0, "fail")
    assert len(judges(whole)) == 10


def test_a_criterion_scored_twice_is_one_entry_and_no_score_where_they_differ():
    twice = [{"kind": "judge", "id": "accuracy", "status": "pass", "score": s} for s in (5, 2)]
    whole = merge({"version": 2, "checks": twice})
    assert len(whole["checks"]) == 2
    assert judges(whole)["accuracy"]["status"] == "error"
    same = [{"kind": "judge", "id": "accuracy", "status": "pass", "score": 5}] * 2
    assert judges(merge({"version": 2, "checks": same}))["accuracy"]["score"] == 5


def test_entries_of_others_survive_untouched():
    others = [
        {"kind": "step", "id": "setup", "status": "pass", "weird": [1, {"a": None}]},
        {"kind": "code_check", "id": "x", "status": "pass", "details": {"exit_code": 0}},
        {"kind": "audit", "id": "y", "status": "fail", "note": "not ours"},
    ]
    whole = merge(
        {"version": 2, "checks": others, "vendor": {"k": 1}},
        [score(c.id, 5) for c in BOOK.criteria],
    )
    for other in others:
        assert other in whole["checks"]
    assert whole["vendor"] == {"k": 1}
    assert whole["verdict"] == "pass"
    assert whole["stages"] == [{"name": "setup", "passed": True, "message": ""}]


@pytest.mark.parametrize(
    ("kind", "status", "passed"),
    [
        ("code_check", "fail", False),
        ("code_check", "error", False),
        ("code_check", "skipped", True),
        ("checklist", "fail", False),
        ("step", "fail", False),
        ("judge", "error", False),
        ("step", "done", False),
        ("audit", "fail", True),
    ],
)
def test_what_fails_a_run(kind, status, passed):
    good = {"kind": "checklist", "id": "a", "status": "pass"}
    assert verdict_of([good, {"kind": kind, "id": "b", "status": status}]) is passed


def test_nothing_checked_and_nothing_scored_is_no_pass():
    assert verdict_of([]) is False
    assert verdict_of([{"kind": "step", "id": "a", "status": "skipped"}]) is False
    whole = merge({"version": 2, "checks": [{"kind": "step", "id": "a", "status": "pass"}]})
    assert (whole["verdict"], whole["overall_score"], item(whole)["message"]) == (
        "fail",
        None,
        "nothing was scored",
    )


def test_the_average_item_follows_the_runbooks_numbers_and_not_the_agents_word():
    bar = Bar(average=3.5)
    written = {"kind": "checklist", "id": bar.item_id, "name": "x", "status": "pass", "by": "agent"}
    whole = merge({"version": 2, "checks": [written]}, [score("accuracy", 3)], bar=bar)
    assert item(whole, bar)["status"] == "fail"
    assert item(whole, bar)["by"] == "agent"
    assert whole["pass_threshold"] == 3.5


V1 = {
    "version": "1.0.0",
    "overall_passed": True,
    "stages": [{"name": "Set Up", "passed": True, "message": "ok"}],
    "results": {"pass": 6, "partial": 0, "fail": 0},
    "rubric_scores": {"Accuracy": {"score": 5, "notes": "fine"}, "clarity": 4},
}


def test_version_1_keeps_its_own_verdict():
    for passed in (True, False):
        report = read_report(json.dumps({**V1, "overall_passed": passed}).encode(), name="r")
        assert (report.version, report.passed) == (1, passed)
    assert read_report(b"{}", name="r").passed is False


def test_version_1_becomes_version_2_and_loses_no_failure():
    whole = merge(V1)
    assert judges(whole)["accuracy"]["score"] == 5
    assert judges(whole)["clarity"]["score"] == 4
    assert whole["results"] == {"pass": 6, "partial": 0, "fail": 0}
    assert whole["verdict"] == "pass"
    assert merge({**V1, "overall_passed": False})["verdict"] == "fail"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"nul", b'"x"', b'{"version": 2, "checks": [5]}', b"[" * 100_000]
)
def test_what_is_no_report_is_an_input_error(data):
    with pytest.raises(InputError):
        read_report(data, name="r")


leaf = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    leaf,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
check = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["judge", "step", "checklist", "code_check"]) | anything,
        "id": st.sampled_from(["accuracy", "clarity"]) | anything,
        "status": st.sampled_from(["pass", "fail", "error", "skipped"]) | anything,
        "score": st.integers(0, 6) | anything,
        "threshold": anything,
        "self_scores": anything,
        "source": st.sampled_from(["self", "judge"]) | anything,
        "message": anything,
    },
)


@settings(max_examples=60)
@given(st.lists(check, max_size=6), st.lists(st.integers(1, 5), max_size=3))
def test_merging_never_raises_and_agrees_with_itself(checks, values):
    scores = [score(c.id, v) for c, v in zip(BOOK.criteria, values, strict=False)]
    report = read_report(json.dumps({"version": 2, "checks": checks}).encode(), name="r")
    whole = merged(report, scores, bar=BOOK.bar, criteria=BOOK.criteria, fill={})
    text = json.dumps(whole, allow_nan=False)
    assert whole["overall_passed"] == verdict_of(whole["checks"])
    again = merged(read_report(text.encode(), name="r"), (), bar=BOOK.bar, criteria=BOOK.criteria, fill={})
    assert again == whole
