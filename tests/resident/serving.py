"""A server for tests: in this process on a real socket, with a scripted model or a real one over HTTP."""

import json
import socket
import time
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from recipes import committed, judge_text

from sandbox_judge.lanes.base import LaneName
from sandbox_judge.log import Log
from sandbox_judge.resident.listening import listen, remove
from sandbox_judge.resident.plan import Outside, Plan
from sandbox_judge.resident.server import Server
from sandbox_judge.testing.scripted import ScriptedModel
from sandbox_judge.trust import own_uid

TALK = [{"role": "user", "content": "A refund, please"}, {"role": "assistant", "content": "Done."}]
LANES: tuple[LaneName, ...] = ("openai_wire", "litellm")


def reply(verdict="pass"):
    return json.dumps({"reasoning": "because", "evidence": [], "verdict": verdict})


def private(folder: Path) -> Path:
    folder.chmod(0o700)
    return folder


class Bench:
    """`lines` is what the server logged, `crashes` its bugs."""

    def __init__(self, folder: Path, script, *, judges=("a", "b"), files=None, **plan):
        self.folder = private(folder)
        self.path = folder / "s"
        recipe = folder / "recipe"
        recipe.mkdir()
        texts = {f"judges/{name}.yaml": judge_text(name) for name in judges}
        self.commit = committed(recipe, files or texts)
        self.recipe = recipe
        self.model = ScriptedModel(script) if not hasattr(script, "complete") else script
        self.crashes = []
        self.settings = ()
        self.log = []
        plan.setdefault("allowed_uids", frozenset({own_uid()}))
        self.plan = Plan(
            recipe=str(recipe), recipe_id="shop", commit=self.commit, state=folder / "state", **plan
        )

    def outside(self):
        bench = self

        class Stream:
            def write(self, text):
                bench.log.append(text)

            def flush(self):
                pass

        def crashed(error):
            self.crashes.append(error)
            return "crash-1"

        return Outside(
            environ={"OPENAI_API_KEY": "sk-test-0000000000", "PATH": "/usr/bin:/bin"},
            cwd=self.folder,
            log=Log(Stream()),
            crashed=crashed,
            settings=lambda: self.settings,
            models=dict.fromkeys(LANES, self.model),
        )

    @asynccontextmanager
    async def serving(self):
        server = self.server = Server(self.plan, self.outside())
        await server.load(deadline=anyio.current_time() + 10)
        listener = listen(self.path)
        async with anyio.create_task_group() as connections:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.door.open, listener, connections)
                yield server
                tasks.cancel_scope.cancel()
            remove(self.path, listener)
            connections.cancel_scope.cancel()
        await server.lanes.aclose()

    async def ask(self, document, **options):
        """The lines of the reply to one document."""
        return await anyio.to_thread.run_sync(lambda: ask(self.path, document, **options))


def connected(path, *, timeout=10.0):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(timeout)
    while True:
        try:
            sock.connect(str(path))
        except BlockingIOError:  # more callers than the server takes at once: wait one's turn
            time.sleep(0.002)
        else:
            return sock


def ask(path, document, *, end="shutdown", timeout=10.0):
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    with connected(path, timeout=timeout) as sock:
        try:
            sock.sendall(data + (b"\n" if end == "newline" else b""))
            if end == "shutdown":
                sock.shutdown(socket.SHUT_WR)
        except BrokenPipeError:
            pass
        return lines_of(sock)


def lines_of(sock):
    received = b""
    while chunk := sock.recv(65_536):
        received += chunk
    return [json.loads(line) for line in received.splitlines()]


async def until(condition, *, within=5.0):
    with anyio.fail_after(within):
        while not condition():  # noqa: ASYNC110 - what is waited for is in the server's own hands
            await anyio.sleep(0.01)
