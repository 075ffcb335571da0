"""Who can write, or exchange, what must be ours: with real owners where the tests run as root."""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_judge import trust
from sandbox_judge.errors import TrustError
from sandbox_judge.trust import (
    make_private_dir,
    open_own_file,
    own_uid,
    read_trusted,
    require_private,
    unwritable_by_others,
)

STRANGER = 54_321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory of ours whose every parent is fit, whatever the test run's own directory is."""
    folder = tmp_path / "place"
    folder.mkdir(mode=0o700)
    require_private(folder)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            os.chown(path, own_uid(), -1)
            path.chmod(0o700)


def test_what_is_ours_alone_is_accepted(place: Path) -> None:
    (place / "file").touch(mode=0o600)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place / "s"))
        (place / "s").chmod(0o600)
        for path in (place, place / "file", place / "s"):
            require_private(path)


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_what_others_can_write_is_refused(place: Path, mode: int) -> None:
    place.chmod(mode)
    with pytest.raises(TrustError, match="other users can write it") as error:
        require_private(place)
    assert error.value.where == str(place) and "chmod go-w" in error.value.remedy
    assert error.value.exit_code == 2
    require_private(place, insecure=True)
    assert not unwritable_by_others(str(place))


@pytest.mark.parametrize(("mode", "fits"), [(0o777, False), (0o730, False), (0o1777, True), (0o755, True)])
def test_parents_that_others_can_write_are_refused_unless_sticky(place: Path, mode: int, fits: bool) -> None:
    (place / "a/b").mkdir(parents=True, mode=0o700)
    (place / "a/b/file").touch(mode=0o600)
    (place / "a").chmod(mode)
    for path in (place / "a/b", place / "a/b/file"):
        assert unwritable_by_others(str(path)) is fits
        if fits:
            require_private(path)
        else:
            with pytest.raises(TrustError, match="on the way") as error:
                require_private(path)
            assert error.value.where == str(place / "a")


@as_root
def test_what_belongs_to_another_is_refused(place: Path) -> None:
    (place / "a").mkdir(mode=0o700)
    (place / "a/file").touch(mode=0o600)
    os.chown(place / "a/file", STRANGER, -1)
    with pytest.raises(TrustError, match=f"belongs to user {STRANGER}"):
        require_private(place / "a/file")
    os.chown(place / "a/file", own_uid(), -1)
    os.chown(place / "a", STRANGER, -1)
    with pytest.raises(TrustError, match="exchange what is below"):
        require_private(place / "a/file")
    assert not unwritable_by_others(str(place / "a/file"))
    require_private(place / "a/file", insecure=True)


@as_root
def test_a_strangers_entry_in_a_sticky_directory_is_refused(place: Path) -> None:
    place.chmod(0o1777)
    (place / "mine").mkdir(mode=0o700)
    (place / "theirs").mkdir(mode=0o700)
    os.chown(place / "theirs", STRANGER, -1)
    require_private(place / "mine")
    with pytest.raises(TrustError):
        require_private(place / "theirs")
    with pytest.raises(TrustError):
        make_private_dir(place / "theirs")
    with pytest.raises(TrustError):
        make_private_dir(place / "theirs/spool")


@as_root
def test_settings_may_be_roots_and_a_spool_may_not(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "settings.json").write_bytes(b"{}")
    (place / "settings.json").chmod(0o644)
    monkeypatch.setattr(trust, "own_uid", lambda: STRANGER)
    assert read_trusted(place / "settings.json", limit=10) == b"{}"
    require_private(place / "settings.json", ours=False)
    with pytest.raises(TrustError, match=f"must belong to user {STRANGER}"):
        require_private(place / "settings.json")
    with pytest.raises(TrustError, match="belongs to user 0"):
        open_own_file(str(place / "settings.json"), os.O_RDONLY)


def test_links_are_followed_with_every_step_looked_at(place: Path) -> None:
    (place / "real/deep").mkdir(parents=True, mode=0o700)
    (place / "real/deep/file").touch(mode=0o600)
    (place / "link").symlink_to("./real//deep")
    (place / "absolute").symlink_to(place / "link/../deep/file")
    require_private(place / "link/file")
    require_private(place / "absolute")
    (place / "real").chmod(0o777)
    for path in (place / "link/file", place / "absolute", place / "link"):
        with pytest.raises(TrustError) as error:
            require_private(path)
        assert error.value.where == str(place / "real")


