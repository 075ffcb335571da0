"""Text of a PDF, page by page. The room of pypdf."""

from typing import BinaryIO, Final

from pypdf import PdfReader

from sandbox_judge.rubric.readers.child import MOST_TEXT, serve

_MOST_PAGES: Final = 2_000


def text_of(file: BinaryIO) -> str:
    reader = PdfReader(file)
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it is encrypted")
    parts, size = [], 0
    for number, page in enumerate(reader.pages, 1):
        parts.append(f"[page {number}]\n{page.extract_text()}")
        size += len(parts[-1])
        if size > MOST_TEXT or number >= _MOST_PAGES:
            break
    return "\n".join(parts)


if __name__ == "__main__":
    serve(text_of)
