"""SECURITY.md has the figures that the red team last measured; a policy is told as it is."""

import json
import re

from proxfl.deploy.site.policy import Policy
from tests.docs.test_snippets import ROOT

# The attacks of `benchmarks/red_team.py`, in the order in which the page tells of them.
TOLD = (
    "isolate, no limits",
    "isolate",
    "isolate, length 3",
    "tilt",
    "tilt, heavy tails",
    "kinks, huber, owner consents",
    "kinks, squared, by the dual",
    "kinks, poisson, by the dual",
    "outliers, normal",
    "outliers, heavy tails",
    "solve all of 60 rows, no limits",
    "solve all of 60 rows",
    "solve all of 60 rows, with Hessians",
    "solve all of 60 rows, a plan without Hessians",
)


def span(rows):
    low, high = min(rows), max(rows)
    word = "or" if high - low == 1 else "to"
    return f"{low:,}" if low == high else f"{low:,} {word} {high:,}"


def test_the_page_tells_what_the_red_team_took():
    held = json.loads((ROOT / "results" / "security" / "red_team.json").read_text())["attacks"]
    assert set(TOLD) == set(held)
    _, table = (ROOT / "SECURITY.md").read_text().split("| attack | a site's policy | rows |\n")
    cells = re.findall(r"^\|.*\| \**([^|*]+?)\** \|$", table.split("\n\n")[0], re.MULTILINE)
    assert cells == [span(held[name]["rows"]) for name in TOLD]


def test_the_usual_policy_of_a_site_is_told_as_it_is():
    page = (ROOT / "docs" / "deploy.md").read_text()
    _, table = page.split("| rule | usual | |\n")
    told = re.findall(r"^\| `(\w+)` \| (.+?) \|", table.split("\n\n")[0], re.MULTILINE)
    assert dict(told) == {name: json.dumps(value) for name, value in Policy().to_dict().items()}
