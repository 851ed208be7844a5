"""Input is refused in one sentence."""

import pytest

from proxfl.errors import InputError


def said(function, *args, **options):
    """The sentence with which the input is refused."""
    with pytest.raises(InputError) as caught:
        function(*args, **options)
    sentence = str(caught.value)
    assert sentence[-1] in ".?" and "\n" not in sentence
    return sentence
