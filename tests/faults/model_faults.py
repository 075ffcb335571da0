"""What a model's endpoint can do to a judge, and what must come of it: one judge a fault, all in one run."""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import threading

from recipes import judge_text

from sandbox_judge.testing import answers
from sandbox_judge.testing.model_server import ModelServer

PASS = json.dumps({"reasoning": "r", "evidence": [], "verdict": "pass"})
WHOLE = json.dumps(answers.chat_body(PASS)).encode()
OWN_TIMEOUT_MS = 1_500
QUOTES = {
    "reasoning": "r",
    "evidence": [{"entry": 1, "quote": "hello"}, {"entry": 2, "quote": "never said"}],
    "verdict": "fail",
}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def reply(content, **parts):
    return answers.chat(content, **parts)


# fault: (answer, result). Whoever must end by `timeout` gets a timeout of its own.
OVER_THE_WIRE = {
    "reset": (answers.reset, "connection"),
    "hang-up": (answers.hang_up, "connection"),
    "reset-amid-body": (answers.reset_amid_body, "connection"),
    "shorter-than-said": (answers.wrong_length(WHOLE, said=len(WHOLE) + 9), "connection"),
    "longer-than-said": (answers.wrong_length(WHOLE, said=20), "provider_error"),
    "silence": (answers.hang, "timeout"),
    "headers-then-silence": (answers.headers_then_silence, "timeout"),
    "a-byte-a-second": (answers.dripped(WHOLE, every_s=1.0), "timeout"),
    "drip-under-every-read-timeout": (answers.dripped(WHOLE, every_s=0.05), "timeout"),
    "stream-without-end": (answers.endless, "timeout"),
    "html-under-200": (answers.html(), "provider_error"),
    "html-under-502": (answers.html(502), "provider_error"),
    "half-the-json": (answers.truncated(WHOLE), "provider_error"),
    "300-mb": (answers.huge(), "provider_error"),
    "gzip-bomb": (answers.gzip_bomb(), "provider_error"),
    "redirect-loop": (answers.redirect("/v1/chat/completions"), "provider_error"),
    "no-choices": (answers.as_json({"choices": []}), "provider_error"),
    "empty-body": (answers.raw(b""), "provider_error"),
    "not-http": (lambda line: (line.send(b"\x00\xff\n\n"), line.hang_up()), "provider_error"),
    "400": (answers.error(400, "no"), "bad_request"),
    "401": (answers.error(401, "key sk-canary-0123456789abcdef is wrong"), "auth"),
    "403": (answers.error(403, "no"), "auth"),
    "404": (answers.error(404, "no"), "model_not_found"),
    "408": (answers.error(408, "late"), "timeout"),
    "409": (answers.error(409, "no"), "bad_request"),
    "413": (answers.error(413, "long"), "context_overflow"),
    "422": (answers.error(422, "no"), "bad_request"),
    "429": (answers.error(429, "slow down"), "rate_limited"),
    "429-in-an-hour": (answers.error(429, "slow down", retry_after="3600"), "rate_limited"),
    "429-at-a-date": (
        answers.error(429, "slow down", retry_after="Fri, 15 Jan 2100 08:00:30 GMT"),
        "rate_limited",
    ),
    "429-nonsense": (answers.error(429, "slow down", retry_after="soon"), "rate_limited"),
    "500": (answers.error(500, "boom"), "provider_error"),
    "502": (answers.error(502, "boom"), "provider_error"),
    "503-in-an-hour": (answers.error(503, "boom", retry_after="3600"), "provider_error"),
    "529": (answers.error(529, "boom"), "provider_error"),
    "length-code": (answers.error(400, "long", code="context_length_exceeded"), "context_overflow"),
    "filter": (reply(None, finish="content_filter"), "refused"),
    "refusal": (reply(None, message={"refusal": "No."}), "refused"),
    "length": (reply("", finish="length"), "output_truncated"),
    "only-tool-calls": (reply(None, finish="tool_calls", message={"tool_calls": [CALL]}), "empty_output"),
    "only-reasoning": (reply("", message={"reasoning_content": PASS}), "empty_output"),
    "prose": (reply("It passes, clearly: pass."), "malformed_output"),
    "another-word": (reply(PASS.replace("pass", "passed")), "out_of_vocabulary"),
    "both-ways": (reply(PASS + PASS.replace("pass", "fail")), "ambiguous_output"),
    "cut-off": (reply(PASS[:-4], finish="length"), "output_truncated"),
    "thinking-first": (reply(f"<think>fail, no: {PASS}</think>{PASS}"), "pass"),
    "content-in-parts": (reply([{"type": "text", "text": PASS}]), "pass"),
    "no-finish-reason": (reply(PASS, finish=None), "pass"),
    "gzip": (reply(PASS, gzip=True), "pass"),
    "half-a-second": (reply(PASS, delay_s=0.5), "pass"),
    "quotes": (reply(json.dumps(QUOTES)), "fail"),
}
# fault: result; each has an endpoint of its own, a provider of this name.
BEFORE_HTTP = {
    "nobody-listens": "connection",
    "hung-connect": "timeout",
    "hung-tls": "timeout",
    "tls-where-plain-http-is": "connection",
    "self-signed": "connection",
    "redirect-elsewhere": "provider_error",
    "no-key": "auth",
}
# These need a world with a name server of its own.
NAMES = {"no-such-name": "connection", "hung-name": "timeout"}


