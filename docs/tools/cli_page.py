"""Write docs/cli.md, the reference of the command line, from the parsers themselves."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from proxfl.cli.main import parser
from proxfl.cli.shared.arguments import LazyParser

HEAD = """# The command line

Made from the parsers by `python docs/tools/cli_page.py`; `proxfl COMMAND --help` says the same.
"""
EXITS = """
Exit codes of all commands: 0 done (for one that trains: converged), 1 an error of the program, 2
bad input and nothing is written, 3 not converged (the model, or the state to go on from, is written
and says so), 4 the disk is full, read-only or broken (what was on it is whole, and a run can go
on), 130 interrupted, 141 nobody reads the output any more.
"""
Lines = dict[str, list[str]]


def page() -> str:
    commands = parsers(parser())
    usual = options(commands["train"])
    parts = [HEAD, ", ".join(f"[{name}](#proxfl-{name})" for name in commands), EXITS]
    for name, command in commands.items():
        parts += section(f"## proxfl {name}", command, usual if name != "train" else {})
        for action, its in parsers(command).items():
            parts += section(f"### proxfl {name} {action}", its, usual)
            for below, last in parsers(its).items():
                parts += section(f"#### proxfl {name} {action} {below}", last, usual)
    return "\n".join([*parts, *names()])


def names() -> Iterator[str]:
    """What the options that take a name may be given."""
    from proxfl.research.league.entrants import ENTRANTS
    from proxfl.research.shipped import CONDITIONS, PROBLEMS

    yield "## Names\n"
    yield f"* `--problem` of compare, sweep and steps: {quoted(PROBLEMS)}."
    yield f"* `--problem` of compare besides: {quoted(CONDITIONS)}."
    yield f"* `--method` of compare: {quoted(ENTRANTS)}.\n"


def quoted(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


def parsers(of: argparse.ArgumentParser) -> dict[str, LazyParser]:
    """The parsers below one, by name."""
    below = [a for a in of._actions if isinstance(a, argparse._SubParsersAction)]
    return {name: its.filled() for name, its in below[0].choices.items()} if below else {}


def section(heading: str, command: argparse.ArgumentParser, usual: Lines) -> Iterator[str]:
    yield f"{heading}\n\n{command.description}\n"
    held = options(command)
    same = [group for group in held if group in usual and set(held[group]) <= set(usual[group])]
    for group in (g for g in held if g not in same):
        yield "\n".join([f"*{group}*\n", *held[group], ""])
    if same:
        lacking = [line for group in same for line in usual[group] if line not in held[group]]
        but = quoted(line.split("`")[1].split()[0] for line in lacking)
        but = f", without {but}" if but else ""
        yield f"*{', '.join(same)}*: as in [train](#proxfl-train){but}.\n"
    if command.epilog:
        yield f"```text\n{command.epilog.strip()}\n```\n"


def options(command: argparse.ArgumentParser) -> Lines:
    """A line for each argument, by the title of its group."""
    found: Lines = {}
    for group in command._action_groups:
        title = {"positional arguments": "what", "options": "options"}.get(group.title, group.title)
        found[title] = [line(a) for a in group._group_actions if told(a)]
    return {title: lines for title, lines in found.items() if lines}


def told(action: argparse.Action) -> bool:
    return not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)


def line(action: argparse.Action) -> str:
    meaning = (action.help or "").replace("%%", "%")
    if action.default not in (None, argparse.SUPPRESS, False, []) and "(default" not in meaning:
        meaning = f"{meaning} (default: {shown(action.default)})".strip()
    spelling = " ".join([", ".join(action.option_strings), *values(action)]).strip()
    return f"* `{spelling}`" + (f" {meaning}" if meaning else "")


def shown(default: object) -> str:
    held = default if isinstance(default, tuple | list) else [default]
    return (":" if isinstance(default, tuple) else " ").join(map(str, held))


def values(action: argparse.Action) -> list[str]:
    """What follows an option, or stands for an argument, as argparse spells it."""
    if action.nargs == 0:
        return []
    name = "|".join(map(str, action.choices or ())) or action.metavar or action.dest.upper()
    if isinstance(name, tuple):
        return list(name)
    return [
        {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}.get(
            action.nargs, name
        )
    ]


if __name__ == "__main__":
    Path(__file__).parent.parent.joinpath("cli.md").write_text(page())
