"""The Judgements page: what stands in it, that nothing in it can run, and a real browser's clicks."""

import base64
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_events import DAY, START, event, incoming

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.model import Conversation, Message, Text
from sandbox_judge.errors import InputError, UsageError
from sandbox_judge.figures import Z95
from sandbox_judge.grading.view import build_view
from sandbox_judge.store.commit_order import CommitOrder
from sandbox_judge.store.conversations import Kept, kept_in
from sandbox_judge.store.database import Database, open_database
from sandbox_judge.store.html import data_block, html
from sandbox_judge.store.ingest import Ingest
from sandbox_judge.store.migrate import bring_up_to_date
from sandbox_judge.store.page_server import PageServer
from sandbox_judge.store.records import KeptConversation
from sandbox_judge.store.report import gather

ENTER, END, LEFT = "\ue007", "\ue010", "\ue012"
HOSTILE = "</script><img src=x onerror='window.ran=1'><!--<script>window.ran=1</script>"


def seed(database: Database, kept: Kept | None = None) -> None:
    conversation = Conversation(
        schema="sandbox_judge.conversation/1",
        source_format="openai_chat",
        status="completed",
        warnings=(),
        entries=(Message(n=1, role="user", parts=(Text(text=f"hello {HOSTILE}"),)),),
    )
    view = build_view(conversation)
    if kept:
        kept.keep(
            [KeptConversation(ack="", sequence_hash=view.sequence_hash, body=canonical_json(conversation))]
        )
    events = []
    for version in range(6):
        for n in range(8):
            service = ("desk", "shop")[n % 2]
            events.append(
                event(
                    "fail" if n == 0 else "pass", conversation=f"c{version}-{n}", version=version,
                    definition="one" if version < 3 else "two", at=START + version * DAY + n * 60_000_000,
                    envelope={"service_name": service}, reasoning=f"Because. {HOSTILE}",
                )
            )  # fmt: skip
    events.append(
        event(None, conversation="n", version=5, at=START + 5 * DAY, error="timeout", definition="two")
    )
    last = event(
        "fail", conversation=HOSTILE, judge=HOSTILE, sequence_hash=view.sequence_hash, at=START + DAY
    )
    flipped = event("pass", conversation=HOSTILE, judge=HOSTILE, sequence_hash=view.sequence_hash)
    regrade = event("fail", conversation="c5-3", definition="three", at=START + 9 * DAY, regrade=True)
    lines = [incoming(one, received=START + 30 * DAY) for one in [*events, last, flipped, regrade]]
    Ingest(database).store(lines)


