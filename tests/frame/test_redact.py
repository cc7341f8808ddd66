"""Secrets of well-known shapes go before anything is stored; all else stays as it is."""

from __future__ import annotations

import json
import string
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.redact import excerpt, redact_line, redact_text
from recorder.secret_shapes import SHAPES

WORD = "Zk3vQ9xTb7Lm2Wp5Rc8Yd1Nf6Hj4Gs0A"  # 32 letters and digits
KEY_LINES = "\n".join([f"MIIEpAIBAAKCAQEA{WORD}{WORD}"] * 3)
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx{WORD}.{WORD}"
PRIVATE_KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINES}\n-----END RSA PRIVATE KEY-----"

# kind → text and the part of it that must not survive
SECRETS = [
    ("anthropic-key", f"sk-ant-api03-{WORD}-_AA", f"sk-ant-api03-{WORD}-_AA"),
    ("api-key", f"sk-proj-{WORD}_{WORD}", f"sk-proj-{WORD}_{WORD}"),
    ("api-key", f"OPENAI_API_KEY=sk-{WORD}{WORD[:16]}", f"sk-{WORD}{WORD[:16]}"),
    ("api-key", f"gsk_{WORD}{WORD[:20]}", f"gsk_{WORD}{WORD[:20]}"),
    ("api-key", f'x-api-key: "{WORD}"', WORD),
    ("github-token", f"ghp_{WORD}abcd", f"ghp_{WORD}abcd"),
    ("github-token", f"gho_{WORD}abcd", f"gho_{WORD}abcd"),
    ("github-token", f"ghs_{WORD}abcd", f"ghs_{WORD}abcd"),
    ("github-token", f"github_pat_11ABCDE_{WORD}", f"github_pat_11ABCDE_{WORD}"),
    ("gitlab-token", f"glpat-{WORD[:20]}", f"glpat-{WORD[:20]}"),
    ("aws-key-id", "AKIAZQ3DTXR5PLMN7WKV", "AKIAZQ3DTXR5PLMN7WKV"),
    ("aws-key-id", "ASIAZQ3DTXR5PLMN7WKV", "ASIAZQ3DTXR5PLMN7WKV"),
    ("aws-secret", f"AWS_SECRET_ACCESS_KEY={WORD}/+ab/cdE", f"{WORD}/+ab/cdE"),
    ("aws-secret", f'{{"SecretAccessKey": "{WORD}/+ab/cdE"}}', f"{WORD}/+ab/cdE"),
    ("aws-secret", f"aws configure set aws_secret_access_key {WORD}/+ab/cdE", f"{WORD}/+ab/cdE"),
    ("aws-session-token", f"aws_session_token = {WORD * 4}==", f"{WORD * 4}=="),
    ("slack-token", f"xoxb-123456789012-{WORD}", f"xoxb-123456789012-{WORD}"),
    ("slack-token", f"xoxp-123456789012-{WORD}", f"xoxp-123456789012-{WORD}"),
    ("google-key", f"AIza{WORD}-_a", f"AIza{WORD}-_a"),
    ("google-token", f"ya29.{WORD}", f"ya29.{WORD}"),
    ("stripe-key", f"sk_live_{WORD}", f"sk_live_{WORD}"),
    ("stripe-key", f"rk_test_{WORD}", f"rk_test_{WORD}"),
    ("npm-token", f"npm_{WORD}abcd", f"npm_{WORD}abcd"),
    ("npm-token", f"//registry/:_authToken={WORD}", WORD),
    ("pypi-token", f"pypi-AgEIcHlwaS5vcmc{WORD}{WORD}", f"pypi-AgEIcHlwaS5vcmc{WORD}{WORD}"),
    ("huggingface-token", f"hf_{WORD}ab", f"hf_{WORD}ab"),
    ("jwt", JWT, JWT),
    ("private-key", PRIVATE_KEY, KEY_LINES),
    ("private-key", PRIVATE_KEY[:120], f"MIIEpAIBAAKCAQEA{WORD}"),
    ("private-key", PRIVATE_KEY.replace("\n", "\n    12→"), f"MIIEpAIBAAKCAQEA{WORD}"),
    ("authorization", f"curl -H 'Authorization: Bearer {WORD[:12]}'", WORD[:12]),
    ("authorization", f'{{"Authorization": "Basic {WORD}=="}}', f"{WORD}=="),
    ("bearer", f"Bearer {WORD}{WORD}", f"{WORD}{WORD}"),
    ("url-password", "postgres://app:hunter2!x@db:5432/app", "hunter2!x"),
    ("url-password", "https://:hunter2!x@host/", "hunter2!x"),
]

