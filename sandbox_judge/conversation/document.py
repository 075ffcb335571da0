"""Bytes into JSON values (design, section 3): lenient where nothing is lost, bounded, and exact about faults.

msgspec reads first; what it refuses is tried with the standard library's reader before it is called malformed
(lone surrogates, numbers beyond a double, NaN). Invalid UTF-8 and lone surrogates become U+FFFD and are
counted in a warning. One JSON value, JSON Lines, and values written one after another are all documents.
Nothing here knows a conversation format. Pure.
"""

import codecs
import json
import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sandbox_judge.canonical import without_surrogates
from sandbox_judge.conversation.model import Warning_
from sandbox_judge.errors import InputError

MAX_BYTES: Final = 1 << 30
MAX_DEPTH: Final = 100
# CPython refuses to print or read longer integers; they are kept as text.
_MAX_DIGITS: Final = 4_000
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# JSON's white space. Python's strips and knows more, such as the information separators.
_BLANK: Final = " \t\r\n"
_TOO_DEEP: Final = "it is nested too deeply to be read"
_fast: Final = msgspec.json.Decoder()


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What was read: one value, or several where the input was JSON Lines (`many`).

    `lines` gives the line on which each value starts (empty where nobody knows: a Python value).
    """

    values: tuple[Any, ...]
    many: bool = False
    lines: tuple[int, ...] = ()
    warnings: tuple[Warning_, ...] = ()

    @property
    def value(self) -> Any:
        """The one value; for JSON Lines the list of its rows."""
        return list(self.values) if self.many else self.values[0]

    def place(self, index: int) -> str:
        """Where the value `index` (from 0) stands, for a message."""
        on_lines = self.many and index < len(self.lines)
        return f"line {self.lines[index]}" if on_lines else f"element {index + 1}"


class _Reading:
    """The counts that the warnings of one document are made of."""

    def __init__(self) -> None:
        self.bytes_replaced = 0
        self.surrogates = 0
        self.odd_numbers = 0
        self.cut = ""

    def warnings(self) -> tuple[Warning_, ...]:
        found = []
        if self.bytes_replaced:
            found.append(
                Warning_(
                    code="invalid_utf8",
                    message=f"{self.bytes_replaced} places that are not UTF-8 were replaced by U+FFFD",
                )
            )
        if self.surrogates:
            found.append(
                Warning_(
                    code="lone_surrogate",
                    message=f"{self.surrogates} texts with lone surrogates had them replaced by U+FFFD",
                )
            )
        if self.odd_numbers:
            found.append(
                Warning_(
                    code="number_as_text",
                    message=f"{self.odd_numbers} numbers that JSON or a double cannot hold were kept as text",
                )
            )
        if self.cut:
            found.append(Warning_(code="truncated_input", message=self.cut))
        return tuple(found)

    def constant(self, word: str) -> str:
        self.odd_numbers += 1
        return word

    def real(self, digits: str) -> float | str:
        number = float(digits)
        if math.isfinite(number):
            return number
        return self.constant(digits)

    def whole(self, digits: str) -> int | str:
        return int(digits) if len(digits) <= _MAX_DIGITS else self.constant(digits)

    def decoder(self) -> json.JSONDecoder:
        return json.JSONDecoder(
            parse_constant=self.constant, parse_float=self.real, parse_int=self.whole, strict=False
        )


def read_document(data: bytes, *, partial_last: bool = False, max_bytes: int = MAX_BYTES) -> Document:
    """The JSON value or values in `data`. Raises InputError.

    With `partial_last` a last line that was cut off is set aside with a warning (a file still being written,
    an input that stopped); otherwise it is an error that names the line.
    """
    if len(data) > max_bytes:
        raise InputError(
            f"The conversation has {len(data):,} bytes; at most {max_bytes:,} are read.",
            remedy="Give one conversation, without its attachments' bytes.",
        )
    reading = _Reading()
    data = _transcoded(data)
    if not data or data.isspace():
        raise InputError(
            "There is no conversation: the input is empty.", remedy="Give one as a file or on stdin."
        )
    try:
        return _read(data, reading, partial_last)
    except RecursionError:
        raise InputError(f"The input is not readable: {_TOO_DEEP}.") from None


def parse_json(text: str) -> Any:
    """The JSON value in `text`, as leniently as a document is read. Raises ValueError (RecursionError too is
    turned into one)."""
    try:
        return _fast.decode(text)
    except msgspec.DecodeError:
        pass
    except (RecursionError, UnicodeError):
        raise ValueError(_TOO_DEEP) from None
    reading = _Reading()
    try:
        return _clean(reading.decoder().decode(text), reading)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def document_of(value: Any) -> Document:
    """The document that a Python value stands for (a host's call): bytes and text are read, the rest is taken
    through JSON once, so that what reaches an adapter is JSON and nothing else. Raises InputError."""
    if isinstance(value, Document):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return read_document(bytes(value))
    if isinstance(value, str):
        return read_document(without_surrogates(value).encode())
    try:
        return read_document(_encoded(value))
    except (TypeError, ValueError, RecursionError) as fault:
        raise InputError(f"The conversation is not made of JSON values: {fault}.") from fault


def json_document(value: Any, *, partial_last: bool = False) -> Document:
    """The document of a value that `read_document` made (a part of an envelope): nothing is copied."""
    if isinstance(value, str):
        return read_document(value.encode("utf-8", "surrogatepass"), partial_last=partial_last)
    return Document(values=(value,))


def json_text(value: Any, *, sort_keys: bool = False) -> str:
    """`value` as compact JSON text, for what is shown or kept as text. Never raises for JSON values."""
    try:
        return msgspec.json.encode(value, order="deterministic" if sort_keys else None).decode()
    except RecursionError:
        return "(nested too deeply to be shown)"


def too_deep(value: Any) -> bool:
    """Whether a JSON value is nested deeper than what stands behind the adapters (hashes, gates, views) may
    recurse into. Such a value goes into a conversation as text."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, dict | list)
        ]
    return bool(level)


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_dumped)
    except UnicodeError:
        return json.dumps(value, default=_dumped).encode()


