"""The coverage curve as text for a terminal and as an SVG drawing. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final
from xml.sax.saxutils import escape

from sandbox_judge.canonical import without_surrogates
from sandbox_judge.coverage.advice import Advice
from sandbox_judge.durations import shown

_ROWS: Final = 10
_WIDTH: Final = 720
_HEIGHT: Final = 400
_LEFT: Final = 60
_RIGHT: Final = 190
_TOP: Final = 40
_BOTTOM: Final = 50
# Colour-blind safe (Okabe and Ito).
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DRAWN: Final = 12


def text_plot(advice: Advice) -> Iterable[str]:
    """Rows of coverage over columns of time."""
    if not advice.curve:
        return
    for row in range(_ROWS, 0, -1):
        low, high = (row - 1) / _ROWS, row / _ROWS
        cells = "".join(_cell(share, low, high) for _, share in advice.curve)
        yield f"{100 * high:4.0f}% |{cells.rstrip()}"
    yield f"      +{'-' * len(advice.curve)}"
    last = advice.curve[-1][0]
    middle, end = shown(last / 2), shown(last)
    gap = len(advice.curve) // 2
    yield f"       0{middle:>{gap}}{end:>{len(advice.curve) - gap}}"


def _cell(share: float, low: float, high: float) -> str:
    if share >= high:
        return "#"
    return "." if share > low else " "


def svg_plot(advice: Advice) -> str:
    """Each judge's curve and that of the whole budget, as steps, with a legend."""
    across = max([time for time, _ in advice.curve] + [0.001])
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        _text(_LEFT, 22, f"Verdicts that arrive within a time, {advice.recipe_id}", size=14),
        *_axes(across),
    ]
    for number, judge in enumerate(advice.judges[:_DRAWN]):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [(0.0, 0.0), *zip(judge.curve.times, judge.curve.shares, strict=True)]
        body.append(_steps(points, min(across, judge.curve.last_s), across, colour, width=1.2))
        body.append(_legend(number + 1, judge.name, colour))
    body.append(_steps(advice.curve, across, across, "#000", width=2.4))
    body.append(_legend(0, f"whole budget, {advice.concurrency} at once", "#000"))
    if advice.budget_s is not None:
        at = _x(advice.budget_s, across)
        word = "recommended" if advice.total_s is not None else "to try"
        body.append(
            f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{_HEIGHT - _BOTTOM}" stroke="#999" '
            'stroke-dasharray="4 3"/>'
        )
        body.append(_text(at + 4, _HEIGHT - _BOTTOM - 6, f"{word}: {shown(advice.budget_s)}"))
    return "\n".join([*body, "</svg>", ""])


def _axes(across: float) -> Iterable[str]:
    floor = _HEIGHT - _BOTTOM
    for number in range(5):
        share, time = number / 4, across * number / 4
        yield (
            f'<line x1="{_LEFT}" y1="{_y(share):.1f}" x2="{_WIDTH - _RIGHT}" y2="{_y(share):.1f}" '
            'stroke="#ddd"/>'
        )
        yield _text(_LEFT - 8, _y(share) + 4, f"{100 * share:.0f}%", anchor="end")
        yield _text(_x(time, across), floor + 18, shown(time), anchor="middle")


def _steps(
    points: Sequence[tuple[float, float]], until: float, across: float, colour: str, *, width: float
) -> str:
    """A step curve as far as it is known and the drawing goes."""
    path = [f"M{_x(0, across):.1f},{_y(0):.1f}"]
    for time, share in points:
        if time > across:
            break
        path.append(f"H{_x(time, across):.1f}V{_y(share):.1f}")
    path.append(f"H{_x(until, across):.1f}")
    return f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _legend(row: int, label: str, colour: str) -> str:
    top = _TOP + 16 * row
    left = _WIDTH - _RIGHT + 12
    return f'<rect x="{left}" y="{top}" width="10" height="10" fill="{colour}"/>' + _text(
        left + 16, top + 9, label if len(label) <= 26 else f"{label[:25]}…"
    )


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start") -> str:
    # What XML cannot hold at all (most control characters) is not drawn.
    clean = "".join(c for c in without_surrogates(text) if c.isprintable())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(clean)}</text>'


def _x(time: float, across: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, time / across)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * share
