"""Hostile recipes through the whole hook: too many, too large, exploding, linked, oddly named, and with
a git configuration that would run programs.

git's traps one by one: tests/recipe/test_git*.py. YAML: tests/recipe/test_judge_file.py, test_yaml_core.py.
"""

import json
import os
import subprocess

import pytest
from fault_bench import Sandbox, TruthfulModel, by_judge, hold_account, own_folder, told
from recipes import judge_text


@pytest.fixture(scope="module")
def model():
    with TruthfulModel() as truthful:
        yield truthful


def sandbox_of(folder, files, model, **more):
    providers = {"openai": {"base_url": model.server.base_url}}
    return Sandbox(folder, files=files, providers=providers, **more)


def outcomes(done):
    return {line["path"]: line["outcome"] for line in done.ledger["judges"]}


def test_a_thousand_judges_cost_two_hundred_calls_and_are_all_accounted_for(model):
    files = {f"judges/j{n:05}.yaml": judge_text(f"j{n:05}") for n in range(1_000)}
    with own_folder() as folder:
        sandbox = sandbox_of(folder, files, model)
        before = len(model.server.requests)
        done = sandbox.run("--budget", "50s", "--concurrency", "32", "--report", "json", "-q")
    events = hold_account(done, 1_000)
    assert len(model.server.requests) - before <= 200
    assert model.invented(events) == []
    assert done.results["budget_exhausted"] == 800
    assert done.ledger["counts"] == {"verdict": 200, "null": 800}


def test_what_is_too_large_or_explodes_is_that_files_fault_alone(model):
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for one, next_ in zip("abcdefgh", "bcdefghi", strict=True):
        bomb += f"{next_}: &{next_} [{', '.join(['*' + one] * 9)}]\n"
    files = {
        "judges/good.yaml": judge_text("good"),
        "judges/large.yaml": judge_text("large") + "# " + "x" * 50_000_000 + "\n",
        "judges/bomb.yaml": "name: bomb\ninstructions: x\nllm: {model: m}\n" + bomb,
        "judges/deep.yaml": "name: deep\ninstructions: x\nllm: {model: m}\non: "
        + "[" * 20_000
        + "]" * 20_000,
        "judges/binary.yaml": "name: \x00\x01",
        "judges/slow.yaml": judge_text(
            "slow", on='  - event: message\n    match: {text: "/(?:[ab]*a[ab]{900}){3}z/"}\n'
        ),
        "judges/lookaround.yaml": judge_text(
            "lookaround", on='  - event: message\n    match: {text: "/(?=a)/"}\n'
        ),
    }
    talk = json.dumps([{"role": "user", "content": "ab" * 200_000}, {"role": "assistant", "content": "hi"}])
    with own_folder() as folder:
        done = sandbox_of(folder, files, model).run("--budget", "20s", "--report", "json", talk=talk)
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    assert model.invented(done.events) == []
    assert outcomes(done)["judges/good.yaml"] in ("verdict", "null")
    assert told(by_judge(done)["good"]) in ("pass", "fail", "not_applicable", "context_overflow")
    assert outcomes(done)["judges/slow.yaml"] in ("null", "gate_miss", "definition_invalid")
    for name in ("large", "bomb", "deep", "binary", "lookaround"):
        assert outcomes(done)[f"judges/{name}.yaml"] == "definition_invalid"
    assert len(done.ledger["judges"]) == len(files)
    assert sum(done.ledger["counts"].values()) == len(files)
    assert done.seconds < 15


def test_names_that_look_like_flags_and_paths_are_names(model):
    names = [
        "--help",
        "-v",
        "--upload-pack=touch RAN",
        "$(touch RAN)",
        "`touch RAN`",
        "; touch RAN",
        "a b",
        "é",
        "~",
    ]
    files = {f"judges/{name}.yaml": judge_text(f"n{number}") for number, name in enumerate(names)}
    files["judges/up/..yaml"] = judge_text("below")
    with own_folder() as folder:
        sandbox = sandbox_of(f"{folder}/-r;touch RAN", files, model)
        done = sandbox.run("--report", "json")
        assert list(sandbox.folder.rglob("RAN")) == list(sandbox.work.iterdir()) == []
    hold_account(done, len(names))
    assert set(outcomes(done)) == {f"judges/{name}.yaml" for name in names}


