"""A few rounds of each storm; `make soak` has the rest. Nothing lost, invented or left behind."""

import os
import time
from pathlib import Path

import pytest
import storm
from fault_bench import own_folder, side_by_side


def hold(tally):
    report = "\n".join(tally.lines())
    assert tally.faultless, report
    return report


def weather(work, *, seed, model=None):
    """A storm of its own; its tally."""
    tally = storm.Tally()
    with own_folder() as folder, storm.Site(f"{folder}/s", tally, seed=seed, model=model) as site:
        work(site)
    return tally


def test_signals_at_random_instants():
    tallies = side_by_side(
        *[lambda seed=seed: weather(lambda site: storm.signals(site, 6), seed=seed) for seed in (1, 2)]
    )
    for tally in tallies:
        hold(tally)
    assert sum(tally.applicable for tally in tallies) > 0


KINDS = [(kind, True) for kind in storm.COLLECTORS] + [(kind, False) for kind in storm.WITHOUT_ACKS]


def test_collectors_that_misbehave_in_every_way():
    def one(part):
        return lambda: weather(lambda site: storm.collectors(site, len(part), kinds=part), seed=0)

    parts = [KINDS[n::4] for n in range(4)]
    for part, tally in zip(parts, side_by_side(*map(one, parts)), strict=True):
        hold(tally)
        assert tally.applicable == storm.JUDGES * len(part)
        assert tally.delivered == tally.applicable


def test_a_model_that_fails_half_of_the_time():
    tally = weather(lambda site: storm.models(site, 2), seed=3, model=storm.failing_model(3))
    hold(tally)
    assert tally.applicable == 2 * storm.JUDGES
    assert tally.nulls


def test_what_is_lost_invented_or_cut_off_would_be_noticed():
    """The bench itself: each kind of fault that it counts, made by hand."""
    tally = storm.Tally()
    with own_folder() as folder, storm.Site(f"{folder}/s", tally) as site:
        good = {"id": "1", "payload": {"result": "pass", "reasoning": "x"}}
        site.handed = {"1": good}
        tally.saw([good])
        site.settle()
        assert [what for what, _ in tally.lost] == ["never came"]
        assert site.model.invented([good]) == [good]
        tally.saw([{**good, "payload": {"result": "fail"}}])
        assert tally.invented
    assert not tally.faultless


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_killed_hook_leaves_no_process_behind():
    storm.adopt_orphans()
    before = {os.getpid()}
    tally = storm.Tally()
    with own_folder() as folder, storm.Site(f"{folder}/s", tally) as site:
        for delay in (0.1, 0.2, 0.25, 0.3, 0.35):
            child = site.hook("--budget", "5s", kind="kill")
            child.stdin.write(b"[]")
            time.sleep(delay)
            child.kill()
            child.communicate()
        end = time.monotonic() + 5
        while (left := [text for text in storm.orphans(before) if folder in text]) and time.monotonic() < end:
            time.sleep(0.05)
    assert left == []
