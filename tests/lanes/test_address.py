"""Origins, and which proxy the environment names."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_judge.lanes.address import HttpFailure, Origin, origin_and_target, proxy_for

MODEL = Origin("https", "api.example.com", 443)


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        ("https://api.example.com/v1", MODEL, "/v1"),
        ("https://API.Example.com", MODEL, "/"),
        ("https://api.example.com:443/v1?x=1", MODEL, "/v1?x=1"),
        ("http://127.0.0.1:8080/v1", Origin("http", "127.0.0.1", 8080), "/v1"),
        ("http://[::1]:8080/", Origin("http", "::1", 8080), "/"),
        ("http://bücher.example/", Origin("http", "xn--bcher-kva.example", 80), "/"),
    ],
)
def test_urls(url: str, origin: Origin, target: str) -> None:
    assert origin_and_target(url) == (origin, target)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com",
        "ftp://x/",
        "http://",
        "http://x:99999/",
        "http://x/a b",
        "http://x/\r\nHost: y",
        "http://x/é",
        "http://[::1",
        "unix:/tmp/x",
        "http://" + "a" * 300 + "é/",
    ],
)
def test_urls_that_cannot_be_called(url: str) -> None:
    # urlsplit takes line breaks out of a URL; what is left must then be harmless.
    try:
        origin, target = origin_and_target(url)
    except HttpFailure as failure:
        assert failure.trouble == "unusable"
    else:
        assert "\r" not in f"{origin}{target}" and "\n" not in f"{origin}{target}"


def test_a_host_header_names_the_port_only_where_it_must() -> None:
    assert MODEL.authority == "api.example.com"
    assert MODEL.host_and_port == "api.example.com:443"
    assert Origin("http", "::1", 80).authority == "[::1]"
    assert str(Origin("http", "::1", 8080)) == "http://[::1]:8080"


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ({"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:2"}, "http://low:1"),
        ({"HTTP_PROXY": "http://p:3128"}, None),
        ({"ALL_PROXY": "http://p:3128"}, "http://p:3128"),
        ({"all_proxy": "p:3128"}, "http://p:3128"),
        ({"HTTPS_PROXY": "https://p"}, "https://p"),
        ({"HTTPS_PROXY": "  ", "ALL_PROXY": "http://all:1"}, "http://all:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "example.com"}, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other.org, .example.com"}, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*.example.com"}, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "api.example.com:443"}, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "api.example.com:8443"}, "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "ple.com"}, "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": ",, ."}, "http://p:1"),
    ],
)
def test_the_proxy_of_an_https_endpoint(environ: dict[str, str], proxy: str | None) -> None:
    found = proxy_for(MODEL, environ)
    assert (str(found.origin) if found else None) == proxy


@pytest.mark.parametrize(
    ("host", "no_proxy", "direct"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("::1", "[::1]", True),
        ("::1", "::1", True),
        ("::1", "[::1]:80", True),
        ("::1", "[::1]:81", False),
        ("fd00::5", "fd00::/8", True),
        ("localhost", "localhost,127.0.0.1", True),
    ],
)
def test_addresses_and_networks_in_no_proxy(host: str, no_proxy: str, direct: bool) -> None:
    found = proxy_for(Origin("http", host, 80), {"http_proxy": "http://p:1", "no_proxy": no_proxy})
    assert (found is None) is direct


def test_a_cgi_client_cannot_name_the_proxy() -> None:
    environ = {"REQUEST_METHOD": "POST", "HTTP_PROXY": "http://evil:1"}
    assert proxy_for(Origin("http", "x", 80), environ) is None
    assert proxy_for(Origin("http", "x", 80), {**environ, "http_proxy": "http://p:1"}) is not None


def test_credentials_of_a_proxy_are_its_header_and_never_its_repr() -> None:
    found = proxy_for(MODEL, {"HTTPS_PROXY": "http://user:p%40ss@p:1"})
    assert found is not None and found.authorization is not None
    assert base64.b64decode(found.authorization.removeprefix("Basic ")) == b"user:p@ss"
    assert "user" not in repr(found) and found.authorization not in repr(found)


def test_a_socks_proxy_is_refused_by_name() -> None:
    with pytest.raises(HttpFailure) as caught:
        proxy_for(MODEL, {"ALL_PROXY": "socks5://user:secret@p:1"})
    assert caught.value.trouble == "unusable"
    assert "ALL_PROXY" in caught.value.message and "secret" not in caught.value.message


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_environment_is_a_proxy_none_or_a_failure(proxy: str, no_proxy: str) -> None:
    try:
        proxy_for(MODEL, {"https_proxy": proxy, "no_proxy": no_proxy})
    except HttpFailure as failure:
        assert failure.trouble == "unusable"
