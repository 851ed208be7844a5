"""Tables: the same data from any file, one name for one content, and a sentence per mistake."""

import builtins

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from proxfl.tables import (
    read_features,
    read_site,
    read_sites,
)
from tests.sentences import said

NAMES = ("x1", "x2", "x3")
rng = np.random.default_rng(0)
X = rng.normal(size=(6, 3)) * (rng.random((6, 3)) < 0.7)
X[0] = [1 / 3, 0.0, -0.0]
X[5, 2] = 1e-300
y = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])


def frame(X=X, y=y, names=NAMES):
    return pd.DataFrame(X, columns=list(names)).assign(y=y)


def write(folder, kind, X=X, y=y, names=NAMES, stem="site"):
    path = folder / f"{stem}.{kind.removesuffix('_columns')}"
    if kind == "csv":
        frame(X, y, names).to_csv(path, index=False)
    elif kind == "parquet":
        frame(X, y, names).to_parquet(path)
    elif kind == "npz":
        np.savez(path, X=X, y=y, features=np.array(names))
    elif kind == "npz_columns":
        np.savez(path, y=y, **dict(zip(names, X.T, strict=True)))
    else:
        dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


def text(folder, content, name="site.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


KINDS = ["csv", "parquet", "npz", "npz_columns", "svm", "libsvm", "txt"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_same_table(tmp_path, kind):
    table = read_site(write(tmp_path, kind), "y")
    assert (table.name, table.features, table.rows, table.dropped) == ("site", NAMES, 6, 0)
    assert table.A.dtype == table.y.dtype == np.float64
    if kind in KINDS[:4]:  # dump_svmlight_file writes 16 digits, so the last bit may go
        np.testing.assert_array_equal(table.dense, X)
    np.testing.assert_allclose(table.dense, X, rtol=1e-15)
    np.testing.assert_array_equal(table.y, y)


@pytest.mark.parametrize("kind", KINDS)
def test_the_fingerprint_does_not_depend_on_the_format(tmp_path, kind):
    """With values of few digits, which LIBSVM writes exactly; -0 is 0."""
    coarse = np.round(X * 8) / 8
    expected = read_site(write(tmp_path, "csv", coarse, stem="first"), "y").fingerprint
    assert read_site(write(tmp_path, kind, coarse), "y").fingerprint == expected


def test_the_fingerprint_names_the_content_not_the_order_of_columns(tmp_path):
    name = lambda X=X, y=y, names=NAMES: read_site(write(tmp_path, "csv", X, y, names), "y")
    same = name().fingerprint
    swapped = name(X[:, ::-1], names=NAMES[::-1])
    assert swapped.features == NAMES[::-1] and swapped.fingerprint == same
    nudged = X.copy()
    nudged[3, 1] = np.nextafter(nudged[3, 1], 1)
    flipped = np.where(np.arange(6) == 2, 1 - y, y)
    others = [
        name(nudged),
        name(X[:, ::-1]),
        name(names=("x1", "x2", "x4")),
        name(y=flipped),
        name(X[::-1], y[::-1]),
        name(X[:5], y[:5]),
        name(y=np.where(y > 0, "yes", "no")),
    ]
    assert len({same, *(table.fingerprint for table in others)}) == 1 + len(others)


def test_a_folder_is_its_files_in_order_of_name(tmp_path):
    for stem in ("b", "a", "c"):
        write(tmp_path, "csv", stem=stem)
    text(tmp_path, "junk", ".DS_Store")
    (tmp_path / "old").mkdir()
    assert [table.name for table in read_sites(tmp_path, "y")] == ["a", "b", "c"]
    files = [tmp_path / "c.csv", str(tmp_path / "a.csv")]
    assert [table.name for table in read_sites(files, "y")] == ["c", "a"]


def test_columns_take_the_order_of_the_first_file(tmp_path):
    first = write(tmp_path, "csv", stem="a")
    other = write(tmp_path, "parquet", X[:, ::-1], names=NAMES[::-1], stem="b")
    a, b = read_sites([first, other], "y")
    assert a.features == b.features == NAMES
    np.testing.assert_array_equal(a.A, b.A)
    assert a.fingerprint == b.fingerprint


def test_libsvm_files_are_padded_to_the_features_of_all(tmp_path):
    short = text(tmp_path, "1 1:2.5\n-1 # nothing\n", "a.svm")
    long = text(tmp_path, "1 2:1 11:3\n-1 1:4\n", "b.svm")
    a, b = read_sites([short, long], "y")
    assert a.features == b.features == tuple(f"x{j}" for j in range(1, 12))
    assert a.A.format == b.A.format == "csr"
    np.testing.assert_array_equal(a.dense[:, :2], [[2.5, 0], [0, 0]])
    np.testing.assert_array_equal(b.dense[:, [0, 1, 10]], [[0, 1, 3], [4, 0, 0]])
    zero = text(tmp_path, "1 0:7\n", "c.svm")
    assert [t.features[0] for t in read_sites([short, zero], "y")] == ["x0", "x0"]
    named = write(tmp_path, "csv", X[:, :2], names=NAMES[:2], stem="d")
    assert [t.features for t in read_sites([short, named], "y")] == [NAMES[:2]] * 2


def test_rows_to_predict_are_read_by_name(tmp_path):
    for kind in KINDS:
        found = read_features(write(tmp_path, kind), ("x3", "x1"))
        found = found if isinstance(found, np.ndarray) else found.toarray()
        np.testing.assert_allclose(found, X[:, [2, 0]], rtol=1e-15)
    path = text(tmp_path, "x1,note\n1,some text\n,more\n", "new.csv")
    assert "no column 'x2'; the model needs it" in said(read_features, path, ("x1", "x2"))
    for missing in ("refuse", "drop"):
        assert "'x1' has no value in data row 2" in said(read_features, path, ["x1"], missing)
    np.testing.assert_array_equal(read_features(path, ["x1"], "mean"), [[1.0], [np.nan]])


def test_missing_values_are_refused_dropped_or_left_to_the_caller(tmp_path):
    path = text(tmp_path, "age,size,y\n1,2,a\n3,,b\n,,a\n4,5,\n6,7,b\n")
    sentence = said(read_site, path, "y")
    assert sentence == (
        f"{path}: column 'size' has no value in data row 2, the first of 3 missing values; "
        "fill it in, or choose missing = 'drop' or 'mean'."
    )
    table = read_site(path, "y", "drop")
    np.testing.assert_array_equal(table.A, [[1, 2], [6, 7]])
    assert (table.y.tolist(), table.dropped, table.rows) == (["a", "b"], 3, 2)
    assert "target 'y' has no value in data row 4; " in said(read_site, path, "y", "mean")
    kept = read_site(text(tmp_path, "age,size,y\n1,2,a\n3,,b\n"), "y", "mean")
    np.testing.assert_array_equal(kept.A, [[1, 2], [3, np.nan]])
    assert "one of refuse, drop, mean, got 'median'" in said(read_site, path, "y", "median")
    path = text(tmp_path, "age,y\n,1\n2,\n")
    assert "dropping them leaves none" in said(read_site, path, "y", "drop")


def test_missing_values_in_a_libsvm_file(tmp_path):
    path = text(tmp_path, "1 1:2\n0 2:nan\nnan 1:1\n", "site.svm")
    assert "column 'x2' has no value in data row 2" in said(read_site, path, "y")
    table = read_site(path, "y", "drop")
    assert (table.dropped, table.dense.tolist()) == (2, [[2.0, 0.0]])
    filled = text(tmp_path, "1 1:2\nnan 1:1\n", "site.svm")
    assert "target 'y' has no value in data row 2" in said(read_site, filled, "y")


def test_truth_values_are_numbers_as_features_and_text_as_a_target(tmp_path):
    path = text(tmp_path, "smoker,ill\nTrue,False\n,True\nFalse,True\n")
    table = read_site(path, "ill", "mean")
    np.testing.assert_array_equal(table.A, [[1], [np.nan], [0]])
    assert set(table.y) == {"False", "True"}
    other = read_site(write_bools(tmp_path), "ill", "mean")
    assert table.fingerprint == other.fingerprint


def write_bools(folder):
    path = folder / "site.parquet"
    data = {"smoker": pd.array([True, None, False], "boolean"), "ill": [False, True, True]}
    pd.DataFrame(data).to_parquet(path)
    return path


def test_spaces_quotes_and_a_byte_order_mark_are_no_part_of_a_name(tmp_path):
    path = text(tmp_path, b'\xef\xbb\xbf\n "a, b" , size,y\n\n1, 2,0\n3, 4,1\n')
    table = read_site(path, "y")
    assert table.features == ("a, b", "size")
    np.testing.assert_array_equal(table.A, [[1, 2], [3, 4]])


WRONG_CSV = [
    ("", "the file is empty"),
    ("a,y\n", "no rows of data"),
    ("y\n1\n", "no feature beside the target"),
    ("a,b\n1,2\n", "no column 'y' among 2"),
    ("a,Y\n1,2\n", "no column 'y'; did you mean 'Y'?"),
    ("a;y\n1;2\n", "that commas separate them"),
    ("a,b,a,y\n1,2,3,4\n", "more than one column is named 'a'"),
    (",a,y\n0,1,2\n", "column 1 has no name; name it or remove it (pandas"),
    ("a,y\n1,2,3\n", "the header names 2 columns and data row 1 has 3 fields"),
    ("a,y\n1,2\n3,4,5\n", "line 2 after the header has more fields"),
    ("a,y\n1,2\nsecret,3\n", "column 'a' is not numeric, first in data row 2"),
    ("a,y\n1,2\ninf,3\n", "column 'a' is infinite in data row 2"),
    ("a,y\n1,2\n3,-inf\n", "column 'y' is infinite in data row 2"),
    ("a,y\n1,2\n2020-01-01,3\n", "column 'a' is not numeric, first in data row 2"),
    (b"a,y\n1,\xe9\n", "not UTF-8"),
    (b'a,y\n1,"secret\n', "a quoted text does not end"),
]


@pytest.mark.parametrize(("content", "words"), WRONG_CSV)
def test_a_wrong_csv_is_refused_by_file_column_and_row(tmp_path, content, words):
    path = text(tmp_path, content)
    sentence = said(read_site, path, "y")
    assert sentence.startswith(f"{path}: ") and words in sentence
    assert "secret" not in sentence


def test_only_near_names_are_listed_since_a_header_may_be_a_row_of_data(tmp_path):
    path = text(tmp_path, "5.1,Jane,diagnosis_\n4.9,Joe,1\n")
    sentence = said(read_site, path, "diagnosis")
    assert "did you mean 'diagnosis_'?" in sentence and "Jane" not in sentence
    assert "Jane" not in said(read_site, path, "outcome")
    assert "Jane" not in said(read_site, text(tmp_path, "Jane,Jane,1\nJoe,Joe,2\n"), "outcome")


def test_a_file_that_is_not_there_or_of_no_known_kind(tmp_path):
    assert "there is no such file" in said(read_site, tmp_path / "no.csv", "y")
    assert "this is a folder" in said(read_site, tmp_path, "y")
    sentence = said(read_site, text(tmp_path, "a", "site.xlsx"), "y")
    assert "must end in .csv, .parquet, .npz, or for LIBSVM in .svm, .libsvm, .txt" in sentence
    (tmp_path / "empty").mkdir()
    assert "no file in this folder" in said(read_sites, [tmp_path / "empty"], "y")
    assert "There are no sites" in said(read_sites, [], "y")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.parquet", "Parquet"), ("a.npz", "NPZ without pickled objects")],
)
def test_a_damaged_file_is_refused_without_quoting_it(tmp_path, name, kind):
    sentence = said(read_site, text(tmp_path, "secret" * 99, name), "y")
    assert f"cannot be read as {kind}; check the file" in sentence and "secret" not in sentence


def test_a_wrong_line_of_libsvm_is_counted(tmp_path):
    for wrong in ("secret 1:2", "1 2:1 1:1", "1 1:secret", "1 -1:2"):
        path = text(tmp_path, f"1 1:2\n\n{wrong}\n1 1:1\n", "a.svm")
        sentence = said(read_site, path, "y")
        assert "line 3 is not LIBSVM" in sentence and "secret" not in sentence
    assert "no rows of data" in said(read_site, text(tmp_path, "\n", "a.svm"), "y")
    assert "no feature" in said(read_site, text(tmp_path, "1\n", "a.svm"), "y")


WRONG_NPZ = [
    ({"X": X, "y": y, "ids": y}, "beside X, y and features there is 'ids'"),
    ({"X": X}, "there is X but no y"),
    ({"X": X, "y": y[:5]}, "the arrays have shapes (5,), (6,)"),
    ({"X": X, "y": y, "features": ["a", "b"]}, "X has 3 columns and features has 2 names"),
    ({"X": X, "y": y, "features": ["a", "b", "y"]}, "'y' is the target and also in features"),
    ({"X": X, "y": y, "features": ["a", "b", "a"]}, "more than one column is named 'a'"),
    ({"a": X, "y": y}, "the arrays have shapes (6,), (6, 3)"),
    ({"a": y, "b": y}, "no column 'y' among 2"),
    ({"a": y.astype("O"), "y": y}, "cannot be read as NPZ without pickled objects"),
    ({"a": y + 1j, "y": y}, "column 'a' is not numeric, first in data row 1"),
]


@pytest.mark.parametrize(("arrays", "words"), WRONG_NPZ, ids=lambda a: a if type(a) is str else "")
def test_a_wrong_npz_is_refused(tmp_path, arrays, words):
    np.savez(tmp_path / "site.npz", **{k: np.asarray(v) for k, v in arrays.items()})
    assert words in said(read_site, tmp_path / "site.npz", "y")


def test_a_bare_array_is_no_table(tmp_path):
    with (tmp_path / "site.npz").open("wb") as file:
        np.save(file, X)
    assert "one bare array; save it with numpy.savez" in said(read_site, file.name, "y")


def test_an_extra_that_is_not_installed_is_named(tmp_path, monkeypatch):
    def without(name, *args, real=builtins.__import__, **kwargs):
        if name.split(".")[0] in ("pyarrow", "sklearn"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    parquet, svm = write(tmp_path, "parquet"), write(tmp_path, "svm")
    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'proxfl[parquet]'" in said(read_site, parquet, "y")
    assert "pip install 'proxfl[sklearn]'" in said(read_site, svm, "y")


def test_sites_that_differ_are_named_with_their_columns(tmp_path):
    a = text(tmp_path, "age,size,y\n1,2,3\n", "a.csv")
    b = text(tmp_path, "weight,size,y\n1,2,3\n", "b.csv")
    sentence = said(read_sites, [a, b], "y")
    assert sentence == (
        f"site {b} lacks 'age' and has extra 'weight' compared with {a}; "
        "give every site the same columns."
    )
    wide = text(tmp_path, ",".join(f"c{i}" for i in range(9)) + ",y\n" + "1," * 9 + "1\n", "c.csv")
    assert "'c3', 'c4' and 4 more compared" in said(read_sites, [a, wide], "y")
    sparse = text(tmp_path, "1 3:1\n", "d.svm")
    named = text(tmp_path, "x1,x2,y\n1,1,1\n", "e.csv")
    assert "d.svm has extra 'x3' compared with" in said(read_sites, [sparse, named], "y")


def test_two_files_for_one_site_are_refused(tmp_path):
    files = [write(tmp_path, "csv"), write(tmp_path, "npz")]
    assert f"the site 'site' is already {files[0]}; rename" in said(read_sites, files, "y")


def test_text_at_one_site_and_numbers_at_another_are_refused(tmp_path):
    a, b = write(tmp_path, "csv", stem="a"), write(tmp_path, "csv", y=list("pqpqpq"), stem="b")
    assert f"{b}: the target 'y' is text, unlike in {a}" in said(read_sites, [a, b], "y")
    assert f"{a}: the target 'y' is numbers, unlike in {b}" in said(read_sites, [b, a], "y")