def _dumped(value: Any) -> Any:
    # The message objects of client libraries (pydantic models) are what a host in Python has at hand.
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"a {type(value).__name__} is among them")


def _transcoded(data: bytes) -> bytes:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            if encoding == "utf-8":
                return data[len(mark) :]
            return data.decode(encoding, "replace").encode()
    return data


def _read(data: bytes, reading: _Reading, partial_last: bool) -> Document:
    try:
        return Document(values=(_fast.decode(data),), lines=(1,))
    except (msgspec.DecodeError, UnicodeError):
        pass
    try:
        rows = _fast.decode_lines(data)
    except (msgspec.DecodeError, UnicodeError):
        return _read_slowly(data, reading, partial_last)
    return Document(values=tuple(rows), many=True, lines=_line_numbers(data, len(rows)))


def _line_numbers(data: bytes, count: int) -> tuple[int, ...]:
    """The lines that hold the rows; none where rows do not stand on lines of their own."""
    if data.rstrip().count(b"\n") + 1 == count:
        return tuple(range(1, count + 1))
    numbers = tuple(number for number, line in enumerate(data.split(b"\n"), 1) if line.strip())
    return numbers if len(numbers) == count else ()


def _read_slowly(data: bytes, reading: _Reading, partial_last: bool) -> Document:
    text = data.decode("utf-8", "replace")
    reading.bytes_replaced = text.count("�") - data.count("�".encode())
    decode = reading.decoder()
    try:
        values: tuple[Any, ...] = (decode.decode(text.strip(_BLANK)),)
        lines: tuple[int, ...] = (1,)
        many = False
    except ValueError as fault:
        found = list(_rows(text, decode, reading, partial_last, fault))
        values, lines, many = tuple(v for _, v in found), tuple(n for n, _ in found), True
    if "\\ud" in text or "\\uD" in text:
        values = tuple(_clean(value, reading) for value in values)
    return Document(values=values, many=many, lines=lines, warnings=reading.warnings())


def _rows(
    text: str, decoder: json.JSONDecoder, reading: _Reading, partial_last: bool, whole_fault: ValueError
) -> Iterator[tuple[int, Any]]:
    """(line, value) of JSON Lines; of values written one after another where the first line is not one."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip(_BLANK)]
    try:
        first = _row(decoder, lines[0][1])
    except ValueError:
        yield from _one_after_another(text, decoder, whole_fault)
        return
    yield lines[0][0], first
    for number, line in lines[1:]:
        try:
            yield number, _row(decoder, line)
        except ValueError as fault:
            if partial_last and number == lines[-1][0]:
                reading.cut = f"line {number}, the last, is cut off and was set aside"
                return
            raise InputError(
                f"Line {number} is not JSON ({_told(fault)}).",
                remedy="The file may have been cut off while it was being written."
                if number == lines[-1][0]
                else "Each line must hold one whole JSON value.",
            ) from None


def _row(decoder: json.JSONDecoder, line: str) -> Any:
    try:
        return _fast.decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return decoder.decode(line.strip(_BLANK))


def _one_after_another(
    text: str, decoder: json.JSONDecoder, whole_fault: ValueError
) -> Iterator[tuple[int, Any]]:
    at, line, counted = 0, 1, 0
    while True:
        while at < len(text) and text[at] in _BLANK:
            at += 1
        if at >= len(text):
            return
        line, counted = line + text.count("\n", counted, at), at
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError as fault:
            told = fault if at else whole_fault
            raise InputError(f"The input is not JSON ({_told(told)}).", where=_where(told)) from None
        yield line, value
        at = end


def _told(fault: ValueError) -> str:
    if isinstance(fault, json.JSONDecodeError):
        return f"{fault.msg.removesuffix(' starting at').lower()} at column {fault.colno}"
    return str(fault)


def _where(fault: ValueError) -> str:
    return f"line {fault.lineno}" if isinstance(fault, json.JSONDecodeError) else ""


def _clean(value: Any, reading: _Reading) -> Any:
    """`value` without lone surrogates, in keys too. Recursion is bounded by the reader's own."""
    if isinstance(value, str):
        cleaned = without_surrogates(value)
        reading.surrogates += cleaned is not value
        return cleaned
    if isinstance(value, list):
        return [_clean(item, reading) for item in value]
    if isinstance(value, dict):
        return {_clean(key, reading): _clean(item, reading) for key, item in value.items()}
    return value
