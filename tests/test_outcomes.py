"""What parts of a long test have reached is joined without counting a seed twice."""

from collections import Counter

import pytest

from tests import outcomes


def reach(monkeypatch, part, seeds=range(100, 150), until=1000, end=KeyboardInterrupt):
    """A part of a test that is cut short when it comes to a seed."""

    def run(some):
        if until in some:
            raise end
        return Counter({"even": sum(seed % 2 == 0 for seed in some), "largest": max(some)})

    monkeypatch.setattr(outcomes, "PART", part)
    outcomes.soak("some", seeds, 4, run)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(outcomes, "FOLDER", tmp_path)
    return tmp_path


def test_parts_come_to_what_the_whole_does(folder, monkeypatch):
    reach(monkeypatch, "1/1")
    whole = (folder / "some.json").read_text()
    (folder / "some.json").unlink()
    for part in ("1/3", "3/3", "2/3"):
        reach(monkeypatch, part)
    outcomes.main()
    assert {path.name for path in folder.iterdir()} == {"some.json", "table.md"}
    assert "50 of 50 seeds (100 to 149)" in (folder / "table.md").read_text()
    assert (folder / "some.json").read_text() == whole


def test_a_part_that_was_cut_short_tells_what_it_reached_and_goes_on(folder, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        reach(monkeypatch, "2/5", until=115)
    assert '"seeds reached": 4' in (folder / "some.2-of-5.json").read_text()
    reach(monkeypatch, "2/5")
    again = (folder / "some.2-of-5.json").read_text()
    (folder / "some.2-of-5.json").unlink()
    reach(monkeypatch, "2/5")
    assert (folder / "some.2-of-5.json").read_text() == again


def test_a_long_test_that_has_grown_asks_for_all_its_seeds(folder, monkeypatch):
    reach(monkeypatch, "1/1", seeds=range(100, 110))
    (folder / "some.json").rename(folder / "some.1-of-5.json")
    reach(monkeypatch, "5/5")
    outcomes.main()
    assert "20 of 50 seeds (100 to 109, 140 to 149)" in (folder / "table.md").read_text()


def test_seeds_that_were_counted_are_not_counted_again(folder, monkeypatch):
    reach(monkeypatch, "1/2")
    reach(monkeypatch, "1/3")
    with pytest.raises(ValueError, match="were counted"):
        outcomes.main()


def reached_in_part(folder, monkeypatch):
    """Two parts of five are gone through; what all five would have left."""
    reach(monkeypatch, "1/1")
    whole = (folder / "some.json").read_text()
    (folder / "some.json").unlink()
    for part in ("2/5", "4/5"):
        reach(monkeypatch, part)
    outcomes.main()
    return whole


def test_the_rest_is_what_the_whole_has_not_reached(folder, monkeypatch):
    whole = reached_in_part(folder, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        reach(monkeypatch, "rest", until=125)
    assert "34 of 50" in (outcomes.main(), (folder / "table.md").read_text())[1]
    reach(monkeypatch, "rest")
    assert (folder / "some.json").read_text() == whole
    reach(monkeypatch, "rest", until=100)


def test_parts_share_what_the_whole_has_not_reached(folder, monkeypatch):
    whole = reached_in_part(folder, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        reach(monkeypatch, "1/2", until=122)
    for part in ("2/2", "1/2"):
        reach(monkeypatch, part)
    outcomes.main()
    assert (folder / "some.json").read_text() == whole


def test_a_block_that_failed_is_told_until_it_is_gone_through(folder, monkeypatch):
    told = lambda: (folder / "table.md").read_text()
    for part, start in ("1/2", 100), ("2/2", 125):
        with pytest.raises(AssertionError):
            reach(monkeypatch, part, until=start + 5, end=AssertionError)
    outcomes.main()
    assert "8 of 50 seeds (100 to 103, 125 to 128)" in told()
    assert "A block with these seeds failed: 104 to 107, 129 to 132." in told()
    reach(monkeypatch, "rest")
    outcomes.main()
    assert "50 of 50" in told() and "failed" not in told()
