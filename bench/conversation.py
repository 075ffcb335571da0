"""Reading and viewing conversations: speed, growth and memory. `python bench/conversation.py [MB]`.

The messages are this script's own, in the proportions of customer-service runs with tools. Each figure comes
from a process of its own, so that one does not find the other's memory. Bounds: 20 MB/s on one core, 100 MB
within 12 times the time of 10 MB, memory at most 6 times the input at 1 kB a message and 9 times at 100
bytes, a million tiny messages within 20 s.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

MB = 1_000_000


def service_run(number: int) -> list[dict[str, object]]:
    """One run of about a dozen messages, of 100 bytes to 3 kB each."""
    call = {"id": f"call_{number}", "type": "function"}
    found = [
        {"flight": f"HX{n:03}", "from": "GVA", "to": "OSL", "seats": n * 3, "price": 80 + n}
        for n in range(24)
    ]
    asked = json.dumps({"from": "GVA", "to": "OSL", "date": "2026-05-20", "passengers": number % 5})
    return [
        {
            "role": "user",
            "content": f"Hello, I'd like to move booking {number} to Friday, if that is possible.",
        },
        {
            "role": "assistant",
            "content": "Of course. Which city do you leave from?\n\n1. Geneva\n2. Zurich\n",
        },
        {"role": "user", "content": "Geneva. And please keep it below 200 francs."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**call, "function": {"name": "search_flights", "arguments": asked}}],
        },
        {"role": "tool", "tool_call_id": call["id"], "name": "search_flights", "content": json.dumps(found)},
        {"role": "assistant", "content": "There are these:\n" + "\n".join(f"- HX{n:03}" for n in range(20))},
        {"role": "user", "content": "The second one, thank you."},
        {"role": "assistant", "content": "Done. " + "Your seat and your luggage stay as they were. " * 12},
    ]


def service(size: int) -> bytes:
    messages: list[dict[str, object]] = [{"role": "system", "content": "You help travellers. " * 300}]
    total = number = 0
    while total < size:
        run = service_run(number)
        messages += run
        total += len(json.dumps(run))
        number += 1
    return json.dumps(messages).encode()


def equal(size: int, each: int) -> bytes:
    """Messages of `each` bytes of JSON, by turns."""
    room = each - len('{"role": "assistant", "content": ""}, ')
    text = ("All is as it was agreed. " * (room // 25 + 1))[:room]
    pair = [{"role": "user", "content": text + "    "}, {"role": "assistant", "content": text}]
    return json.dumps(pair * (size // each // 2)).encode()


SHAPES = {
    "service": lambda amount: service(amount * MB),
    "1kB": lambda amount: equal(amount * MB, 1000),
    "100B": lambda amount: equal(amount * MB, 100),
    "tiny": lambda amount: json.dumps([{"role": "user", "content": "a"}] * amount).encode(),
}


def measure() -> None:
    """One measurement of what stands on stdin; prints JSON."""
    from sandbox_judge.conversation.read import read_conversation
    from sandbox_judge.grading.view import build_view

    before = peak_memory()
    data = sys.stdin.buffer.read()
    started = time.process_time()
    view = build_view(read_conversation(data))
    seconds = time.process_time() - started
    memory = peak_memory() - before
    sys.stdout.write(json.dumps({"seconds": seconds, "memory": memory, "entries": view.entries}))


def peak_memory() -> int:
    """Of this program alone, in bytes: ru_maxrss also counts what the parent had when it forked."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def run(data: bytes) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, input=data).stdout)
    return {**found, "bytes": len(data)}


def main(size: int) -> None:
    figures = {}
    amounts = (("service", size // 10), ("service", size), ("1kB", size), ("100B", size), ("tiny", MB))
    for kind, amount in amounts:
        found = figures[kind, amount] = run(SHAPES[kind](amount))
        size_of, seconds = found["bytes"], found["seconds"]
        sys.stdout.write(
            f"{kind:>8} {size_of / MB:7.1f} MB {found['entries']:>9,} entries {seconds:6.2f} s CPU "
            f"{size_of / MB / seconds:6.1f} MB/s  memory {found['memory'] / size_of:4.1f} x\n"
        )
    growth = figures["service", size]["seconds"] / figures["service", size // 10]["seconds"]
    sys.stdout.write(f"ten times the input took {growth:.1f} times as long\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        measure()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
