"""Who may act, and what a browser may do with our answers.

Invariants: without a token of the app nobody acts; a token travels in a header of its own, which
another site's page cannot send; every answer carries the security headers.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders

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
