"""The Flower side of a site: a ClientApp that hands each message to the site's worker.

Flower starts a new process for every message, so this one imports no JAX and loads no data.
"""

from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from proxfl.deploy import pipe, wire
from proxfl.deploy.envelope import unwrap, wrap

ANSWER_SECONDS = 3600.0  # the longest local work of one exchange

Forward = Callable[[bytes, Context], bytes]


def to_worker(frame: bytes, context: Context) -> bytes:
    """Ask the worker named in the SuperNode's configuration."""
    folder = context.node_config.get("folder")
    if not isinstance(folder, str):
        raise ValueError("This SuperNode needs --node-config 'folder=\"...\"', its site's folder.")
    try:
        return pipe.request(Path(folder), frame, ANSWER_SECONDS)
    except (OSError, TimeoutError) as error:
        site = context.node_config.get("site", "")
        reason = f"The worker of site {site} does not answer ({type(error).__name__}); restart it."
        return wire.refusal(wire.brief(frame), reason, passing=True)


def client_app(forward: Forward = to_worker) -> ClientApp:
    """A ClientApp for sites; `forward` turns a request into a reply."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return Message(wrap(forward(unwrap(message), context)), reply_to=message)

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return Message(wrap(forward(unwrap(message), context)), reply_to=message)

    return app


app = client_app()
