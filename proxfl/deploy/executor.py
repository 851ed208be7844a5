"""A site's own executor: answers what its SuperNode receives, with the code installed here.

Flower's executor unpacks the app that the server sent and runs it, in a new process per message. So
whoever can start a run can run any code at every site, next to the data. This one leaves the app
unopened: messages go to the site's worker and nowhere else, and one process serves them all, which
also saves its start. It speaks Flower's own protocol through Flower's own client, whose names are
not promised to last; hence the narrow pin on Flower's version.
"""

import argparse
import logging
import time
from pathlib import Path

import httpx
from flwr.app import Error, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from proxfl.deploy.client import app as client

log = logging.getLogger("proxfl.deploy")

POLL_SECONDS = 0.1
DOWN_SECONDS = 1.0  # between two looks for a SuperNode that is not there
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"


def connection(address: str, role: str, *more) -> RuntimeHttpClient:
    interceptors = [RuntimeVersionHttpInterceptor(component_name=role), *more]
    return RuntimeHttpClient.from_server_address(
        server_address=address, insecure=True, root_certificates=None, interceptors=interceptors
    )


def serve(address: str, secret: Path, app: ClientApp = client) -> None:
    """Take tasks from the SuperNode at `address` and answer them, for ever."""
    proof = SuperExecAuthHttpInterceptor(
        master_secret=secret.read_bytes(), protected_methods=frozenset({ACQUIRE})
    )
    wanted = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
    with connection(address, "SuperExec", proof) as node:
        while True:
            try:
                task = node.AcquireTask(wanted)
                if task.HasField("task") and task.token:
                    answer(address, task.token, app)
                else:
                    time.sleep(POLL_SECONDS)
            except httpx.HTTPError as error:
                log.warning("The SuperNode at %s does not answer: %s", address, error)
                time.sleep(DOWN_SECONDS)


def answer(address: str, token: str, app: ClientApp) -> None:
    """One task: one message in, one out."""
    with connection(address, "flwr-clientapp", RuntimeTokenHttpInterceptor(token)) as node:
        alive = HeartbeatSender(make_task_heartbeat_fn_http(node))
        alive.start()
        try:
            message, context, _, _ = pull_task_input(node)
            try:
                reply = app(message, context)
            except Exception as error:  # the border of the process: the server is told
                log.exception("A message was not answered")
                reason = f"The site's executor failed with {type(error).__name__}."
                reply = Message(
                    Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message
                )
            push_message(node, reply, context)
            push_task_output(node, context, SubStatus.COMPLETED, "")
        finally:
            if alive.is_running:
                alive.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer what a SuperNode receives.")
    parser.add_argument("--supernode", required=True, help="host:port of its runtime API")
    parser.add_argument("--secret", required=True, type=Path, help="file shared with the SuperNode")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    serve(arguments.supernode, arguments.secret)


if __name__ == "__main__":
    main()
