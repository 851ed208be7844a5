"""The values of a column, as text, numbers or days, whatever the file held them as."""

from typing import Any

import numpy as np

Series = Any  # of pandas, which is imported when a file is read
Encoded = tuple[np.ndarray, np.ndarray]  # values, and the rows that have none of this kind


def to_text(column: Series) -> Series:
    """A column as text without outer spaces, whole numbers without a point, empty as missing."""
    text = column.astype("string").str.strip()
    text = text.str.replace(r"^([+-]?\d+)\.0*$", r"\1", regex=True)
    return text.mask(text == "")


def to_numbers(column: Series) -> Encoded:
    """A column in float64, NaN where a value is missing or no number, and where it is none.

    False and true are 0 and 1.
    """
    import pandas as pd

    column = column.convert_dtypes() if column.dtype == object else column
    if column.dtype.kind in "iuf" or pd.api.types.is_bool_dtype(column):
        return floats(column), np.zeros(len(column), bool)
    found: Any = pd.to_numeric(column.astype("string"), errors="coerce")
    return floats(found), (found.isna() & column.notna()).to_numpy()


def to_days(column: Series) -> np.ndarray:
    """Days since 1970 by the date as it is written, whatever the time and its zone; NaN where there
    is none."""
    import pandas as pd

    if not pd.api.types.is_datetime64_any_dtype(column):
        text = column.astype("string").str.strip()
        text = text.where(text.str.match(r"\d{4}-\d\d-\d\d([ T]|$)").fillna(False))
        moments = pd.to_datetime(text, errors="coerce", format="ISO8601", utc=True)
        column = pd.to_datetime(text.where(moments.notna()).str.slice(0, 10), format="%Y-%m-%d")
    days = column.dt.tz_localize(None).to_numpy("datetime64[D]")
    return np.where(np.isnat(days), np.nan, days.astype(float))


def floats(column: Series) -> np.ndarray:
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy(np.float64)
    return column.astype("Float64").to_numpy(np.float64, na_value=np.nan)
