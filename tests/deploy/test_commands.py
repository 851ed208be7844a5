"""`proxfl federate` as one types it: a server and three sites under TLS, and much that goes wrong.

The one real deployment among the tests; `make soak` has more.
"""

import json
import os
import signal
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

from proxfl.deploy.ops.home import read_json
from proxfl.deploy.ops.keys import make_server_keys, make_site_keys
from proxfl.deploy.transport.flower.site import (
    CONNECTED,
    NOT_LET_IN,
    UNKNOWN_SERVER,
    Server,
    Stop,
    attend,
)
from proxfl.storage.files import write_text
from proxfl.train.applied import Applied
from proxfl.train.evaluate import evaluate
from proxfl.train.folder import read, read_model
from tests.cli.world import proxfl
from tests.deploy.field import NAMES, Field
from tests.deploy.processes import Deployment, commands, kill, processes, until

# Newton's method would be done before all of the trouble is.
PROBLEM = {"target": "y", "loss": "logistic", "l1": 0.02, "algorithm": "decoupled", "rounds": 6}
SECOND = {"target": "y", "loss": "logistic", "l1": 0.05}


def send_code(app, marked):
    """What a server could do that wants more than the method gives it."""
    write_text(app / "sent.py", f"open({str(marked)!r}, 'w').close()\napp = None\n")
    project = (app / "pyproject.toml").read_text()
    assert "flower.app:site" in project
    write_text(
        app / "pyproject.toml",
        project.replace("proxfl.deploy.transport.flower.app:site", "sent:app"),
    )


def heard_by(there, authority, key, folder):
    """What becomes of a site that comes with this key and trusts this authority."""
    stop, heard = Stop(), []

    def say(sentence):
        heard.append(sentence)
        stop.set()

    attend(Server(there.address, authority, key), folder, lambda frame: frame, stop, say)
    return heard[0]


def status_of(url, authority):
    trust = ssl.create_default_context(cafile=str(authority))
    try:
        with urllib.request.urlopen(url, b"", timeout=10, context=trust) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def keys(*words):
    done = proxfl("federate", "keys", *words)
    assert done.code == 0, done.err


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.filterwarnings("ignore:Not converged")
def test_three_sites_much_trouble_and_the_model_of_an_undisturbed_run(tmp_path):
    field, marked = Field(tmp_path / "twin", **PROBLEM), tmp_path / "code sent by the server ran"
    with commands(tmp_path) as start:
        there = Deployment(tmp_path, start, field.files, **PROBLEM)
        home = there.home
        send_code(home.app, marked)
        joined = [there.join(name) for name in NAMES]
        joined[0].wait_for("The server does not answer; it tries again.")
        server = there.serve()
        joined[0].wait_for("It waits for the people at the server to add its key, north.pub.")
        for name in NAMES:
            there.let_in(name)
            server.wait_for(f"Site {name} is let in.")
        run = start("run", home.folder)

        # Meanwhile: who may not come in, and what nobody may ask.
        own = there.site("north") / "keys" / "north.key"
        unknown = make_site_keys(tmp_path / "stranger", "north").private
        false = make_server_keys(tmp_path / "false").authority
        assert heard_by(there, home.authority, unknown, tmp_path) == NOT_LET_IN.format(
            key="north.pub"
        )
        assert heard_by(there, false, own, tmp_path) == UNKNOWN_SERVER
        for path in ("control/start-run", "control/register-node", "runtime/acquire-task"):
            assert status_of(f"https://{there.address}/v1/{path}", home.authority) == 404
        address = f"https://{there.address}/v1/fleet/pull-messages"
        assert status_of(address, home.authority) >= 400

        # A site is killed, then the server's program, then the server and all of it.
        until(lambda: there.rounds() >= 1)
        kill(there.folder / "at-south", "site")
        until(lambda: there.rounds() >= 3)
        os.kill(read_json(home.status, "")["pid"], signal.SIGKILL)
        assert run.ended() == 3
        assert "The server's program ended" in run.said and "Go on with: proxfl" in run.said
        server.process.kill()
        kill(home.server, "superlink")
        server = there.serve(deaf=True)
        server.wait_for("Stop it with Ctrl-C")

        resumed = start("resume", home.folder)
        assert resumed.ended() == 3, resumed.said
        assert "Not converged after 6 rounds" in resumed.said and "--rounds 12" in resumed.said
        shown = start("status", home.folder)
        assert (
            shown.ended() == 0
            and "The last run, of study field, is finished: round 6" in shown.said
        )
        assert shown.said.count("connected │") == 3
        assert mode(there.site("south")) == 0o700

        # Another study, and one that a site wants a person for; nothing is started again.
        field.ask(**SECOND)
        words = [f"--{key}={value}" for key, value in SECOND.items()]
        assert proxfl("federate", "study", home.folder, "second", *words).code == 0
        policy = there.site("west") / "policy.toml"
        loose = policy.read_text()
        write_text(policy, loose.replace('    "train",\n', ""))
        second = start("run", home.folder, "second")
        assert second.ended() == 3 and "west waits: a person there decides" in second.said
        joined[2].wait_for("(proxfl federate approve DIR second --site west)")
        approved = proxfl("federate", "approve", there.folder / "at-west", "second", "--site=west")
        assert approved.code == 0, approved.err

        # It is masked, so people compare words, once; a site dies on the way.
        second = start("run", home.folder, "second")
        assert second.ended() == 3 and "north waits: a person there compares" in second.said
        for name in NAMES:
            others = [other for other in NAMES if other != name]
            at = (there.folder / f"at-{name}", "--site", name)
            shown = proxfl("federate", "members", *at)
            known = proxfl("federate", "members", *at, "--compared", *others)
            assert known.code == 0 and shown.out.split("Words: ")[1][:71] in second.said
        second = start("run", home.folder, "second")
        steps = home.folder / "results-second" / "exchanges"
        until(lambda: len(list(steps.glob("[!.]*"))) > 2)
        assert second.stop() == 130 and "Interrupted; go on with: proxfl" in second.said
        second = start("run", home.folder, "second")  # right after
        until(lambda: "it goes on in" in second.said)
        kill(there.folder / "at-north", "site")
        assert second.ended() == 0, second.said
        write_text(policy, loose)

        # How good a model is: counts in narrow cells are for people to allow, at every site.
        model = ("--model", home.folder / "results-second", "--draws=2")
        judged = start("evaluate", home.folder, "judged", *model)
        assert judged.ended() == 3 and "north waits: a person there decides" in judged.said
        for name in NAMES:
            at = there.folder / f"at-{name}"
            assert proxfl("federate", "approve", at, "judged", "--site", name).code == 0
        judged = start("run", home.folder, "judged", "--json")
        assert judged.ended() == 0, judged.said
        for name in NAMES:
            at = there.folder / f"at-{name}"
            whole = proxfl("federate", "audit", at, "--site", name, "--out", at / "audit.html")
            assert whole.code == 0 and f"The log of site {name} is whole" in whole.out
        listed = proxfl("federate", "studies", there.folder / "at-west", "--site=west")
        assert listed.out.count("takes part") == 3

        # A key is removed, and another takes its place; nothing is started again for it.
        south, at_south = joined[1], there.folder / "at-south"
        south.says_again(
            NOT_LET_IN.format(key="south.pub"), lambda: keys("remove", home.folder, "south")
        )
        keys("rotate", at_south, "south")
        south.says_again(CONNECTED, lambda: there.let_in("south"))
        assert server.said.count("Site south is let in no more.") == 1
        for command in (server, *joined):
            assert command.stop() == 0 and " is stopped." in command.said
    assert not processes(tmp_path) and not marked.exists()
    field.ask(**PROBLEM)
    field.run("straight")
    straight, found = tmp_path / "twin" / "straight", home.folder / "results"
    for name in ("model.json", "model.safetensors"):
        assert (found / name).read_bytes() == (straight / name).read_bytes()
    wanted = field.trained().model.coef
    np.testing.assert_allclose(read_model(found)[0].coef, wanted, atol=1e-12)
    field.ask(**SECOND)
    trained = field.trained().model.coef
    second = read_model(found.parent / "results-second")[0].coef
    np.testing.assert_allclose(second, trained, atol=1e-10)
    masking = read(found.parent / "results-second").manifest["deployment"]["masking"]
    assert masking["signatures"].keys() == set(NAMES)
    scores = json.loads((found.parent / "results-judged" / "evaluation.json").read_text())
    wanted = evaluate(
        Applied.of(*read_model(found.parent / "results-second")), field.files, draws=0
    )
    assert scores["overall"]["auc"] == pytest.approx(wanted.overall.scores["auc"], rel=1e-12)
    deployment = read(found).manifest["deployment"]
    assert deployment["resumed"] == 1
    assert all(site["rounds"] == 6 for site in deployment["sites"].values())


