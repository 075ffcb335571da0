"""One POST, one response: connections, proxies, certificates, names, redirects, sizes. On real sockets."""

import gzip
import json
import select
import socket
import ssl
import subprocess
import threading
import time
import zlib
from pathlib import Path

import anyio
import pytest

from sandbox_judge.lanes.address import HttpFailure
from sandbox_judge.lanes.connect import tls_context
from sandbox_judge.lanes.http import HttpClient, Response
from sandbox_judge.testing import answers
from sandbox_judge.testing.model_server import Answer, Line, ModelServer, Request

pytestmark = pytest.mark.anyio


async def post(client: HttpClient, url: str, budget: float = 5.0, **options: object) -> Response:
    given = {"headers": {"Authorization": "Bearer sk-canary"}, "content": b"{}", **options}
    return await client.post(url, deadline=anyio.current_time() + budget, **given)


async def trouble(client: HttpClient, url: str, budget: float = 5.0) -> HttpFailure:
    with pytest.raises(HttpFailure) as caught:
        await post(client, url, budget)
    await client.aclose()
    assert "canary" not in caught.value.message
    return caught.value


async def test_a_connection_is_kept_and_shared() -> None:
    with ModelServer(answers.raw(b"{}")) as server:
        client = HttpClient({})
        for _ in range(3):
            assert (await post(client, server.url)).body == b"{}"
        assert server.connections == 1
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(post, client, server.url)
        assert server.connections <= 5
        assert len(server.requests) == 8
        await client.aclose()


async def test_a_kept_connection_that_the_server_closed_is_not_used() -> None:
    def once(line: Line) -> None:
        answers.raw(b"{}")(line)
        line.hang_up()

    with ModelServer(once) as server:
        client = HttpClient({})
        for _ in range(3):
            response = await post(client, server.url)
            assert response.requests == 1
            await anyio.sleep(0.02)  # the server's end of the connection arrives
        assert server.connections == 3
        await client.aclose()


async def test_a_kept_connection_that_closes_under_the_request_costs_a_second_one() -> None:
    with ModelServer([answers.raw(b"1"), answers.hang_up, answers.raw(b"2")]) as server:
        client = HttpClient({})
        await post(client, server.url)
        response = await post(client, server.url)
        assert (response.body, response.requests) == (b"2", 2)
        assert server.connections == 2
        await client.aclose()


async def test_a_fresh_connection_that_closes_is_not_tried_again() -> None:
    with ModelServer(answers.hang_up) as server:
        assert (await trouble(HttpClient({}), server.url)).trouble == "connection"
        assert len(server.requests) == 1


async def test_a_request_that_a_server_hangs_up_on_goes_out_twice_however_many_connections_are_kept() -> None:
    def answer(request: Request) -> Answer:
        return answers.hang_up if request.body == b"bad" else answers.raw(b"1", delay_s=0.05)

    with ModelServer(answer, by_request=True) as server:
        client = HttpClient({})
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(post, client, server.url)
        deadline = anyio.current_time() + 5
        with pytest.raises(HttpFailure):
            await client.post(server.url, headers={}, content=b"bad", deadline=deadline)
        assert sum(request.body == b"bad" for request in server.requests) == 2
        await client.aclose()


async def test_many_requests_leave_no_sockets() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    # The first reset falls on a kept connection and is tried again; the second is the failure.
    with ModelServer([answers.raw(b"{}"), answers.reset, answers.reset] * 20) as server:
        client = HttpClient({})
        before = descriptors()
        for _ in range(20):
            await post(client, server.url)
            with pytest.raises(HttpFailure):
                await post(client, server.url)
        await client.aclose()
    deadline = time.monotonic() + 2
    while descriptors() > before and time.monotonic() < deadline:  # noqa: ASYNC110  # the server's threads
        await anyio.sleep(0.01)
    assert descriptors() <= before


async def test_a_cancelled_call_closes_its_connection() -> None:
    with ModelServer([answers.hang, answers.raw(b"{}")]) as server:
        client = HttpClient({})
        with anyio.move_on_after(0.2) as scope:
            await post(client, server.url)
        assert scope.cancelled_caught
        assert (await post(client, server.url)).body == b"{}"
        assert server.connections == 2
        await client.aclose()


