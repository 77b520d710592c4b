"""The time limit of the slow tier, and folders that the processes of a run share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from shared_folder import made_once
from tiers import TimeLimit, pytest_collection_modifyitems


def item(root, path, *markers):
    return SimpleNamespace(
        path=root / path,
        config=SimpleNamespace(rootpath=root),
        get_closest_marker=lambda name: name if name in markers else None,
    )


def test_tests_that_kill_and_damage_come_before_browsers_and_those_before_many_examples(tmp_path):
    kill = item(tmp_path, "tests/store/test_lock.py", "slow")
    browser = item(tmp_path, "tests/server/browser/test_ask.py", "slow")
    examples = item(tmp_path, "tests/store/test_sqlite.py", "slow", "hypothesis")
    items = [examples, browser, kill]
    TimeLimit(60).pytest_collection_modifyitems(items)
    assert items == [kill, browser, examples]


def test_a_test_after_the_limit_is_skipped_and_one_before_it_is_not():
    TimeLimit(60).pytest_runtest_setup()
    with pytest.raises(pytest.skip.Exception, match="before this test began"):
        TimeLimit(-1).pytest_runtest_setup()


def test_a_shared_folder_is_made_once(tmp_path):
    made = []

    def make(folder):
        made.append(folder)
        (folder / "file").touch()

    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: made_once(tmp_path / "shared", make), range(8)))
    assert made == [tmp_path / "shared"]
    assert all((folder / "file").exists() for folder in folders)


def test_a_folder_is_made_again_if_making_it_failed(tmp_path):
    with pytest.raises(ZeroDivisionError):
        made_once(tmp_path / "shared", lambda _: 1 / 0)
    made_once(tmp_path / "shared", lambda folder: (folder / "file").touch())
    assert (tmp_path / "shared" / "file").exists()


def test_a_fixed_sample_of_the_cases_is_fast(tmp_path):
    def cases(order):
        items = [item(tmp_path, "tests/test_a.py") for _ in range(12)]
        for number, one in enumerate(items):
            one.nodeid = f"tests/test_a.py::test[{number:02}]"
            one.get_closest_marker = lambda name: name == "fast_cases" and SimpleNamespace(args=[4])
            one.added = []
            one.add_marker = one.added.append
        pytest_collection_modifyitems(items[::order])
        return {one.nodeid for one in items if not one.added}

    assert len(cases(1)) == 4
    assert cases(1) == cases(-1)
