"""One-shot hook against the plainest script: five judges, nothing applicable, and a large conversation.

Prints ratios of one run; exits 1 where a bound of the project is not held (`--report-only`: never).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import Cost, cost_of, machine, side_by_side

HERE = Path(__file__).parent
JUDGE = """\
name: judge-{n}
instructions: |
  Judge by rule {n}.
on:
  - event: message
    match: {{role: user, text: {gate}}}
llm:
  model: m
  local: {{base_url: "{url}", api_key_env: JUDGE_BENCH_KEY}}
"""
TALK = [
    {"role": "system", "content": "You are a support agent."},
    {"role": "user", "content": "I want a refund for order 7."},
    {"role": "assistant", "content": "It is on its way."},
]


def recipe(folder: Path, count: int, gate: str, url: str) -> tuple[Path, str]:
    (folder / "judges").mkdir(parents=True)
    for n in range(count):
        (folder / "judges" / f"j{n}.yaml").write_text(
            JUDGE.format(n=n, gate=gate.replace("{n}", str(n)), url=url)
        )
    git = ["git", "-C", str(folder), "-c", "user.name=Bench", "-c", "user.email=bench@example.test"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "judges"], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return folder, commit.stdout.strip()


def hook(conversation: Path, where: tuple[Path, str], *more: str) -> list[str]:
    base = [
        sys.executable,
        "-I",
        "-m",
        "sandbox_judge",
        "run",
        str(conversation),
        "--environment",
        "development",
    ]
    return [*base, "--recipe", str(where[0]), "--commit", where[1], "--recipe-id", "bench", *more]


def large_conversation(path: Path) -> int:
    """10,000 messages of 1 kB, plain English of no order."""
    words = (
        "the parcel was sent on monday and the customer asked about colour size and delivery " * 3
    ).split()
    talk = []
    for n in range(10_000):
        text = " ".join(words[(n * 7 + k * k) % len(words)] for k in range(190))
        talk.append({"role": "user" if n % 2 == 0 else "assistant", "content": f"{n} {text}"[:1000]})
    path.write_text(json.dumps(talk))
    return path.stat().st_size


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--report-only", action="store_true")
    options = parser.parse_args()
    rows: list[tuple[str, float, float]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": temporary,
            "JUDGE_BENCH_KEY": "k",
            "SANDBOX_JUDGE_STATE_DIR": str(folder / "state"),
        }
        endpoint = subprocess.Popen(
            [sys.executable, str(HERE / "endpoint.py"), "0.2"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert endpoint.stdout
            url = endpoint.stdout.readline().strip()
            talk = folder / "talk.json"
            talk.write_text(json.dumps(TALK))
            five = recipe(folder / "five", 5, "/refund/i", url)
            none = recipe(folder / "none", 5, "/never-said/i", url)
            costs = side_by_side(
                {
                    "plain script": [sys.executable, str(HERE / "plain_script.py"), url, str(talk), "5"],
                    "five judges": hook(talk, five),
                    "nothing applicable": hook(talk, none),
                },
                rounds=options.rounds,
                environ=environ,
            )
            many = recipe(folder / "many", 200, "/zebra-{n}|quagga|okapi-{n}/i", url)
            size = large_conversation(folder / "large.json")
            large = cost_of(hook(folder / "large.json", many), environ=environ)
        finally:
            assert endpoint.stdin
            endpoint.stdin.close()
            endpoint.wait(10)
    plain = costs["plain script"]
    _table(costs | {"200 judges, 10 MB": large})
    rows = [
        ("five judges: wall / plain script", costs["five judges"].wall_s / plain.wall_s, 1.05),
        ("five judges: peak memory / plain script", costs["five judges"].peak_mib / plain.peak_mib, 1.35),
        ("nothing applicable: wall / plain script", costs["nothing applicable"].wall_s / plain.wall_s, 0.45),
        ("200 judges, 10 MB: CPU seconds", large.cpu_s, 3.0),
        ("200 judges, 10 MB: peak memory / input", large.peak_mib * 1024 * 1024 / size, 9.0),
    ]
    held = True
    for name, value, bound in rows:
        held &= value <= bound
        print(f"{name:45} {value:6.2f}  (at most {bound:.2f}){'' if value <= bound else '  NOT HELD'}")
    return 0 if held or options.report_only else 1


def _table(costs: dict[str, Cost]) -> None:
    print(f"one-shot hook, endpoint of 200 ms; {machine()}")
    print(f"{'':25} {'wall s':>8} {'CPU s':>8} {'peak MiB':>9}")
    for name, cost in costs.items():
        print(f"{name:25} {cost.wall_s:8.3f} {cost.cpu_s:8.3f} {cost.peak_mib:9.1f}")


if __name__ == "__main__":
    sys.exit(main())
