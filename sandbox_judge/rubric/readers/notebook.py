"""Cells of a Jupyter notebook, with what they printed; pictures are named, not shown."""

import json
from typing import Any, BinaryIO

from sandbox_judge.rubric.readers.child import serve


def text_of(file: BinaryIO) -> str:
    notebook = json.load(file)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise ValueError("it has no cells")
    lines: list[str] = []
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, dict):
            lines.append(f"[cell {number}, {cell.get('cell_type', 'unknown')}]")
            lines.append(_joined(cell.get("source")))
            outputs = cell.get("outputs")
            for output in outputs if isinstance(outputs, list) else ():
                lines += _output(output)
    return "\n".join(lines)


def _joined(source: Any) -> str:
    if isinstance(source, list):
        return "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""


def _output(output: Any) -> list[str]:
    if not isinstance(output, dict):
        return []
    data = output.get("data")
    data = data if isinstance(data, dict) else {}
    text = _joined(output.get("text")) or _joined(data.get("text/plain"))
    lines = [f"[output] {text}"] if text else []
    lines += ["[output: a picture]"] if any(str(key).startswith("image/") for key in data) else []
    if "ename" in output:
        lines.append(f"[output: error] {output.get('ename')}: {output.get('evalue')}")
    return lines


if __name__ == "__main__":
    serve(text_of)
