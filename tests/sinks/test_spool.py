"""The write-ahead spool: what was appended is there, whoever died when."""

import json
import os
import resource

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge.errors import DeliveryError, TrustError
from sandbox_judge.sinks import spool as spool_module
from sandbox_judge.sinks.base import Line
from sandbox_judge.sinks.spool import SUFFIX, Spool
from sandbox_judge.sinks.spool_file import DAMAGED

A, B = "unix:/run/a", "unix+ack:/run/b"


@pytest.fixture
def spool(tmp_path):
    with_spool = Spool(tmp_path / "state" / "spool")
    yield with_spool
    with_spool.close()


def left(spool):
    """{event id: sinks} of everything left behind; the files are released again."""
    found = {}
    for file in spool.leftovers():
        found.update(file.waiting())
        file.close()
    return found


def files(spool):
    return sorted(os.listdir(spool.directory))


def test_everything_is_private(spool, event):
    file = spool.create()
    file.append([event(1)], [A])
    assert spool.directory.stat().st_mode & 0o777 == 0o700
    assert (spool.directory / file.name).stat().st_mode & 0o777 == 0o600
    file.close()


def test_each_sink_is_tracked_for_itself_and_an_empty_file_goes(spool, event):
    file = spool.create()
    file.append([event(1), event(2)], [A, B])
    file.strike("1", A)
    assert file.close() == 2
    assert left(spool) == {"1": {B}, "2": {A, B}}
    (found,) = spool.leftovers()
    assert found.line("2") == event(2)
    for number, sink in [("1", B), ("2", A), ("2", B), ("2", B), ("7", A)]:
        found.strike(number, sink)
    assert found.close() == 0
    assert files(spool) == []


def test_a_file_without_events_goes(spool):
    assert spool.create().close() == 0
    assert files(spool) == []


def test_the_bytes_come_back_as_they_were(spool):
    line = Line("1", b'{"b": 1,"a":"\\ud83d\\ude00 \\u2028","n":1.50,"id":"1"}')
    file = spool.create()
    file.append([line], [A])
    assert file.line("1") == line
    file.close()


@pytest.mark.parametrize("data", [b"", b"{", b"{}\n", b'{"a":\n1}', b"nonsense", b"{} {}"])
def test_what_is_not_one_line_of_json_is_refused_and_leaves_no_trace(spool, data, event):
    file = spool.create()
    with pytest.raises(ValueError, match="event x"):
        file.append([event(1), Line("x", data)], [A])
    file.append([event(2)], [A])
    assert dict(file.waiting()) == {"2": {A}}
    file.close()
    assert left(spool) == {"2": {A}}


def test_a_live_file_is_nobody_elses(spool, event, tmp_path):
    file = spool.create()
    file.append([event(1)], [A])
    other = Spool(tmp_path / "state" / "spool")
    assert left(other) == {}
    file.close()
    (first,) = other.leftovers()
    assert left(spool) == {}, "two runs never send the same file at once"
    first.close()
    assert left(spool) == {"1": {A}}
    other.close()


def test_a_file_that_another_run_sweeps_before_we_lock_it_is_not_used(spool, event, monkeypatch, tmp_path):
    other = Spool(tmp_path / "state" / "spool")
    real_lock = spool_module.lock
    raced = []

    def swept_first(fd):
        if not raced:
            raced.append(fd)
            assert left(other) == {}, "an empty leftover goes"
        return real_lock(fd)

    monkeypatch.setattr(spool_module, "lock", swept_first)
    file = spool.create()
    file.append([event(1)], [A])
    file.close()
    assert left(spool) == {"1": {A}}
    other.close()


def test_oldest_first(spool, event):
    for number in range(5):
        file = spool.create()
        file.append([event(number)], [A])
        file.close()
    assert list(left(spool)) == ["0", "1", "2", "3", "4"]


@given(cut=st.integers(min_value=0, max_value=600))
@settings(max_examples=60, deadline=None)
def test_a_file_cut_anywhere_gives_every_whole_record(tmp_path_factory, cut):
    spool = Spool(tmp_path_factory.mktemp("spool"))
    file = spool.create()
    lines = [Line(str(n), json.dumps({"id": str(n), "x": "é" * n}).encode()) for n in range(5)]
    file.append(lines, [A])
    file.strike("1", A)
    path = spool.directory / file.name
    file.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    count = whole[:cut].count(b"\n")
    # A record that lacks its newline only is whole, too.
    if cut < len(whole) and whole[cut : cut + 1] == b"\n":
        count += 1
    expected = {str(n) for n in range(min(count, 5))} - ({"1"} if count > 5 else set())
    found = list(spool.leftovers())
    assert {event_id for file in found for event_id, _ in file.waiting()} == expected
    for file in found:
        for event_id, _ in file.waiting():
            assert file.line(event_id) == lines[int(event_id)]
        file.append([Line("new", b'{"id":"new"}')], [B])
        file.close()
    if expected:
        assert left(spool).keys() == expected | {"new"}, "what is appended after a torn end is whole"
    spool.close()


