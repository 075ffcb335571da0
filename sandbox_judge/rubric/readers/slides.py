"""Text of a presentation, slide by slide, with tables and notes. The room of python-pptx."""

from typing import Any, BinaryIO

from pptx import Presentation

from sandbox_judge.rubric.readers.child import serve


def text_of(file: BinaryIO) -> str:
    lines: list[str] = []
    for number, slide in enumerate(Presentation(file).slides, 1):
        lines.append(f"[slide {number}]")
        for shape in slide.shapes:
            lines += _shape(shape)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            notes = slide.notes_slide.notes_text_frame.text.strip()
            lines += [f"[notes] {notes}"] if notes else []
    return "\n".join(lines)


def _shape(shape: Any) -> list[str]:
    if getattr(shape, "has_table", False):
        return [" | ".join(cell.text.strip() for cell in row.cells) for row in shape.table.rows]
    if hasattr(shape, "shapes"):
        return [line for inner in shape.shapes for line in _shape(inner)]
    if getattr(shape, "has_text_frame", False):
        return [shape.text_frame.text] if shape.text_frame.text.strip() else []
    return ["[picture]"] if hasattr(shape, "image") else []


if __name__ == "__main__":
    serve(text_of)
