"""The members of a zip archive held in memory, unpacked within a bound. Pure.

The standard library's reader takes 13 ms to import, which every hook would pay, and believes what an archive
says of its sizes; this one reads what logs come in (stored, deflated or zstd, with zip64 counts).
Layout: PKWARE APPNOTE 6.3, sections 4.3.7, 4.3.12, 4.3.14-16.
"""

import struct
import zlib
from typing import Final

import msgspec

from sandbox_judge.conversation.zstd import decompressed

START: Final = b"PK\x03\x04"
_END: Final = b"PK\x05\x06"
_END_64: Final = b"PK\x06\x06"
_LOCATOR_64: Final = b"PK\x06\x07"
_CENTRAL: Final = b"PK\x01\x02"
_END_SIZE: Final = 22
_LONGEST_COMMENT: Final = 65_535
_CENTRAL_SIZE: Final = 46
_LOCAL_SIZE: Final = 30
_ENCRYPTED: Final = 1
_UTF8: Final = 0x800
_STORED: Final = 0
_DEFLATED: Final = 8
_ZSTD: Final = 93
_UNSET_16: Final = 0xFFFF
_UNSET_32: Final = 0xFFFFFFFF


class ZipFault(ValueError):
    """The bytes are no archive that is read here; the message tells why."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    method: int
    encrypted: bool
    packed: int
    crc: int
    offset: int


def members_of(data: bytes, *, at_most: int) -> tuple[Member, ...]:
    """The members that the archive's directory lists, in its order. Raises ZipFault."""
    try:
        count, start = _directory(data)
        if count > at_most:
            raise ZipFault(f"it holds {count:,} files, and at most {at_most:,} are read")
        found = []
        at = start
        for _ in range(count):
            member, at = _member(data, at)
            found.append(member)
    except struct.error as fault:
        raise ZipFault("it is cut off") from fault
    return tuple(found)


def unpacked(data: bytes, member: Member, *, at_most: int) -> bytes:
    """The bytes of a member. Raises ZipFault, at the latest when more than `at_most` have
    come; MissingExtra for zstd without what unpacks it."""
    if member.encrypted:
        raise ZipFault(f"{member.name!r} is encrypted")
    try:
        signature, names = struct.unpack_from("<4s22xI", data, member.offset)
    except struct.error as fault:
        raise ZipFault("it is cut off") from fault
    if signature != START:
        raise ZipFault(f"{member.name!r} is not where its directory says")
    begin = member.offset + _LOCAL_SIZE + (names & 0xFFFF) + (names >> 16)
    packed = memoryview(data)[begin : begin + member.packed]
    if len(packed) < member.packed:
        raise ZipFault("it is cut off")
    text = _inflated(packed, member, at_most)
    if len(text) > at_most:
        raise ZipFault(f"{member.name!r} unpacks to more than is read from an archive of its size")
    if zlib.crc32(text) != member.crc:
        raise ZipFault(f"{member.name!r} is damaged: its checksum differs")
    return text


def _inflated(packed: memoryview, member: Member, at_most: int) -> bytes:
    if member.method == _STORED:
        return bytes(packed[: at_most + 1])
    if member.method == _ZSTD:
        if (plain := decompressed(packed, at_most=at_most)) is None:
            raise ZipFault(f"{member.name!r} is damaged")
        return plain
    if member.method != _DEFLATED:
        raise ZipFault(f"{member.name!r} is packed by method {member.method}, which is not read here")
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        text = engine.decompress(packed, at_most + 1)
    except zlib.error as fault:
        raise ZipFault(f"{member.name!r} is damaged ({fault})") from fault
    if not engine.eof and len(text) <= at_most:
        raise ZipFault(f"{member.name!r} is cut off")
    return text


def _directory(data: bytes) -> tuple[int, int]:
    """(number of members, where their directory starts)."""
    end = data.rfind(_END, max(0, len(data) - _END_SIZE - _LONGEST_COMMENT))
    if end < 0:
        raise ZipFault("its directory is missing: it was cut off, or is still being written")
    count, size, start = struct.unpack_from("<8x2xHII", data, end)
    if count != _UNSET_16 and _UNSET_32 not in (size, start):
        return count, start
    locator, where = struct.unpack_from("<4s4xQ", data, max(0, end - 20))
    if locator != _LOCATOR_64 or data[where : where + 4] != _END_64:
        raise ZipFault("its directory is damaged")
    count, start = struct.unpack_from("<32xQ8xQ", data, where)
    return count, start


def _member(data: bytes, at: int) -> tuple[Member, int]:
    (signature, flags, method, crc, packed, size, name, extra, comment, offset) = struct.unpack_from(
        "<4s4xHH4xIIIHHH8xI", data, at
    )
    if signature != _CENTRAL:
        raise ZipFault("its directory is damaged")
    if _UNSET_32 in (packed, size, offset):
        raise ZipFault("it has members of more than 4 GiB")
    raw = data[at + _CENTRAL_SIZE : at + _CENTRAL_SIZE + name]
    return Member(
        name=raw.decode("utf-8" if flags & _UTF8 else "cp437", "replace"),
        method=method,
        encrypted=bool(flags & _ENCRYPTED),
        packed=packed,
        crc=crc,
        offset=offset,
    ), at + _CENTRAL_SIZE + name + extra + comment
