"""The hook input that a job makes: the whole conversation so far in the canonical form, with its id.

What a host names but does not give makes `missing_context` nulls, never a verdict on a piece of a talk.
"""

import re
from typing import Any, Final

import msgspec

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.model import CONTENT_MISSING, SCHEMA, Conversation, Message, Text, Warning_
from sandbox_judge.conversation.read import read_conversations
from sandbox_judge.hosts.goose_store import is_database, read_session
from sandbox_judge.hosts.host import Host
from sandbox_judge.hosts.jobs import Job
from sandbox_judge.hosts.locate import SETTLE_S, settled, size_of, transcript_of

# The payload knew of a message that the transcript did not hold when waiting for it ended.
TRANSCRIPT_LAGS: Final = "transcript_lags"
_ENDED: Final = re.compile(r"abort|cancel|interrupt", re.IGNORECASE)
_FAILED: Final = re.compile(r"err|fail", re.IGNORECASE)


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """`document`: the hook input. `seen`: path and size of what was read, None where nothing was."""

    document: bytes
    seen: tuple[str, int] | None = None
    missing: str = ""


def prepared(job: Job, host: Host, environ: dict[str, str], *, patience_s: float = SETTLE_S) -> Prepared:
    """Raises InputError for a transcript that is no conversation."""
    session, message = _word(job, "session"), _word(job, "last_message")
    path = transcript_of(host, session, _word(job, "transcript"), environ)
    seen = None
    if path is None:
        conversation = _missing(host, session, "the host named no transcript that is still there")
    else:
        try:
            seen = (path, size_of(path))
            conversation = _read(path, session, message, patience_s)
        except (OSError, ValueError) as error:
            conversation = _missing(host, session, f"the transcript cannot be read ({error})")
    envelope: dict[str, Any] = {
        "conversation": msgspec.to_builtins(conversation),
        "conversation_id": session,
    }
    status = status_word(_word(job, "status"))
    if status is not None:
        envelope["status"] = status
    return Prepared(
        document=canonical_json(envelope), seen=seen, missing=conversation.missing_context() or ""
    )


def status_word(said: str) -> str | None:
    """The envelope's word for a host's, None where the transcript tells it as well."""
    if _ENDED.search(said):
        return "cancelled"
    return "failed" if _FAILED.search(said) else None


def _read(path: str, session: str, message: str, patience_s: float) -> Conversation:
    if is_database(path):
        return read_session(path, session)
    data, holds = settled(path, message, patience_s=patience_s)
    found = read_conversations(data, partial_last=True)
    conversation = next((c for c in found if c.id == session), found[-1])
    return conversation if holds else _with_message(conversation, message)


def _with_message(conversation: Conversation, message: str) -> Conversation:
    """The conversation with the payload's last message, which its transcript does not hold (yet)."""
    n = len(conversation.entries) + 1
    entry = Message(n=n, role="assistant", parts=(Text(text=message),))
    doubt = Warning_(
        code=TRANSCRIPT_LAGS,
        message="the transcript did not hold the last message in time; it was taken from the host's payload",
        entry=n,
    )
    return msgspec.structs.replace(
        conversation,
        entries=(*conversation.entries, entry),
        warnings=(*conversation.warnings, doubt),
    )


def _missing(host: Host, session: str, why: str) -> Conversation:
    return Conversation(
        source_format=host.name.replace("-", "_"),
        entries=(),
        status="completed",
        warnings=(Warning_(code=CONTENT_MISSING, message=why),),
        schema=SCHEMA,
        id=session,
    )


def _word(job: Job, name: str) -> str:
    value = job.get(name)
    return value if isinstance(value, str) else ""
