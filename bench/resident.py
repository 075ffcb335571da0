"""The resident runner beside bare loops, the one-shot run and the bare script, all in one run on one machine.

`python bench/resident.py [--rounds N] [--quick] [--json FILE] [--report-only]`. The endpoint answers after
200 ms; what is above that is overhead. Exits 1 where a bound of the project is not held.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import cost_of, machine
from one_shot import TALK, hook, recipe

HERE = Path(__file__).parent
ENDPOINT_S = 0.2
CALLS = 20
CLIENT = [sys.executable, "-I", "-m", "sandbox_judge", "call"]


@contextlib.contextmanager
def endpoint() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "endpoint.py"), str(ENDPOINT_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(10)


class Resident:
    """A server process, and what it costs."""

    def __init__(self, folder: Path, where: tuple[Path, str], environ: dict[str, str]) -> None:
        self.path = folder / "s"
        options = ["--recipe", str(where[0]), "--commit", where[1], "--recipe-id", "bench"]
        options += ["--calls", str(CALLS), "--concurrency", str(CALLS)]
        self.process = subprocess.Popen(
            [*CLIENT[:-1], "serve", "--listen", str(self.path), *options],
            env=environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr
        line = self.process.stderr.readline()
        if "ready" not in line:
            sys.exit(line + self.process.stderr.read())
        # It takes the rest of its output, so that a full pipe never holds it up.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def ask(self, number: int) -> float:
        """One conversation; seconds from connecting to the ledger."""
        document = {"conversation": TALK, "conversation_id": f"c{number}", "environment": "development"}
        started = time.perf_counter()
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.path))
            sock.sendall(json.dumps(document).encode() + b"\n")
            received = b""
            while chunk := sock.recv(1 << 18):
                received += chunk
        took = time.perf_counter() - started
        ledger = json.loads(received.splitlines()[-1])
        if set(ledger.get("counts", {})) != {"verdict"}:
            sys.exit(f"not all were graded: {ledger}")
        return took

    def ask_at_once(self, count: int) -> tuple[float, list[float]]:
        """`count` conversations at once: seconds until the last one ended, and of each."""
        times: list[float] = []
        threads = [threading.Thread(target=lambda n=n: times.append(self.ask(n))) for n in range(count)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(times) != count:
            sys.exit("a conversation failed")
        return time.perf_counter() - started, times

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self, key: str) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(f"{key}:")[1].split()[0]) / 1024

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(15)


def quantiles(times: list[float]) -> dict[str, float]:
    """Milliseconds over the endpoint's own latency."""
    over = sorted((took - ENDPOINT_S) * 1000 for took in times)

    def at(share: float) -> float:
        return over[min(len(over) - 1, int(share * len(over)))]

    return {"p50_ms": at(0.5), "p95_ms": at(0.95), "p99_ms": at(0.99)}


def loop(library: str, url: str, judges: int, rounds: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / "warm_loop.py"), library, url, str(judges), str(rounds)],
        check=True,
        stdout=subprocess.PIPE,
    )
    found = json.loads(done.stdout)
    return {**quantiles(found["times"]), "cpu_ms_per_call": found["cpu_per_call"] * 1000}


def resident(url: str, folder: Path, environ: dict[str, str], judges: int, rounds: int) -> dict[str, Any]:
    """One server with `judges` judges: alone, many at once, and through a process of its own a call."""
    folder.mkdir(mode=0o700)
    where = recipe(folder / "recipe", judges, "/refund/i", url)
    server = Resident(folder, where, environ)
    try:
        time.sleep(0.5)
        found: dict[str, Any] = {"idle_mib": server.memory_mib("VmRSS")}
        first = server.ask(-1)
        before = server.cpu_s()
        found |= quantiles([server.ask(number) for number in range(rounds)])
        found["cpu_ms_per_call"] = (server.cpu_s() - before) * 1000 / (rounds * judges)
        found["first_ms"] = (first - ENDPOINT_S) * 1000
        for count in (10, 50):
            ideal = max(ENDPOINT_S, count * judges * ENDPOINT_S / CALLS)
            before = server.cpu_s()
            took, _ = min(server.ask_at_once(count) for _ in range(2))
            found[f"at_once_{count}"] = {
                "seconds": took,
                "over_ideal": took / ideal,
                "cpu_ms_per_call": (server.cpu_s() - before) * 1000 / (2 * count * judges),
            }
        talk = folder / "talk.json"
        talk.write_text(json.dumps(TALK))
        shell = [cost_of([*CLIENT, str(server.path), str(talk)], environ=environ) for _ in range(7)]
        found["call_from_shell"] = {
            **quantiles([cost.wall_s for cost in shell]),
            "cpu_ms": min(cost.cpu_s for cost in shell) * 1000,
        }
        one = [cost_of(hook(talk, where), environ=environ) for _ in range(3)]
        found["cold_one_shot"] = {
            **quantiles([c.wall_s for c in one]),
            "cpu_ms": min(c.cpu_s for c in one) * 1000,
        }
        found["peak_mib"] = server.memory_mib("VmHWM")
    finally:
        server.close()
    return found


