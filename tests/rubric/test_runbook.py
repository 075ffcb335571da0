"""Runbooks as they are written in the wild: what is a rubric, what only looks like one, and the bar."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rubric_scripts import RUBRIC, runbook

from sandbox_judge.errors import InputError
from sandbox_judge.rubric.criteria import Bar, slug
from sandbox_judge.rubric.runbook import read_runbook

TABLE = RUBRIC.split("\n\n")[0] + "\n\n"
# file: ids, or None for a look-alike that must be left alone
SHARED = {
    "jettyio-skills_PRD-runbooks.rubric.md": ["criterion-1"],
    "jettyio-skills_rubric-template_v1.rubric.md": [f"criterion-{n}" for n in range(1, 6)],
    "jettyio_deck-generator.rubric.md": None,
    "jettyio_langfuse-trace-optimizer.rubric.md": [
        "evidence",
        "cost-analysis",
        "qualitative-depth",
        "actionability",
        "roadmap",
    ],
    "jettyio_pelican-persona.rubric.md": None,
    "jettyio_posthog-trace-optimizer.rubric.md": [
        "evidence",
        "cost-analysis",
        "qualitative-depth",
        "actionability",
        "roadmap",
    ],
}


def codes(book):
    return {doubt.code for doubt in book.doubts}


def test_every_shared_runbook_is_read_or_left_alone(shared):
    files = sorted((shared / "cases" / "runbooks").glob("*.md"))
    assert files
    for path in files:
        book = read_runbook(path.read_bytes(), name=path.name)
        wanted = SHARED.get(path.name)
        assert [one.id for one in book.criteria] == (wanted or []), path.name
        assert ("rubric_missing" in codes(book)) == (wanted is None)


def test_a_rubric_with_its_anchors_and_lines():
    book = runbook(head="---\nversion: '1'\nevaluation: rubric\nsecrets:   # none\n---\n\n# A\n\n")
    assert [(one.id, one.name, one.line) for one in book.criteria] == [
        ("accuracy", "Accuracy", 11),
        ("completeness", "Completeness", 12),
        ("clarity", "Clarity", 13),
    ]
    assert book.criteria[0].anchors == {
        5: "every sum matches its rows",
        3: "one sum is off",
        1: "sums are invented",
    }
    assert (book.bar.average, book.bar.floor, book.bar.line) == (4.0, 3.0, 15)
    assert not book.doubts


@pytest.mark.parametrize(
    "table",
    [
        "| Criterion | 1 | 3 | 5 |\n|-|-|-|-|\n| A | x | y | z |\n",
        "| 5 | Criterion | 3 | 1 |\n|-|-|-|-|\n| z | A | y | x |\n",
        "| Criterion | 5 – best | 4 | 3: fair | 2 | 1 = worst | Weight |\n|-|-|-|-|-|-|-|\n|A|z|w|y|v|x|2|\n",
        "|**Criteria**|**5** (great)|3 (ok)|1|\n|-|-|-|-|\n| `A` | z | y | x |\n",
    ],
)
def test_columns_in_any_order_and_dress(table):
    book = runbook(f"{table}\nPass threshold: average >= 4.0, no criterion below 3\n")
    assert [one.name for one in book.criteria] == ["A"]
    anchors = book.criteria[0].anchors
    assert (anchors[5], anchors[3], anchors[1]) == ("z", "y", "x")
    assert not book.errors


@pytest.mark.parametrize(
    "table",
    [
        "| # | Criterion | Score | Notes |\n|-|-|-|-|\n| 1 | A | 5 | x |\n",
        "| Weak Criterion | Common Issue | Fix |\n|-|-|-|\n| A | b | c |\n",
        "| Gate | Criterion |\n|-|-|\n| A | b |\n",
        "| Criterion | Pass = |\n|-|-|\n| A | b |\n",
        f"```markdown\n{TABLE}```\n",
        f"~~~\n{TABLE}\n",
        "<!--\n" + TABLE.replace("\n\n", "\n") + "-->\n",
        "\n".join(f"    {line}" for line in TABLE.splitlines()),
        "| Criterion | 5/5 | 3.5 | 1% |\n|-|-|-|-|\n| A | b | c | d |\n",
    ],
)
def test_look_alikes_are_left_alone(table):
    book = runbook(table)
    assert not book.criteria
    assert "rubric_missing" in codes(book)
    with pytest.raises(InputError, match="cannot be used"):
        book.usable()


def test_two_tables_are_an_error_and_neither_is_used():
    book = runbook(f"{RUBRIC}\n\nAgain\n\n{TABLE}")
    assert not book.criteria
    assert [d.line for d in book.errors if d.code == "rubric_several"] == [12]


def test_a_table_of_a_thousand_rows_is_no_rubric():
    book = runbook(TABLE.rstrip() + "\n" + "| 9 | a | b | c | d |\n" * 1_000)
    assert [doubt.code for doubt in book.errors] == ["rubric_too_long"]
    assert not book.criteria


def test_cells_keep_their_signs_and_lose_their_marks():
    book = runbook(
        "| Criterion | 5 | 3 | 1 |\n|-|-|-|-|\n"
        "| **Cost & `use`** | ≥2 *found* → named | a \\| b | <br>none |\n\n"
        "Pass threshold: >= 4.0 overall, no criterion below 3\n"
    )
    assert book.criteria[0].id == "cost-use"
    assert book.criteria[0].anchors == {5: "≥2 found → named", 3: "a | b", 1: "none"}


THRESHOLDS = [
    ("**Pass threshold: overall average >= 4.0, no individual criterion below 3.**", 4.0, 3.0),
    ("**Pass threshold: >= 4.5 overall, no individual criterion below 2**", 4.5, 2.0),
    ("**Pass threshold:** overall average ≥ 3.5, no criterion below 3", 3.5, 3.0),
    ("Pass threshold: overall average of 4.2/5 with no criterion below 3", 4.2, 3.0),
    ("**Pass threshold: overall average >= {{bar}}, no individual criterion below {{floor}}**", 3.75, 2.0),
    ("**Pass threshold: average >= 4.0, no criterion below 3.** Each gets a `threshold: 1`.", 4.0, 3.0),
    ("**Pass threshold: overall average >= 4.0**, no individual criterion below 2.", 4.0, 2.0),
    ("- Pass threshold: average >= 4.0; each criterion at least 3", 4.0, 3.0),
    ("Passing score: 4.0 or higher on average. Every criterion must be at least 2.", 4.0, 2.0),
    ("Pass threshold: 4.0", 4.0, 3.0),
]  # fmt: skip


@pytest.mark.parametrize(("line", "average", "floor"), THRESHOLDS)
def test_threshold_lines(line, average, floor):
    book = read_runbook(
        f"{TABLE}{line}\n".encode(), name="r", given={"bar": "`3.75`".strip("`"), "floor": "2"}
    )
    assert (book.bar.average, book.bar.floor) == (average, floor)
    assert not book.errors
    assert not book.bar.free


@pytest.mark.parametrize(
    "line",
    [
        "Pass threshold: 80%",
        "**Pass mark:** 75/100 overall",
        "Pass threshold: overall average >= 8.0, no criterion below 3",
        "Pass threshold: overall average >= 4.0, no criterion below 50%",
        "Pass threshold: overall average >= {{unset}}",
        "Pass threshold: average >= 4.0, mean at least 3.0",
    ],
)
def test_a_number_that_cannot_be_used_is_an_error_and_never_a_guess(line):
    book = runbook(f"{TABLE}{line}\n")
    assert "threshold_invalid" in {doubt.code for doubt in book.errors}
    with pytest.raises(InputError):
        book.usable()


def test_clauses_that_no_table_can_check_are_kept_and_told():
    book = runbook(
        f"{TABLE}**Pass threshold: overall average >= 4.0, no criterion below 3, no invented sources, "
        "at most 2 typos.**\n"
    )
    assert book.bar.free == ("no invented sources", "at most 2 typos")
    assert "clause_unchecked" in codes(book)


def test_a_floor_of_one_criterion_is_applied():
    book = runbook(
        f"{TABLE}Pass threshold: overall average >= 4.0, no criterion below 3, Accuracy must be at least 5\n"
    )
    assert book.bar.floors == {"accuracy": 5.0}
    assert (book.bar.floor_of("accuracy"), book.bar.floor_of("clarity")) == (5.0, 3.0)


def test_no_line_is_the_default_and_is_told():
    book = runbook(TABLE)
    assert (book.bar.average, book.bar.floor, book.bar.line) == (4.0, 3.0, None)
    assert "threshold_default" in codes(book)
    assert not book.errors


def test_parameters_come_from_the_table_or_the_caller():
    text = (
        "| Parameter | Template Variable | Default | Description |\n|-|-|-|-|\n"
        "| Bar | `{{bar}}` | `4.5` | x |\n| Empty | `{{none}}` | — | x |\n\n"
        f"{TABLE.replace('every sum', 'every {{bar}} sum')}Pass threshold: average >= {{{{bar}}}}\n"
    )
    assert runbook(text).bar.average == 4.5
    assert runbook(text).parameters == {"bar": "4.5"}
    assert runbook(text).criteria[0].anchors[5] == "every 4.5 sum matches its rows"
    assert read_runbook(text.encode(), name="r", given={"bar": "3"}).bar.average == 3.0


def test_doubts_about_the_rows():
    book = runbook(
        "| Criterion | 5 | 3 | 1 |\n|-|-|-|-|\n| A-b | at least 3 links, each with a date | x y | |\n"
        "| a B | excellent, very professional | acceptable quality | {poor} |\n\n"
        "Pass threshold: average >= 4.0, no criterion below 3\n"
    )
    found = {(doubt.code, doubt.line, doubt.severity) for doubt in book.doubts}
    assert {
        ("criterion_duplicate", 4, "error"),
        ("anchor_missing", 3, "warning"),
        ("anchor_feels", 4, "advice"),
        ("anchor_countable", 3, "advice"),
        ("placeholder", 4, "warning"),
    } <= found


def test_frontmatter_that_is_odd_is_told_and_not_fatal():
    head = "---\nversion: 2\nevaluation: vibes\nprimary_outputs: 5\nstrict_evaluation: maybe\n---\n"
    book = runbook(head=head)
    assert {"evaluation_unknown", "frontmatter_type"} <= codes(book)
    assert len(book.criteria) == 3
    assert not book.errors
    broken = runbook(head="---\na: [1\n---\n")
    assert "frontmatter_malformed" in {doubt.code for doubt in broken.errors}
    assert len(broken.criteria) == 3


def test_declared_checks_are_read():
    book = runbook(
        f"{RUBRIC}\n## Code Checks\n\n### outputs-exist — Every file is there\n\n```bash\ntest -s a\n```\n\n"
        "### looks — It looks right\n\n```agent\nLook.\n```\n\n## Checklist\n\n- [ ] No placeholder remains\n"
    )
    assert [(one.kind, one.id, one.how) for one in book.declared] == [
        ("code_check", "outputs-exist", "bash"),
        ("code_check", "looks", "agent"),
        ("checklist", "no-placeholder-remains", ""),
    ]


def test_notes_reach_only_the_criterion_that_they_speak_of():
    book = runbook(
        f"{RUBRIC}\nA row without a date does not count toward criterion 2. Clarity is for readers.\n"
    )
    assert book.notes_on(book.criteria[0]) == ""
    assert book.notes_on(book.criteria[1]) == "A row without a date does not count toward criterion 2."
    assert book.notes_on(book.criteria[2]) == "Clarity is for readers."


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"x" * (3 << 20)])
def test_what_is_no_text_is_an_input_error(data):
    with pytest.raises(InputError):
        read_runbook(data, name="r")


def test_carriage_returns_and_a_byte_order_mark_change_nothing():
    data = b"\xef\xbb\xbf" + ("---\nversion: '1'\n---\n" + RUBRIC).replace("\n", "\r\n").encode()
    assert read_runbook(data, name="r").criteria == runbook(head="---\nversion: '1'\n---\n").criteria


def test_ids():
    assert slug("  Cost & Use (2026)! ") == "cost-use-2026"
    assert slug("Überblick") == "überblick"
    assert Bar(average=3.75).item_id == "overall-rubric-average-is-at-least-3-75"
    assert Bar().item_id == "overall-rubric-average-is-at-least-4-0"


piece = st.sampled_from(
    [
        "|",
        "\n",
        "---",
        "```",
        "Criterion",
        "5",
        "3",
        "1",
        "Pass threshold:",
        ">= 4",
        "{{x}}",
        "**",
        "below",
        "\0",
    ]
) | st.text(max_size=8)


@settings(max_examples=60)
@given(st.lists(piece, max_size=60).map("".join))
def test_reading_never_raises_but_for_what_is_said(text):
    data = text.encode("utf-8", "surrogatepass")
    try:
        book = read_runbook(data, name="r")
    except InputError:
        return
    assert all(doubt.message for doubt in book.doubts)
