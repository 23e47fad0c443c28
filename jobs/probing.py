"""Asking the deployment: one HTTP session for the whole run, and bare TCP connections."""

from __future__ import annotations

import asyncio
import errno
import json
from types import TracebackType
from typing import Any, Self

import aiohttp

QUICK_S = 5.0


class AskError(Exception):
    """A question without a good answer; the text has the URL, the status and what came back.

    `refused` when nothing listens there (any more).
    """

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


class Http:
    """Questions with the run's key; nothing is retried here.

    `fresh`: each on a connection of its own, which tells whether something still listens; a
    kept one goes on answering after its listener has gone.
    """

    def __init__(self, api_key: str, *, fresh: bool = False) -> None:
        self._fresh = fresh
        self._headers = {"Authorization": f"Bearer {api_key}"}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # Proxies of the site must not sit between the driver and its own nodes.
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            trust_env=False,
            connector=aiohttp.TCPConnector(force_close=self._fresh),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._session:
            await self._session.close()

    async def text(self, url: str, timeout_s: float = QUICK_S) -> str:
        """A page that answers 200; AskError otherwise."""
        return await self._ask("GET", url, timeout_s)

    async def json(self, url: str, timeout_s: float = QUICK_S) -> Any:
        """A page's JSON."""
        return _decoded(url, await self._ask("GET", url, timeout_s))

    async def post(
        self, url: str, body: Any, timeout_s: float, headers: dict[str, str] | None = None
    ) -> Any:
        """The JSON that answers a JSON body."""
        return _decoded(url, await self._ask("POST", url, timeout_s, body, headers))

    async def _ask(
        self,
        method: str,
        url: str,
        timeout_s: float,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> str:
        if self._session is None:
            raise RuntimeError("Http is used outside its `async with`")
        limit = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.request(
                method, url, json=body, headers=headers, timeout=limit
            ) as response:
                text = await response.text(errors="replace")
        except TimeoutError as error:
            raise AskError(f"{method} {url}: no answer within {timeout_s:.0f} s") from error
        except aiohttp.ClientConnectorError as error:
            refused = error.os_error.errno == errno.ECONNREFUSED
            raise AskError(f"{method} {url}: {error}", refused=refused) from error
        except aiohttp.ClientError as error:
            raise AskError(f"{method} {url}: {error or type(error).__name__}") from error
        if response.status != 200:
            raise AskError(f"{method} {url}: HTTP {response.status}: {text.strip()[:500]}")
        return text


def _decoded(url: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise AskError(f"{url}: expected JSON, found {text[:200]!r}") from error


async def accepts_tcp(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Whether something listens there."""
    return await greeting_of(host, port, 0, timeout_s) is not None


async def greeting_of(host: str, port: int, count: int, timeout_s: float = 2.0) -> bytes | None:
    """The first `count` bytes a listener says unasked (fewer where it says less in time); None
    where nothing listens."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return None
    try:
        async with asyncio.timeout(timeout_s):
            return await reader.readexactly(count)
    except asyncio.IncompleteReadError as error:
        return error.partial
    except (OSError, TimeoutError):
        return b""
    finally:
        writer.close()
