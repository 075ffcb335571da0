"""Conversations given as files, in any known format, found again in the store by the view that was judged."""

from collections.abc import Iterable

import msgspec

from sandbox_judge.conversation.model import Conversation
from sandbox_judge.errors import InputError
from sandbox_judge.grading.view import build_view
from sandbox_judge.hook_input import Subject, read_input


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations by their `sequence_hash`, and the ids that a hook gives them."""

    by_view: dict[str, Conversation]
    ids: tuple[str, ...]

    def conversation(self, sequence_hash: str) -> Conversation | None:
        return self.by_view.get(sequence_hash)


def given(inputs: Iterable[tuple[str, bytes]]) -> Given:
    """The conversations of hook inputs, each with a name for messages. Raises InputError."""
    subjects = [subject for name, data in inputs for subject in _subjects(name, data)]
    views = {build_view(one.conversation).sequence_hash: one.conversation for one in subjects}
    return Given(by_view=views, ids=tuple(dict.fromkeys(one.conversation_id for one in subjects)))


def _subjects(name: str, data: bytes) -> tuple[Subject, ...]:
    try:
        return read_input(data).subjects(every=True)
    except InputError as err:
        where = f"{name}, {err.where}" if err.where else name
        raise InputError(err.message, where=where, remedy=err.remedy) from err
