"""The door between the sites and the SuperLink.

A SuperLink serves everyone at one port: the sites, its own processes, and the operator, who
registers sites and starts runs, whose code Flower then runs everywhere. Only the sites must prove
who they are. So the SuperLink listens on its own machine alone, and the sites come in here, where
the calls that sites make go through, each to be checked by the SuperLink, and nothing else does.

A site asks for messages, and would have to sleep between two questions. So the gate, a reverse
proxy, holds such a question back, looks again, and answers once there is a message: a long poll.
"""

import argparse
import asyncio
import ssl
import time
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from proxfl.deploy.transport.flower.private_names import PullMessagesResponse

FOR_SITES = (
    "activate-node",
    "deactivate-node",
    "send-node-heartbeat",
    "push-messages",
    "get-run",
    "get-fab",
    "push-object",
    "pull-object",
    "confirm-message-received",
)
WITHOUT_KEYS = ("register-node", "unregister-node")  # sites nobody registered do it themselves
LARGEST_BODY = 2**24  # Flower cuts arrays into objects of five megabytes
SECONDS = 60.0
PULL = "/v1/fleet/pull-messages"
HOLD_SECONDS = 2.0  # a site that is told to stop waits for the answer
LOOKS = 15.0  # at the SuperLink, in a second, for all sites together
REST = 3.0  # times a look's own duration, so that a busy SuperLink gets to its work
BETWEEN_HOPS = {"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "host"}


def application(superlink: str, authority: Path | None) -> Starlette:
    """Forwards what sites may ask to the SuperLink at `superlink` and nothing else."""
    scheme = "http" if authority is None else "https"
    trust = True if authority is None else ssl.create_default_context(cafile=str(authority))
    client = httpx.AsyncClient(base_url=f"{scheme}://{superlink}", verify=trust, timeout=SECONDS)

    held = 0  # questions held back now

    async def forward(request: Request) -> Response:
        if int(request.headers.get("content-length", LARGEST_BODY + 1)) > LARGEST_BODY:
            return PlainTextResponse("The request is too large, or hides its size.", 413)
        headers = [(k, v) for k, v in request.headers.items() if k not in BETWEEN_HOPS]
        body = await request.body()
        try:
            answer = await client.post(request.url.path, content=body, headers=headers)
        except httpx.TransportError:
            return PlainTextResponse("The SuperLink does not answer.", 503)
        anew = BETWEEN_HOPS | {"content-length", "content-encoding"}
        kept = {k: v for k, v in answer.headers.items() if k not in anew}
        return Response(answer.content, answer.status_code, kept)

    async def hold(request: Request) -> Response:
        """The same, but an answer without a message waits for one."""
        nonlocal held
        held, until = held + 1, time.monotonic() + HOLD_SECONDS
        try:
            while True:
                begun = time.monotonic()
                answer = await forward(request)
                if time.monotonic() > until or not is_empty(answer):
                    return answer
                await asyncio.sleep(max(held / LOOKS, REST * (time.monotonic() - begun)))
                if await request.is_disconnected():  # it would take a message to nobody
                    return answer
        finally:
            held -= 1

    async def health(request: Request) -> Response:
        answer = await client.get("/health")
        return Response(answer.content, answer.status_code)

    names = FOR_SITES if authority is not None else FOR_SITES + WITHOUT_KEYS
    routes = [Route("/health", health), Route(PULL, hold, methods=["POST"])]
    routes += [Route(f"/v1/fleet/{name}", forward, methods=["POST"]) for name in names]
    return Starlette(routes=routes)


def is_empty(answer: Response) -> bool:
    """Whether a site that asked for a message was told that there is none."""
    if answer.status_code != 200:
        return False
    return not PullMessagesResponse.FromString(bytes(answer.body)).messages_list


def main() -> None:
    parser = argparse.ArgumentParser(description="Let sites, and only sites, reach a SuperLink.")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--superlink", required=True, help="host:port on this machine")
    parser.add_argument("--authority", type=Path)
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--key", type=Path)
    given = parser.parse_args()
    uvicorn.run(
        application(given.superlink, given.authority),
        host=given.host,
        port=given.port,
        ssl_certfile=given.certificate,
        ssl_keyfile=given.key,
        log_level="warning",
        timeout_graceful_shutdown=2,
    )


if __name__ == "__main__":
    main()
