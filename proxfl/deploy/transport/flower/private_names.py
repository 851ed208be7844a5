"""Every name of Flower that it does not promise to keep, and three of its habits undone.

Whatever is outside flwr.app, flwr.serverapp and flwr.clientapp may move with any version; when it
does, this module says which name did, and the rest of this folder is what to adapt.
"""

import functools
import importlib
import sqlite3
from importlib.metadata import version
from typing import Any, NoReturn

NAMES = {
    "http_request_response": "flwr.supernode.fleet_http_connection",
    "FleetHttpClient": "flwr.supernode.fleet_http_client",
    "NodeAuthHttpInterceptor": "flwr.supernode.node_auth_http_interceptor",
    "RuntimeVersionHttpInterceptor": "flwr.supercore.interceptors",
    "DeactivateNodeRequest": "flwr.proto.fleet_pb2",
    "PullMessagesRequest": "flwr.proto.fleet_pb2",
    "FLEET_HTTP_PUBLIC_KEY_HEADER": "flwr.supercore.constant",
    "FLEET_HTTP_SIGNATURE_HEADER": "flwr.supercore.constant",
    "TIMESTAMP_HEADER": "flwr.common.constant",
    "NodeInfo": "flwr.proto.node_pb2",
    "RunNotRunningException": "flwr.supercore.run",
    "get_all_nested_objects": "flwr.supercore.inflatable.inflatable_object",
    "get_object_tree": "flwr.supercore.inflatable.inflatable_object",
    "iterate_object_tree": "flwr.supercore.inflatable.inflatable_object",
    "inflate_object_from_contents": "flwr.supercore.inflatable.inflatable_utils",
    "pull_objects": "flwr.supercore.inflatable.inflatable_utils",
    "push_objects": "flwr.supercore.inflatable.inflatable_utils",
    "make_simple_http_retry_invoker": "flwr.supercore.retry",
}
REPLACED = {
    "flwr_exit": "flwr.supernode.fleet_http_connection",
    "make_simple_http_retry_invoker": "flwr.supernode.fleet_http_connection",
    "pull_objects": "flwr.superlink.grid.http_grid",
}
# By what a SuperLink has on its disk: messages that nobody has fetched yet, and replies to some.
# A part that is announced and not there yet has `is_available` 0; `?` is now, or a JSON list.
UNDELIVERED = """
WITH RECURSIVE part(message, node, object) AS (
  SELECT message_id, dst_node_id, message_id FROM message_ins
  WHERE delivered_at = '' AND created_at + ttl > ?
  UNION SELECT message, node, child_id FROM part JOIN object_children ON parent_id = object
)
SELECT node FROM part JOIN objects ON object_id = object GROUP BY message HAVING min(is_available)
"""
REPLIES = """
WITH RECURSIVE part(message, reply, object) AS (
  SELECT reply_to_message_id, message_id, message_id FROM message_res
  WHERE reply_to_message_id IN (SELECT value FROM json_each(?))
  UNION SELECT message, reply, child_id FROM part JOIN object_children ON parent_id = object
)
SELECT message, reply, min(is_available) FROM part JOIN objects ON object_id = object
GROUP BY message
"""
PARTS = """
WITH RECURSIVE part(object) AS (
  VALUES (?) UNION SELECT child_id FROM part JOIN object_children ON parent_id = object
)
SELECT object_id, content FROM part JOIN objects ON object_id = object
"""
# The keys of the nodes that are connected; `?` is now. A node that is let in without has one, too.
ONLINE = "SELECT public_key FROM node WHERE status = 'online' AND online_until > ?"
QUERIES = (UNDELIVERED, REPLIES, PARTS, ONLINE)  # each of one value
NO_COLUMN = "no such column: "
FIRST_PAUSE, LONGEST_PAUSE, GIVE_UP = 0.02, 0.2, 60.0


def moved(what: str, where: str) -> ImportError:
    return ImportError(
        f"Flower {version('flwr')} moved {what}, which was in {where}; adapt "
        "proxfl/deploy/transport/flower, or install the version that proxfl[flower] asks for."
    )


def found(name: str, module: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise moved(name, module) from None


def look(base: sqlite3.Connection, query: str, *values: Any) -> list[tuple]:
    """The rows that a query gives; ImportError if one of its columns is no more.

    A table that is not there may be about to be made, so that is SQLite's own error.
    """
    try:
        return base.execute(query, values).fetchall()
    except sqlite3.OperationalError as error:
        _, lacks, column = str(error).partition(NO_COLUMN)
        if not lacks:
            raise
        raise moved(f"the column {column}", "its database") from None


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(name)
    return found(name, NAMES[name])


def replace(name: str, value: Any) -> None:
    module = REPLACED[name]
    found(name, module)
    setattr(importlib.import_module(module), name, value)


def refuse(code: int, message: str = "", **_: Any) -> NoReturn:
    """A connection that cannot be opened is an error to its caller, not the end of the process."""
    raise ConnectionError(message)


def patient_invoker() -> Any:
    """What tries again; told that it is not let in, it hands that over and ends no process."""
    invoker = found(make := "make_simple_http_retry_invoker", NAMES[make])()
    gives_up = invoker.should_giveup
    refused = lambda error: getattr(getattr(error, "response", None), "status_code", 0) == 401
    invoker.should_giveup = lambda error: refused(error) or gives_up(error)
    return invoker


# A message is announced before its parts are there; Flower then waits for a second or more.
soon = functools.partial(
    found("pull_objects", NAMES["pull_objects"]),
    initial_backoff=FIRST_PAUSE,
    backoff_cap=LONGEST_PAUSE,
    max_time=GIVE_UP,
)