def client_start(environ: dict[str, str]) -> float:
    """The client's time as a multiple of an empty Python's, both the fastest of many by turns."""
    empty, client = [], []
    for _ in range(25):
        empty.append(cost_of([sys.executable, "-I", "-c", "pass"], environ=environ).wall_s)
        client.append(cost_of([*CLIENT, "/nowhere", "--ping"], environ=environ, ok=1).wall_s)
    return min(client) / min(empty)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="five judges only, without litellm")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--report-only", action="store_true")
    options = parser.parse_args()
    libraries = ["httpcore", "httpx"] if options.quick else ["httpcore", "httpx", "litellm"]
    results: dict[str, Any] = {"machine": machine(), "endpoint_ms": ENDPOINT_S * 1000, "calls": CALLS}
    with tempfile.TemporaryDirectory() as temporary, endpoint() as url:
        folder = Path(temporary)
        environ = {"PATH": os.environ["PATH"], "HOME": temporary, "JUDGE_BENCH_KEY": "k"}
        for judges in (5,) if options.quick else (1, 5, 20):
            results[f"resident_{judges}"] = resident(
                url, folder / f"r{judges}", environ, judges, options.rounds
            )
        for library in libraries:
            results[library] = loop(library, url, 5, options.rounds)
        talk = folder / "talk.json"
        talk.write_text(json.dumps(TALK))
        script = [sys.executable, str(HERE / "plain_script.py"), url, str(talk), "5"]
        results["bare_script"] = quantiles([cost_of(script, environ=environ).wall_s for _ in range(3)])
        results["client_start"] = client_start(environ)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    table(results)
    return 0 if held(results) or options.report_only else 1


def table(results: dict[str, Any]) -> None:
    print(f"resident runner, endpoint of {results['endpoint_ms']:.0f} ms; {results['machine']}")
    print(
        f"{'over the endpoint, one conversation':38} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8} {'CPU ms':>8}"
    )

    def row(name: str, found: dict[str, Any]) -> None:
        cpu = found.get("cpu_ms_per_call", found.get("cpu_ms"))
        numbers = [found["p50_ms"], found["p95_ms"], found["p99_ms"], cpu]
        print(f"{name:38}" + "".join(f" {'' if n is None else format(n, '.1f'):>8}" for n in numbers))

    for name, found in results.items():
        if name.startswith("resident_"):
            judges = name.removeprefix("resident_")
            row(f"warm resident, {judges} judges", found)
            row(f"  call from a shell, {judges} judges", found["call_from_shell"])
            row(f"  cold one-shot, {judges} judges", found["cold_one_shot"])
            for count in (10, 50):
                many = found[f"at_once_{count}"]
                print(
                    f"  {count} conversations at once: {many['seconds']:.2f} s, {many['over_ideal']:.2f} of "
                    f"the ideal, {many['cpu_ms_per_call']:.1f} ms CPU a call"
                )
            print(
                f"  memory: idle {found['idle_mib']:.0f} MiB, peak {found['peak_mib']:.0f} MiB; first "
                f"conversation {found['first_ms']:.1f} ms over"
            )
        elif isinstance(found, dict):
            row(f"{name.replace('_', ' ')}, 5 judges", found)


def held(results: dict[str, Any]) -> bool:
    five = results["resident_5"]
    rows = [
        ("overhead p50, one conversation of five, ms", five["p50_ms"], 15.0),
        ("overhead p99, one conversation of five, ms", five["p99_ms"], 50.0),
        ("p50 above a bare httpcore loop, ms", five["p50_ms"] - results["httpcore"]["p50_ms"], 8.0),
        ("50 conversations of five at once / ideal", five["at_once_50"]["over_ideal"], 1.2),
        ("CPU a call / bare httpx", five["cpu_ms_per_call"] / results["httpx"]["cpu_ms_per_call"], 1.5),
        ("idle memory without litellm, MiB", five["idle_mib"], 60.0),
        ("client's start / an empty Python's", results["client_start"], 4.0),
    ]
    for name, value, bound in rows:
        print(f"{name:45} {value:6.2f}  (at most {bound:.2f}){'' if value <= bound else '  NOT HELD'}")
    return all(value <= bound for _, value, bound in rows)


if __name__ == "__main__":
    sys.exit(main())
