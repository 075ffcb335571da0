"""The thin client of the resident runner: stdin in, events out, within a budget, whatever the server does.

Only the standard library, and little of it: a shim starts this at the end of every conversation. If no server
takes the request, the process becomes the one-shot run (exec keeps its age, so the budget goes on); once one
has said `accepted`, it never does, so nothing is paid twice. docs/resident.md has the protocol.
"""

import json
import os
import select
import socket
import stat
import struct
import sys
import time
from typing import NoReturn

from sandbox_judge.call_options import Fault, Options

STARTED = time.monotonic()
IDLE_S = 2.0
DEFAULT_BUDGET_S = 30.0
# How long a server may take to say that it has the request; a third of what is left, if that is less.
ACCEPT_S = 2.0
# What a server reads of a conversation in a second at the least, before it accepts.
_READ_BYTES_S = 4_000_000
_QUIET_S = 0.02
_CROWDED_S = 0.005
_LATE_S = 0.1
_CHUNK = 1 << 18
_PIPE_BUF = select.PIPE_BUF
_MOST_ERROR_BYTES = 1 << 16
_LEDGER = b'"event_name":"sandbox_judge.ledger"'
# What would not be otherwise in a run of one's own: after any other error another way is tried.
_FINAL = ("refused", "invalid", "recipe")

_HELP = """\
usage: sandbox-judge call PATH [CONVERSATION] [options of run]

Hand a finished conversation (stdin, or a file) to the resident runner at the unix socket PATH, and print the
judgement events that it sends back. If no server takes it, `run` does, with the same arguments.

  --ping             say how the server is; exit 0 when it is ready, 1 when not
  --no-fallback      never run here: exit 3 where no server takes the request
  --server-uid UID   trust a server of this user, besides our own and root (SANDBOX_JUDGE_SERVER_UID)

All else is as in `sandbox-judge run --help`. What a request may set (ids, status, commit, environment,
experiment, feedback, budget) goes to the server; recipe, settings and sinks are the server's own and count
for `run` alone. What a server cannot do (--dry-run, --local, --explain, ...) `run` does at once.
"""


class Unavailable(Exception):
    """No server took the request; the text says why."""


def main(argv: list[str], environ: dict[str, str]) -> int:
    """Runs the client and returns its exit code, or becomes the one-shot run."""
    try:
        return _call(Options(argv, environ), environ)
    except Fault as fault:
        if str(fault):
            _say(f"sandbox-judge: {fault}")
        return 0 if "--exit-zero" in argv else fault.code
    except KeyboardInterrupt:
        return 130


def _call(options: Options, environ: dict[str, str]) -> int:
    if options.help:
        os.write(1, _HELP.encode())
        return 0
    if options.path is None:
        raise Fault("no socket was named. See `sandbox-judge call --help`.", 2)
    if environ.get("SANDBOX_JUDGE_DISABLED") == "1":
        raise Fault("switched off by SANDBOX_JUDGE_DISABLED=1; nothing was graded.", 0)
    budget_s = DEFAULT_BUDGET_S if options.budget_s is None else max(0.0, options.budget_s)
    deadline = STARTED - _age_before() + budget_s
    if options.ping:
        return _ping(options, min(deadline, time.monotonic() + ACCEPT_S))
    if options.alone is not None:
        if options.no_fallback:
            raise Fault(f"{options.alone} is nothing that a server can do.", 2)
        _become_run(options, None)
    if options.file not in (None, "-"):
        _open_as_stdin(str(options.file))
    if os.isatty(0):
        raise Fault("no conversation was given. Name a file, or give one on stdin.", 2)
    data, cut_short = _read_stdin(deadline)
    if not data.strip():
        raise Fault("there is no conversation: the input is empty.", 2)
    try:
        sock = _handed_over(options, data, cut_short, deadline)
    except Unavailable as error:
        if options.no_fallback:
            raise Fault(f"{error}; --no-fallback forbids to run it here.", 3) from None
        if not options.quiet:
            _say(f"sandbox-judge: {error}; running it here instead.")
        _become_run(options, data)
    with sock:
        return _print_reply(sock, options, deadline + _LATE_S)


def _ping(options: Options, deadline: float) -> int:
    try:
        sock = _connected(options, deadline)
        with sock:
            sock.sendall(b'{"sandbox_judge": {"ping": true}}\n')
            line = _first_line(sock, deadline)
    except (Unavailable, OSError) as error:
        raise Fault(f"{error}.", 1) from None
    os.write(1, line + b"\n")
    return 0 if _json(line).get("ready") is True else 1


