import contextlib
import gc
import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.canonical import canonical_json
from sandbox_judge.conversation.document import document_of, parse_json, read_document
from sandbox_judge.errors import InputError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def codes(document):
    return [warning.code for warning in document.warnings]


@pytest.mark.parametrize(
    ("data", "values", "many"),
    [
        (b'{"a": 1}', ({"a": 1},), False),
        (b"\xef\xbb\xbf[1]", ([1],), False),
        ('{"a": "é"}'.encode("utf-16"), ({"a": "é"},), False),
        (b'{"a": 1}\n{"a": 2}\n', ({"a": 1}, {"a": 2}), True),
        (b'{"a": 1}\r\n\r\n{"a": 2}\r\n', ({"a": 1}, {"a": 2}), True),
        (b'{"a":\n1}\n{"a":\n2}', ({"a": 1}, {"a": 2}), True),
        (b'{"a": 1}{"a": 2}', ({"a": 1}, {"a": 2}), True),
        (b'{"a": NaN}\n{"a": 2}', ({"a": "NaN"}, {"a": 2}), True),
        (b'{"a":\nNaN} {"a": 2}', ({"a": "NaN"}, {"a": 2}), True),
        (b"12345678901234567890123", (12345678901234567890123,), False),
        (b'"a\tb"', ("a\tb",), False),
    ],
)
def test_reads_what_is_json_in_any_of_its_wrappings(data, values, many):
    document = read_document(data)
    assert (document.values, document.many) == (values, many)


@pytest.mark.parametrize(
    ("data", "value", "warning"),
    [
        (b'{"a": "x\xffy"}', {"a": "x\ufffdy"}, "invalid_utf8"),
        (b'{"a": "\\ud800!"}', {"a": "\ufffd!"}, "lone_surrogate"),
        (b'{"\\udc00": 1}', {"\ufffd": 1}, "lone_surrogate"),
        (b"[1e999]", ["1e999"], "number_as_text"),
        (b"[-Infinity]", ["-Infinity"], "number_as_text"),
        (b"[" + b"7" * 5000 + b"]", ["7" * 5000], "number_as_text"),
    ],
)
def test_what_cannot_stand_is_replaced_visibly_and_counted(data, value, warning):
    document = read_document(data)
    assert document.values == (value,)
    assert codes(document) == [warning]
    canonical_json(document.values[0])


def test_replaced_bytes_are_counted_apart_from_replacements_that_were_there():
    document = read_document('{"a": "\ufffd"}'.encode() + b'\n{"b": "\xff\xfe"}')
    assert "2 places" in document.warnings[0].message


def test_a_pair_of_surrogates_in_escapes_is_one_character():
    assert read_document(b'["\\ud83d\\ude00 \\ud83d"]').values == (["\U0001f600 \ufffd"],)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"hello", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": 1}\n{"a": \n', "Line 2"),
        (b'{"a": 1}\n\n{"a": 2}\nnonsense\n{"a": 3}\n', "Line 4"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a":1}\n' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_json_is_told_with_its_place(data, told):
    with pytest.raises(InputError) as caught:
        read_document(data)
    assert told in caught.value.paragraph()


def test_a_torn_last_line_is_set_aside_only_where_asked():
    data = b'{"a": 1}\n{"a": 2}\n{"a": "thr'
    document = read_document(data, partial_last=True)
    assert document.values == ({"a": 1}, {"a": 2})
    assert codes(document) == ["truncated_input"] and "line 3" in document.warnings[0].message
    with pytest.raises(InputError, match="Line 3"):
        read_document(data)
    with pytest.raises(InputError, match="Line 2"):
        read_document(b'{"a": 1}\n{"a": \n{"a": 3}', partial_last=True)


def test_lines_are_numbered_as_an_editor_numbers_them():
    assert read_document(b'{"a":1}\n\n{"a":2}\n').lines == (1, 3)
    assert read_document(b'\n{"a":1}\n{"a":NaN}').lines == (2, 3)
    assert read_document(b'{"a":1} {"a":2}').lines == ()


def test_size_is_bounded():
    with pytest.raises(InputError, match="at most 10 are read"):
        read_document(b"[" + b" " * 20 + b"]", max_bytes=10)


def test_python_values_are_taken_through_json():
    class Dumped:
        def model_dump(self, mode):
            return {"role": "user", "mode": mode}

    assert document_of([Dumped(), ("x",)]).value == [{"role": "user", "mode": "json"}, ["x"]]
    assert document_of('{"a": 1}').value == {"a": 1}
    assert document_of(["\ud800"]).value == ["\ufffd"]
    assert document_of(bytearray(b"[1]")).value == [1]


def test_python_values_that_are_not_json_are_told():
    loop: list[object] = []
    loop.append(loop)
    for value in (object(), [object()], {1j: 2}, loop):
        with pytest.raises(InputError):
            document_of(value)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_and_nothing_else(data):
    try:
        document = read_document(data)
    except InputError:
        return
    canonical_json(list(document.values))


@given(JSON)
def test_any_json_reads_as_itself(value):
    assert read_document(json.dumps(value).encode()).values == (value,)
    assert parse_json(json.dumps(value)) == value


def test_places_are_lines_of_json_lines_and_elements_of_a_list():
    assert [read_document(b'{"a": 1}\n\n{"a": 2}').place(n) for n in (0, 1)] == ["line 1", "line 3"]
    assert [read_document(b'[null, {"a": 2}]').place(n) for n in (0, 1)] == ["element 1", "element 2"]
    assert document_of([None, None]).place(0) == "element 1"


def test_parse_json_raises_value_errors_only():
    for text in ("[" * 100_000, "", "{", "\ud800", '"\ud800"x'):
        with pytest.raises(ValueError):
            parse_json(text)
    assert parse_json('["\\ud800", NaN]') == ["\ufffd", "NaN"]
    assert not isinstance(parse_json("1e999"), float) or math.isfinite(parse_json("1e999"))


@pytest.mark.parametrize(
    "make",
    [
        lambda n: b'{"a": 1}\n' * n,
        lambda n: b'{"a": NaN}\n' * n,
        lambda n: b'{"a": NaN}' * n,
        lambda n: b'{"a":\n1}' * n + b"\xff",
        lambda n: b"\n" * n + b"[1]",
    ],
)
def test_reading_grows_with_the_input_and_no_faster(make):
    def seconds(n):
        data = make(n)
        best = math.inf
        for _ in range(3):
            started = time.process_time()
            with contextlib.suppress(InputError):
                read_document(data)
            best = min(best, time.process_time() - started)
        return best

    # What other tests left alive costs each full collection a tenth of a second, whatever is read here.
    gc.freeze()
    try:
        assert seconds(40_000) < 40 * max(seconds(4_000), 0.002)
    finally:
        gc.unfreeze()
