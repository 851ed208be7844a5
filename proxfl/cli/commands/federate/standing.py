"""How a federation stands, in sentences: which sites are there, and how the last run went."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from proxfl.console.words import size
from proxfl.deploy.ops.home import Home, RunStatus, read_json

CONNECTED = "connected"
AWAY = "not connected"
NO_KEY = "awaited: its key, {site}.pub, has not been added"
ENDED = ("finished", "stopped", "killed")
OF_A_ROUND = set("round optimality tolerance answered bytes_up bytes_down left away faults".split())


def attendance(home: Home, sites: Sequence[str], ring: Any) -> dict[str, str]:
    """Of each site, whether it is there or what it is awaited for, by the ring of their keys.

    Without keys, where that is None, a site has a name in a run only.
    """
    from proxfl.deploy.transport.flower.launch import DATABASE
    from proxfl.deploy.transport.flower.nodes import online

    if ring is None:
        status = last_status(home)
        there = status["present"] if status and status["state"] not in ENDED else []
        return {site: CONNECTED if site in there else "not seen in a run" for site in sites}
    held, there = ring.keys(), set(online(home.server / DATABASE))
    missing = lambda site: AWAY if site in held else NO_KEY.format(site=site)
    return {site: CONNECTED if held.get(site) in there else missing(site) for site in sites}


def last_status(home: Home) -> dict[str, Any]:
    """How the last run stands, nothing if there was none; killed, if its process is gone."""
    from proxfl.deploy.ops.services import runs

    status = read_json(home.status, "", RunStatus) if home.status.exists() else {}
    if status and status["state"] not in ENDED and not runs(status["pid"]):
        status["state"] = "killed"
    return status


def resumption(home: Home) -> str:
    return f"proxfl federate resume {shlex.quote(os.path.relpath(home.folder))}"


def standing(status: Mapping[str, Any]) -> str:
    """How the last run stands, in a sentence or two."""
    if not status:
        return "There was no run yet."
    run = f"The last run, of study {status['options'].get('study', '')},"
    begun = OF_A_ROUND <= status.keys()
    far = f"after round {status['round']}" if begun else "before its first round was over"
    if status["state"] == "finished":
        return f"{run} is finished: {sentence(status)}."
    if status["state"] == "stopped":
        return f"{run} stopped {far}. {status.get('reason', '')}".strip()
    if status["state"] == "killed":
        return f"{run} broke off {far}: its process was killed. What it had is on the disk."
    return f"{run} is going on: {sentence(status)}."


def sentence(status: Mapping[str, Any]) -> str:
    """How far a run is, for a person."""
    sites = len(status["sites"])
    if not OF_A_ROUND <= status.keys() and "models" in status:
        return f"{status['models']} of {status['models_in_all']} models of the path are done"
    if not OF_A_ROUND <= status.keys():
        missing = sorted(set(status["sites"]) - set(status["present"]))
        waits = f", waiting for {', '.join(missing)}" if missing else ""
        return f"{sites - len(missing)} of {sites} sites are here{waits}"
    known, goal = status["optimality"], f"(to {status['tolerance']:.0e})"
    parts = [f"round {status['round']}", f"{status['answered']} of {sites} sites"]
    parts += ["no certificate yet" if known is None else f"optimality {known:.1e} {goal}"]
    parts += [f"{size(status['bytes_up'])} up, {size(status['bytes_down'])} down"]
    parts += [] if not status["left"] else [f"about {status['left']:.0f} s left"]
    parts += [f"without {', '.join(status['away'])}"] if status["away"] else []
    parts += [f"{status['faults']} faults"] if status["faults"] else []
    return ", ".join(parts)
