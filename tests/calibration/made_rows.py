"""Calibration rows for tests, made of a few words."""

from sandbox_judge.calibration.row import new_row, row_line
from sandbox_judge.conversation.read import read_conversation


def talk(answer, *, question="May I send it back?", id=None):
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return read_conversation({"id": id, "messages": messages} if id else messages)


def row(id, answer, expected=None, split=None, *, approved_by="Ada Example", question="May I send it back?"):
    """A row as JSON built-ins; unlabelled without `expected`."""
    personal = {"expected": expected, "split": split, "approved_by": approved_by if expected else None}
    return new_row(talk(answer, question=question), id=id, source="test", **personal)


def write_set(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(row_line(one) + b"\n" for one in rows))
    return path
