"""What `proxfl train` cannot use is refused with exit code 2, in a sentence; nothing is written."""

import pytest

from tests.cli import world
from tests.cli.world import proxfl

OK = "--target progression --loss squared"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    home, table = tmp_path_factory.mktemp("data"), world.diabetes().iloc[:60].round(3)
    world.write(home / "good", table, 2)
    holes = table.copy()
    holes.loc[40, "bmi"] = None
    world.write(home / "holes", holes, 2)
    world.write(home / "text", table.assign(age="old"), 2)
    world.write(home / "odd", table, 2)
    table.iloc[:30].rename(columns={"bmi": "BMI"}).to_csv(home / "odd" / "site1.csv", index=False)
    world.write(home / "minus", table.assign(progression=-1.0), 2)
    (home / "groups.csv").write_text("feature,group\nnone,a\n")
    (home / "weights.csv").write_text("feature,weight\nage,-2\n")
    (home / "unknown.toml").write_text('target = "progression"\nlearning_rate = 1\n')
    (home / "broken.toml").write_text("target = \n")
    return home


CASES = {
    "missing file": (f"nowhere.csv {OK}", "nowhere.csv: there is no such file"),
    "no sites": (OK, "There are no sites"),
    "no target": ("good --loss squared", "key 'target' is missing; it is the column to predict"),
    "unknown column": ("good --target progress --loss squared", "did you mean 'progression'?"),
    "unknown loss": ("good --target progression --loss l2", "key 'loss' must be one of logistic"),
    "missing value": (f"holes {OK}", "column 'bmi' has no value in data row 11; fill it in, or"),
    "text column": (f"text {OK}", "column 'age' is not numeric, first in data row 1"),
    "other columns": (f"odd {OK}", "lacks 'bmi' and has extra 'BMI' compared with"),
    "too many labels": ("good --target progression --loss logistic", "logistic takes 2;"),
    "negative counts": ("minus --target progression --loss poisson", "is below 0 in data row 1"),
    "negative weight": (f"good {OK} --l1 -1e-3", "key 'l1' must be a non-negative number, got -0"),
    "no number": (f"good {OK} --l2 much", "key 'l2' must be a non-negative number, got 'much'"),
    "empty box": (f"good {OK} --box 1 -1", "key 'box' must be two numbers, the lower first"),
    "no joint prox": (f"good {OK} --l1 1 --simplex", "l1 and simplex have no known joint prox"),
    "unknown group": (f"good {OK} --group groups.csv --group-weight 1", "names 'none', which is"),
    "negative factor": (
        f"good {OK} --l1 1 --feature-weights weights.csv",
        "the weight of 'age' must be a non-negative number, got '-2'",
    ),
    "unknown key": ("good --config unknown.toml", "there is no key 'learning_rate'"),
    "broken file": ("good --config broken.toml", "train: broken.toml: this is not TOML"),
    "unknown method": (
        f"good {OK} --algorithm fedsgd",
        "key 'algorithm' must be one of auto, newton, decoupled, ",
    ),
    "penalty ignored": (f"good {OK} --l1 1 --algorithm fedavg", "would ignore the penalty"),
    "unknown constant": (f"good {OK} --l1 1 --algorithm fast-fedda", "needs mu, which no option"),
    "needs everyone": (f"good {OK} --cohort 1", "needs every site in every round; drop cohort"),
    "no server step": (f"good {OK} --algorithm proxskip --eta-g 2", "has no server step"),
    "one step": (f"good {OK} --algorithm proximal-gradient --local-steps 2", "drop local_steps"),
    "large batch": (f"good {OK} --batch 31", "batch must be at most the 30 rows"),
    "large cohort": (f"good {OK} --algorithm fedavg --cohort 3", "at most the 2 sites, got 3"),
    "divergence": (f"good {OK} --algorithm fedavg --eta 1e40", "fedavg diverged: after round"),
    "resume elsewhere": (f"{OK} --resume good", "so --loss cannot be given; only --rounds"),
    "resume nothing": ("--resume good", "manifest.json: there is no such file"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_and_nothing_is_written(data, tmp_path, monkeypatch, name):
    told, words = CASES[name]
    monkeypatch.chdir(data)
    before = sorted(data.rglob("*"))
    outcome = proxfl("train", *told.split(), *([] if "--resume" in told else ["--out", "results"]))
    assert outcome.code == 2 and outcome.out == ""
    assert words in outcome.err and outcome.err.startswith("proxfl train: ")
    assert outcome.err.rstrip()[-1] in ".?" and outcome.err.count("\n") == 1
    assert sorted(data.rglob("*")) == before


def test_a_folder_that_holds_something_is_left_alone(data, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    outcome = proxfl("train", data / "good", *OK.split(), "--out", tmp_path)
    assert outcome.code == 2 and "the folder is not empty" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_unknown_option_is_refused_and_none_may_be_abbreviated(data):
    for option in ("--lasso", "--rou"):
        outcome = proxfl("train", data / "good", *OK.split(), option, "1")
        assert outcome.code == 2 and f"unrecognized arguments: {option}" in outcome.err


@pytest.mark.parametrize("command", ["train", "path"])
@pytest.mark.parametrize("name", ["broken.toml", "nowhere.toml"])
def test_a_file_of_options_that_cannot_be_read_is_named_once(data, command, name):
    outcome = proxfl(command, data / "good", "--config", data / name)
    assert outcome.code == 2 and outcome.err.count(f"{data / name}: ") == 1