def _handed_over(options: Options, data: bytes, cut_short: bool, deadline: float) -> socket.socket:
    """The connection to a server that has accepted the request. Raises Unavailable, Fault."""
    sock = _connected(options, deadline)
    try:
        _send(sock, _header(options, cut_short, deadline), data, deadline)
        patience = ACCEPT_S + len(data) / _READ_BYTES_S
        patience = min(patience, max(0.0, deadline - time.monotonic()) / 3)
        line = _first_line(sock, time.monotonic() + patience)
    except Unavailable:
        sock.close()
        raise
    if line.startswith(b'{"accepted"'):
        return sock
    sock.close()
    error = _json(line).get("error")
    kind, message = (error.get("type"), error.get("message")) if isinstance(error, dict) else (None, None)
    if kind in _FINAL:
        raise Fault(_plain(str(message)), 2)
    raise Unavailable(f"the server at {options.path} did not take the request ({_plain(str(message))})")


def _connected(options: Options, deadline: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _connect(sock, str(options.path), min(deadline, time.monotonic() + ACCEPT_S))
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except (OSError, ValueError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or str(error)
        if "too long" in reason:
            reason = "the path is longer than the kernel's 107 bytes"
        raise Unavailable(f"no server answers at {options.path} ({reason})") from None
    uid = struct.unpack("3i", raw)[1]
    if uid not in options.uids:
        sock.close()
        raise Unavailable(
            f"the server at {options.path} runs as user {uid}, who is not trusted (--server-uid)"
        )
    return sock


def _connect(sock: socket.socket, path: str, deadline: float) -> None:
    """Connects, and waits where the server has more callers than it takes at once. Raises OSError."""
    sock.settimeout(max(0.001, deadline - time.monotonic()))
    while True:
        try:
            return sock.connect(path)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_CROWDED_S)


def _header(options: Options, cut_short: bool, deadline: float) -> bytes:
    header = dict(options.header)
    if options.budget_s is not None:
        header["budget_ms"] = max(0.0, (deadline - time.monotonic()) * 1000)
    if cut_short:
        header["cut_short"] = True
    return json.dumps({"sandbox_judge": header}, separators=(", ", ":")).encode() + b"\n" if header else b""


def _send(sock: socket.socket, header: bytes, data: bytes, deadline: float) -> None:
    try:
        for part in (header, data):
            left = memoryview(part)
            while left:
                sock.settimeout(max(0.001, min(ACCEPT_S, deadline - time.monotonic())))
                left = left[sock.send(left[:_CHUNK]) :]
        sock.shutdown(socket.SHUT_WR)
    except BrokenPipeError:
        return  # what the server had to say is still to be read
    except OSError as error:
        raise Unavailable(f"the server did not take the request ({error.strerror or error})") from None


def _first_line(sock: socket.socket, deadline: float) -> bytes:
    """The first line of the reply, and not a byte more. Raises Unavailable where it is not there in time: our
    side is shut then and what came before that is read, so the server can have said nothing unheard."""
    line = bytearray()
    shut = False
    byte: bytes | None
    while not line.endswith(b"\n"):
        try:
            left = deadline - time.monotonic()
            if left <= 0 and not shut:
                sock.shutdown(socket.SHUT_RD)
                shut = True
            sock.settimeout(0.001 if shut else max(0.001, left))
            byte = sock.recv(1)
        except TimeoutError:
            byte = b"" if shut else None
        except OSError as error:
            raise Unavailable(f"the server broke off ({error.strerror or error})") from None
        if byte == b"" or len(line) > _MOST_ERROR_BYTES:
            why = "did not answer in time" if shut else "hung up"
            raise Unavailable(f"the server {why}")
        line += byte or b""
    return bytes(line[:-1])


def _print_reply(sock: socket.socket, options: Options, deadline: float) -> int:
    """Events to stdout as they come, the ledger where it is wished. The exit code."""
    buffer = bytearray()
    results: list[object] = []
    ended = False
    while not ended:
        left = deadline - time.monotonic()
        try:
            sock.settimeout(max(0.001, left))
            chunk = sock.recv(_CHUNK)
        except TimeoutError:
            raise Fault(
                "time is up and the server, which has the request, is not done: "
                "its events go to its own sinks or its spool.",
                3,
            ) from None
        except OSError:
            chunk = b""
        buffer += chunk
        *lines, rest = bytes(buffer).split(b"\n")
        buffer = bytearray(rest)
        for line in lines:
            ended |= _take_line(line, options, results, deadline)
        if not chunk and not ended:
            raise Fault("the server ended before it was done; see its own sinks and its spool.", 3)
    if options.fail_on in ("fail", "any") and "fail" in results:
        return 0 if options.exit_zero else 1
    if options.fail_on in ("null", "any") and None in results:
        return 0 if options.exit_zero else 4
    return 0


def _take_line(line: bytes, options: Options, results: list[object], deadline: float) -> bool:
    """One line of the reply; True for the last one."""
    if _LEDGER in line:
        if options.report:
            _say(line.decode("ascii", "replace"))
        if options.report_file is not None:
            try:
                with open(options.report_file, "wb") as file:
                    file.write(line + b"\n")
            except OSError as error:
                raise Fault(f"{options.report_file} cannot be written ({error.strerror}).", 2) from None
        return True
    if line.startswith(b'{"error"'):
        raise Fault(_plain(str(_json(line).get("error"))), 70)
    if options.fail_on is not None:
        payload = _json(line).get("payload")
        results.append(payload.get("result") if isinstance(payload, dict) else None)
    _write(line + b"\n", deadline)
    return False


def _write(data: bytes, deadline: float) -> None:
    """To stdout, without waiting for its reader beyond the deadline."""
    left = memoryview(data)
    poll = select.poll()
    poll.register(1, select.POLLOUT)
    try:
        while left:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise Fault("nobody reads stdout; the server has the events.", 3)
            left = left[os.write(1, left[:_PIPE_BUF]) :]
    except OSError as error:
        raise Fault(f"stdout cannot be written ({error.strerror}); the server has the events.", 3) from None


def _read_stdin(deadline: float) -> tuple[bytes, bool]:
    """What stands on stdin, and whether it was still open when waiting ended (design, section 3): it ends
    early behind a whole array or envelope, and never waits two seconds for a byte."""
    parts: list[bytes] = []
    poll = select.poll()
    poll.register(0, select.POLLIN)
    tried = False
    while True:
        may_try = bool(parts) and not tried and parts[-1].rstrip()[-1:] in (b"]", b"}")
        wait_s = min(_QUIET_S if may_try else IDLE_S, max(0.0, deadline - time.monotonic()))
        if poll.poll(wait_s * 1000):
            try:
                chunk = os.read(0, _CHUNK)
            except OSError as error:
                raise Fault(f"stdin cannot be read ({error.strerror}).", 2) from None
            if not chunk:
                return b"".join(parts), False
            parts.append(chunk)
            tried = False
        elif may_try:
            tried = True
            if _is_whole(b"".join(parts)):
                return b"".join(parts), False
        else:
            return b"".join(parts), True


def _is_whole(data: bytes) -> bool:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, list) or (
        isinstance(value, dict) and isinstance(value.get("conversation"), dict | list | str)
    )


