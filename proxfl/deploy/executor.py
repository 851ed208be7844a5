"""A site's own executor: answers what its SuperNode receives, with the code installed here.

Flower's executor unpacks the app that the server sent and runs it, in a new process per message. So
whoever can start a run can run any code at every site, next to the data. This one leaves the app
unopened: messages go to the site's worker and nowhere else, and one process serves them all, which
also saves its start. A message whose sender died while sending it may never be complete; so each is
waited for in a thread of its own.

It speaks Flower's own protocol through Flower's own client, whose names are not promised to last;
hence the narrow pin on Flower's version.
"""

import argparse
import logging
import threading
import time
from pathlib import Path

import httpx
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import context_from_proto
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.runtime.run_clientapp import push_message, push_task_output

from proxfl.deploy.client import app as client

log = logging.getLogger("proxfl.deploy")

POLL_SECONDS = 0.1
DOWN_SECONDS = 1.0  # between two looks for a SuperNode that is not there
REST_SECONDS = 600.0  # for the rest of a message of which a part is here
LONGEST_PAUSE = 1.0  # between two looks for it
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"


alone = threading.Lock()  # Flower keeps the task that a process is in, in one place


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
                    job = (address, task.token, app)
                    threading.Thread(target=try_to, args=job, daemon=True).start()
                else:
                    time.sleep(POLL_SECONDS)
            except httpx.TransportError as error:
                log.warning("The SuperNode at %s does not answer: %s", address, error)
                time.sleep(DOWN_SECONDS)
            except Exception:  # the border of the process: the next task must be taken
                log.exception("No task could be taken")
                time.sleep(DOWN_SECONDS)


def try_to(address: str, token: str, app: ClientApp) -> None:
    try:
        answer(address, token, app)
    except Exception:  # the border of the thread: the server will ask again
        log.exception("A task was lost")


def answer(address: str, token: str, app: ClientApp) -> None:
    """One task: one message in, one out."""
    with connection(address, "flwr-clientapp", RuntimeTokenHttpInterceptor(token)) as node:
        alive = HeartbeatSender(make_task_heartbeat_fn_http(node))
        alive.start()
        try:
            given = node.PullTaskInput(PullTaskInputRequest())
            message, context = take(node, context_from_proto(given.context))
            with alone:
                TaskIdentity.task_id = given.task_id
                TaskIdentity.run_id = given.run.run_id
                TaskIdentity.node_id = given.context.node_id
                push_message(node, answered(message, context, app), context)
                push_task_output(node, context, SubStatus.COMPLETED, "")
        finally:
            if alive.is_running:
                alive.stop()


def answered(message: Message, context: Context, app: ClientApp) -> Message:
    try:
        return app(message, context)
    except Exception as error:  # the border of the process: the server is told
        log.exception("A message was not answered")
        reason = f"The site's executor failed with {type(error).__name__}."
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)


def take(node: RuntimeHttpClient, context: Context) -> tuple[Message, Context]:
    """The message of a task, once all of it is there; the app that came with it stays unopened."""
    (tree,) = node.PullMessages(PullAppMessagesRequest()).message_object_trees
    where = (Node(node_id=context.node_id), context.run_id)
    message = pull_and_inflate_object_from_tree(
        tree,
        make_pull_object_fn_protobuf(node.PullObject, *where),
        make_confirm_message_received_fn_protobuf(node.ConfirmMessageReceived, *where),
        return_type=Message,
        initial_backoff=POLL_SECONDS,  # the SuperNode may still be receiving the rest of it
        backoff_cap=LONGEST_PAUSE,
        max_time=REST_SECONDS,
    )
    message.metadata.__dict__["_message_id"] = tree.object_id
    return message, context


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
