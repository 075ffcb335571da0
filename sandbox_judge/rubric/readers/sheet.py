"""Cells of a workbook: each sheet as rows of tab-separated values, formulas where no value was kept. The room
of openpyxl."""

from typing import BinaryIO, Final

from openpyxl import load_workbook

from sandbox_judge.rubric.readers.child import MOST_TEXT, serve

_MOST_ROWS: Final = 100_000


def text_of(file: BinaryIO) -> str:
    values = load_workbook(file, read_only=True, data_only=True)
    file.seek(0)
    formulas = load_workbook(file, read_only=True, data_only=False)
    lines: list[str] = []
    size = 0
    for sheet, written in zip(values.worksheets, formulas.worksheets, strict=True):
        lines.append(f"[sheet {sheet.title}]")
        rows = zip(sheet.iter_rows(values_only=True), written.iter_rows(values_only=True), strict=False)
        for number, (row, formula) in enumerate(rows):
            cells = [_shown(value, other) for value, other in zip(row, formula, strict=False)]
            lines.append("\t".join(cells).rstrip("\t"))
            size += len(lines[-1])
            if size > MOST_TEXT or number >= _MOST_ROWS:
                return "\n".join(lines)
    return "\n".join(lines)


def _shown(value: object, formula: object) -> str:
    chosen = formula if value is None else value
    return "" if chosen is None else str(chosen).replace("\n", " ").replace("\t", " ")


if __name__ == "__main__":
    serve(text_of)
