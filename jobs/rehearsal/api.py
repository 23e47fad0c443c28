"""The HTTP side, with vLLM's paths, statuses and order of events."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from jobs.rehearsal.bodies import DONE, Writer, error_body, event
from jobs.rehearsal.engine import Engine, Token
from jobs.rehearsal.exposition import metrics_text
from jobs.rehearsal.model import token_text
from jobs.rehearsal.ranks import RankError, Visit, pick_rank
from jobs.rehearsal.requests import RequestError, chat_tokens, prompt_tokens, read_ask
from jobs.rehearsal.side_channel import TransferError

VERSION = "rehearsal-1"
MAX_BODY_BYTES = 64 * 1024 * 1024
GUARDED_PREFIX = "/v1"
RANK_HEADER = "X-data-parallel-rank"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_app(engine: Engine) -> web.Application:
    """The application that serves `engine`."""
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_guard(engine)])
    api = Api(engine)
    app.router.add_get("/health", api.health)
    app.router.add_get("/ping", api.health)
    app.router.add_get("/version", api.version)
    app.router.add_get("/metrics", api.metrics)
    app.router.add_get("/v1/models", api.models)
    app.router.add_post("/tokenize", api.tokenize)
    app.router.add_post("/v1/completions", api.completions)
    app.router.add_post("/v1/chat/completions", api.chat)

    async def label(_: web.Request, response: web.StreamResponse) -> None:
        response.headers["x-rehearsal"] = "true"

    app.on_response_prepare.append(label)
    return app


def _guard(engine: Engine) -> Any:
    """The middleware that asks for the key on /v1/*, turns bad requests into 400, and hangs."""
    options = engine.options
    wanted = f"Bearer {options.api_key}".encode()
    begun = time.monotonic()

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        hang_at_s = options.faults.hang_at_s
        if hang_at_s is not None and time.monotonic() - begun >= hang_at_s:
            await asyncio.Event().wait()
        if options.api_key is not None and request.path.startswith(GUARDED_PREFIX):
            given = request.headers.get("Authorization", "").encode()
            if not hmac.compare_digest(given, wanted):
                return web.json_response({"error": "Unauthorized"}, status=401)
        try:
            return await handler(request)
        except (RequestError, RankError) as error:
            return web.json_response(error_body(str(error), "BadRequestError", 400), status=400)

    return guard


class Api:
    """The handlers."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def health(self, _: web.Request) -> web.Response:
        """200 and nothing else."""
        return web.Response()

    async def version(self, _: web.Request) -> web.Response:
        """A version that cannot be mistaken for vLLM's."""
        return web.json_response({"version": VERSION})

    async def metrics(self, _: web.Request) -> web.Response:
        """The counters of every rank this API server has."""
        options = self.engine.options
        text = metrics_text(self.engine.ranks, options.model, options.role, VERSION)
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def models(self, _: web.Request) -> web.Response:
        """The one model."""
        options = self.engine.options
        model = {
            "id": options.model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "rehearsal",
            "root": options.model,
            "max_model_len": options.max_model_len,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def tokenize(self, request: web.Request) -> web.Response:
        """Token ids, consistent with how the completions count a prompt."""
        body = await _json(request)
        chat = body.get("messages") is not None
        tokens = chat_tokens(body["messages"]) if chat else prompt_tokens(body.get("prompt"))
        words = [token_text(t) for t in tokens] if body.get("return_token_strs") else None
        length = self.engine.options.max_model_len
        return web.json_response(
            {"count": len(tokens), "max_model_len": length, "tokens": tokens, "token_strs": words}
        )

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """/v1/completions."""
        return await self._generate(request, chat=False)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """/v1/chat/completions."""
        return await self._generate(request, chat=True)

    async def _generate(self, request: web.Request, chat: bool) -> web.StreamResponse:
        options = self.engine.options
        body = await _json(request)
        ask = read_ask(body, chat, options.max_model_len)
        if body.get("model") not in (None, options.model):
            message = f"The model `{body['model']}` does not exist."
            return web.json_response(error_body(message, "NotFoundError", 404), status=404)
        self.engine.requests += 1
        _burn(options.frontend_ms)
        if self.engine.is_spoilt():
            message = "failure asked for by --fail http500"
            return web.json_response(error_body(message, "InternalServerError", 500), status=500)
        rank = pick_rank(self.engine.ranks, request.headers.get(RANK_HEADER))
        name = request.headers.get("X-Request-Id") or uuid.uuid4().hex
        writer = Writer(ask, f"{'chatcmpl' if chat else 'cmpl'}-{name}", options.model)
        with Visit(rank, len(ask.prompt) + ask.max_tokens) as visit:
            if ask.stream:
                return await self._stream(request, writer, visit)
            return await self._plain(writer, visit)

    async def _plain(self, writer: Writer, visit: Visit) -> web.Response:
        ask, rank = writer.ask, visit.rank
        try:
            state = await self.engine.read_prompt(ask, visit)
            tokens = [t async for batch in self.engine.answer(ask, rank, state) for t in batch]
            kv = await self.engine.hand_over(ask, visit, writer.request_id)
        except TransferError as error:
            rank.counts.finished["error"] += 1
            body = error_body(str(error), "InternalServerError", 500)
            return web.json_response(body, status=500)
        rank.counts.finished[str(tokens[-1].finish)] += 1
        return web.json_response(writer.whole(tokens, kv))

    async def _stream(
        self, request: web.Request, writer: Writer, visit: Visit
    ) -> web.StreamResponse:
        """The headers go out at once, as vLLM's do: a failed transfer is an event, not a status."""
        ask, rank = writer.ask, visit.rank
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        made, last = 0, Token(0, "")
        try:
            state = await self.engine.read_prompt(ask, visit)
            async for batch in self.engine.answer(ask, rank, state):
                chunks = [writer.chunk(t, first=made + i == 0) for i, t in enumerate(batch)]
                if chunks:
                    made, last = made + len(batch), batch[-1]
                    await response.write(b"".join(chunks))
        except TransferError as error:
            rank.counts.finished["error"] += 1
            await response.write(event(error_body(str(error), "InternalServerError", 500)) + DONE)
            return response
        except (ConnectionError, asyncio.CancelledError):
            rank.counts.finished["abort"] += 1
            raise
        rank.counts.finished[str(last.finish)] += 1
        usage = writer.usage_chunk(made) if ask.include_usage else b""
        await response.write(usage + DONE)
        return response


def _burn(milliseconds: float) -> None:
    """Computes for so long, as a server that tokenizes does; nothing else is answered meanwhile."""
    until = time.thread_time() + milliseconds / 1000
    while time.thread_time() < until:
        pass


async def _json(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except ValueError as error:
        raise RequestError(f"body: not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestError(f"body: expected a JSON object, found {type(body).__name__}")
    return body