def _open_as_stdin(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(0, "it is a directory")
        os.dup2(descriptor, 0)
    except OSError as error:
        raise Fault(f"{path}: cannot be read ({error.strerror}).", 2) from None


def _become_run(options: Options, data: bytes | None) -> NoReturn:
    """Replaces this process by the one-shot run; `data` is what was read from stdin."""
    arguments = list(options.run)
    if data is not None:
        _replace_stdin(data)
    elif options.file is not None:
        arguments.insert(0, options.file)
    isolated = ["-I"] if sys.flags.isolated else []
    command = [sys.executable, *isolated, "-m", "sandbox_judge", "run", *arguments]
    try:
        os.execv(sys.executable, command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise Fault(f"the run could not be started ({error.strerror}).", 70) from None


def _replace_stdin(data: bytes) -> None:
    """Makes `data` what stdin gives: a file in memory, so that nothing of it lies on disk."""
    descriptor = os.memfd_create("hook input")
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.dup2(descriptor, 0)


def _json(line: bytes) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _age_before() -> float:
    """Seconds between the process's start and this module's import, where the system tells."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        since = time.monotonic() - STARTED
        return age - since if since <= age < since + 60 else 0.0
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def _plain(text: str) -> str:
    """Without what a terminal would obey: the server's words are not ours."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def _say(line: str) -> None:
    try:
        os.write(2, line.encode("utf-8", "replace") + b"\n")
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
