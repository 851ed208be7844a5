"""A study is proposed to its sites before anything else is asked."""

from collections.abc import Mapping
from typing import Any

from proxfl.deploy.protocol.study import TAKES_PART, WAITS, Study
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.inquiry import TooFewSites

CHANGE = "Write another study that asks less, or have the sites' people change their policy.toml"


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
    alike: dict[tuple[str, str], list[str]] = {}
    for site, *words in others:
        alike.setdefault((words[0], words[1]), []).append(site)
    each = "; ".join(
        f"{first} {decision}: {reason}" + (f" (so do {', '.join(more)})" if more else "")
        for (decision, reason), (first, *more) in alike.items()
    )
    waits = any(decision == WAITS for decision, _ in alike)
    todo = f"Run it again once {remedy}" if waits else CHANGE
    raise TooFewSites(f"Study {study.name} has not all of its sites: {each}. {todo}.")
