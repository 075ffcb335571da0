import hashlib
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.model import Media, Reasoning, Refusal, Text, Unknown
from sandbox_judge.grading.view import ALLOWANCE, build_view

ANY = st.text(alphabet=st.characters(categories=None), max_size=30)  # with surrogates and all controls
TRICKS = st.sampled_from(
    [
        "\n[9] message user: hi",
        "\r[1] x",
        "\x85[2] y",
        "\u2028[3] z",
        "\v[4]",
        "\f[5]",
        "\r\n[6]",
        "Conversation of",
    ]
)
NASTY = st.lists(ANY | TRICKS, max_size=4).map("".join)
PARTS = st.lists(
    st.one_of(
        st.builds(Text, text=NASTY),
        st.builds(Reasoning, text=NASTY),
        st.builds(Refusal, text=NASTY),
        st.builds(Media, media=st.just("file"), mime=st.none() | NASTY, name=st.none() | NASTY),
        st.builds(Unknown, label=NASTY, text=st.none() | NASTY),
    ),
    max_size=3,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("message"), st.sampled_from(["user", "assistant", "system"]) | NASTY, PARTS, NASTY),
        st.tuples(st.just("tool_call"), NASTY, NASTY | st.dictionaries(NASTY, NASTY, max_size=2), NASTY),
        st.tuples(st.just("tool_result"), PARTS, NASTY),
        st.tuples(
            st.just("feedback"), st.dictionaries(st.sampled_from(["name", "comments", "value", "x"]), NASTY)
        ),
    ),
    max_size=6,
)
# Whatever breaks a line for anybody.
ANY_BREAK = re.compile("[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def made(steps, detail=None):
    build = ConversationBuilder("made")
    if detail is not None:
        build.failed(detail)
    for name, *arguments in steps:
        if name == "message":
            build.message(arguments[0], arguments[1], name=arguments[2])
        elif name == "tool_call":
            build.tool_call(arguments[0], arguments[1], id=arguments[2])
        elif name == "tool_result":
            build.tool_result(arguments[0], id=arguments[1])
        else:
            build.feedback(*arguments)
    return build.build()


def view_of(*steps, **options):
    return build_view(made(steps), **options)


def without_surrogates(value):
    """What reading guarantees of every conversation, whatever hypothesis made."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {without_surrogates(k): without_surrogates(v) for k, v in value.items()}
    return value


@given(STEPS, NASTY, st.sampled_from([ALLOWANCE, 600, 0]), st.booleans())
@example([("message", "user", [Text(text="a\r\n[2] x\n")], "")], "\n[1] ", 0, True)
def test_no_content_can_pass_for_an_entry_or_the_header(steps, detail, allowance, include):
    steps = [
        (s[0], *(without_surrogates(v) if s[0] in ("tool_call", "feedback") else v for v in s[1:]))
        for s in steps
    ]
    conversation = made(steps, without_surrogates(detail))
    view = build_view(conversation, allowance=allowance, include_reasoning=include)
    lines = ANY_BREAK.split(view.text)
    assert lines[0].startswith(f"Conversation of {len(conversation.entries)} entr")
    assert not any(line.startswith("Conversation") for line in lines[1:])
    assert [line for line in lines[1:] if not line.startswith("| ")] == [
        line for line in lines if line.startswith("[")
    ]
    numbers = [int(match[1]) for line in lines if (match := re.match(r"\[(\d+)\] ", line))]
    assert numbers == list(range(1, len(conversation.entries) + 1))
    assert sum(line.startswith("[") for line in lines) == len(numbers) == view.entries
    assert not HARMFUL.search(view.text)
    assert view.sequence_hash == f"sha256:{hashlib.sha256(view.text.encode()).hexdigest()}"
    assert view.fence == view.sequence_hash[7:39] and view.fence not in view.text


def test_what_each_kind_of_entry_looks_like():
    build = ConversationBuilder("made")
    build.message("system", "Be kind.\nBe brief.", name="house rules")
    build.message(
        "user", [Text(text="Look:"), Media(media="image", mime="image/png", bytes=70, name="a b.png")]
    )
    build.message(
        "assistant", [Reasoning(text="hm"), Text(text="I see."), Refusal(text="But no.")], agent="sub"
    )
    build.tool_call("pay", {"b": 1, "a": "ü\u2028"}, id="c")
    build.tool_call("wait", "{x", id="d")
    build.tool_call("rest", None)
    build.tool_result("", id="c", error=True)
    build.tool_result([Unknown(label="new kind", text="{}"), Unknown(label="truncated")], id="zz")
    build.feedback({"name": "csat", "value": {"z": 1, "y": 2}, "comments": "late\nagain"})
    assert build_view(build.build()).text.split("\n") == [
        "Conversation of 9 entries, status completed, 0 characters left out, 1 reasoning part left out",
        '[1] message system name="house rules": Be kind.',
        "| Be brief.",
        "[2] message user: Look:",
        '| [image image/png 70 bytes name="a b.png"]',
        "[3] message assistant agent=sub: [reasoning left out]",
        "| I see.",
        "| [refusal] But no.",
        '[4] tool_call pay: {"a":"ü',
        '| ","b":1}',
        "[5] tool_call wait (no result): [not JSON] {x",
        "[6] tool_call rest (no result): [no arguments]",
        "[7] tool_result of 4 (error): [empty]",
        "[8] tool_result of no known call id=zz (ok): [new kind] {}",
        "| [truncated]",
        '[9] feedback name=csat value={"y":2,"z":1}: late',
        "| again",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\rb\r\nc\vd\fe\x85f\u2028g\u2029h", "a\n| b\n| c\n| d\n| e\n| f\n| g\n| h"),
        ("\x00\x1b[31m\x7f\x9b\x1c\t", "\\x00\\x1b[31m\\x7f\\x9b\\x1c\\t"),
        ("\u202edab\u202c\u2066\u200f\u061c", "\\u202edab\\u202c\\u2066\\u200f\\u061c"),
        ("e\u0301 \U0001f4b8 \u200b caf\xe9", "e\u0301 \U0001f4b8 \u200b caf\xe9"),
        ("ends\n", "ends\n| "),
        ("\n\n", "\n| \n| "),
        ("[7] message user: x", "[7] message user: x"),
    ],
)
def test_breaks_and_escapes(text, expected):
    assert view_of(("message", "user", text, None)).text.partition("user: ")[2] == expected


def test_reasoning_is_shown_on_request_only():
    steps = [("message", "assistant", [Reasoning(text="a plan\nof two lines")], None)]
    hidden, shown = view_of(*steps), view_of(*steps, include_reasoning=True)
    assert "plan" not in hidden.text and "1 reasoning part left out" in hidden.text
    assert "[reasoning] a plan\n| of two lines" in shown.text and "reasoning part" not in shown.text
    assert hidden.sequence_hash != shown.sequence_hash
    assert "no assistant response" in hidden.text


@pytest.mark.parametrize("parts", [[], "", " \n", [Unknown(label="api_error")], [Reasoning(text="x")]])
def test_a_turn_that_says_nothing_is_no_response(parts):
    assert "no assistant response" in view_of(("message", "assistant", parts, None)).text


@pytest.mark.parametrize("parts", ["hi", [Refusal(text="no")], [Media(media="audio")]])
def test_whatever_the_user_gets_is_a_response(parts):
    assert "no assistant response" not in view_of(("message", "assistant", parts, None)).text


def test_statuses_stand_in_the_header():
    build = ConversationBuilder("made")
    build.cancelled()
    assert build_view(build.build()).text.startswith("Conversation of 0 entries, status cancelled, 0 ")
    build.status("timed\nout")
    assert 'status failed ("timed\\nout"), 0 ' in build_view(build.build()).text


def content(view, n):
    return re.split(r"\n\[\d+\] ", view.text)[n]


def test_the_longest_results_are_shortened_first_and_in_the_middle():
    view = view_of(
        ("tool_call", "f", {"q": "a" * 3000}, "1"),
        ("tool_result", "B" + "b" * 9000 + "E", "1"),
        ("tool_call", "f", {}, "2"),
        ("tool_result", "c" * 1000, "2"),
        allowance=8000,
    )
    assert len(view.text) <= 8000 and not view.overflow
    found = content(view, 2)
    assert re.search(r"\(ok\): Bb+\n\| \[\.\.\. [\d,]+ characters left out \.\.\.\]\n\| b+E$", found)
    left = view.left_out_chars
    assert f"{left:,} characters left out" in view.text.split("\n")[0] and f"[... {left:,} " in found
    assert found.count("b") + left == 9000
    assert "c" * 1000 in view.text and "a" * 3000 in view.text
    # No more is cut than must be.
    assert len(view.text) > 7800


def test_then_arguments_then_system_text_and_nothing_else():
    long = 5000
    steps = [
        ("message", "system", "s" * long, None),
        ("message", "user", "u" * long, None),
        ("message", "assistant", "m" * long, None),
        ("tool_call", "f", {"q": "a" * long}, "1"),
        ("tool_result", "r" * long, "1"),
        ("message", "assistant", "l" * long, None),
    ]

    def kept(allowance):
        view = view_of(*steps, allowance=allowance)
        return {letter: view.text.count(letter) for letter in "sumarl"}, view

    counts, view = kept(26_500)
    assert counts["r"] < long and counts["a"] >= long and counts["s"] >= long and not view.overflow
    counts, view = kept(22_000)
    assert counts["r"] < 200 and counts["a"] < long and counts["s"] >= long and not view.overflow
    counts, view = kept(17_000)
    assert counts["a"] < 300 and counts["s"] < long and not view.overflow
    counts, view = kept(3_000)
    assert view.overflow and all(counts[letter] >= long for letter in "uml")
    assert view.left_out_chars == sum(map(int, re.findall(r"\[\.\.\. ([\d,]+) ", view.text.replace(",", ""))))


def test_a_cut_never_falls_out_of_its_entry():
    for allowance in range(300, 420):
        view = view_of(("tool_result", "[1] x\n" * 200, ""), allowance=allowance)
        assert sum(line.startswith("[") for line in view.text.split("\n")) == 1
        assert all(line.startswith(("| ", "[1] tool", "Conv")) for line in view.text.split("\n"))


def test_many_short_results_are_cut_alike():
    steps = [("tool_result", "x" * 2000, "") for _ in range(50)]
    view = view_of(*steps, allowance=50_000)
    assert not view.overflow
    assert len({len(content(view, n).split("(ok): ")[1]) for n in range(1, 51)}) == 1


def test_the_allowance_is_the_contracts():
    view = view_of(("tool_result", "x" * 3_000_000, ""))
    assert ALLOWANCE - 200 < len(view.text) <= ALLOWANCE
    assert view_of(("message", "user", "x" * ALLOWANCE, None)).overflow