def test_a_damaged_line_amid_the_file_is_kept_and_told_and_hides_nothing(spool, event):
    file = spool.create()
    file.append([event(1)], [A])
    path = spool.directory / file.name
    file.close()
    path.write_bytes(
        b'{"id":5}\n' + b"\x00" * 40 + b"\n" + b"[" * 100_000 + b"\n" + path.read_bytes() + b"[]\n"
    )
    (found,) = spool.leftovers()
    assert dict(found.waiting()) == {"1": {A}}
    found.strike("1", A)
    found.close()
    assert files(spool) == [path.name + DAMAGED]
    assert "4 of its lines cannot be read" in spool.warnings[0]
    assert left(spool) == {}


def test_an_event_whose_receivers_cannot_be_read_is_kept_and_told(spool, event):
    file = spool.create()
    file.append([event(1)], [A])
    path = spool.directory / file.name
    file.close()
    path.write_bytes(path.read_bytes().replace(b'"sinks"', b'"si\xeeks"'))
    assert left(spool) == {}
    assert files(spool) == [path.name + DAMAGED]
    assert "1 of its lines cannot be read" in spool.warnings[0]


def test_a_full_disk_takes_the_half_record_back(spool, event):
    file = spool.create()
    file.append([event(1)], [A])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.append([event(2, size=20_000)], [A])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.append([event(3)], [A])
    assert dict(file.waiting()).keys() == {"1", "3"}
    file.close()
    assert left(spool).keys() == {"1", "3"}


def test_a_half_record_that_cannot_be_taken_back_swallows_nothing(spool, event, monkeypatch):
    file = spool.create()
    file.append([event(1)], [A])
    real_write = os.write

    written = []

    def half(fd, data):
        if written:
            full()
        written.append(data)
        return real_write(fd, data[:20])

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        patch.setattr(os, "ftruncate", full)
        with pytest.raises(OSError, match="No space"):
            file.append([event(2)], [A])
    file.append([event(3)], [A])
    assert file.line("3") == event(3)
    file.close()
    assert left(spool).keys() == {"1", "3"}


def test_a_directory_that_others_can_write_is_refused(spool, tmp_path):
    spool.directory.mkdir(parents=True)
    spool.directory.chmod(0o777)
    with pytest.raises(TrustError, match="other users can write"):
        spool.create()
    lenient = Spool(spool.directory, insecure=True)
    lenient.create().close()
    lenient.close()


def test_a_directory_that_cannot_be_made_is_told_as_a_failed_delivery(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises((DeliveryError, TrustError)):
        Spool(tmp_path / "file" / "spool").create()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_owner_links_and_pipes_are_never_sent(spool, event, tmp_path):
    file = spool.create()
    file.append([event(1)], [A])
    name = file.name
    file.close()
    os.chown(spool.directory / name, 12345, 12345)
    (tmp_path / "elsewhere").write_bytes((spool.directory / name).read_bytes())
    (spool.directory / f"2{SUFFIX}").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(spool.directory / f"3{SUFFIX}")
    loose = spool.directory / f"4{SUFFIX}"
    loose.write_bytes((tmp_path / "elsewhere").read_bytes())
    loose.chmod(0o666)
    assert left(spool) == {}
    assert [
        word in text
        for word, text in zip(
            ("user 12345", "symbolic link", "not a regular file", "other users can write"),
            sorted(spool.warnings, key=lambda text: text.split(SUFFIX)[0].split("/")[-1]),
            strict=True,
        )
    ] == [True] * 4
    assert len(files(spool)) == 4


def test_a_file_does_not_grow_by_what_was_delivered(spool, event):
    file = spool.create()
    for number in range(50):
        file.append([event(number, size=1_000)], [A])
        file.strike(str(number), A)
    assert (spool.directory / file.name).stat().st_size == 0
    # One event that nobody takes: what was struck off goes when the file is left.
    file.append([event(99)], [B])
    for number in range(100):
        file.append([event(number + 100, size=2_000)], [A])
        file.strike(str(number + 100), A)
    file.note_refusal("99", B, "no")
    assert file.close() == 1
    assert (spool.directory / file.name).stat().st_size < 1_000
    (found,) = spool.leftovers()
    assert dict(found.waiting()) == {"99": {B}}
    assert found.line("99") == event(99)
    assert found.refusals == {("99", B): "no"}
    found.close()
    assert files(spool) == [file.name]


def test_what_a_run_left_that_died_compacting_is_swept(spool, event):
    file = spool.create()
    file.append([event(1)], [A])
    file.close()
    (spool.directory / f"1{SUFFIX}.compacting").touch(0o600)
    assert left(spool) == {"1": {A}}
    assert files(spool) == [file.name]


def test_looking_into_a_spool_that_is_not_there_makes_none(spool):
    assert left(spool) == {}
    assert not spool.directory.exists()
