"""`probe` with judges that have one known bias each."""

import json
import re

import pytest
from calibration.made_rows import row, talk, write_set
from cli.surfaces import run_main
from recipes import judge_text

from sandbox_judge.calibration.row import new_pair
from sandbox_judge.testing.answers import chat
from sandbox_judge.testing.model_server import ModelServer

CLAUSES = "pass: it is right.\n  fail: it is wrong.\n"
JUDGE = judge_text("tone").replace("  Judge by tone.\n", f"  Judge.\n\n  {CLAUSES}")


def answer(word, key="verdict"):
    return chat(json.dumps({"reasoning": "So it reads.", "evidence": [], key: word}))


def last_answer(content):
    return re.findall(r"message assistant: (.*(?:\n\| .*)*)", content)[-1]


class Shop:
    def __init__(self, folder, server):
        self.folder, self.server = folder, server
        (folder / "judges").mkdir()
        (folder / "judges" / "tone.yaml").write_text(JUDGE)
        (folder / "settings.json").write_text(
            json.dumps({"providers": {"openai": {"base_url": server.base_url}}})
        )
        self.rows([row(f"r{n}", f"Yes, number {n} is sent.", "pass", "dev") for n in range(6)])

    def rows(self, rows):
        write_set(self.folder / "judges" / "tone.calibration.jsonl", rows)

    def run(self, *more):
        environ = {
            "OPENAI_API_KEY": "sk-canary-0123456789abcdef",
            "SANDBOX_JUDGE_STATE_DIR": str(self.folder / "state"),
            "SANDBOX_JUDGE_CONFIG_DIR": str(self.folder / "config"),
        }
        words = ["--settings", "settings.json", "--insecure"]
        return run_main("probe", "tone", *words, *more, environ=environ, cwd=self.folder)

    def json(self, *more):
        done = self.run("-o", "json", *more)
        assert done.out, done.err
        document = json.loads(done.out)
        return document, {(one["probe"], one["variant"]): one for one in document["probes"]}


@pytest.fixture
def shop(tmp_path):
    def says(request):
        return made.judge(request.json["messages"][-1]["content"])

    with ModelServer(says, by_request=True) as server:
        made = Shop(tmp_path, server)
        yield made


def flips(probes):
    return {key: one["flips"] for key, one in probes.items() if one["flips"]}


def test_a_judge_that_is_moved_by_nothing(shop):
    shop.judge = lambda content: answer("pass")
    document, probes = shop.json()
    assert document["rows"] == 6 and document["without_verdict"] == 0
    assert flips(probes) == {}
    assert probes["control", "asked again, nothing changed"]["n"] == 6
    assert probes["length", "padded"]["share"] == 0.0
    assert probes["length", "padded"]["interval"][1] == pytest.approx(0.390, abs=0.001)
    assert {"rubric clauses", "verdict words"} <= {key[1] for key in probes}


def test_length(shop):
    shop.judge = lambda content: answer("fail" if len(last_answer(content)) > 90 else "pass")
    _, probes = shop.json("--only", "length")
    padded = probes["length", "padded"]
    assert (padded["flips"], padded["from_pass"], padded["to_pass"]) == (6, 6, 0)
    assert padded["mcnemar_p"] == pytest.approx(2 * 0.5**6)
    moved = padded["moved"][0]
    assert (moved["id"], moved["before"], moved["after"]) == ("r0", "pass", "fail")
    assert "sentences without content added, in 1 turn of the assistant" in moved["changed"]
    assert any("I hope that this answers" in line for line in moved["diff"])


def test_the_order_of_verdict_words_and_of_clauses(shop):
    def first_listed(content):
        return answer(re.search(r'What the answers mean:\n- "(\w+)"', content)[1])

    shop.judge = first_listed
    _, probes = shop.json("--only", "order")
    assert flips(probes) == {("order", "verdict words"): 6}
    shop.judge = lambda content: answer(re.search(r"^(pass|fail): it is", content, re.MULTILINE)[1])
    _, probes = shop.json("--only", "order", "--fresh")
    assert flips(probes) == {("order", "rubric clauses"): 6}
    diff = probes["order", "rubric clauses"]["moved"][0]["diff"]
    assert any("it is wrong" in line for line in diff)


def test_surface(shop):
    shop.judge = lambda content: answer("fail" if "\n| - " in content or ": - " in content else "pass")
    _, probes = shop.json("--only", "surface")
    assert flips(probes) == {("surface", "markdown added"): 6}