def data_of(page: bytes) -> Any:
    found = re.search(rb'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


def test_what_stands_in_the_page(database: Database, tmp_path: Path) -> None:
    kept = kept_in(tmp_path / "kept")
    seed(database, kept)
    data = gather(database, order=CommitOrder(), z=Z95, kept=kept)
    tone = next(one for one in data["judges"] if one["name"] == "tone")
    pooled, *split = tone["lines"]
    assert [len(segment["points"]) for segment in pooled["segments"]] == [3, 3]
    assert {line["service"] for line in split} == {"desk", "shop"}
    newest = pooled["segments"][-1]["points"][-1]
    assert (newest["n"], newest["nulls"], newest["coverage"]) == (8, {"timeout": 1}, 0.8889)
    hostile = next(one for one in data["judges"] if one["name"] == HOSTILE)
    assert hostile["unstable"] == 1
    kinds = {one["kind"]: (one["first"], one["again"]) for one in data["disagreements"]}
    assert kinds == {"the same view again": ("fail", "pass"), "graded anew (regrade)": ("pass", "fail")}
    shown = next(row for row in data["judgements"] if row["judge_name"] == HOSTILE)
    assert "hello" in shown["view"] and not shown["view"].startswith("(shown anew")
    assert next(row for row in data["judgements"] if row["judge_name"] == "tone")["view"] is None
    assert data_of(html(data)) == data


def test_nothing_in_the_data_is_markup() -> None:
    for text in (HOSTILE, "<!--", "]]>", "&lt;", "\u2028", "\ud800", "é" * 9):
        block = data_block({text: [text]})
        assert not set("<>&\u2028") & set(block)
        assert block.isascii()
    page = html({"x": HOSTILE, "y": "{page_js}{data}"})
    assert page.count(b"<script") == 3 and page.count(b"</script>") == 3
    assert data_of(page) == {"x": HOSTILE, "y": "{page_js}{data}"}


def test_the_policy_lets_our_own_scripts_run_and_no_others() -> None:
    page = html({}).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy and "unsafe" not in policy[1] and "default-src 'none'" in policy[1]
    found = [
        re.findall(rf"<{tag}>(.*?)</(?:script|style)>", page, re.S)
        for tag in ("script", 'script type="text/plain" id="library"', "style")
    ]
    assert [len(bodies) for bodies in found] == [1, 1, 1]
    for bodies in found:
        for body in bodies:
            digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy[1]
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", page.split('id="data"')[0])


@pytest.fixture
def served() -> Iterator[PageServer]:
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        if len(made) > 1:
            raise InputError("the store went away.")
        return b"<p>page</p>"

    with PageServer(make, port=0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server: PageServer, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, bytes, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, answer.headers


def test_the_server_is_for_this_machine_and_read_only(served: PageServer) -> None:
    status, body, headers = get(served)
    assert (status, body) == (200, b"<p>page</p>")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert get(served, method="HEAD")[:2] == (200, b"")
    assert get(served, "/etc/passwd")[0] == 404
    assert get(served, "/", Host="evil.example")[0] == 403
    assert get(served, method="POST")[0] == 501
    assert served.server_address[0] == "127.0.0.1"
    served._made -= 10
    status, body, headers = get(served)
    assert (status, headers["Content-Type"]) == (503, "text/plain; charset=utf-8")
    with pytest.raises(UsageError):
        PageServer(lambda: b"", port=served.server_port)
    with pytest.raises(UsageError):
        PageServer(lambda: b"", port=99999)


def test_the_command_writes_and_serves(sqlite_url: str, tmp_path: Path) -> None:
    database = open_database(sqlite_url, write=True)
    bring_up_to_date(database)
    seed(database)
    database.close()
    code = (
        "import argparse, sys; from sandbox_judge.cli import report;"
        "from sandbox_judge.cli.surface import process_surface; p = argparse.ArgumentParser();"
        "report.add(p.add_subparsers()); a = p.parse_args(sys.argv[1:]);"
        "sys.exit(report.run(a, process_surface()))"
    )
    start = [sys.executable, "-c", code, "report", "--store", sqlite_url]
    subprocess.run([*start, "--html", "page.html"], cwd=tmp_path, check=True, timeout=30)
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600
    assert len(data_of((tmp_path / "page.html").read_bytes())["judges"]) == 2
    process = subprocess.Popen([*start, "--serve", "--port", "0"], stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        port = int(re.search(rb":(\d+)/", process.stderr.readline())[1])  # type: ignore[index]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/")
        assert len(data_of(connection.getresponse().read())["judges"]) == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


class Browser:
    """A headless Chromium by WebDriver (W3C), over plain HTTP."""

    def __init__(self, port: int, profile: Path) -> None:
        self._port = port
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        options = {"args": arguments, "mobileEmulation": {"deviceMetrics": {"width": 390, "height": 800}}}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self._session = ""
        self._session = "/session/" + self._ask("POST", "/session", wanted)["sessionId"]
        # Drawing follows a change of the address in a task of its own.
        self._ask("POST", "/timeouts", {"implicit": 10_000})

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        text = None if method == "GET" else json.dumps(body or {})
        connection.request(method, self._session + path, text)
        answer = json.loads(connection.getresponse().read())["value"]
        connection.close()
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def open(self, url: str) -> None:
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str) -> Any:
        return self._ask("POST", "/execute/sync", {"script": f"return {script}", "args": []})

    def until(self, script: str) -> bool:
        deadline = time.monotonic() + 10
        while not (held := bool(self.run(script))) and time.monotonic() < deadline:
            time.sleep(0.02)
        return held

    def click(self, selector: str, *, by: str = "css selector") -> None:
        found = self._ask("POST", "/element", {"using": by, "value": selector})
        self._ask("POST", f"/element/{next(iter(found.values()))}/click")

    def keys(self, *keys: str) -> None:
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]})

    def tap(self, selector: str) -> None:
        found = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        move = {"type": "pointerMove", "duration": 0, "origin": found, "x": 3, "y": 0}
        actions = [move, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        finger = {"type": "pointer", "id": "f", "parameters": {"pointerType": "touch"}, "actions": actions}
        self._ask("POST", "/actions", {"actions": [finger]})

    def quit(self) -> None:
        self._ask("DELETE", "")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = shutil.which("chromedriver")
    if program is None or shutil.which("chromium") is None:
        pytest.skip("no chromium here (Debian: apt-get install chromium chromium-driver)")
    environ = {**os.environ, "HOME": str(tmp_path)}
    driver = subprocess.Popen(
        [program, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ
    )
    try:
        assert driver.stdout is not None
        port = 0
        for line in driver.stdout:
            if found := re.search(rb"successfully on port (\d+)", line):
                port = int(found[1])
                break
        one = Browser(port, tmp_path / "profile")
        yield one
        one.quit()
    finally:
        driver.terminate()
        driver.communicate(timeout=20)


def test_a_person_finds_a_judgement(browser: Browser, sqlite_url: str, tmp_path: Path) -> None:
    database = open_database(sqlite_url, write=True)
    bring_up_to_date(database)
    kept = kept_in(tmp_path / "kept")
    seed(database, kept)
    (tmp_path / "page.html").write_bytes(html(gather(database, order=CommitOrder(), z=Z95, kept=kept)))
    database.close()
    browser.open(f"file://{tmp_path}/page.html")
    assert browser.run("document.querySelectorAll('tbody tr').length") == 2
    browser.click("tone", by="link text")
    assert "judge=" in browser.run("location.hash")
    lines = "document.querySelectorAll('.chart .scatterlayer .trace').length"
    assert browser.until(f"{lines} === 4"), "2 lines, 2 bands"
    assert "2 segments" in browser.run("document.querySelector('.chart').getAttribute('aria-label')")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "it fits a phone"
    browser.run("document.querySelector('.chart').focus()")
    browser.keys(END, LEFT)
    read = "document.getElementById('readout').textContent"
    assert browser.until(f"{read}.startsWith('000000000000: 87.5 %')"), browser.run(read)
    assert "n 8, coverage 100.0 %" in browser.run(read)
    browser.run("document.getElementById('readout').textContent = ''")
    browser.tap(".chart .nsewdrag")
    assert browser.until(f"{read}.startsWith('000000000000: 87.5 %')"), "read by a finger too"
    browser.click("select[name=result] option[value=fail]")
    assert "result=fail" in browser.run("location.hash")
    assert browser.until("[...document.querySelectorAll('.badge')].every((b) => b.textContent === 'fail')")
    # By keyboard alone: from the main part to the first link, and in.
    browser.run("document.querySelectorAll('a[href*=\"id=\"]')[0].focus()")
    browser.keys(ENTER)
    assert browser.until("document.getElementById('main').innerText.includes('Reasoning')")
    address = browser.run("location.href")
    browser.open("about:blank")
    browser.open(address)
    assert browser.until("document.getElementById('main').innerText.includes('Reasoning')"), "can be sent"
    # The hostile judge, with its kept conversation.
    browser.open(f"file://{tmp_path}/page.html#")
    browser.click("tbody tr:first-child a")
    browser.click("a[href*='id=']")
    assert browser.until("document.getElementById('main').innerText.includes('What the judge saw')")
    text = browser.run("document.getElementById('main').innerText")
    assert "hello </script>" in text and "What the judge saw" in text
    time.sleep(0.1)
    assert browser.run("window.ran === undefined")
    assert browser.run("document.images.length") == 0
