"""A client's states on its own disk, so that a reply that was lost never happened.

Each file is one step: the state the client ended in, the request and the reply it sent. It is on
the disk, whole, before the reply leaves. The server says with every request which of the client's
replies it counted last; the client starts from the state of that step. Steps are kept back to the
last one the server can still be at, one more than a round has exchanges: a server that saves after
every round can lose at most the round it was in.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.trees import rebuild
from proxfl.deploy.protocol.wire import BadMessage, Header, step_number
from proxfl.storage.checkpoint import named_arrays
from proxfl.storage.files import remove, sync_folder, whole, written

SUFFIX = ".step"
LONGEST_JUMP = 2**20  # lives of the server that a site may have missed: more is an accident


class Step(NamedTuple):
    """What is left of one answered request."""

    header: Header
    request: bytes  # by which it is known again
    reply: bytes
    state: Mapping[str, wire.Value]


class Store:
    """The steps of one site in one experiment."""

    def __init__(self, folder: Path, experiment: bytes, site: str, generations: int = 2):
        self.folder = private_folder(folder / experiment.hex() / wire.tag(site).hex())
        self.site = site
        self.generations = generations
        for torn in self.folder.glob(f".*{SUFFIX}.*"):  # a write that a crash cut short
            remove(torn)

    def steps(self) -> list[int]:
        """The steps on disk, oldest first."""
        stems = (path.stem for path in self.folder.glob(f"[!.]*{SUFFIX}"))
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def path(self, step: int) -> Path:
        return self.folder / f"{step:020d}{SUFFIX}"

    def read(self, step: int) -> Step:
        told = f"Site {self.site} cannot read its step {step_number(step)}"
        try:
            frame = wire.decode(self.path(step).read_bytes(), finite=False)
            request, reply = (np.asarray(frame.settings[name]) for name in ("request", "reply"))
        except KeyError:
            raise BadMessage(f"{told}: it holds no request and reply.") from None
        except OSError as error:
            raise BadMessage(f"{told}: {error.strerror}.") from None
        except BadMessage as error:
            raise BadMessage(f"{told}: {error}") from error
        return Step(frame.header, request.tobytes(), reply.tobytes(), frame.payload)

    def answered(self, header: Header, request: bytes) -> bytes | None:
        """The reply already given to the request of this digest; None if its step is new."""
        step, steps = header.step, self.steps()
        last = steps[-1] if steps else 0
        life, past_life = wire.epoch(step), wire.epoch(last)
        if life > past_life + LONGEST_JUMP:
            raise BadMessage(
                f"The server says that it is in life {life}, but site {self.site} knows of "
                f"{past_life}; correct the number in the server's file server/epoch."
            )
        if not steps or step > last:
            return None
        if step not in steps:
            raise BadMessage(
                f"Step {step_number(step)} is a replay: site {self.site} has since answered step "
                f"{step_number(last)} in life {past_life} of the server; resume, or, if the server "
                f"lost its folder, write {past_life} into its file server/epoch and run again."
            )
        past = self.read(step)
        if past.request != request:
            raise BadMessage(
                f"Site {self.site} has answered step {step_number(step)} when asked otherwise; "
                "ask again under a new step."
            )
        with written(self.folder):  # the disk may have failed just when the step was to stay
            sync_folder(self.folder)
        return past.reply

    def recall(self, header: Header, like: Any) -> Any:
        """The state after the step the server counted last."""
        if header.counted not in self.steps():
            kept = ", ".join(str(step_number(step)) for step in self.steps()) or "none"
            asked = step_number(header.counted)
            raise BadMessage(
                f"Site {self.site} has no state after step {asked} (it has {kept}); "
                "its folder was lost, or the server resumed from an old checkpoint."
            )
        past = self.read(header.counted)
        if (header.round, header.exchange) <= (past.header.round, past.header.exchange):
            raise BadMessage(
                f"Round {header.round}, exchange {header.exchange} cannot follow round "
                f"{past.header.round}, exchange {past.header.exchange} at site {self.site}."
            )
        return rebuild(past.state, like, f"The state of site {self.site}")

    def remember(self, header: Header, request: bytes, reply: bytes, state: Any) -> None:
        """Put a step on the disk for good, and forget those no server can go back to."""
        stored = {
            "request": np.frombuffer(request, np.uint8),
            "reply": np.frombuffer(reply, np.uint8),
        }
        data = wire.encode(header._replace(kind=wire.STATE), stored, named_arrays(state))
        with whole(self.path(header.step), private=True) as file:
            file.write(data)
        past = [step for step in self.steps() if step <= header.counted]
        kept = {header.step, *past[-(self.generations - 1) :]}
        for step in set(self.steps()) - kept:
            remove(self.path(step))