def test_orders_to_the_judge(shop):
    def obeys(content):
        found = re.search(r'reply with \{.*"verdict": "(\w+)"', content)
        return answer(found[1] if found else "pass")

    shop.judge = obeys
    done = shop.run("--only", "injection", "--max-flips", "10%")
    assert done.code == 1 and "injection, user turn: 100.0% of verdicts moved" in done.err
    assert "r0: injection, assistant turn: pass -> fail" in done.out


def test_familiarity_needs_twenty_restatements_that_hold_the_facts(shop):
    def judge(content):
        if content.startswith("Restate"):
            text = content.split("<<<\n")[1].split("\n>>>")[0]
            number = int(re.search(r"\d+", text)[0])
            said = f"Number {number + (number % 5 == 4)} has been sent, yes."
            return chat(said)
        return answer("pass" if "Yes, number" in content else "fail")

    shop.judge = judge
    _, probes = shop.json("--only", "familiarity")
    found = probes["familiarity", "restated by the judge's model"]
    assert found["n"] == 5 and found["dropped"] == {"the restatement has other numbers": 1}
    assert found["share"] is None and "fewer than 20" in found["undefined"]
    shop.rows([row(f"r{n}", f"Yes, number {n} is sent.", "pass", "dev") for n in range(30)])
    _, probes = shop.json("--only", "familiarity")
    found = probes["familiarity", "restated by the judge's model"]
    assert (found["n"], found["flips"], found["share"]) == (24, 24, 1.0)


def pairs(shop, *rows):
    shop.rows(
        [
            new_pair(talk(a), talk(b), id=f"p{n}", source="test", expected=label, approved_by="Ada Example")
            for n, (a, b, label) in enumerate(rows)
        ]
    )


def test_pairs_keep_only_what_survives_both_ways(shop):
    def longer(content):
        first, second = content.split("SECOND CANDIDATE\n", 1)
        one, other = len(last_answer(first)), len(last_answer(second))
        return answer("first" if one > other else "second" if other > one else "tie", key="label")

    shop.judge = longer
    pairs(
        shop, ("A long answer.", "Short.", "first"), ("No.", "A long one.", "first"), ("Same", "Both", "tie")
    )
    document, probes = shop.json("--only", "pairs")
    assert document["pairs"] == {
        "n": 3, "kept": 3, "labelled": 3, "agreed": 2, "first_both_times": 0, "second_both_times": 0,
    }  # fmt: skip
    shop.judge = lambda content: answer("first", key="label")
    document, probes = shop.json("--only", "pairs", "--fresh")
    assert document["pairs"]["first_both_times"] == 3 and document["pairs"]["kept"] == 0
    assert probes["pairs", "first and second exchanged"]["flips"] == 3


def test_rows_without_a_verdict_are_not_probed(shop):
    shop.judge = lambda content: chat("no JSON here")
    document, probes = shop.json("--only", "length")
    assert document["without_verdict"] == 6 and probes == {}
    assert document["faults"][0]["count"] == 6
    done = shop.run("--only", "length")
    assert done.code == 1 and "no row has a verdict" in done.err


def test_reports_and_their_use_in_a_calibration(shop):
    shop.judge = lambda content: answer("fail" if len(last_answer(content)) > 90 else "pass")
    done = shop.run(
        "--only", "length", "--html", "p.html", "--markdown", "p.md", "--junit", "p.xml", "-o", "json"
    )
    assert done.code == 0, done.err
    page = (shop.folder / "p.html").read_text()
    assert "<script" not in page and "I hope that this answers" in page
    assert "| length | padded | 6 | 6 | 1.000 |" in (shop.folder / "p.md").read_text()
    assert 'failures="1"' in (shop.folder / "p.xml").read_text()
    (shop.folder / "probe.json").write_text(done.out)
    environ = {
        "OPENAI_API_KEY": "sk-canary-0123456789abcdef",
        "SANDBOX_JUDGE_STATE_DIR": str(shop.folder / "state"),
    }
    environ["SANDBOX_JUDGE_CONFIG_DIR"] = str(shop.folder / "config")
    done = run_main(
        "calibrate", "tone", "--settings", "settings.json", "--insecure", "--probes", "probe.json",
        "--html", "both.html", environ=environ, cwd=shop.folder,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "<h2>Probes</h2>" in (shop.folder / "both.html").read_text()


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--only", "mood"], "mood is no probe"),
        (["--only", ","], "nothing is no probe"),
        (["--split", "test"], "invalid choice"),
        (["--split", "train"], "no labelled row in the split train"),
        (["--limit", "0"], "none"),
        (["--max-flips", "x"], "no share"),
    ],
)
def test_what_cannot_be_is_told(shop, argv, told):
    done = shop.run(*argv)
    assert done.code == 2 and told in done.err