# --- bodies


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data, wbits=-15)),
        ("identity", bytes),
    ],
)
async def test_codings(coding: str, pack: object) -> None:
    body = json.dumps({"text": "x" * 100_000}).encode()
    packed = pack(body)  # type: ignore[operator]
    with ModelServer(answers.raw(packed, headers={"Content-Encoding": coding})) as server:
        client = HttpClient({})
        assert (await post(client, server.url)).body == body
        assert (await post(client, server.url)).body == body
        await client.aclose()
        assert server.requests[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize(
    "answer",
    [
        answers.raw(b"{}", headers={"Content-Encoding": "br"}),
        answers.raw(b"{}", headers={"Content-Encoding": "gzip, gzip"}),
        answers.raw(b"not gzip", headers={"Content-Encoding": "gzip"}),
        answers.raw(gzip.compress(b"x" * 9_999)[:-9], headers={"Content-Encoding": "gzip"}),
        answers.gzip_bomb(64 * 1024 * 1024),
        answers.huge(64 * 1024 * 1024),
        lambda line: line.send(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
        lambda line: line.send(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 40_000),
    ],
)
async def test_answers_that_are_none(answer: object) -> None:
    with ModelServer(answer) as server:
        assert (await trouble(HttpClient({}), server.url)).trouble == "bad_reply"


async def test_an_errors_body_is_read_within_a_cap_and_its_status_counts() -> None:
    big = answers.raw(b"e" * 1_000_000, status=500)
    bomb = answers.raw(gzip.compress(b"e" * 1_000_000), status=500, headers={"Content-Encoding": "gzip"})
    for answer in (big, bomb):
        with ModelServer(answer) as server:
            client = HttpClient({})
            response = await post(client, server.url)
            assert (response.status, len(response.body)) == (500, 64 * 1024)
            await client.aclose()


@pytest.mark.parametrize("size", [1_000, 8_000_000])
async def test_an_early_answer_to_a_request_that_is_still_going_out_is_read(size: int) -> None:
    def serve(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(500)
            sock.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
            time.sleep(0.1)  # so that the answer is there before the reset that unread bytes bring

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        client = HttpClient({})
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        response = await post(client, url, content=b"x" * size)
        assert (response.status, response.body) == (413, b"no")
        await client.aclose()
        thread.join(5)


async def test_a_large_request_arrives_whole_and_keeps_its_connection() -> None:
    with ModelServer(answers.raw(b"{}")) as server:
        client = HttpClient({})
        for _ in range(3):
            await post(client, server.url, content=b"x" * 2_000_000)
        assert [len(request.body) for request in server.requests] == [2_000_000] * 3
        assert server.connections == 1
        await client.aclose()


async def test_informational_answers_are_passed_over() -> None:
    def hints(line: Line) -> None:
        line.send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 3)
        answers.raw(b"{}")(line)

    with ModelServer(hints) as server:
        client = HttpClient({})
        assert (await post(client, server.url)).body == b"{}"
        await client.aclose()


@pytest.mark.parametrize("key", ["sk-canary\nX-Injected: 1", "sk-canary\x00", "sk-canaryé"])
async def test_a_key_that_is_no_header_goes_nowhere(key: str) -> None:
    with ModelServer(answers.raw(b"{}")) as server:
        client = HttpClient({})
        with pytest.raises(HttpFailure) as caught:
            await post(client, server.url, headers={"Authorization": f"Bearer {key}"})
        assert caught.value.trouble == "unusable"
        assert "canary" not in str(caught.value)
        assert server.requests == []
        await client.aclose()


# --- redirects


async def test_a_redirect_of_the_same_origin_keeps_the_request() -> None:
    def script(request: Request) -> object:
        return (
            answers.raw(b"there") if request.target == "/there?x=1" else answers.redirect("/there?x=1", 308)
        )

    with ModelServer(script, by_request=True) as server:
        client = HttpClient({})
        response = await post(client, server.url, content=b'{"a": 1}')
        assert (response.body, response.requests) == (b"there", 2)
        assert server.requests[1].method == "POST"
        assert server.requests[1].json == {"a": 1}
        assert server.requests[1].headers["authorization"] == "Bearer sk-canary"
        await client.aclose()


@pytest.mark.parametrize("status", [307, 308])
async def test_no_redirect_leaves_the_origin(status: int) -> None:
    with ModelServer(answers.raw(b"{}")) as other:
        port = other.port
        for location in (
            other.url,
            f"//127.0.0.1:{port}/",
            f"http://user@127.0.0.1:{port}/",
            f"https://127.0.0.1:{port}/",
            f"http://localhost:{port}/",
            "there",
            "",
            "http://[",
            "javascript:alert(1)",
        ):
            with ModelServer(answers.redirect(location, status)) as server:
                assert (await trouble(HttpClient({}), server.url)).trouble == "redirect"
        assert other.requests == []


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_loses_the_request_is_refused(status: int) -> None:
    with ModelServer(answers.redirect("/there", status)) as server:
        assert (await trouble(HttpClient({}), server.url)).trouble == "redirect"
        assert len(server.requests) == 1


async def test_a_loop_of_redirects_ends() -> None:
    with ModelServer(answers.redirect("/")) as server:
        assert (await trouble(HttpClient({}), server.url)).trouble == "redirect"
        assert len(server.requests) == 4


# --- names and addresses


async def test_a_name_is_resolved_once_for_calls_at_the_same_time() -> None:
    asked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        time.sleep(0.05)
        return ["127.0.0.1"]

    with ModelServer(answers.raw(b"{}")) as server:
        client = HttpClient({}, resolver=resolver)
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(post, client, f"http://model.example:{server.port}/")
        assert asked == ["model.example"]
        assert server.requests[0].headers["host"] == f"model.example:{server.port}"
        await client.aclose()


async def test_a_name_that_does_not_exist() -> None:
    def resolver(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    failure = await trouble(HttpClient({}, resolver=resolver), "http://nowhere.example/")
    assert failure.trouble == "connection"
    assert "nowhere.example" in failure.message and "Name or service not known" in failure.message


async def test_a_resolver_that_hangs_is_left_behind() -> None:
    release = threading.Event()

    def resolver(host: str, port: int) -> list[str]:
        release.wait(30)
        return []

    client = HttpClient({}, resolver=resolver)
    start = time.monotonic()
    with pytest.raises(HttpFailure) as caught:
        await post(client, "http://slow.example/", 0.2)
    with pytest.raises(HttpFailure):
        await post(client, "http://slow.example/", 0.1)
    assert caught.value.trouble == "timeout"
    assert time.monotonic() - start < 1
    stuck = [thread for thread in threading.enumerate() if thread.name == "resolve slow.example"]
    assert len(stuck) == 1 and stuck[0].daemon
    release.set()
    stuck[0].join(5)
    await client.aclose()


async def test_the_next_address_is_tried() -> None:
    with ModelServer(answers.raw(b"{}")) as server:
        client = HttpClient({}, resolver=lambda host, port: ["::1", "127.0.0.1"])
        assert (await post(client, f"http://model.example:{server.port}/")).body == b"{}"
        await client.aclose()


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    failure = await trouble(HttpClient({}), f"http://127.0.0.1:{port}/")
    assert failure.trouble == "connection"
    assert "connection refused" in failure.message


async def test_a_connect_that_hangs_ends_at_the_deadline() -> None:
    """A full backlog: the kernel drops further handshakes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(address)
        start = time.monotonic()
        failure = await trouble(HttpClient({}), f"http://127.0.0.1:{address[1]}/", 0.3)
        assert failure.trouble == "timeout"
        assert time.monotonic() - start < 1
        for sock in waiting:
            sock.close()


# --- proxies


class Proxy:
    """Takes one CONNECT to `upstream`, whatever was asked for, or refuses it with `status`."""

    def __init__(self, upstream: int, *, status: int = 200) -> None:
        self._upstream = upstream
        self._status = status
        self.asked: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://user:pass@127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(5)
        self._listener.close()

    def _serve(self) -> None:
        outer, _ = self._listener.accept()
        with outer:
            head = b""
            while b"\r\n\r\n" not in head and not head.startswith(b"\x16"):  # or a TLS handshake
                head += outer.recv(4_096)
            self.asked.append(head)
            outer.sendall(b"HTTP/1.1 %d Scripted\r\n\r\n" % self._status)
            if self._status == 200:
                with socket.create_connection(("127.0.0.1", self._upstream)) as inner:
                    self._pump(outer, inner)

    @staticmethod
    def _pump(outer: socket.socket, inner: socket.socket) -> None:
        other = {outer: inner, inner: outer}
        while True:
            for source in select.select([outer, inner], [], [], 5)[0]:
                data = source.recv(65_536)
                if not data:
                    return
                other[source].sendall(data)


async def test_a_plain_endpoint_is_asked_for_by_its_whole_url() -> None:
    with ModelServer(answers.raw(b"{}")) as server:
        client = HttpClient({"HTTP_PROXY": server.url.replace("://", "://user:pass@")})
        assert (await post(client, "http://model.example/v1/chat/completions")).body == b"{}"
        assert server.requests[0].target == "http://model.example/v1/chat/completions"
        assert server.requests[0].headers["host"] == "model.example"
        assert server.requests[0].headers["proxy-authorization"].startswith("Basic ")
        await client.aclose()


async def test_an_endpoint_in_no_proxy_is_asked_directly() -> None:
    with ModelServer(answers.raw(b"{}")) as server:
        client = HttpClient({"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"})
        assert (await post(client, server.url)).body == b"{}"
        await client.aclose()


# --- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate and its key for `model.example` and 127.0.0.1, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    )
    names = ["-addext", "subjectAltName=DNS:model.example,IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    try:
        subprocess.run([*command.split(), *names, *files], check=True, capture_output=True, timeout=20)
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")
    return folder


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
async def test_a_private_ca_is_trusted_where_the_environment_names_it(
    variable: str, certificate: Path, tls: ssl.SSLContext
) -> None:
    with ModelServer(answers.raw(b"{}"), tls=tls) as server:
        client = HttpClient({variable: str(certificate / "cert.pem")})
        assert (await post(client, server.url)).body == b"{}"
        assert (await post(client, server.url)).body == b"{}"
        assert server.connections == 1
        await client.aclose()


async def test_a_self_signed_certificate_gets_no_request(tls: ssl.SSLContext) -> None:
    with ModelServer(answers.raw(b"{}"), tls=tls) as server:
        failure = await trouble(HttpClient({}), server.url)
        assert failure.trouble == "connection"
        assert "self-signed certificate" in failure.message and "SSL_CERT_FILE" in failure.message
        assert server.requests == []


async def test_a_certificate_for_another_name_gets_no_request(certificate: Path, tls: ssl.SSLContext) -> None:
    environ = {"SSL_CERT_FILE": str(certificate / "cert.pem")}
    with ModelServer(answers.raw(b"{}"), tls=tls) as server:
        client = HttpClient(environ, resolver=lambda host, port: ["127.0.0.1"])
        failure = await trouble(client, f"https://other.example:{server.port}/")
        assert failure.trouble == "connection" and "other.example" in failure.message
        assert server.requests == []


async def test_plain_http_where_tls_was_meant() -> None:
    with Proxy(9, status=400) as plain:  # answers a handshake with HTTP, as a plain server does
        failure = await trouble(HttpClient({}), plain.url.replace("http://user:pass@", "https://"))
        assert failure.trouble == "connection"


async def test_a_handshake_that_hangs_ends_at_the_deadline() -> None:
    with ModelServer(answers.raw(b"{}"), silent=True) as server:
        start = time.monotonic()
        url = server.url.replace("http://", "https://")
        assert (await trouble(HttpClient({}), url, 0.3)).trouble == "timeout"
        assert time.monotonic() - start < 1


async def test_https_through_a_tunnel(certificate: Path, tls: ssl.SSLContext) -> None:
    with ModelServer(answers.raw(b"{}"), tls=tls) as server, Proxy(server.port) as proxy:
        client = HttpClient({"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": str(certificate / "cert.pem")})
        assert (await post(client, "https://model.example/v1")).body == b"{}"
        assert proxy.asked[0].startswith(b"CONNECT model.example:443 HTTP/1.1\r\n")
        assert b"proxy-authorization: basic " in proxy.asked[0].lower()
        assert b"canary" not in proxy.asked[0]
        await client.aclose()


async def test_a_tunnel_that_is_refused(certificate: Path) -> None:
    with Proxy(9, status=407) as proxy:
        failure = await trouble(HttpClient({"HTTPS_PROXY": proxy.url}), "https://model.example/v1")
        assert failure.trouble == "connection"
        assert "407" in failure.message and "pass" not in failure.message


def test_a_bundle_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    for path in (tmp_path / "absent.pem", tmp_path / "bad.pem"):
        with pytest.raises(HttpFailure) as caught:
            tls_context({"SSL_CERT_FILE": str(path)})
        assert caught.value.trouble == "unusable"
        assert "SSL_CERT_FILE" in caught.value.message


def test_certificates_and_names_are_checked_by_default() -> None:
    context = tls_context({})
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert len(context.get_ca_certs()) > 50
