"""Calibrations and probes as reports to read and share: one self-contained HTML page, Markdown, JUnit XML.

The page has no script and loads nothing; its policy says so. Everything from outside is escaped for the form
it stands in. Pure.
"""

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sandbox_judge.calibration.agreement import FIGURES
from sandbox_judge.calibration.present import confusion_table, title

_STYLE: Final = """
:root{--paper:#fff;--ink:#1a1c20;--soft:#5a606b;--rule:#d9dce1;--raised:#f5f6f8;--pass:#1a7f37;--fail:#b3261e}
@media(prefers-color-scheme:dark){:root{--paper:#14161a;--ink:#e8eaee;--soft:#a3aab6;--rule:#343a44;
--raised:#1e2127;--pass:#5ecb7d;--fail:#ff8a80}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem 1rem 4rem;max-width:72rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem}h3{font-size:1rem}
table{border-collapse:collapse;margin:.5rem 0}
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}
.soft{color:var(--soft)}.fail{color:var(--fail)}.pass{color:var(--pass)}
.sides{display:grid;grid-template-columns:1fr 1fr;gap:1rem}
.sides>div{background:var(--raised);padding:.5rem .8rem;border-radius:.4rem;min-width:0}
@media(max-width:45rem){.sides{grid-template-columns:1fr}.wide{overflow-x:auto}}
pre{white-space:pre-wrap;margin:.3rem 0;font:.875rem/1.45 ui-monospace,monospace}
""".strip()

# XML 1.0 cannot hold these at all, not even escaped.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HIDDEN: Final = re.compile("[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def html_page(calibration: Mapping[str, Any] | None, probes: Mapping[str, Any] | None) -> bytes:
    """The page as UTF-8."""
    document = calibration or probes or {}
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    body = [f"<h1>{_h(document.get('judge', ''))}</h1>", _about(document)]
    if calibration is not None:
        body += _calibration_html(calibration)
    if probes is not None:
        body += _probes_html(probes)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_h(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        f"<title>Calibration: {_h(document.get('judge', ''))}</title>"
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n<body>\n'
    )
    return (page + "\n".join(body) + "\n</body></html>\n").encode("utf-8", "replace")


def _about(document: Mapping[str, Any]) -> str:
    llm = document.get("llm", {})
    words = [
        f"{llm.get('provider')}/{llm.get('model')}",
        f"definition {str(document.get('definition_hash'))[:19]}",
        f"contract {document.get('contract_version')}",
    ]
    return f'<p class="soft">{_h(" · ".join(words))}</p>'


def _calibration_html(document: Mapping[str, Any]) -> list[str]:
    look = f", look {document['look']}" if document["look"] else ""
    verdict = "passed" if document["passed"] else "not passed"
    kind = "pass" if document["passed"] else "fail"
    out = [
        f"<h2>Agreement with labels: split {_h(document['split'])}{look}</h2>",
        f'<p><strong class="{kind}">{verdict}</strong>; {document["n"]} rows with a verdict.</p>',
        *(f'<p class="fail">{_h(text)}</p>' for text in (*document["missed"], *document["warnings"])),
        _table(["figure", "value", "95 % interval", "of"], _figure_rows(document), numbers=(1, 2, 3)),
    ]
    if document["invalid"]:
        out.append(_table(["no verdict because", "rows"], list(document["invalid"].items()), numbers=(1,)))
    if document["confusion"]:
        head, rows = confusion_table(document["confusion"])
        out += ["<h2>Confusion</h2>", _table(head, rows, numbers=(1, 2, 3, 4))]
    if document["stability"]:
        out.append(f"<p>{_h(_stability(document['stability']))}</p>")
    if document["shortcuts"]:
        out += [
            "<h2>What one feature alone agrees with</h2>",
            _table(*_shortcut_table(document), numbers=(1,)),
        ]
    out.append(f"<h2>Disagreements ({len(document['disagreements'])})</h2>")
    return out + [_disagreement(one) for one in document["disagreements"]]


