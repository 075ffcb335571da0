"""Text of a Word document: paragraphs and tables in their order. The room of python-docx."""

from typing import BinaryIO

from docx import Document
from docx.table import Table

from sandbox_judge.rubric.readers.child import serve


def text_of(file: BinaryIO) -> str:
    lines: list[str] = []
    for block in Document(file).iter_inner_content():
        if isinstance(block, Table):
            lines += [" | ".join(cell.text.strip() for cell in row.cells) for row in block.rows]
        else:
            style = block.style.name if block.style is not None else ""
            level = style.removeprefix("Heading ") if style.startswith("Heading ") else ""
            lines.append(f"{'#' * int(level)} {block.text}" if level.isdigit() else block.text)
    return "\n".join(lines)


if __name__ == "__main__":
    serve(text_of)