def test_links_and_submodules_lead_nowhere(model):
    with own_folder() as folder:
        secret = f"{folder}/secret.yaml"
        with open(secret, "w") as file:
            file.write(judge_text("stolen"))
        sandbox = sandbox_of(f"{folder}/s", {"judges/good.yaml": judge_text("good")}, model)
        os.symlink(secret, sandbox.recipe / "judges/link.yaml")
        os.symlink("/proc/self/environ", sandbox.recipe / "judges/environ.yaml")
        os.symlink("link.yaml", sandbox.recipe / "judges/chain.yaml")
        git = ["git", "-C", str(sandbox.recipe), "-c", "user.name=T", "-c", "user.email=t@example.test"]
        subprocess.run([*git, "add", "-A"], check=True)
        cached = f"160000,{sandbox.commit},judges/module.yaml"
        subprocess.run([*git, "update-index", "--add", "--cacheinfo", cached], check=True)
        subprocess.run([*git, "commit", "-qm", "links"], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        sandbox.commit = head.stdout.strip()
        done = sandbox.run("--report", "json")
    assert outcomes(done).pop("judges/good.yaml") == "verdict"
    assert {outcome for path, outcome in outcomes(done).items() if "good" not in path} == {
        "definition_invalid"
    }
    assert b"stolen" not in done.out
    assert "canary" not in done.out.decode() + done.err


def test_nothing_that_a_repository_configures_runs(model):
    """Every way that git knows to start a program by configuration, attributes or hooks, all at once."""
    with own_folder() as folder:
        sandbox = sandbox_of(
            f"{folder}/s", {"judges/a.yaml": judge_text("a"), ".gitattributes": ATTRIBUTES}, model
        )
        trap = sandbox.folder / "trap"
        trap.write_text(
            f'#!/bin/sh\ntouch {sandbox.folder}/RAN.$(basename "$1" 2>/dev/null)\ncat 2>/dev/null\nexit 0\n'
        )
        trap.chmod(0o755)
        git_dir = sandbox.recipe / ".git"
        with open(git_dir / "config", "a") as config:
            config.write(CONFIG.replace("TRAP", str(trap)).replace("DIR", str(sandbox.folder)))
        (sandbox.folder / "included").write_text(f"[core]\n\tfsmonitor = {trap}\n")
        for hook in (
            "post-checkout",
            "pre-commit",
            "post-index-change",
            "reference-transaction",
            "pre-auto-gc",
        ):
            (git_dir / "hooks").mkdir(exist_ok=True)
            (git_dir / "hooks" / hook).write_text(trap.read_text())
            (git_dir / "hooks" / hook).chmod(0o755)
        (git_dir / "objects/info").mkdir(exist_ok=True)
        (git_dir / "objects/info/alternates").write_text(f"{sandbox.folder}/elsewhere\n")
        sandbox.home.mkdir()
        (sandbox.home / ".gitconfig").write_text((git_dir / "config").read_text())
        hold_account(sandbox.run(), 1)
        hold_account(sandbox.run("--dry-run"), 1)
        base = sandbox.argv()[:4]
        for more in (["run", "--explain", "--recipe", sandbox.recipe, "--commit", "HEAD"],
                     ["run", "--worktree", "--recipe", sandbox.recipe],
                     ["check", sandbox.recipe], ["doctor", "--recipe", sandbox.recipe]):  # fmt: skip
            sandbox.run(
                argv=[*base, *map(str, more), "--insecure"]
                if "check" not in more
                else [*base, *map(str, more)]
            )
        assert sorted(path.name for path in sandbox.folder.glob("RAN*")) == []
        # The traps are traps: whoever asks git in the plain way springs them.
        subprocess.run(["git", "-C", sandbox.recipe, "status"], capture_output=True, timeout=20)
        assert list(sandbox.folder.glob("RAN*"))


ATTRIBUTES = "* filter=evil diff=evil merge=evil text eol=crlf ident\n"
CONFIG = """
[core]
	fsmonitor = TRAP fsmonitor
	hooksPath = DIR/recipe/.git/hooks
	pager = TRAP pager
	editor = TRAP editor
	sshCommand = TRAP ssh
	askPass = TRAP
	gitProxy = TRAP
	alternateRefsCommand = TRAP
	attributesFile = DIR/recipe/.gitattributes
	untrackedCache = true
	splitIndex = true
[pager]
	cat-file = TRAP pager
	rev-parse = TRAP pager
[filter "evil"]
	clean = TRAP clean
	smudge = TRAP smudge
	process = TRAP process
	required = true
[diff]
	external = TRAP
[diff "evil"]
	textconv = TRAP textconv
	command = TRAP
[merge "evil"]
	driver = TRAP merge
[alias]
	cat-file = !TRAP alias
	rev-parse = !TRAP alias
[credential]
	helper = !TRAP credential
[gpg]
	program = TRAP
[include]
	path = DIR/included
[extensions]
	partialClone = origin
[remote "origin"]
	url = ext::TRAP %S
	promisor = true
	uploadpack = TRAP
	partialclonefilter = blob:none
[protocol]
	allow = always
[protocol "ext"]
	allow = always
[uploadpack]
	packObjectsHook = TRAP
[trace2]
	eventTarget = DIR/RAN.trace
	normalTarget = DIR/RAN.trace
[maintenance]
	auto = true
[gc]
	auto = 1
"""
