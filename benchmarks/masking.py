"""`python -m benchmarks.masking`: what masks cost, by members and numbers, in one process.

Bytes of a request with the hellos and all replies to the step before it, as one site gets it, and
as the server sends it to all; seconds of one site for its pads and its signature, for checking and
adding the replies of all, and for a whole answer of a member that follows gradient steps, its
record synced. The median of some steps. Written to results/bench/masking-cpu.json.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side import machine, seconds
from proxfl.deploy.masking.conductor import Conductor
from proxfl.deploy.masking.member import Member
from proxfl.deploy.masking.messages import call_payload
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.reply import reply, total
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.wire import Header
from proxfl.storage.files import write_text
from tests.deploy.masking.world import STUDY, members_of, signers_of

MEMBERS, NUMBERS, STEPS = (3, 10, 30), (20, 20_000), 6
OUT = Path("results/bench/masking-cpu.json")


def program(numbers: int):
    def steps(ask):
        x = np.zeros(numbers)
        for _ in range(STEPS):
            x = x - 0.1 * ask(Question("gradient", {"x": x}, numbers))
        return Question("model", {"x": x}, 0)

    return steps


def sent(call: Any) -> int:
    payload = call_payload(call)
    texts = {name: value for name, value in payload.items() if isinstance(value, str)}
    arrays = {name: value for name, value in payload.items() if name not in texts}
    return len(wire.encode(Header(wire.TASK, bytes(32), 0), {"task": "step"} | texts, arrays))


def measured(count: int, numbers: int, folder: Path) -> dict[str, Any]:
    names = tuple(f"site-{i:02d}" for i in range(count))
    signers, rng = signers_of(names), np.random.default_rng(0)
    members, run = members_of(signers), program(numbers)
    gradient = rng.normal(size=numbers)
    answer = lambda question: (question.numbers["x"] - gradient, True)
    processes = []
    for name in names:
        (folder / name).mkdir()
        about = (signers[name], members, name, STUDY, bytes(32), folder / name, run, answer)
        processes.append(Member(*about))
    times: dict[str, list[float]] = {"pads": [], "checks": [], "answer": []}
    down: list[int] = []

    def send(call):
        replies: list[Any] = []
        # The first of them all is timed, in the middle of a run: its session is open.
        whole = seconds(lambda: replies.append(processes[0].answer(call)))
        replies += [process.answer(call) for process in processes[1:]]
        if call.request.step > 2:
            session, about = processes[0].sessions[call.request.session], call.request.digest
            values = answer(call.question)[0]
            pads = lambda: reply(session, processes[0].signer, about, values, True)
            checks = lambda: total(session.digest, members, about, replies, numbers)
            times["answer"].append(whole)
            times["pads"].append(seconds(pads))
            times["checks"].append(seconds(checks))
            down.append(sent(call))
        return replies

    Conductor(members, STUDY, lambda: [p.hello for p in processes], send).run(run)
    took = {f"{name} ms": 1e3 * float(np.median(all_)) for name, all_ in times.items()}
    each = int(np.median(down))
    about = {"members": count, "numbers": numbers, "bytes to a site": each}
    return about | {"bytes from the server": count * each} | took


def main() -> None:
    rows = []
    for count in MEMBERS:
        for numbers in NUMBERS:
            with tempfile.TemporaryDirectory() as made:
                rows.append(measured(count, numbers, Path(made)))
            print(rows[-1], flush=True)
    what = "a step of a masked run, by members and numbers"
    told = {"command": "python -m benchmarks.masking", "machine": machine(), "what": what}
    told |= {"table": rows}
    write_text(OUT, json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
