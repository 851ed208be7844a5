"""A model's terms and its intercept, as terminal, report and notebook show them."""

from proxfl.train.spec import Spec
from proxfl.train.terms import intercept, table_of

WARD = {"kind": "category", "levels": ["A", "B", "C"]}
AGE = {"kind": "number", "missing": "indicator"}


def model(values, **problem):
    given = Spec(**{"loss": "squared", "target": "y"} | problem)
    entries = [{"feature": feature, "value": value} for feature, value in values.items()]
    about = {"schema": {"ward": WARD, "age": AGE}, "coef": list(values.values())}
    held = {"problem": given.to_dict(), "nonzeros": entries, "outputs": ["y"], "intercept": 1.23456}
    return held | about


def test_what_is_made_of_one_column_is_one_row_and_each_number_says_of_what_it_is():
    values = {"ward=C": 60.5, "age=missing": 3.0, "ward=B": -2.0, "age": 0.25, "dose": 7.0}
    assert table_of(model(values))[1] == [
        ["ward", "C: 60.5, B: -2"],
        ["age", "0.25, missing: 3"],
        ["dose", 7.0],
    ]


def test_an_intercept_is_told_where_there_is_one_and_where_each_site_has_its_own():
    assert intercept(model({})) == "Intercept: 1.235."
    assert intercept(model({}, intercept=False)) is None
    assert intercept(model({}, loss="cox", target=None, time="t", event="e")) is None
    assert "Each site has an intercept of its own" in intercept(model({}, site_intercepts=True))
