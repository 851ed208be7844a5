"""A study is proposed to its sites before anything else is asked."""

from collections.abc import Mapping
from typing import Any

from proxfl.deploy.protocol.study import TAKES_PART, WAITS, Study
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.inquiry import TooFewSites


def propose(channel: RemoteFederation, study: Study) -> None:
    """Ask all sites to take part; TooFewSites says which do not, and why, in their own words."""
    answers = channel.ask("propose", {"study": study.text})
    refuse_absent(study, answers, "a person there approves it (proxfl federate approve)")


def refuse_absent(study: Study, answers: Mapping[str, Mapping[str, Any]], remedy: str) -> None:
    """Stop unless all sites take part; `remedy` is for those that wait for a person."""
    said = {site: (str(a.get("decision")), str(a.get("reason"))) for site, a in answers.items()}
    others = [(site, *words) for site, words in said.items() if words[0] != TAKES_PART]
    if not others:
        return
    each = "; ".join(f"{site} {decision}: {reason}" for site, decision, reason in others)
    waits = any(decision == WAITS for _, decision, _ in others)
    remedy = remedy if waits else "that is changed"
    raise TooFewSites(f"Study {study.name} has not all of its sites: {each}. Run it once {remedy}.")
