"""Data and fits that several tests look at, each made once."""

import numpy as np
import pytest

from tests.cli import world
from tests.cli.fits import arguments
from tests.cli.world import proxfl
from tests.deploy import conftest  # noqa: F401  (Flower is imported as for the tests of real sites)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder of sites for each data set, and the files that options name."""
    home, cancer = tmp_path_factory.mktemp("data"), world.cancer()
    cancer["benign"] = np.where(cancer["benign"] == 1, "yes", "no")
    world.write(home / "cancer", world.by_label(cancer), 3)
    world.write(home / "diabetes", world.diabetes(), 3)
    world.write(home / "wine", world.by_label(world.wine()), 3, "parquet")
    world.write(home / "digits", world.digits(), 2, "npz")
    world.write(home / "sparse", world.diabetes(), 3, "svm")
    holes = world.diabetes()
    holes.loc[[3, 200], "bmi"] = np.nan
    world.write(home / "holes", holes, 3)
    world.write(home / "mixed", world.mixed(), 3)
    (home / "schema.toml").write_text(world.SCHEMA)
    (home / "groups.csv").write_text(
        "feature,group\nage,\nsex,body\nbmi,body\nbp,body\n"
        + "".join(f"s{k},{'blood' if k < 4 else 'rest'}\n" for k in range(1, 7))
    )
    (home / "factors.csv").write_text("feature,weight\nage,2.5\nbmi,0\n")
    return home


@pytest.fixture(scope="session")
def fitted(data, tmp_path_factory):
    """The outcome of each case, run once: by name, what it printed and its folder."""
    done = {}

    def fit(name):
        if name not in done:
            folder = tmp_path_factory.mktemp("fits") / name.replace(" ", "-")
            done[name] = proxfl(*arguments(data, name), "--out", folder, "--json"), folder
        return done[name]

    return fit
