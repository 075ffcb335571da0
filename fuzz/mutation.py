"""Inputs near the seeds: bytes cut, doubled, spliced and flipped, and JSON whose values change places."""

import json
import random
from collections.abc import Sequence
from typing import Any

# What parsers stumble over. Words of our own formats come from the seeds.
TOKENS = [
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"\r\n", b"\r",
    b"\x1b[2J", b"\\ud800", b"\\u0000", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"true",
    b"NaN", b"Infinity", b"-0", b"1e999", b"99999999999999999999999", b"0x1f", b"```", b"```json\n",
    b"<think>", b"</think>", b"---\n", b"&a ", b"*a", b"!!str ", b"<<: ", b"? ", b"|\n", b">\n", b"\t", b"# ",
    b"on", b"/(?i)x/", b"data:;base64,QQ==", b'{"ack": "', b'{"sandbox_judge":{"ping":true}}\n',
    b"HTTP/1.1 200 OK\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n\r\n",
    b"Content-Encoding: gzip\r\n", b"\r\n\r\n", b"0\r\n\r\n", b"fffffffff\r\n",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 10**30, "", "x", "user", "assistant", "tool", "text", "\ud800",
    "\u2028[1] x", [], {}, [None], [[]], {"": None}, {"type": "text"}, {"role": "user", "content": None},
]  # fmt: skip
MOST_BYTES = 1 << 16


class Mutator:
    """Inputs for one target, the same for the same seed."""

    def __init__(self, seeds: Sequence[bytes], *, seed: int) -> None:
        self._seeds = [data[:MOST_BYTES] for data in seeds] or [b""]
        self._random = random.Random(seed)

    def input(self) -> bytes:
        """One more."""
        rng = self._random
        data = rng.choice(self._seeds)
        if rng.random() < 0.4 and (shaken := self._shaken(data)) is not None:
            data = shaken
        for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
            data = self._changed(data)
        return data[:MOST_BYTES]

    def _changed(self, data: bytes) -> bytes:
        rng = self._random
        start = rng.randint(0, len(data))
        end = min(len(data), start + rng.choice((1, 2, 8, 64, len(data))))
        piece = data[start:end]
        match rng.randint(0, 7):
            case 0:
                return data[:start] + data[end:]
            case 1:
                return data[:start] + piece * rng.choice((2, 3, 40)) + data[end:]
            case 2:
                return data[:start] + rng.choice(TOKENS) + data[start:]
            case 3:
                return data[:start] + rng.choice(TOKENS) + data[end:]
            case 4:
                return data[:start]
            case 5:
                other = rng.choice(self._seeds)
                return data[:start] + other[rng.randint(0, len(other)) :]
            case 6:
                return data[:start] + rng.choice(TOKENS) * rng.choice((5, 500)) + data[start:]
            case _:
                flipped = bytes(byte ^ 1 << rng.randint(0, 7) for byte in piece[:1])
                return data[:start] + flipped + data[start + 1 :]

    def _shaken(self, data: bytes) -> bytes | None:
        """JSON (a document, or lines of it) with values that changed places; None where it is none."""
        rng = self._random
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
        for _ in range(rng.choice((1, 1, 2, 5))):
            value = self._with_change(value)
        return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")

    def _with_change(self, value: Any) -> Any:
        rng = self._random
        if isinstance(value, list) and value and rng.random() < 0.8:
            at = rng.randrange(len(value))
            changed = list(value)
            if rng.random() < 0.2:
                changed.insert(at, rng.choice(changed))
            elif rng.random() < 0.15:
                del changed[at]
            else:
                changed[at] = self._with_change(value[at])
            return changed
        if isinstance(value, dict) and value and rng.random() < 0.85:
            key = rng.choice(list(value))
            changed = dict(value)
            if rng.random() < 0.15:
                del changed[key]
            elif rng.random() < 0.15:
                changed[rng.choice(list(value))] = value[key]
            else:
                changed[key] = self._with_change(value[key])
            return changed
        return [value] if rng.random() < 0.1 else rng.choice(VALUES)
