"""Ends a site's process, or the server's program, as `kill -9` does, at one of its own writes.

Python imports a module of this name in every process that has this folder on its path, so it comes
to those that services start. `PROXFL_STRIKES` is a folder, a seed, and how many lives of each end
so. In the folder there is a file for every life, `WHO.N`, which says before which operation on the
disk it ended, if it did; and `WHO.said`, what a masked site said to which request.
"""

import os
import random
import signal
import sys
from functools import wraps
from itertools import count
from pathlib import Path

MOST = 80  # operations of a life that ends; one answer takes about ten
CHANGES = ("open", "fdopen", "fsync", "replace", "unlink", "mkdir", "rmdir", "ftruncate")


def who() -> str:
    """The site whose process this is, or `program` for the server's; nothing for others."""
    words = sys.orig_argv
    if "proxfl.deploy.transport.flower.process" in words:
        return words[words.index("--site") + 1]
    return "program" if any(word.endswith("flwr-serverapp") for word in words) else ""


class Struck:
    """Stands in for `os` where the package writes; `left` operations are done."""

    def __init__(self, folder: Path, name: str, seed: str, lives: int):
        self.folder, self.name, self.pid = folder, name, os.getpid()
        for life in count():
            self.place = folder / f"{name}.{life}"
            try:
                self.place.touch(exist_ok=False)
                break
            except FileExistsError:
                continue
        drawn = random.Random(f"{seed} {name} {life}").randint(1, MOST)
        self.left = drawn if life < lives else 10**9

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in CHANGES:
            return real

        @wraps(real)
        def struck(*args, **options):
            self.step(name, args[0])
            return real(*args, **options)

        return struck

    def step(self, name, about):
        self.listen()
        self.left -= 1
        if not self.left and os.getpid() == self.pid:
            self.place.write_text(f"{name} {about}")
            os.kill(self.pid, signal.SIGKILL)

    def listen(self):
        """Note what a member says, from before its first answer: a site writes before it meets."""
        module = sys.modules.get("proxfl.deploy.masking.member")
        member = getattr(module, "Member", None)
        if member is None or hasattr(member.answer, "__wrapped__"):
            return
        answer, said = member.answer, self.folder / f"{self.name}.said"

        @wraps(answer)
        def telling(own, call):
            reply = answer(own, call)
            with said.open("a") as file:
                file.write(f"{call.request.digest.hex()} {reply.masked.hex()}\n")
            return reply

        member.answer = telling


if (given := os.environ.get("PROXFL_STRIKES")) and who():
    from proxfl.storage import files

    folder, seed, lives = given.rsplit(":", 2)
    files.os = Struck(Path(folder), who(), seed, int(lives))  # type: ignore[assignment]
