"""The one room that unpacks zstd: an optional install, wanted by archives that are packed with it."""

from typing import Final

from sandbox_judge.errors import MissingExtra

_REMEDY: Final = "Install sandbox-judge[inspect], or convert the log: `inspect log convert --to json`."


def decompressed(packed: memoryview, *, at_most: int) -> bytes | None:
    """The bytes of one frame, at most `at_most` and one of them; None for bytes that are none.

    Raises MissingExtra where the library is not installed.
    """
    try:
        import zstandard
    except ImportError as fault:
        raise MissingExtra(
            "The archive is packed with zstd, and what unpacks that is not installed.", remedy=_REMEDY
        ) from fault
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed) as stream:
            return stream.read(at_most + 1)
    except zstandard.ZstdError:
        return None