@as_root
def test_a_strangers_link_is_refused(place: Path) -> None:
    (place / "real").mkdir(mode=0o700)
    place.chmod(0o1777)
    (place / "link").symlink_to("real")
    require_private(place / "link")
    os.chown(place / "link", STRANGER, -1, follow_symlinks=False)
    with pytest.raises(TrustError, match="symbolic link of user"):
        require_private(place / "link")


def test_links_without_end_and_what_is_absent(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    with pytest.raises(TrustError, match="never end"):
        require_private(place / "a")
    for path in (place / "absent", place / "absent/below"):
        with pytest.raises(TrustError, match="No such file"):
            require_private(path)
    assert not unwritable_by_others(str(place / "absent"))


def test_the_root_is_no_private_place_unless_we_are_root() -> None:
    if own_uid() == 0:
        require_private(Path("/"))
    else:
        with pytest.raises(TrustError):
            require_private(Path("/"))


def test_private_directories_are_made_with_what_is_missing_above(place: Path) -> None:
    old = os.umask(0)
    try:
        make_private_dir(place / "a/b/c")
    finally:
        os.umask(old)
    for path in (place / "a", place / "a/b", place / "a/b/c"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    make_private_dir(place / "a/b/c")
    (place / "a/b").chmod(0o777)
    with pytest.raises(TrustError):
        make_private_dir(place / "a/b/c")
    make_private_dir(place / "a/b/c", insecure=True)


def test_a_directory_that_cannot_be_made(place: Path) -> None:
    (place / "file").touch()
    (place / "dangling").symlink_to("nowhere")
    for path in (place / "file", place / "dangling"):
        with pytest.raises(TrustError, match="not a directory"):
            make_private_dir(path)
    with pytest.raises(TrustError, match="cannot be made: Not a directory") as error:
        make_private_dir(place / "file/below")
    assert error.value.remedy
    with pytest.raises(TrustError, match="cannot be made"):
        make_private_dir(Path("/proc/self/spool"))


def test_a_file_of_ours_is_opened_and_new_ones_are_for_us_alone(place: Path) -> None:
    path = str(place / "spool")
    old = os.umask(0)
    try:
        descriptor = open_own_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    finally:
        os.umask(old)
    os.write(descriptor, b"a line\n")
    assert os.get_blocking(descriptor) and not os.get_inheritable(descriptor)
    os.close(descriptor)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    folder = os.open(place, os.O_RDONLY)
    descriptor = open_own_file("spool", os.O_RDONLY, dir_fd=folder)
    assert os.read(descriptor, 10) == b"a line\n"
    os.close(descriptor)
    os.close(folder)


def test_links_pipes_and_open_files_are_not_opened(place: Path) -> None:
    (place / "file").touch(mode=0o600)
    (place / "link").symlink_to("file")
    os.mkfifo(place / "pipe", 0o600)
    (place / "open").touch()
    (place / "open").chmod(0o666)
    with pytest.raises(OSError, match="symbolic links"):
        open_own_file(str(place / "link"), os.O_RDONLY)
    before = os.listdir("/proc/self/fd")
    for name, fault in (("pipe", "not a regular file"), ("open", "other users can write")):
        with pytest.raises(TrustError, match=fault):
            open_own_file(str(place / name), os.O_RDONLY)
    with pytest.raises(TrustError, match="not a regular file"):
        open_own_file(str(place), os.O_RDONLY)
    assert os.listdir("/proc/self/fd") == before
    os.close(open_own_file(str(place / "open"), os.O_RDONLY, insecure=True))


@as_root
def test_a_strangers_file_is_not_opened(place: Path) -> None:
    (place / "file").touch(mode=0o600)
    os.chown(place / "file", STRANGER, -1)
    with pytest.raises(TrustError, match=f"user {STRANGER}"):
        open_own_file(str(place / "file"), os.O_RDONLY)


def test_trusted_files_are_read_within_their_bound(place: Path) -> None:
    (place / "settings.json").write_bytes(b"0123456789")
    (place / "settings.json").chmod(0o600)
    (place / "link").symlink_to("settings.json")  # as Kubernetes mounts them
    assert read_trusted(place / "link", limit=10) == b"0123456789"
    with pytest.raises(TrustError, match="larger than 9 bytes"):
        read_trusted(place / "settings.json", limit=9)
    (place / "settings.json").chmod(0o606)
    with pytest.raises(TrustError):
        read_trusted(place / "link", limit=10)
    assert read_trusted(place / "link", limit=10, insecure=True) == b"0123456789"
    os.mkfifo(place / "pipe", 0o600)
    for path in (place, place / "pipe"):
        with pytest.raises(TrustError, match="not a regular file"):
            read_trusted(path, limit=10)
