"""What privacy noise a site adds in a study, and what that has spent of its budget, for good.

Noise is drawn from 32 random bytes that never leave the site's folder and from the question: the
study, where in it, the model asked about, and the rows that answer. So the same question gets the
same bytes, after a crash, too, and spends nothing more; any other question gets noise of its own,
and spends, and so does the same one to other rows, or to rows that were agreed on otherwise, of a
site that has forgotten the first: with one noise, the difference of two answers has none. What an
answer spends is in the audit log before it leaves, by a name that only this secret makes: were the
secret lost, the same question would carry other noise, and would spend again.

A folder that is restored from a backup has forgotten what was spent since. Nothing on a disk can
tell; a head of the audit log that was copied elsewhere can (`proxfl federate audit --head`).
"""

import hashlib
import hmac
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from proxfl.algorithms import accounting
from proxfl.console.words import count
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.site.audit import ANSWER, NOISED
from proxfl.deploy.site.noise import FILE, secret
from proxfl.deploy.site.office import Office
from proxfl.train.privacy import Noise


@dataclass(frozen=True)
class Account:
    """The noise of one study at one site."""

    office: Office
    study: str
    noise: Noise

    def seed(self, *question: bytes) -> bytes:
        """What the noise of an answer is drawn from."""
        parts = [self.study.encode(), *question]
        content = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        return hmac.digest(secret(self.office.folder / FILE), content, "sha256")

    def spend(self, site: str, seed: bytes) -> None:
        """Enter what the answer of this seed spends; refuse one that is more than may be spent."""
        name, audit = hashlib.sha256(b"proxfl noise " + seed).hexdigest(), self.office.audit
        if name in audit.noised:
            return
        mine = [cost for study, cost in audit.noised.values() if study == self.study]
        if len(mine) >= self.noise.rounds:
            raise BadMessage(
                f"Site {site} has given {len(mine)} answers with noise, as many as the study has "
                "rounds; another model needs another study."
            )
        spent = math.fsum([self.noise.cost, *(cost for _, cost in audit.noised.values())])
        if beyond := self.office.policy.beyond(spent):
            raise BadMessage(f"Site {site} does not answer: {beyond}.")
        audit.enter(NOISED, self.study, noised=name, cost=self.noise.cost)


def account_of(office: Office, study: Study) -> Account | None:
    """That of a study, if it asks for noise."""
    return None if study.noise is None else Account(office, study.id, study.noise)


def told(lines: Iterable[Mapping[str, Any]], delta: float) -> str | None:
    """What the lines of an audit log come to, in a sentence, if there was noise."""
    lines = list(lines)
    costs = {line["noised"]: line["cost"] for line in lines if line.get("what") == NOISED}
    if not costs:
        return None
    noisy = {line["study"] for line in lines if line.get("what") == NOISED}
    bare = sum(line.get("what") == ANSWER and line["study"] not in noisy for line in lines)
    epsilon = accounting.composed(math.fsum(costs.values()), delta)
    beside = f" Not covered by it: {count(bare, 'answer')} without noise." if bare else ""
    total = f"{count(len(costs), 'answer')} with privacy noise came to epsilon {epsilon:.4g}"
    return f"{total} at delta {delta:g}, provided that its studies' words hold.{beside}"
