"""A calibration for a person at a terminal: plain lines, foreign text escaped. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sandbox_judge.calibration.agreement import FIGURES, INVALID
from sandbox_judge.calibration.row import VERDICTS
from sandbox_judge.terminal import escaped

_TITLES: Final = {
    "fail_recall": "fail recall",
    "pass_recall": "pass recall",
    "fail_precision": "fail precision",
    "agreement": "agreement",
    "kappa": "Cohen's kappa",
    "majority_baseline": "majority baseline",
}
_SHORTCUTS_SHOWN: Final = 5


def title(figure: str) -> str:
    return _TITLES[figure]


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The whole story: figures, confusion, stability, shortcuts, every disagreement."""
    look = f", look {document['look']}" if document["look"] else ""
    llm = document["llm"]
    yield f"Judge     {escaped(document['judge'])} ({llm['provider']}/{escaped(llm['model'])})"
    yield f"Set       split {document['split']}{look}: {document['n']} rows with a verdict"
    if document["invalid"]:
        told = ", ".join(f"{count} {kind}" for kind, count in document["invalid"].items())
        yield f"Invalid   {told}"
    for fault in document["faults"][:5]:
        yield f"          {fault['count']} x {escaped(fault['message'])}"
    yield ""
    yield from figure_lines(document)
    yield from _confusion(document["confusion"])
    yield from _stability(document["stability"])
    yield from _shortcuts(document["shortcuts"])
    for warning in document["warnings"]:
        yield f"warning: {escaped(warning)}"
    for missed in document["missed"]:
        yield f"floor not reached: {missed}"
    yield from _disagreements(document["disagreements"])


def figure_lines(document: Mapping[str, Any]) -> Iterator[str]:
    for name in FIGURES:
        value, interval = document[name], document["intervals"][name]
        if value is None:
            yield f"  {title(name):18} undefined: {document['undefined'][name]}"
            continue
        count = document["counts"].get(name)
        of = f"  {count[0]} of {count[1]}" if count else f"  n {document['n']}"
        between = f"  [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
        yield f"  {title(name):18} {value:6.3f}{between}{of}"


def confusion_table(confusion: Mapping[str, Mapping[str, int]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the confusion matrix: labels down, verdicts across."""
    head = ["label \\ verdict", *VERDICTS, INVALID]
    rows = [[label, *(str(counts[word]) for word in head[1:])] for label, counts in confusion.items()]
    return head, rows


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    for row in (head, *rows):
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _confusion(confusion: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    if confusion:
        yield ""
        yield from table(*confusion_table(confusion))


def _stability(stability: Mapping[str, Any] | None) -> Iterator[str]:
    if stability is None:
        return
    share = "undefined: no row had a verdict each time" if stability["share"] is None else ""
    if stability["interval"]:
        low, high = stability["interval"]
        share = f"{stability['share']:.3f}  [{low:.3f}, {high:.3f}]"
    yield ""
    flipped = f"{stability['flipped']} of {stability['rows']} rows in {stability['repeats']} repeats"
    yield f"Flips     {flipped}: {share}"


def _shortcuts(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield f"What one feature alone agrees with (the commonest label: {found[0]['majority']:.1%})"
    for one in found[:_SHORTCUTS_SHOWN]:
        mark = "  <- near the judge" if one["near_judge"] else ""
        yield f"  {one['feature']:20} {one['agreement']:6.1%}  {one['rule']}{mark}"


def _disagreements(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if found:
        yield ""
        yield f"{len(found)} disagreements"
    for one in found:
        yield ""
        who = f" by {escaped(one['approved_by'])}" if one["approved_by"] else ""
        yield f"{escaped(one['id'])}: labelled {one['expected']}{who}, judged {one['verdict']}"
        if one["note"]:
            yield f"  note: {escaped(one['note'])}"
        yield f"  judge: {escaped(one['reasoning'])}"
        for quote in one["evidence"]:
            mark = "" if quote["verified"] else " (not found in the view)"
            yield f'  quotes [{quote.get("entry", "?")}] "{escaped(quote["quote"])}"{mark}'
        for entry in one["entries"]:
            for line in escaped(entry["text"], multiline=True).split("\n"):
                yield f"    {line}"