def _disagreement(one: Mapping[str, Any]) -> str:
    quotes = "".join(
        f"<li>[{_h(str(quote.get('entry', '?')))}] “{_h(quote['quote'])}”"
        f"{'' if quote['verified'] else ' <em>(not found in the view)</em>'}</li>"
        for quote in one["evidence"]
    )
    label = f"labelled <strong>{_h(one['expected'])}</strong>"
    who = f" by {_h(one['approved_by'])}" if one["approved_by"] else ""
    note = f"<p>{_h(one['note'])}</p>" if one["note"] else ""
    entries = "".join(f"<pre>{_h(entry['text'])}</pre>" for entry in one["entries"])
    judged = f"judged <strong>{_h(one['verdict'])}</strong>"
    return (
        f'<h3>{_h(one["id"])}</h3><div class="sides"><div><p>{label}{who}</p>{note}{entries}</div>'
        f"<div><p>{judged}</p><p>{_h(one['reasoning'])}</p><ul>{quotes}</ul></div></div>"
    )


def _probes_html(document: Mapping[str, Any]) -> list[str]:
    head = ["probe", "variant", "rows", "flips", "share", "95 % interval", "to pass", "from pass", "p"]
    out = ["<h2>Probes</h2>", _table(head, [_probe_cells(one) for one in document["probes"]])]
    for one in document["probes"]:
        for moved in one["moved"]:
            out.append(
                f"<h3>{_h(moved['id'])}: {_h(one['probe'])}, {_h(one['variant'])}</h3>"
                f"<p>{_h(str(moved['before']))} → {_h(str(moved['after']))}; {_h(moved['changed'])}</p>"
                f"<pre>{_h(chr(10).join(moved['diff']))}</pre>"
            )
    return out


def markdown(calibration: Mapping[str, Any] | None, probes: Mapping[str, Any] | None) -> str:
    """For a pull request."""
    out: list[str] = []
    if calibration is not None:
        look = f", look {calibration['look']}" if calibration["look"] else ""
        out += [
            f"## Calibration of {_m(calibration['judge'])}: split {calibration['split']}{look}",
            "",
            f"{_passed(calibration)}; {calibration['n']} rows with a verdict.",
            *(f"- {_m(text)}" for text in (*calibration["missed"], *calibration["warnings"])),
            "",
            *_m_table(["figure", "value", "95 % interval", "of"], _figure_rows(calibration)),
        ]
        if calibration["confusion"]:
            out += ["", *_m_table(*confusion_table(calibration["confusion"]))]
        if calibration["invalid"]:
            out += ["", *_m_table(["no verdict because", "rows"], list(calibration["invalid"].items()))]
        if calibration["shortcuts"]:
            out += ["", *_m_table(*_shortcut_table(calibration))]
        rows = [
            [one["id"], one["expected"], one["verdict"], one["reasoning"]]
            for one in calibration["disagreements"]
        ]
        if rows:
            out += [
                "",
                "### Disagreements",
                "",
                *_m_table(["row", "label", "verdict", "the judge says"], rows),
            ]
    if probes is not None:
        head = ["probe", "variant", "rows", "flips", "share", "95 % interval", "to pass", "from pass", "p"]
        out += ["", f"## Probes of {_m(probes['judge'])}", ""]
        out += _m_table(head, [_probe_cells(one) for one in probes["probes"]])
    return "\n".join(out).strip() + "\n"


def _passed(calibration: Mapping[str, Any]) -> str:
    return "Passed" if calibration["passed"] else "**Not passed**"


