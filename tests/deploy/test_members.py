"""Members come and go while server and sites run."""

import numpy as np
import pytest

from proxfl.cli.commands.federate import serve
from proxfl.deploy.ops.home import Home
from proxfl.deploy.ops.keys import make_site_keys
from proxfl.deploy.protocol.membership import LiveMembership, Membership
from proxfl.deploy.protocol.study import make_study
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.transport.flower import launch
from proxfl.train.train import train
from tests.cli.world import proxfl
from tests.deploy.field import NAMES, Field


def members(folder, *words):
    done = proxfl("federate", "members", folder, *words)
    assert done.code == 0, done.err
    return done.out


def test_studies_go_on_between_other_members_and_nobody_is_started_again(tmp_path):
    folder = tmp_path / "federation"
    folder.mkdir()
    Membership("field", NAMES[:2]).write(folder)
    field = Field(tmp_path / "sites", l1=0.02)
    for site in field.sites.values():
        site.worker.membership = LiveMembership(folder)
    processes = {name: site.worker for name, site in field.sites.items()}

    def between(*sites):
        field.study = make_study("field", "field", sites, field.spec, unmasked=True)

    between(*NAMES)
    with pytest.raises(
        TooFewSites, match="its copy of federation.toml does not name the site west"
    ):
        field.propose()
    assert "north, south, west" in members(folder, "--add", "west")
    assert field.run("three").solution.converged
    members(folder, "--remove", "south")
    between("north", "west")
    fit, files = field.run("two"), [str(field.files[i]) for i in (0, 2)]
    wanted = train(field.spec.replace(sites=files)).model.coef
    np.testing.assert_allclose(fit.model.coef, wanted, rtol=1e-9, atol=1e-12)
    with pytest.raises(TooFewSites, match="does not name the site south"):
        field.ask(target="y", loss="logistic", l1=0.03)
        field.propose()
    assert {name: site.worker for name, site in field.sites.items()} == processes


@pytest.mark.parametrize("masked", [False, True])
def test_a_study_that_is_open_is_over_once_its_sites_are_no_members(masked, tmp_path):
    """It went on with the former member until the site's process began anew."""
    field = Field(tmp_path, masked=masked)
    site = field.reception(0)
    assert site.decide(field.study)[0] == "takes part"
    ((tag, open_one),) = site.open.items()
    assert site.worker(tag) is open_one
    site.membership = field.membership.without("west")
    with pytest.raises(BadMessage, match="does not name the site west"):
        site.worker(tag)
    site.membership = field.membership
    assert site.worker(tag)


def test_a_server_lets_a_new_member_in_and_a_former_one_no_more(tmp_path, monkeypatch, capsys):
    home, nodes = Home(tmp_path / "server"), []
    made = proxfl("federate", "init", home.folder, "--name", "field", "--sites", *NAMES)
    assert made.code == 0, made.err
    register = lambda folder, key, site: nodes.append(site) or f"{len(nodes)}"
    monkeypatch.setattr(launch, "register", register)
    look = serve.registrar(home, LiveMembership(home.folder))
    public = make_site_keys(tmp_path / "east", "east").public
    add = ("federate", "keys", "add", home.folder, "east", public)
    refused = proxfl(*add)
    assert refused.code == 2 and "federate members --add names another" in refused.err
    members(home.folder, "--add", "east")
    look()
    assert not nodes
    assert proxfl(*add).code == 0
    look()
    assert nodes == ["east"] and "Site east is let in." in capsys.readouterr().out
    said = members(home.folder, "--remove", "east")
    assert "Site east is not let in any more" in said
    assert not (home.public_keys / "east.pub").exists()
    look()
    assert "Site east is let in no more." in capsys.readouterr().out
    study = proxfl("federate", "study", home.folder, "next", "--target=y", "--loss=squared")
    assert study.code == 0 and "east" not in home.study("next").read_text()


def test_members_that_cannot_be_are_refused_in_a_sentence_and_the_file_stays(tmp_path):
    Membership("field", ("north",)).write(tmp_path)
    before = (tmp_path / "federation.toml").read_bytes()
    for words, said in [
        (("--add", "north"), "'north' is a site of field already"),
        (("--add", "../x"), "cannot name a federation, a site or a study"),
        (("--remove", "west"), "'west' is no site of field"),
        (("--remove", "north"), "sites must be distinct names, at least one"),
        (("--add", "west", "--compared", "a", "b"), "--compared is the word of a person"),
    ]:
        done = proxfl("federate", "members", tmp_path, *words)
        assert done.code == 2 and said in done.err and len(done.err.splitlines()) == 1
    assert (tmp_path / "federation.toml").read_bytes() == before


@pytest.mark.parametrize("odd", ["", "name = ", 'name = "other"\nsites = ["a"]\n', None])
def test_members_stay_as_they_were_while_their_file_cannot_be_read(odd, tmp_path):
    Membership("field", ("north", "south")).write(tmp_path)
    live, path = LiveMembership(tmp_path), tmp_path / "federation.toml"
    if odd is None:
        path.unlink()
    else:
        path.write_text(odd)
    assert live.sites == ("north", "south") and live.name == "field"
    Membership("field", ("north", "west")).write(tmp_path)
    assert live.sites == ("north", "west")
