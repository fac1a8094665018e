"""The folder of a demo or a stack: emptied for the next, and nobody else's."""

from __future__ import annotations

import os

import pytest

from waybill_airflow.own_folder import FolderError, Owner, own_folder

OWNER = Owner("stack", "WAYBILL_STACK", ("kafka",))


def test_what_an_earlier_one_left_is_removed_and_nothing_else(tmp_path):
    home = tmp_path / "home"
    os.close(own_folder(home, OWNER))
    (home / "kafka" / "logs").mkdir(parents=True)
    (home / "mine.txt").write_text("kept")
    os.close(own_folder(home, OWNER))
    assert sorted(path.name for path in home.iterdir()) == [".waybill-stack", "mine.txt"]


def test_somebody_else_s_folder_is_left_alone(tmp_path):
    (tmp_path / "kafka").mkdir()
    with pytest.raises(FolderError, match="not a stack's: name a new folder in WAYBILL_STACK"):
        own_folder(tmp_path, OWNER)
    assert (tmp_path / "kafka").exists()


def test_a_running_one_keeps_its_folder(tmp_path):
    lock = own_folder(tmp_path, OWNER)
    (tmp_path / "kafka").mkdir()
    with pytest.raises(FolderError, match=r"a stack is running in .*Ctrl-C"):
        own_folder(tmp_path, OWNER)
    assert (tmp_path / "kafka").exists()
    os.close(lock)
    os.close(own_folder(tmp_path, OWNER))
    assert not (tmp_path / "kafka").exists()
