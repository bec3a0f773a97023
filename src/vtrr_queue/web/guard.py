"""Who may ask, who may act, and what a browser may do with our answers.

Invariants: where names are given the page answers under no other, so that a site that points its
own name at this address (DNS rebinding) reads nothing; without a token of the app nobody acts; a
token travels in a header of its own, which another site's page cannot send; every answer carries
the security headers.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from vtrr_queue.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER = "X-VTRR-Token"  # noqa: S105 - the name of a header
TOKEN_LEAST = 16
"""Shortest token, characters."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
"""Content security policy: our own files, nothing inline, nothing from elsewhere, no frame."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Guard:
    """Decides whether a request may change something.

    Args:
        token: What must be known for it; None lets nobody.

    Raises:
        ArgumentError: The token is too short to be a secret.
        ArgumentTypeError: It is no string.
    """

    def __init__(self, token: str | None) -> None:
        if token is not None and not isinstance(token, str):
            raise ArgumentTypeError("token", "(hidden)", "a string, or None")
        if token is not None and len(token) < TOKEN_LEAST:
            raise ArgumentError("token", "(hidden)", f"at least {TOKEN_LEAST} characters long")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ArgumentError("token", "(hidden)", "printable ASCII, as a header takes it")
        if token is not None and token != token.strip():
            raise ArgumentError("token", "(hidden)", "free of spaces around it")
        self._token = None if token is None else token.encode()

    @property
    def read_only(self) -> bool:
        """Whether nobody may change anything."""
        return self._token is None

    def refusal(self, request: Request) -> str | None:
        """Why a request may not change anything; None when it may."""
        if self._token is None:
            return "this page is read-only: it was made without a token"
        if not _is_from_our_page(request):
            return "the request comes from another site"
        given = request.headers.get(TOKEN_HEADER, "").encode()
        if not hmac.compare_digest(given, self._token):
            return "the token is missing or wrong"
        return None


def _is_from_our_page(request: Request) -> bool:
    """Whether the browser says so; a program that is no browser says nothing."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("Host")


_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@/?#\s]+)(?::\d*)?")
_NAME = re.compile(r"\*|(\*\.)?[^*\[\]:@/?#\s]+")


class HostNames:
    """Refuses requests under other names than were given.

    Args:
        app: What answers.
        names: As :func:`check_host_names` returns them.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse to."""
        if scope["type"] == "http" and not self._is_ours(Headers(scope=scope).get("host", "")):
            refusal = {"error": "this page does not answer under this name"}
            await JSONResponse(refusal, 400)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_ours(self, header: str) -> bool:
        if "*" in self._names:
            return True
        found = _HOST.fullmatch(header)
        host = found[1].strip("[]").lower() if found else ""
        below = (name[1:] for name in self._names if name.startswith("*."))
        return host in self._names or any(host.endswith(end) and host != end for end in below)


def check_host_names(names: object) -> frozenset[str]:
    """Check the names under which the page may be asked for.

    Args:
        names: Names and addresses without a port; ``"*.example.com"`` is every name below
            ``example.com``, ``"*"`` any name, and so is None.

    Returns:
        The same in lower case.

    Raises:
        ArgumentError: There is none, or one is no name.
        ArgumentTypeError: They are no list of strings.
    """
    if names is None:
        return frozenset("*")
    if not isinstance(names, list | tuple | set | frozenset):
        raise ArgumentTypeError("allow_hosts", names, "a list of names, or None for any")
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError("allow_hosts", name, "names that are strings")
        if not (_NAME.fullmatch(name) or _is_address(name)):
            expected = "a name or an address without a port, as 'a.example' or '*.example'"
            raise ArgumentError("allow_hosts", name, expected)
    if not names:
        raise ArgumentError("allow_hosts", names, "one name or more, or None for any")
    return frozenset(name.lower() for name in names)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class SecurityHeaders:
    """Adds the headers to every answer.

    Args:
        app: What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the headers."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)
