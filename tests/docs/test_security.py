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

# And those of `benchmarks/curious.py`, of features with many values, and of those that are 0 or 1.
OF_NUMBERS = (
    "Newton, small",
    "Newton, small, sum of three",
    "Newton and standard errors, small",
    "Algorithm 1, small",
    "Newton, usual",
    "Algorithm 1, usual",
)
OF_BITS = (
    "0 or 1, Newton, small",
    "0 or 1, Newton, small, sum of three",
    "0 or 1, Algorithm 1, small",
    "0 or 1, path, small",
    "0 or 1, Newton, usual, 5 features",
    "0 or 1, Newton, usual, 5 features, sum of three",
    "0 or 1, Newton, usual",
)


OF_TWO = ("isolate", "isolate, length 30", "tilt", "tilt, heavy tails", "outliers, heavy tails")
SHARES = ("0", "0.01", "0.05")
OF_SMALL = (
    ", with Hessians",
    " of 8 features, with Hessians",
    ", a plan without Hessians",
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


def test_the_page_tells_what_a_member_s_server_took():
    page = (ROOT / "SECURITY.md").read_text()
    held = json.loads((ROOT / "results" / "security" / "red_team_member.json").read_text())
    taken = {name: span(told["rows"]) for name, told in held["attacks"].items()}
    shares = [[taken[f"{name}, share {share}"] for share in SHARES] for name in OF_TWO]
    plain = lambda cells: [[cell.strip("*") for cell in row] for row in cells]
    assert plain(rows_of(page, "| attack on the sum of two sites |")) == shares
    small = [[taken[f"solve all of 2 x 60 rows{more}"]] for more in OF_SMALL]
    assert plain(rows_of(page, "| attack on the sum of two small sites |")) == small


def test_the_page_on_masks_tells_how_another_processor_followed():
    page = (ROOT / "docs" / "masking.md").read_text()
    held = json.loads((ROOT / "results" / "processors" / "followed.json").read_text())
    digits = lambda told: [*map(str, list(told.values())[:3]), f"{told['roundings apart']:,.1f}"]
    told = [digits(told) for told in held["studies"].values()]
    assert rows_of(page, "| study | steps | followed |") == told
    assert held["test vectors alike bit for bit"] is True


def rows_of(page, header):
    """The cells of a table's rows, but for the first."""
    lines = page.split(header)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines]


def test_the_page_tells_what_an_honest_server_learned():
    page = (ROOT / "SECURITY.md").read_text()
    held = json.loads((ROOT / "results" / "security" / "curious.json").read_text())["runs"]
    assert {*OF_NUMBERS, *OF_BITS} == set(held)
    each = [held[name] for name in OF_NUMBERS]
    share = lambda run: span([round(100 * part) for part in run["told apart"]]) + " %"
    taken = lambda run: span(run["taken"]) if "taken" in run else "not tried"
    told = [[taken(run), share(run)] for run in each]
    assert rows_of(page, "| honest run, features with many values |") == told
    each = [held[name] for name in OF_BITS]
    rare = lambda run: f"{span(run['told'])} of {span(run['rare'])}"
    told = [[span(run["counted"]), span(run["by chance"]), rare(run)] for run in each]
    assert rows_of(page, "| honest run, features of 0 or 1 |") == told


def test_the_usual_policy_of_a_site_is_told_as_it_is():
    page = (ROOT / "docs" / "deploy.md").read_text()
    _, table = page.split("| rule | usual | |\n")
    told = re.findall(r"^\| `(\w+)` \| (.+?) \|", table.split("\n\n")[0], re.MULTILINE)
    assert dict(told) == {name: json.dumps(value) for name, value in Policy().to_dict().items()}
