"""How much a study may ask: counted in the audit log, so that it holds across lives and studies.

A question about several models counts as one for each. One that is repeated after a lost reply is
one more, unless it is a round's, whose answer is stored and given again.
"""

from dataclasses import dataclass
from typing import Any

from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.site.audit import ANSWER, TOLD
from proxfl.deploy.site.office import Office


@dataclass(frozen=True)
class Questions:
    """The questions of one study at one site."""

    office: Office
    study: str

    def check(self, site: str, rows: int, more: int = 1) -> None:
        """Refuse so many questions more, if with them there were too many."""
        most, number = self.office.policy.questions(rows), self.office.asked(self.study)
        if number + more > most:
            raise BadMessage(
                f"Site {site} has answered {number} questions, all that its policy allows until a "
                "person there approves this study: proxfl federate approve."
            )

    def enter(self, what: str, setup: bool = False, **about: Any) -> None:
        """Note an answer, for good, before it leaves; those that set a study up do not count."""
        self.office.audit.enter(TOLD if setup else ANSWER, self.study, question=what, **about)