def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path):
    base = ["federate", "init", tmp_path / "new", "--target", "y", "--loss", "logistic"]
    for more, words in [
        (["--sites", "a", "a"], "sites must be distinct names"),
        (["--sites", "a/b"], "cannot name a federation, a site or a study"),
        (["--sites", "a", "--l1", "-1"], "key 'l1' must be"),
        (["--sites", "a", "--algorithm", "dp-spider"], "needs clip, clip_change, noise_multiplier"),
        (["--sites", "a", "--cohort", "1"], "needs every site in every round"),
    ]:
        done = proxfl(*base, *more)
        assert (done.code, done.out) == (2, "") and words in done.err
        assert len(done.err.strip().splitlines()) == 1 and not (tmp_path / "new").exists()
    assert proxfl(*base, "--sites", "a", "b").code == 0
    for command, words in [
        (
            ["init", tmp_path / "new", "--sites", "a", "--target", "y", "--loss", "huber"],
            "not empty",
        ),
        (["run", tmp_path / "new"], "does not run; start it with proxfl federate serve"),
        (["resume", tmp_path / "new"], "there was no run yet"),
        (["join", tmp_path / "new", "--data", "a.csv", "--server", "x:1"], "a.csv: there is no"),
        (["join", tmp_path / "new", "--data", "c.csv", "--server", "x:1"], "'c' is no site of new"),
        (["keys", "make", tmp_path / "new", "c"], "'c' is no site of new; it is one of a, b"),
        (["serve", tmp_path], "federation.toml: there is no such file"),
        (["demo", "--sites", "0"], "needs a whole number of at least 1"),
    ]:
        done = proxfl("federate", *command)
        assert done.code == 2 and words in done.err
        assert len(done.err.strip().splitlines()) == 1
    done = proxfl("federate", "status", tmp_path / "new")
    assert done.code == 0 and "There was no run yet." in done.out


def test_help_that_lists_no_losses_waits_for_neither_jax_nor_flower():
    code = (
        "import sys; from proxfl.cli.main import main\n"
        "for words in ('--help', 'federate --help', 'federate serve --help', 'predict --help'):\n"
        "    try: main(words.split())\n"
        "    except SystemExit: pass\n"
        "heavy = {'jax', 'flwr', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True)
