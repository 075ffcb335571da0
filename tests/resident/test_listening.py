"""Where the server listens: nobody else's place, nobody else's socket."""

import os
import socket
import stat

import pytest
from resident.serving import private

from sandbox_judge.errors import TrustError, UsageError
from sandbox_judge.resident.listening import listen, peer_uid, remove
from sandbox_judge.resident.notify import memory_bytes, notify


def test_only_its_user_may_connect(tmp_path):
    path = private(tmp_path) / "s"
    with listen(path) as listener:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            assert peer_uid(client) == os.geteuid()
        remove(path, listener)
    assert not path.exists()


def test_others_where_the_operator_allows_them(tmp_path):
    path = private(tmp_path) / "s"
    with listen(path, for_others=True):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_a_stale_socket_is_replaced_and_a_living_server_is_not(tmp_path):
    path = private(tmp_path) / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with listen(path):
        with pytest.raises(UsageError, match="listens there already"):
            listen(path)
        assert path.exists()


def test_what_is_no_socket_stays(tmp_path):
    path = private(tmp_path) / "s"
    path.write_text("precious")
    with pytest.raises(UsageError, match="no socket"):
        listen(path)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(UsageError, match="no socket"):
        listen(tmp_path / "link")
    assert path.read_text() == "precious"


def test_the_kernels_limit_on_paths_is_told(tmp_path):
    folder = private(tmp_path)
    fits = folder / ("x" * (107 - len(os.fsencode(folder)) - 1))
    with listen(fits):
        assert fits.exists()
    with pytest.raises(UsageError, match="107") as raised:
        listen(folder / (fits.name + "y"))
    assert "shorter" in raised.value.remedy


def test_a_folder_that_others_can_write_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(TrustError):
        listen(tmp_path / "s")
    with listen(tmp_path / "s", insecure=True):
        pass


def test_a_server_that_took_the_place_keeps_its_file(tmp_path):
    path = private(tmp_path) / "s"
    first = listen(path)
    path.unlink()
    with listen(path):
        remove(path, first)
        assert path.exists()


@pytest.mark.parametrize("abstract", [False, True])
def test_the_service_manager_is_told(tmp_path, abstract):
    name = f"@sandbox-judge-test-{os.getpid()}" if abstract else str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(5)
        assert notify({"NOTIFY_SOCKET": name}, "READY=1", "STATUS=x")
        assert manager.recv(100) == b"READY=1\nSTATUS=x"


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all", "/" + "x" * 300, "@\0"])
def test_a_manager_that_is_not_there_is_no_fault(address):
    assert notify({"NOTIFY_SOCKET": address}, "READY=1") in (False, True)
    assert memory_bytes() > 1_000_000
