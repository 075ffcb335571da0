"""Live verdicts that a calibration's error rates apply to: those of the very same judge and model."""

from pathlib import Path
from typing import Final

import msgspec

from sandbox_judge.calibration.record import Record, Result
from sandbox_judge.contract import CONTRACT_VERSION
from sandbox_judge.errors import InputError
from sandbox_judge.recipe.judge import Judge

_LINE_BYTES: Final = 16 << 20


class _Llm(msgspec.Struct):
    endpoint: str | None = None
    response_model: str | None = None


class _Payload(msgspec.Struct):
    judge_id: str = ""
    judgement_id: str = ""
    grading_key: str = ""
    definition_hash: str = ""
    contract_version: str = ""
    result: str | None = None
    dry_run: bool = False
    regrade: bool = False
    llm: _Llm | None = None


class _Event(msgspec.Struct):
    event_name: str = ""
    payload: _Payload | None = None


_events: Final = msgspec.json.Decoder(_Event)


def matching_result(record: Record, judge: Judge) -> Result | None:
    """The latest test result of this definition and contract."""
    return next(
        (
            one
            for one in reversed(record.results)
            if one.split == "test"
            and (one.definition_hash, one.contract_version) == (judge.definition_hash, CONTRACT_VERSION)
        ),
        None,
    )


def live_counts(path: Path, judge_id: str, result: Result) -> tuple[int, int, int]:
    """(passes, passes and fails, verdicts of another model or endpoint, which are left out) of the judgement
    events in a file of JSON Lines. The latest verdict of a conversation counts; dry runs and regrades do not.
    Raises InputError."""
    latest: dict[str, tuple[str | None, bool]] = {}
    try:
        with open(path, "rb") as file:
            for line in iter(lambda: file.readline(_LINE_BYTES), b""):
                payload = _payload(line)
                if payload is None or payload.judge_id != judge_id or payload.dry_run or payload.regrade:
                    continue
                same = (payload.definition_hash, payload.contract_version) == (
                    result.definition_hash,
                    result.contract_version,
                )
                if not same or payload.result is None:
                    continue
                llm = payload.llm or _Llm()
                fits = (llm.endpoint or "default", llm.response_model) == (
                    result.llm.endpoint,
                    result.llm.response_model,
                )
                latest[payload.grading_key or payload.judgement_id] = (payload.result, fits)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", where=str(path)) from error
    verdicts = [word for word, fits in latest.values() if fits]
    passes = verdicts.count("pass")
    return passes, passes + verdicts.count("fail"), sum(not fits for _, fits in latest.values())


def _payload(line: bytes) -> _Payload | None:
    try:
        event = _events.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return event.payload if event.event_name == "introspection.judgement" else None
