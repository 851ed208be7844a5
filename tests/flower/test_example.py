"""The example app: what changes from FedAvg to a sparse network, and that it runs."""

import difflib
import importlib
import sys
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from tests.deploy.grid import inside_flower
from tests.flower.nodes import Nodes

torch = pytest.importorskip("torch", reason="PyTorch is an extra; `make torch` installs it")
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "flower"


def test_about_twenty_lines_change():
    files = [Path("digits") / name for name in ("task.py", "client_app.py", "server_app.py")]
    lines = lambda folder, file: (EXAMPLE / folder / file).read_text().splitlines()
    told = [line for f in files for line in difflib.ndiff(lines("fedavg", f), lines("sparse", f))]
    come, gone = (sum(line.startswith(sign) for line in told) for sign in ("+ ", "- "))
    assert come <= 20 and come < gone


@pytest.mark.filterwarnings("default")
def test_it_trains_a_sparse_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLE / "sparse")
    apps = [importlib.import_module(f"digits.{side}_app").app for side in ("client", "server")]
    with inside_flower():
        about = Context(1, 1, {}, RecordDict(), {"num-server-rounds": 4})
        apps[1](Nodes(apps[0]), about)
    for name in [name for name in sys.modules if name.split(".")[0] == "digits"]:
        monkeypatch.delitem(sys.modules, name)
    model = torch.load("model.pt")
    assert list(model) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert (model["0.weight"] == 0).any() and not (model["0.weight"] == 0).all()