texts = st.text(max_size=30)
secrets = st.sampled_from([(text, secret) for _, text, secret in SECRETS])
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | texts
    | secrets.map(lambda s: s[0]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts | secrets.map(lambda s: s[0]), inner, max_size=4)
    ),
    max_leaves=8,
)


def escape_all(text: str) -> str:
    """A JSON string with each of its characters escaped, as a hostile or odd writer may do it."""
    return '"' + "".join(f"\\u{unit:04x}" for unit in _utf16(text)) + '"'


def _utf16(text: str) -> list[int]:
    encoded = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(encoded[i : i + 2]) for i in range(0, len(encoded), 2)]


@pytest.mark.parametrize(("kind", "text", "secret"), SECRETS)
def test_each_shape_is_replaced_by_its_kind(kind: str, text: str, secret: str) -> None:
    """The secret goes, its kind stands in its place, what is around it stays."""
    line = f"before {text} after"

    redacted, count = redact_text(line)

    assert count == 1
    assert secret not in redacted
    if kind != "private-key":  # there the line ends around it go too
        assert redacted == line.replace(secret, f"[redacted:{kind}]")


def test_every_shape_of_the_table_has_an_example_here() -> None:
    """No shape is without its proof."""
    assert {shape.kind for shape in SHAPES} == {kind for kind, _, _ in SECRETS}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(("kind", "text", "secret"), SECRETS)
def test_a_secret_is_found_in_json_inside_json(kind: str, text: str, secret: str, depth: int) -> None:
    """Tool arguments and outputs are JSON within JSON within a log's line."""
    line = f"before\n{text}\nafter"
    for _ in range(depth):
        line = json.dumps({"text": line}, ensure_ascii=False)

    redacted, count = redact_line(line.encode())

    assert count == 1
    inner = redacted.decode()
    for _ in range(depth):
        inner = json.loads(inner)["text"]
    assert secret not in inner
    assert f"[redacted:{kind}]" in inner
    assert inner.startswith("before\n")


@pytest.mark.parametrize(("kind", "text", "secret"), SECRETS)
def test_a_secret_is_found_behind_escaped_letters(kind: str, text: str, secret: str) -> None:
    """A string whose every letter is written as an escape says the same, and so does one with `\\/`."""
    escaped = f'{{"text":{escape_all(text)}}}'.encode()
    slashes = json.dumps({"text": text}).replace("/", "\\/").encode()

    for line in (escaped, slashes):
        redacted, count = redact_line(line)

        assert count == 1
        assert secret not in json.loads(redacted)["text"]


def test_key_and_value_of_a_json_object_belong_together() -> None:
    """A secret that is told by its key is found across the quotes between them."""
    line = json.dumps({"Credentials": {"SecretAccessKey": WORD + "/+ab/cdE", "Other": WORD + "/+ab/cdE"}})

    redacted, count = redact_line(line.encode())

    assert count == 1
    assert json.loads(redacted)["Credentials"] == {
        "SecretAccessKey": "[redacted:aws-secret]",
        "Other": WORD + "/+ab/cdE",
    }


def test_two_secrets_in_one_place_both_go() -> None:
    """A token as the user and a password behind it: neither hides the other."""
    redacted, count = redact_text(f"https://ghp_{WORD}abcd:x-oauth-basic@host/")

    assert redacted == "https://[redacted:github-token]:[redacted:url-password]@host/"
    assert count == 2


