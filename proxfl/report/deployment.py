"""What real sites add to the report of a run: who took part, what was sent, what went wrong."""

import datetime
from typing import Any

from proxfl.console.words import count, size
from proxfl.report.page import Page
from proxfl.train.saved import Saved

MOST_FAULTS = 100  # of a table; manifest.json has the rest


def deployment(made: Page, saved: Saved) -> None:
    """What real sites add: who took part, what went wrong, what was sent."""
    held = saved.manifest["deployment"]
    rounds, sites = saved.model["certificate"]["rounds"], held["sites"]
    always = all(site["rounds"] == rounds for site in sites.values())
    who = "Every site took part in every round." if always else "Not every site was in every round."
    again = count(held["resumed"], "time")
    made.text(f"{who} The run was resumed {again}." if held["resumed"] else who)
    secure = "TLS, sites known by their keys" if held["secure"] else "in the clear"
    quorum = f"{held['quorum']} of {count(len(sites), 'site')}"
    facts = {"connection": secure, "quorum": quorum}
    if masking := held.get("masking"):
        facts |= {
            "masked": "the server saw sums over all sites and nothing of any one; all of them "
            "followed the run and signed its model",
            "members' words": masking["words"],
        }
    made.facts(facts)
    rows = [[name, site["rounds"], *sizes(site)] for name, site in sites.items()]
    made.table(
        ["site", "rounds", "payload up", "payload down", "Flower up", "Flower down"],
        [*rows, ["all", "", *sizes(held["traffic"])]],
        "Bytes as measured by the server. Payload is the numbers exchanged; Flower's are whole "
        "messages, headers and repetitions included, to which HTTP and TLS add theirs.",
    )
    faults(made, held["faults"])


def sizes(ways: Any) -> list[str]:
    return [size(ways[way][what]) for what in ("payload", "wire") for way in ("up", "down")]


def faults(made: Page, found: list[dict[str, Any]]) -> None:
    if not found:
        made.text("Nothing went wrong.")
        return
    moment = lambda fault: datetime.datetime.fromtimestamp(fault["time"], datetime.UTC)
    more = f" {len(found) - MOST_FAULTS} more are in manifest.json." * (len(found) > MOST_FAULTS)
    told = lambda f: [f"{moment(f):%Y-%m-%d %H:%M:%S}", f["step"], f["site"], f["sentence"]]
    made.table(
        ["time (UTC)", "step", "site", "what went wrong"],
        [told(fault) for fault in found[:MOST_FAULTS]],
        "What was late, lost or refused, none of which entered the model." + more,
    )
