"""Secrets by their form: found in what agents see, taken out, nothing else touched, in linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from ullage.compaction import compact
from ullage.exceptions import InvalidPolicy
from ullage.observe.hooks import PATTERNS, Redactor
from ullage.testing import ScriptedSummarizer

# Made up at run time, so that no scanner takes this file for a leak.
A36, A40 = "a1B2" * 9, "Zz9x" * 10
SECRETS = {
    "private_key": f"-----BEGIN RSA PRIVATE KEY-----\n{A40}\n{A40}\n-----END RSA PRIVATE KEY-----",
    "anthropic_key": f"sk-ant-api03-{A40}",
    "openai_key": f"sk-proj-{A40}",
    "github_token": f"ghp_{A36}",
    "gitlab_token": f"glpat-{A36[:20]}",
    "slack_token": f"xoxb-{A36}",
    "aws_key": "AKIA" + "A1B2" * 4,
    "google_key": f"AIza{A36[:35]}",
    "stripe_key": f"sk_live_{A36}",
    "npm_token": f"npm_{A36}",
    "pypi_token": f"pypi-{A40}{A40}",
    "jwt": f"eyJ{A36}.eyJ{A36}.{A36}",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_each_kind_is_found_in_a_line(kind):
    text = f"the value is {SECRETS[kind]} and more"
    assert Redactor()(text) == f"the value is [redacted:{kind}] and more"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"Authorization: Bearer {A36}", "Authorization: Bearer [redacted:bearer]"),
        ("postgres://me:hunter2@db/x", "postgres://me:[redacted:url_password]@db/x"),
        ('DB_PASSWORD="correct-horse"', 'DB_PASSWORD="[redacted:assignment]"'),
        ("api_key: 'abcdefgh12'", "api_key: '[redacted:assignment]'"),
        ('{"client_secret": "abcdefgh12"}', '{"client_secret": "[redacted:assignment]"}'),
    ],
)
def test_only_the_secret_part_goes(text, clean):
    assert Redactor()(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "The password is asked for in login.py; see check_password(user).",
        "password = os.environ['DB_PASSWORD']",
        "api_key = ${API_KEY}",
        "commit 4f9c2d1a8b7e6f5d4c3b2a190807060504030201",
        "https://example.com:8080/path?q=1",
        "sk-learn is a library, and so is task-runner",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
    ],
)
def test_ordinary_text_is_the_same_object(text):
    assert Redactor()(text) is text


def test_forms_of_ones_own_and_a_choice():
    own = Redactor(extra={"ticket": r"SHOP-\d{1,6}"}, only=["ticket"])
    assert own(f"SHOP-4711 ghp_{A36}") == f"[redacted:ticket] ghp_{A36}"
    with pytest.raises(InvalidPolicy, match="only"):
        Redactor(only=["nothing"])
    with pytest.raises(InvalidPolicy, match="regular expression"):
        Redactor(extra={"bad": "("})


@given(st.text(max_size=300), st.sampled_from(sorted(SECRETS)), st.text(max_size=50))
def test_twice_is_once_and_the_secret_is_removed(before, kind, after):
    redact = Redactor()
    clean = redact(f"{before} {SECRETS[kind]} {after}")
    assert SECRETS[kind] not in clean
    assert redact(clean) == clean


@pytest.mark.parametrize(
    "unit", ["-----BEGIN PRIVATE KEY-----", "a:", "eyJ", "password=", "sk-", "A" * 50]
)
def test_hostile_text_takes_linear_time(unit):
    redact, times = Redactor(), []
    for size in (20_000, 80_000):
        text = (unit * (size // len(unit) + 1))[:size]
        start = time.process_time()
        redact.find(text)
        times.append(time.process_time() - start)
    # Four times the text may take four times as long; a square would take sixteen.
    assert times[1] < 10 * times[0] + 0.2


def test_no_secret_leaves_for_the_model_or_into_the_summary():
    secret = SECRETS["github_token"]
    work = [
        {"role": "user", "content": f"Use {secret} to push."},
        *(
            {"role": role, "content": f"{role} {n} " * 200}
            for n in range(6)
            for role in ("assistant", "user")
        ),
        {"role": "assistant", "content": f"I pushed with {secret}."},
    ]
    writer = ScriptedSummarizer()
    result = compact(work, summarizer=writer, keep=0, redact=Redactor())
    request = writer.requests[0]
    assert secret not in str(request.messages) + request.prompt
    assert secret not in str(result.messages)
    assert "[redacted:github_token]" in str(result.messages)
    assert len(PATTERNS) == len(Redactor().kinds)
