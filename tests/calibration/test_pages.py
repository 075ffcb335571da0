"""Reports: whatever stands in a conversation, it stays text."""

import json
import re
import subprocess
import sys
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge.calibration.agreement import agreement_of
from sandbox_judge.calibration.measure import Cited, Disagreement, Measured, Stability
from sandbox_judge.calibration.pages import html_page, junit, markdown
from sandbox_judge.calibration.present import lines
from sandbox_judge.calibration.session import Outcome, as_json
from sandbox_judge.figures import wilson
from sandbox_judge.grading.evidence import Evidence

HOSTILE = (
    "</pre><script>alert(1)</script> | @everyone ![x](http://evil.test/a.png) \x00\x1b[2J\u202e]]> <!-- `"
)


def document(said, *, pairs=(("pass", "fail"), ("fail", "fail"))):
    one = Disagreement(
        id=said, expected="pass", verdict="fail", reasoning=said, approved_by=said, note=said,
        evidence=(Evidence(quote=said, verified=False, entry=2),), entries=(Cited(n=2, text=said),),
    )  # fmt: skip
    measured = Measured(
        agreement=agreement_of(pairs),
        disagreements=(one,),
        stability=Stability(repeats=2, rows=2, flipped=1, interval=wilson(1, 2)),
        response_models=("m", said),
        faults=((said, 2),),
    )
    outcome = Outcome(
        measured=measured, dataset_hash="sha256:x", split="dev", look=None, shortcuts=(), missed=(),
        warnings=(said,),
    )  # fmt: skip
    return as_json(
        outcome,
        judge="tone",
        judge_id="id",
        definition_hash="sha256:d",
        llm={"provider": "openai", "model": said},
    )


def probes(said):
    moved = {"id": said, "before": "pass", "after": "fail", "changed": said, "diff": [said]}
    line = {
        "probe": "length", "variant": said, "n": 1, "flips": 1, "share": 1.0, "interval": [0.2, 1.0],
        "to_pass": 0, "from_pass": 1, "mcnemar_p": 1.0, "undefined": None, "moved": [moved],
    }  # fmt: skip
    return {"judge": "tone", "llm": {}, "definition_hash": "d", "contract_version": "1", "probes": [line]}


def tags(page):
    return set(re.findall(r"<(\w+)", page))


def test_a_page_holds_no_element_but_its_own():
    page = html_page(document(HOSTILE), probes(HOSTILE)).decode()
    plain = html_page(document("x"), probes("x")).decode()
    assert tags(page) == tags(plain) and "script" not in tags(page)
    assert "\x1b" not in page and "\u202e" not in page and "\x00" not in page
    assert "default-src &#x27;none&#x27;; style-src &#x27;sha256-" in page


def test_the_policy_names_the_style_that_stands_there():
    import base64
    import hashlib

    page = html_page(document("x"), None).decode()
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert digest in page


@settings(max_examples=40)
@given(st.text())
def test_any_text_gives_whole_reports(said):
    found, moved = document(said), probes(said)
    ElementTree.fromstring(junit(found, moved))
    text = markdown(found, moved)
    assert "\x1b" not in text
    for line in text.split("\n"):
        if line.startswith("| length"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 10
    html_page(found, moved).decode()
    for line in lines(found):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", line)


def test_markdown_mentions_and_links_nobody():
    text = markdown(document(HOSTILE), probes(HOSTILE))
    assert "@everyone" not in text and "](http" not in text and "<script" not in text


def test_undefined_figures_say_why_in_each_form():
    found = document("x", pairs=[("pass", "pass")])
    for text in (html_page(found, None).decode(), markdown(found, None), "\n".join(lines(found))):
        assert "no row is labelled fail" in text
    json.dumps(found, allow_nan=False)


def test_the_hook_needs_no_calibration_extra():
    code = "import sys, sandbox_judge.cli.run; print([m for m in ('numpy', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
