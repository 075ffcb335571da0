"""Several criteria in one answer, each read by its own instrument (design, section 8). Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sandbox_judge.canonical import sanitised
from sandbox_judge.grading.instruments import Answer, Instrument
from sandbox_judge.grading.json_objects import canonical
from sandbox_judge.grading.reply import Read, read_object
from sandbox_judge.nulls import Invalid

_OVERALL: Final = {"type": "string"}


class Sheet:
    """A closed answer set of one cell a criterion. Its answer is the whole object, as canonical text: two
    replies with unlike cells do not agree."""

    key = "scores"

    def __init__(self, instruments: Mapping[str, Instrument]) -> None:
        self.instruments = dict(instruments)

    def read(self, value: Any) -> Answer | None:
        if not isinstance(value, dict) or not any(id in value for id in self.instruments):
            return None
        return canonical(sanitised(value))

    def wanted(self) -> str:
        return f"an object with the keys {', '.join(self.instruments)}"

    def schema(self) -> dict[str, Any]:
        cells = {id: instrument.schema() for id, instrument in self.instruments.items()}
        scores = _closed(cells)
        return _closed({"reasoning": _OVERALL, self.key: scores})

    def cells(self, value: Mapping[str, Any]) -> dict[str, Read | Invalid]:
        """Each criterion's answer, or why it has none; the others stand."""
        scores = value.get(self.key)
        found = scores if isinstance(scores, dict) else {}
        return {id: _cell(found.get(id), instrument) for id, instrument in self.instruments.items()}


def _cell(value: Any, instrument: Instrument) -> Read | Invalid:
    if not isinstance(value, dict):
        return Invalid(type="malformed_output", message="the reply has no entry for this criterion")
    return read_object(value, instrument=instrument)


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    required: Sequence[str] = list(properties)
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }
