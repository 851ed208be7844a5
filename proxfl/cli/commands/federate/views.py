"""What the page of `serve --page` and `join --page` shows, from what is on the disk anyway."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from proxfl.cli.commands.federate.standing import (
    CONNECTED,
    ENDED,
    OF_A_ROUND,
    attendance,
    last_status,
    standing,
)
from proxfl.console.words import called, moment, printable, size
from proxfl.deploy.ops.home import SITE_STATUS, Home, SiteStatus, read_json

View = Callable[[], Mapping[str, Any]]
GOOD, WAIT, BAD = "good", "wait", "bad"
TONES = {"finished": GOOD, "stopped": WAIT, "killed": BAD}


def of_server(home: Home, membership: Any, secure: bool, warning: Callable[[], str]) -> View:
    """Who is there, and how the last run stands."""
    from proxfl.deploy.ops.keyring import KeyRing

    ring = KeyRing(home.public_keys) if secure else None
    title = f"{called(membership.name)}, at the server"

    def view() -> Mapping[str, Any]:
        there, status = attendance(home, membership.sites, ring), last_status(home)
        goes_on = bool(status) and status["state"] not in ENDED
        missing = [called(site) for site, how in there.items() if how != CONNECTED]
        if goes_on:
            said = f"Study {called(status['options'].get('study'))} is being run."
        else:
            said = standing(status)
        if missing and (secure or goes_on):
            said += f" Not there: {', '.join(missing)}."
        notes = [warning()] if secure else ["No TLS and no keys: whoever comes is believed."]
        return {
            "title": title,
            "command": "proxfl federate serve",
            "sentence": printable(said),
            "tone": WAIT
            if missing and (secure or goes_on)
            else TONES.get(status.get("state", ""), GOOD),
            "notes": [printable(note) for note in notes if note],
            "facts": facts_of(status),
            "curve": curve_of(status),
            "tables": [
                {
                    "name": "Sites",
                    "heads": ["site", "is"],
                    "rows": [[*row] for row in there.items()],
                },
                *troubles(status),
            ],
        }

    return view


def facts_of(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    if not OF_A_ROUND <= status.keys():
        return []
    known, left = status["optimality"], status["left"]
    found = {
        "study": called(status["options"].get("study", "")),
        "round": f"{status['round']:,}, of {status['rounds']:,} at most",
        "optimality": "not known yet" if known is None else f"{known:.2g}",
        "goal": f"{status['tolerance']:.0e}",
        "sites that answered": f"{status['answered']} of {len(status['sites'])}",
        "exchanges": f"{status['exchanges']:,}" if "exchanges" in status else None,
        "from the sites": size(status["bytes_up"]),
        "to the sites": size(status["bytes_down"]),
        "went wrong": f"{status['faults']:,} times",
    }
    found = {name: value for name, value in found.items() if value is not None}
    found |= {"time left": f"about {left:.0f} s"} if left and status["state"] not in ENDED else {}
    return [*found.items(), ("results", printable(status["out"]))]


def curve_of(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    points = status.get("curve")
    return {"points": points, "goal": status["tolerance"]} if points else None


def troubles(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [
        [moment(at), called(site), printable(said)]
        for at, _, site, said in status.get("trouble", [])
    ]
    heads = ["when", "site", "what"]
    return [{"name": "What went wrong last", "heads": heads, "rows": found[::-1]}] if found else []


def of_site(folder: Path, site: str, name: str, server: str) -> View:
    """How a site stands with the server, and what its audit log says has left it."""
    from proxfl.deploy.ops.services import runs
    from proxfl.deploy.site.tally import KINDS, STUDIES, Tally

    tally = Tally(folder)

    def view() -> Mapping[str, Any]:
        path = folder / SITE_STATUS
        found = read_json(path, "", SiteStatus) if path.exists() else None
        alive = found is not None and runs(found["pid"])
        tally.catch_up()
        said = (
            found["sentence"] if found and alive else "Its process has ended; it is started again."
        )
        facts = {
            "server": printable(server),
            "questions answered": f"{tally.answers:,}",
            "lines of the audit log": f"{tally.lines:,}",
        }
        studies = [row[:1] + row[2:] for row in tally.studies]
        heads = STUDIES[:1] + STUDIES[2:]
        return {
            "title": f"{called(site)}, a site of {called(name)}",
            "command": f"proxfl federate join, of site {called(site)},",
            "sentence": printable(said),
            "tone": GOOD if alive and "is connected" in said else WAIT,
            "notes": [printable(news) for news in (found or {}).get("news", [])],
            "facts": list(facts.items()),
            "curve": None,
            "tables": [
                {"name": "Studies", "heads": heads, "rows": studies},
                {
                    "name": "What left this site; its rows never do",
                    "heads": KINDS,
                    "rows": tally.kinds,
                },
            ],
        }

    return view