def test_a_number_stays_a_number() -> None:
    """A number under a secret's key is outside of any string: a placeholder there would break the JSON."""
    line = b'{"x-api-key":1234567890123456,"_authToken":12345678901234567890}'

    assert redact_line(line) == (line, 0)


@pytest.mark.parametrize("line", (Path(__file__).parent / "benign.jsonl").read_bytes().splitlines())
def test_what_is_no_secret_stays_as_it_is(line: bytes) -> None:
    """Lines of real logs, ids, hashes, pictures, minified code, placeholders and names of shapes."""
    assert redact_line(line) == (line, 0)


@settings(max_examples=300, deadline=None)
@given(json_values, st.booleans())
def test_json_stays_json(value: object, ascii_only: bool) -> None:
    """Whatever a line says, it can still be read after redaction, and by a strict reader."""
    line = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    redacted, _ = redact_line(line)

    json.loads(redacted.decode("utf-8", "surrogatepass"))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), secrets, st.binary(max_size=60))
def test_redaction_is_idempotent_and_touches_nothing_else(
    before: bytes, secret: tuple[str, str], after: bytes
) -> None:
    """A second pass changes nothing, also on bytes that are no text; no secret, no change."""
    for line in (before + after, before + b" " + secret[0].encode() + b" " + after):
        once, count = redact_line(line)

        assert redact_line(once) == (once, 0)
        assert count > 0 or once == line


@settings(max_examples=300, deadline=None)
@given(st.lists(secrets, max_size=4), st.lists(texts, min_size=5, max_size=5), st.integers(0, 3))
def test_no_known_secret_survives(chosen: list[tuple[str, str]], around: list[str], depth: int) -> None:
    """Any number of secrets between any texts, at any depth of JSON."""
    line = around[-1] + " "
    for (text, _), before in zip(chosen, around, strict=False):
        line += f"{before} {text} "
    for _ in range(depth):
        line = json.dumps([line])

    redacted, _ = redact_text(line)

    for _ in range(depth):
        redacted = json.loads(redacted)[0]
    for _, secret in chosen:
        assert secret not in redacted


def test_lone_surrogates_come_back() -> None:
    """Text that is no valid Unicode is redacted and otherwise kept."""
    assert redact_text(f"\ud83d sk-ant-api03-{WORD}") == ("\ud83d [redacted:anthropic-key]", 1)


def test_a_line_of_many_megabytes_goes_through() -> None:
    """Size alone is no reason to fail; the one secret in it is found."""
    line = msgspec.json.encode({"data": string.ascii_letters * 200_000 + f" sk-ant-api03-{WORD}"})

    redacted, count = redact_line(line)

    assert (count, len(redacted)) == (
        1,
        len(line) - len(f"sk-ant-api03-{WORD}") + len("[redacted:anthropic-key]"),
    )


def test_an_excerpt_is_one_redacted_harmless_line() -> None:
    """No newline, no terminal sequence, no secret."""
    assert excerpt(f"one\n\ttwo \x1b[31mred\x1b[0m\x07 sk-ant-api03-{WORD}") == (
        "one two red\ufffd [redacted:anthropic-key]"
    )


def test_an_excerpt_is_cut_at_a_word() -> None:
    """What is too long ends with `…` after a whole word, within the limit."""
    assert excerpt("alpha beta gamma", 16) == "alpha beta gamma"
    assert excerpt("alpha beta gamma", 15) == "alpha beta…"
    assert excerpt("alpha beta gamma", 11) == "alpha beta…"
    assert excerpt("x" * 50, 10) == "x" * 9 + "…"
    assert excerpt("word " * 100_000, 20) == "word word word word…"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400), st.integers(2, 60))
def test_an_excerpt_never_exceeds_its_limit(text: str, limit: int) -> None:
    """Whatever the text, it fits, and no control character is in it."""
    short = excerpt(text, limit)

    assert len(short) <= limit
    assert not any(character < " " or "\x7f" <= character <= "\x9f" for character in short)
