"""The well-known shapes of secrets: keys, tokens and passwords that can be told by how they look.

Owns the table alone; `recorder.redact` applies it. What has no shape of its own (a password in
prose) is not in it.
"""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    r"""One kind of secret, in the syntax of RE2, over bytes.

    `hint` is found in every line of a log that holds one, escaped as JSON or not, and seldom
    elsewhere; letters written as `\u00XX` are the finder's own case. `pattern` finds it in text
    without escapes, and its one group is the secret.
    """

    kind: str
    hint: str
    pattern: str


_ASSIGNED = r"""["'`]?[ \t]*(?:=>|:=|[:=,]|[ \t])[ \t]*["'`]?"""
_ESCAPED_ASSIGNED = r"""[\\"'`=:,> \tt]+"""
_ESCAPED_SLASHES = r"(?:\\*/){2}"
_USER = r"""[^\s/:@"'`<>\\\[]*"""
# A placeholder such as ${TOKEN}, <password>, %s or one of our own is no password.
_PASSWORD = r"""[^\s/@"'`<>\\${\[(*%][^\s/@"'`<>\\]*"""
# Base64 with the headers of an encrypted key, and what a viewer puts at the start of each line.
_KEY_BODY = r"[A-Za-z0-9+/=:,.|>\s\x80-\xff-]"
_KEY_BODY_ENDS = r"(?:-----END|[^A-Za-z0-9+/=:,.|>\s\x80-\xff-]|$)"

# As the providers document them.
SHAPES = (
    Shape("anthropic-key", r"sk-ant-", r"\b(sk-ant-[A-Za-z0-9_-]{16,})"),
    Shape(
        "api-key",
        r"sk-(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16}|sk-[A-Za-z0-9]{32}",
        r"\b(sk-(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9]{32,})",
    ),
    Shape("api-key", r"(?:gsk_|xai-)[A-Za-z0-9]{32}", r"\b((?:gsk_|xai-)[A-Za-z0-9]{32,})"),
    Shape(
        "api-key",
        r"(?i:x-(?:[a-z]+-)?api-key)",
        rf"(?i:\bx-(?:[a-z]+-)?api-key){_ASSIGNED}([A-Za-z0-9_-]{{16,}})",
    ),
    Shape("github-token", r"gh[oprsu]_[A-Za-z0-9_]{30}", r"\b(gh[oprsu]_[A-Za-z0-9_]{30,})"),
    Shape("github-token", r"github_pat_", r"\b(github_pat_[A-Za-z0-9_]{22,})"),
    Shape(
        "gitlab-token",
        r"gl(?:pat|dt|rt|ptt|cbt|soat)-",
        r"\b(gl(?:pat|dt|rt|ptt|cbt|soat)-[A-Za-z0-9_-]{20,})",
    ),
    Shape("aws-key-id", r"A[KS]IA[A-Z0-9]{16}", r"\b(A[KS]IA[A-Z0-9]{16})\b"),
    Shape(
        "aws-secret",
        r"(?i:secret[_-]?access[_-]?key|aws[_-]?secret)",
        rf"(?i:secret[_-]?access[_-]?key|aws[_-]?secret(?:[_-]?key)?){_ASSIGNED}"
        r"([A-Za-z0-9+/]{40})(?:[^A-Za-z0-9+/=]|$)",
    ),
    Shape(
        "aws-session-token",
        r"(?i:session[_-]?token)",
        rf"(?i:session[_-]?token){_ASSIGNED}([A-Za-z0-9+/=]{{100,}})",
    ),
    Shape(
        "slack-token",
        r"xox[abeoprs]-[0-9A-Za-z]|xapp-[0-9]-",
        r"\b((?:xox[abeoprs]|xapp)-[0-9A-Za-z-]{10,})",
    ),
    Shape("google-key", r"AIza[A-Za-z0-9_-]{35}", r"\b(AIza[A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|$)"),
    Shape(
        "google-token",
        r"ya29\.[A-Za-z0-9_-]{20}|GOCSPX-",
        r"\b(ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})",
    ),
    Shape(
        "stripe-key",
        r"[rs]k_(?:live|test)_|whsec_",
        r"\b([rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{24,})",
    ),
    Shape("npm-token", r"npm_[A-Za-z0-9]{36}", r"\b(npm_[A-Za-z0-9]{36})\b"),
    Shape("npm-token", r"_authToken", rf"_authToken{_ASSIGNED}([A-Za-z0-9+/=_-]{{16,}})"),
    Shape("pypi-token", r"pypi-[A-Za-z0-9_-]{50}", r"\b(pypi-[A-Za-z0-9_-]{50,})"),
    Shape("huggingface-token", r"hf_[A-Za-z0-9]{30}", r"\b(hf_[A-Za-z0-9]{30,})"),
    Shape(
        "jwt",
        r"eyJ[A-Za-z0-9_-]{8,}\.eyJ",
        r"\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
    ),
    Shape(
        "private-key",
        r"PRIVATE KEY(?: BLOCK)?-----",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        rf"({_KEY_BODY}{{0,160}}?[A-Za-z0-9+/=]{{24}}{_KEY_BODY}*?){_KEY_BODY_ENDS}",
    ),
    Shape(
        "authorization",
        rf"(?i:authorization){_ESCAPED_ASSIGNED}(?i:bearer|basic|token)",
        rf"(?i:\bauthorization){_ASSIGNED}(?i:bearer|basic|token)[ \t]+([A-Za-z0-9._~+/=-]{{8,}})",
    ),
    Shape(
        "bearer",
        r"(?i:bearer)[ \t\\t]+[A-Za-z0-9._~+/\\-]{32}",
        r"(?i:\bbearer)[ \t]+([A-Za-z0-9._~+/-]{32,}=*)",
    ),
    Shape(
        "url-password",
        rf":{_ESCAPED_SLASHES}{_USER}:{_PASSWORD}@",
        rf"\b[A-Za-z][A-Za-z0-9+.-]*://{_USER}:({_PASSWORD})@",
    ),
)
