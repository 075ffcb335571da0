import pytest

from sandbox_judge.gate.language import GateSyntaxError, RegexLiteral, literal_of


@pytest.mark.parametrize("plain", ["", "/", "a", "a/b/", " /a/", "/var", "refund", "\n/a/"])
def test_plain_strings_are_no_literals(plain: str) -> None:
    assert literal_of(plain) is None


@pytest.mark.parametrize(
    ("target", "pattern", "flags"),
    [
        ("//", "", ""),
        ("///", "/", ""),
        ("//i", "", "i"),
        ("/a/", "a", ""),
        ("/a/b/i", "a/b", "i"),
        ("/a\n/usmi", "a\n", "usmi"),
        ("/\x00/", "\x00", ""),
    ],
)
def test_literals_end_at_the_last_slash(target: str, pattern: str, flags: str) -> None:
    assert literal_of(target) == RegexLiteral(pattern, flags)
    assert str(literal_of(target)) == target


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/a/ii", 'the flag "i" more than once'),
        ("/a/g", 'unknown flag "g"'),
        ("/a/gi", 'unknown flag "g"'),
        ("/a/I", 'unknown flag "I"'),
        ("/usr/bin", "starts with a slash and has a later one"),
        ("/usr/bin", '"/^/usr/bin$/"'),
        ("/srv/a.b", r"/^/srv/a\.b$/"),
        ("/a/i ", "read as a regex"),
    ],
)
def test_wrong_flags_are_explained(target: str, said: str) -> None:
    with pytest.raises(GateSyntaxError) as raised:
        literal_of(target)
    assert said in str(raised.value)


def test_what_the_message_tells_to_write_means_that_text() -> None:
    with pytest.raises(GateSyntaxError) as raised:
        literal_of("/srv/a+b (1)")
    told = str(raised.value).rpartition("write ")[2].strip('"')
    assert literal_of(told) == RegexLiteral(r"^/srv/a\+b \(1\)$")


def test_a_long_target_is_cut_in_the_message() -> None:
    with pytest.raises(GateSyntaxError) as raised:
        literal_of("/" + "a" * 10_000 + "/zz")
    assert len(str(raised.value)) < 600
