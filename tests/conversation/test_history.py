"""The merging of histories, by what must be true of any: each act once, in order, whatever calls repeat."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_judge.conversation.acts import Answered, Called, Emitter, Said, key_of
from sandbox_judge.conversation.builder import ConversationBuilder
from sandbox_judge.conversation.history import History, ModelCall
from sandbox_judge.conversation.model import Message, Reasoning, Text, ToolCall, ToolResult
from sandbox_judge.conversation.tool_runs import ToolRun


def said(role, text):
    return Said(role=role, parts=(Text(text=text),))


def shown(history, runs=()):
    build = ConversationBuilder("test")
    history.tell(build, runs)
    found = []
    for entry in build.build().entries:
        if isinstance(entry, Message):
            found.append((entry.role, "".join(part.text for part in entry.parts)))
        elif isinstance(entry, ToolCall):
            found.append(("call", entry.name, entry.args))
        elif isinstance(entry, ToolResult):
            found.append(("result", entry.call, entry.parts[0].text))
    return found


def replay(calls, *, timed=True):
    history = History()
    for n, (inputs, outputs) in enumerate(calls):
        at = {"start": 10.0 * n, "end": 10.0 * n + 5} if timed else {}
        call = ModelCall(inputs=inputs, outputs=outputs, **at)
        history.finish(history.begin(call), call)
    return history


def expected(acts):
    build = ConversationBuilder("test")
    Emitter(build).emit(acts)
    history = build.build()
    return [type(entry).__name__ for entry in history.entries], history.entries


# Few words, so that the same are said again and again.
TURN = st.tuples(
    st.sampled_from(["yes", "no", "why"]),
    st.sampled_from(["done", "yes", "sorry"]),
    st.lists(st.tuples(st.sampled_from(["look", "send"]), st.sampled_from([1, 2])), max_size=2),
)


def told(turns, *, distinct=False):
    """The acts of a conversation, and how many of them stand before and after each call of the model."""
    acts, calls = [said("system", "be kind")], []
    for n, (asked, answer, tools) in enumerate(turns):
        mark = f" {n}" if distinct else ""
        acts.append(said("user", asked + mark))
        if tools:
            calls.append((len(acts), len(tools)))
            ids = [f"c{n}.{i}" for i in range(len(tools))]
            acts += [
                Called(name=name, arguments={"x": x, "n": n if distinct else 0}, id=id)
                for id, (name, x) in zip(ids, tools, strict=True)
            ]
            acts += [
                Answered(parts=(Text(text=f"got {x}{mark}"),), id=id)
                for id, (_, x) in zip(ids, tools, strict=True)
            ]
        calls.append((len(acts), 1))
        acts.append(said("assistant", answer + mark))
    return acts, calls


@given(st.lists(TURN, min_size=1, max_size=6), st.booleans())
@settings(max_examples=400)
def test_whole_histories_however_often_words_repeat(turns, timed):
    acts, calls = told(turns)
    history = replay([(acts[:at], acts[at : at + n]) for at, n in calls], timed=timed)
    assert shown(history) == shown(replay([(acts, [])]))
    assert len(history) == len(acts)


@given(st.lists(TURN, min_size=1, max_size=6), st.integers(1, 6), st.booleans())
@settings(max_examples=400)
def test_windows_of_distinct_words(turns, width, with_system):
    acts, calls = told(turns, distinct=True)
    recorded = []
    for at, n in calls:
        # A window holds at least what is new since the call before.
        before = max((a + m for a, m in calls if a < at), default=1)
        begin = max(1, min(at - width, before))
        recorded.append(
            ([*(acts[:1] if with_system or not recorded else []), *acts[begin:at]], acts[at : at + n])
        )
    assert shown(replay(recorded)) == shown(replay([(acts, [])]))


@given(st.lists(TURN, min_size=1, max_size=6))
@settings(max_examples=300)
def test_only_what_is_new(turns):
    acts, calls = told(turns)
    recorded, at = [], 0
    for begin, n in calls:
        recorded.append((acts[at:begin], acts[begin : begin + n]))
        at = begin + n
    assert shown(replay(recorded)) == shown(replay([(acts, [])]))


@given(st.lists(TURN, min_size=1, max_size=5), st.data())
@settings(max_examples=200)
def test_a_record_around_adds_what_is_missing_and_repeats_nothing(turns, data):
    acts, calls = told(turns, distinct=True)
    lost = data.draw(st.booleans())
    recorded = [(acts[1 if lost else 0 : at], acts[at : at + n]) for at, n in calls]
    history = replay(recorded)
    cut = data.draw(st.integers(1, len(acts)))
    around = ModelCall(inputs=acts[:cut], outputs=acts[cut:])
    history.around(around, (0, len(history)))
    history.around(around, (0, len(history)))
    assert shown(history) == shown(replay([(acts, [])]))


@given(st.lists(TURN, min_size=1, max_size=5), st.randoms())
@settings(max_examples=200)
def test_tools_records_in_any_order_fill_what_lacks(turns, random):
    acts, _ = told(turns, distinct=True)
    kept = [act for act in acts if not isinstance(act, Answered)]
    places = {act.id: n for n, act in enumerate(kept) if isinstance(act, Called)}
    runs = [
        ToolRun(name=kept[places[act.id]].name, id=act.id, result=act.parts)
        for act in acts
        if isinstance(act, Answered)
    ]
    random.shuffle(runs)
    history = replay([(kept, [])], timed=False)
    results = [row[2] for row in shown(history, runs) if row[0] == "result"]
    # Untimed: each result stands right after its call.
    assert results == [act.parts[0].text for act in acts if isinstance(act, Answered)]
    assert shown(replay([(acts, [])]), runs) == shown(replay([(acts, [])]))


def test_what_makes_two_acts_the_same():
    assert key_of(said("developer", "a b")) == key_of(said("system", "a\nb "))
    thinking = Said(role="assistant", parts=(Reasoning(text="hm"), Text(text="yes")))
    assert key_of(thinking) == key_of(said("model", "yes"))
    assert key_of(said("user", "yes")) != key_of(said("assistant", "yes"))
    assert key_of(Said(role="assistant", parts=())) is None
    same = [{"b": 1, "a": [2]}, '{"a": [2], "b": 1}', ' {"b":1,"a":[2]} ']
    assert len({key_of(Called(name="f", arguments=a)) for a in same}) == 1
    assert len({key_of(Called(name="f", arguments=a)) for a in (None, {}, "", "{}")}) == 1


def test_reasoning_stands_once_and_where_it_was():
    thought = Said(role="assistant", parts=(Reasoning(text="hm"),))
    ask, yes, more, end = (
        said(r, t) for r, t in [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    )
    calls = [([ask], [thought, yes]), ([ask, thought, yes, more], [end])]
    assert [row[1] for row in shown(replay(calls))] == ["a", "hm", "b", "c", "d"]
    # A history that leaves it out, and one that brings it first.
    assert [row[1] for row in shown(replay([calls[0], ([ask, yes, more], [end])]))] == [
        "a",
        "hm",
        "b",
        "c",
        "d",
    ]
    assert [row[1] for row in shown(replay([([ask], [yes]), calls[1]]))] == ["a", "hm", "b", "c", "d"]
    whole = Said(role="assistant", parts=(Reasoning(text="hm"), Text(text="b")))
    assert [row[1] for row in shown(replay([([ask], [yes]), ([ask, whole, more], [end])]))] == [
        "a",
        "hmb",
        "c",
        "d",
    ]


def test_results_without_ids_find_their_calls():
    calls = [Called(name="f", arguments={"n": n}) for n in (1, 2)] + [Called(name="g", id="x")]
    answers = [Answered(parts=(Text(text=t),), name=n) for t, n in [("1", "f"), ("3", "g"), ("2", "f")]]
    rows = shown(replay([([said("user", "go"), *calls, *answers], [])]))
    assert rows[4:] == [("result", 2, "1"), ("result", 4, "3"), ("result", 3, "2")]


def test_agents_at_the_same_time_each_in_order():
    def call(system, *words, start, end):
        acts = [said("system", system), *(said(("user", "assistant")[n % 2], w) for n, w in enumerate(words))]
        return ModelCall(inputs=acts[:-1], outputs=acts[-1:], start=start, end=end, agent=system)

    history = History()
    one, two = call("a", "q1", "r1", start=0, end=10), call("b", "q2", "r2", start=2, end=4)
    more = call("b", "q2", "r2", "q3", "r3", start=5, end=7)
    first = history.begin(one)
    history.finish(history.begin(two), two)
    history.finish(history.begin(more), more)
    history.finish(first, one)
    assert [row[1] for row in shown(history)] == ["a", "q1", "b", "q2", "r2", "q3", "r3", "r1"]


@pytest.mark.parametrize("shape", ["whole", "window", "same", "edited"])
def test_long_conversations_are_merged_in_linear_time(shape):
    """Twice the input, about twice the time: the bound is loose, a quadratic step breaks it."""

    def cost(turns):
        acts = [said("system", "s")]
        calls = []
        for n in range(turns):
            words = "again" if shape == "same" else f"word {n}"
            acts.append(said("user", words))
            begin = 0 if shape in ("whole", "edited") else max(0, len(acts) - 6)
            given = acts[begin:]
            if shape == "edited" and n:
                given = [*given[:-2], said("user", f"note {n}"), *given[-2:]]
            calls.append((given, [said("assistant", f"reply {words}")]))
            acts.append(calls[-1][1][0])
        size = sum(len(inputs) for inputs, _ in calls)
        begun = time.process_time()
        shown(replay(calls))
        return (time.process_time() - begun) / size

    few = 60 if shape in ("whole", "edited") else 1500
    assert cost(few * 4) < 8 * max(cost(few), 1e-6)
