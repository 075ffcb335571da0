"""`make soak`: thousands of hooks, one fault each, one tally. Exits 1 if any event was lost or invented.

Storms run side by side, each in sandboxes of its own, until the time is over: signals at random instants
(1,000 in 20 minutes), collectors that misbehave, models that fail; and what is too much, once, from 5 minutes
on. At the end every event that was handed over must be in a collector, and no process may be left. `--seed`
repeats the choices, not the instants.
"""

import argparse
import os
import sys
import threading
import time

import storm
from fault_bench import own_folder

SIGNALS_A_MINUTE = 50
LEAST_MINUTES_FOR_ONCE = 5
FOR_EVER = 1_000_000
# The signals' storm is two of the workers: the instants of two hooks at once fall differently.
WORKERS = {
    "signals, one": lambda site, rounds, until: storm.signals(site, rounds, until=until),
    "signals, two": lambda site, rounds, until: storm.signals(site, rounds, until=until),
    "collectors": lambda site, _, until: storm.collectors(site, FOR_EVER, until=until),
    "models": lambda site, _, until: storm.models(site, FOR_EVER, until=until),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="The fault bench, for longer.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    storm.adopt_orphans()
    tally = storm.Tally()
    until = time.monotonic() + arguments.minutes * 60
    rounds = max(4, round(arguments.minutes * SIGNALS_A_MINUTE / 2))
    say(f"{arguments.minutes:g} minutes, seed {arguments.seed}, {os.cpu_count()} processors")

    def once() -> None:
        try:
            with own_folder() as folder:
                storm.large(folder, tally)
        except Exception as error:
            tally.leaks.append(("the bench itself: what is too much", f"{type(error).__name__}: {error}"))

    def worker(name: str, seed: int) -> None:
        model = storm.failing_model(seed) if name == "models" else None
        try:
            with (
                own_folder() as folder,
                storm.Site(f"{folder}/s{seed}", tally, seed=seed, model=model) as site,
            ):
                WORKERS[name](site, rounds, until)
        except Exception as error:  # the others go on; the tally is not faultless then
            tally.leaks.append((f"the bench itself: {name}", f"{type(error).__name__}: {error}"))

    threads = [
        threading.Thread(target=worker, args=(name, arguments.seed + number), name=name)
        for number, name in enumerate(WORKERS)
    ]
    if arguments.minutes >= LEAST_MINUTES_FOR_ONCE:
        threads.append(threading.Thread(target=once, name="once"))
    for thread in threads:
        thread.start()
    watch(tally, threads)
    time.sleep(1)
    tally.leaks += [("a process was left", text) for text in storm.orphans({os.getpid()})]
    for line in tally.lines():
        say(line)
    return 0 if tally.faultless else 1


def watch(tally: storm.Tally, threads: list[threading.Thread]) -> None:
    """Says twice a minute how far it is, and at once what was found."""
    said = 0
    while any(thread.is_alive() for thread in threads):
        end = time.monotonic() + 30
        while time.monotonic() < end and any(thread.is_alive() for thread in threads):
            time.sleep(0.2)
        ended = sum(tally.ends.values())
        found = [*tally.lost, *tally.invented, *tally.leaks]
        say(f"{ended} hooks, {len(tally.events)} events, {len(found)} found amiss")
        for one in found[said : said + 20]:
            say(f"  {one}"[:1_500])
        said = len(found)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