def answer_of(request):
    """The script of the endpoint: the model's name says which fault is wanted."""
    return OVER_THE_WIRE[request.json["model"]][0]


def judge(name, result):
    """A judge that asks for one fault."""
    provider = "openai" if name in OVER_THE_WIRE else name
    llm = f"  provider: {provider}\n"
    if result == "timeout":
        llm += f"  transport:\n    timeout_ms: {OWN_TIMEOUT_MS}\n"
    return judge_text(f"f-{name}", llm=llm).replace("model: m", f"model: '{name}'")


def results():
    return {**{name: wanted for name, (_, wanted) in OVER_THE_WIRE.items()}, **BEFORE_HTTP, **NAMES}


def files():
    return {f"judges/{name}.yaml": judge(name, result) for name, result in results().items()}


class Endpoints(contextlib.ExitStack):
    """All endpoints of one run; `providers` are the settings that lead to them."""

    def __init__(self, folder):
        super().__init__()
        self.main = self.enter_context(ModelServer(answer_of, by_request=True))
        silent = self.enter_context(ModelServer(answers.verdict(), silent=True))
        self.elsewhere = self.enter_context(ModelServer(answers.verdict()))
        self.fooled = self.enter_context(ModelServer(answers.redirect(f"{self.elsewhere.url}/v1")))
        signed = self.enter_context(ModelServer(answers.verdict(), tls=_self_signed(folder)))
        with socket.create_server(("127.0.0.1", 0)) as gone:
            nobody = gone.getsockname()[1]
        hung = self.enter_context(full_backlog())
        plain = self.enter_context(one_shout(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
        addresses = {
            "nobody-listens": f"http://127.0.0.1:{nobody}/v1",
            "hung-connect": f"http://127.0.0.1:{hung}/v1",
            "hung-tls": silent.base_url.replace("http:", "https:"),
            "tls-where-plain-http-is": f"https://127.0.0.1:{plain}/v1",
            "self-signed": signed.base_url,
            "no-such-name": "https://sandbox-judge.invalid/v1",
            "redirect-elsewhere": self.fooled.base_url,
            "no-key": self.main.base_url,
            "hung-name": "https://hung.example.test/v1",
        }
        self.providers = {"openai": {"base_url": self.main.base_url}}
        for name, url in addresses.items():
            key = "NO_SUCH_VARIABLE" if name == "no-key" else "OPENAI_API_KEY"
            self.providers[name] = {"base_url": url, "lane": "openai_wire", "api_key_env": key}


@contextlib.contextmanager
def full_backlog():
    """A port at which the kernel drops further handshakes."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@contextlib.contextmanager
def one_shout(data):
    """A port that says `data` to whoever connects, whatever is asked, and hangs up."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        _answering(listener, lambda: _shout(listener, data)),
    ):
        yield listener.getsockname()[1]


def _shout(listener, data):
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(1)
        connection.recv(65_536)
        connection.sendall(data)


@contextlib.contextmanager
def name_server(folder):
    """The command to start a process by in whose world a name server says of `.invalid` that there is no such
    name, and nothing at all of any other; none where this user may not make such a world."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        yield []
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.53", 53))
        resolv = folder / "resolv.conf"
        resolv.write_text("nameserver 127.0.0.53\noptions timeout:20 attempts:2\n")
        script = f'mount --bind {resolv} /etc/resolv.conf && exec "$@"'
        with _answering(server, lambda: _name_error(server)):
            yield ["unshare", "-m", "sh", "-c", script, "sh"]


def _name_error(server):
    query, client = server.recvfrom(512)
    if b"\x07invalid\x00" in query:
        # The same question back: a response, name error, nothing in it.
        server.sendto(query[:2] + b"\x81\x83" + query[4:6] + bytes(6) + query[12:], client)


@contextlib.contextmanager
def _answering(sock, answer):
    """A thread that calls `answer` again and again until the block is left."""
    stop = threading.Event()
    sock.settimeout(0.1)

    def work():
        while not stop.is_set():
            with contextlib.suppress(OSError):
                answer()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(2)


def _self_signed(folder):
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", *subject],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context