def junit(calibration: Mapping[str, Any] | None, probes: Mapping[str, Any] | None) -> bytes:
    """JUnit XML: each floor and each disagreement, each probe's variant, as a test case."""
    suites = []
    if calibration is not None:
        cases = [("figures", "\n".join(calibration["missed"]) or _withheld(calibration))]
        cases += [
            (f"row {one['id']}", f"labelled {one['expected']}, judged {one['verdict']}: {one['reasoning']}")
            for one in calibration["disagreements"]
        ]
        agreed = calibration["n"] - len(calibration["disagreements"])
        suites.append(_suite(f"calibration {calibration['judge']}", cases, more_passed=agreed))
    if probes is not None:
        cases = []
        for one in probes["probes"]:
            rows = ", ".join(str(moved["id"]) for moved in one["moved"])
            told = f"{one['flips']} of {one['n']} verdicts moved: {rows}" if one["flips"] else ""
            cases.append((f"{one['probe']}: {one['variant']}", told))
        suites.append(_suite(f"probe {probes['judge']}", cases))
    body = "".join(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>{body}\n</testsuites>\n'.encode()


def _suite(name: str, cases: Sequence[tuple[str, str]], *, more_passed: int = 0) -> str:
    failed = sum(bool(told) for _, told in cases)
    inner = "".join(
        f'\n  <testcase classname="{_x(name)}" name="{_x(case)}">'
        + (f'<failure message="{_x(told[:500])}">{_x(told)}</failure>' if told else "")
        + "</testcase>"
        for case, told in cases
    )
    agreed = f'\n  <testcase classname="{_x(name)}" name="{more_passed} rows agree"/>' if more_passed else ""
    tests = len(cases) + bool(more_passed)
    return (
        f'\n <testsuite name="{_x(name)}" tests="{tests}" failures="{failed}">{inner}{agreed}\n </testsuite>'
    )


def _withheld(calibration: Mapping[str, Any]) -> str:
    return "" if calibration["passed"] else str(calibration["undefined"].get("agreement", ""))


def _figure_rows(document: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for name in FIGURES:
        value, interval, count = document[name], document["intervals"][name], document["counts"].get(name)
        rows.append(
            [
                title(name),
                "undefined" if value is None else f"{value:.3f}",
                f"{interval[0]:.3f} to {interval[1]:.3f}"
                if interval
                else document["undefined"].get(name, ""),
                f"{count[0]} of {count[1]}" if count else str(document["n"]),
            ]
        )
    return rows


def _shortcut_table(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            one["feature"],
            f"{one['agreement']:.3f}",
            one["rule"] + (" (near the judge)" if one["near_judge"] else ""),
        ]
        for one in document["shortcuts"]
    ]
    return ["feature", "agreement", "rule"], rows


def _stability(found: Mapping[str, Any]) -> str:
    between = "" if not found["interval"] else f" [{found['interval'][0]:.3f}, {found['interval'][1]:.3f}]"
    share = "undefined" if found["share"] is None else f"{found['share']:.3f}{between}"
    return f"Rows that flip in {found['repeats']} repeats: {found['flipped']} of {found['rows']}: {share}"


def _probe_cells(one: Mapping[str, Any]) -> list[str]:
    interval = one["interval"]
    return [
        one["probe"],
        one["variant"],
        str(one["n"]),
        str(one["flips"]),
        one["undefined"] or "undefined" if one["share"] is None else f"{one['share']:.3f}",
        f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else "",
        str(one["to_pass"]),
        str(one["from_pass"]),
        "" if one["mcnemar_p"] is None else f"{one['mcnemar_p']:.3g}",
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: tuple[int, ...] = ()) -> str:
    cells = "".join(f"<th>{_h(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=n' if at in numbers else ''}>{_h(str(cell))}</td>" for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{cells}</tr>{body}</table></div>'


def _m_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    out = [f"| {' | '.join(_m(cell) for cell in head)} |", f"|{' --- |' * len(head)}"]
    return out + [f"| {' | '.join(_m(str(cell)) for cell in row)} |" for row in rows]


def _h(text: str) -> str:
    return html.escape(_HIDDEN.sub(_code_point, _NOT_XML.sub(_code_point, text)))


def _m(text: str) -> str:
    """Text in a cell of Markdown: nothing in it is markup, a mention or a link."""
    plain = " ".join(_HIDDEN.sub(_code_point, _NOT_XML.sub(_code_point, text)).split())
    escaped = re.sub(r"([\\`*_{}\[\]()#+!|~<>&@-])", r"\\\1", plain)
    return re.sub(r"(https?):", r"\1&#58;", escaped).replace("\\<", "&lt;").replace("\\@", "@&#8203;")


def _x(text: str) -> str:
    return html.escape(_NOT_XML.sub(_code_point, text))


def _code_point(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
