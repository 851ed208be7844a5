"""Python imports this at its start, where this folder is on its path: every HTTP request is noted.

A line of JSON each, in a file of the process in $PROXFL_HOPS: who, what, and from when to when.
Server, gate and sites speak HTTP to each other and do nothing else together, so this is all hops.
"""

import json
import os
import sys
import time

FOLDER = os.environ.get("PROXFL_HOPS")
PROGRAMS = {"flwr-serverapp": "server", "gate.py": "gate", "process.py": "site"}


def program():
    return next((name for end, name in PROGRAMS.items() if sys.argv[0].endswith(end)), "")


def note(begun, request, response):
    size = len(response.content) if response.is_closed else -1  # else it goes on piece by piece
    about = [program(), request.url.path.split("/v1/")[-1], begun, time.time(), size]
    with open(f"{FOLDER}/{os.getpid()}.jsonl", "a") as file:
        file.write(json.dumps(about) + "\n")


if FOLDER:
    import httpx

    send, send_async = httpx.Client.send, httpx.AsyncClient.send

    def noted(self, request, **options):
        begun = time.time()
        response = send(self, request, **options)
        note(begun, request, response)
        return response

    async def noted_async(self, request, **options):
        begun = time.time()
        response = await send_async(self, request, **options)
        note(begun, request, response)
        return response

    httpx.Client.send, httpx.AsyncClient.send = noted, noted_async
