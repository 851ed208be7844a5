"""Who may read a file is settled before its first byte, and nobody else writes files."""

import ast
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxfl.errors import DamageError, DiskError, InputError
from proxfl.storage import documents
from proxfl.storage.files import append, whole, whole_folder, write_bytes
from proxfl.storage.sealed import read_arrays, sealed, write_arrays
from tests.storage.faulty import FULL, disk
from tests.test_imports import modules

# By module, what it does that the file functions do elsewhere, and why it may.
ALLOWED = {
    "proxfl.storage.files": {"open", "mkdir", "rmdir", "replace", "unlink", "rmtree"},  # they
    "proxfl.train.folder": {"rmdir"},  # of folders just made, which hold nothing
    "proxfl.deploy.ops.permissions": {"open", "chmod"},  # of a lock, which holds nothing
    "proxfl.deploy.ops.services": {"open"},  # the log of a process, which writes it
    "proxfl.cli.commands.federate.init": {"chmod"},
    "proxfl.cli.main": {"open"},  # of nothing, in place of an output that nobody reads
}
WRITES = {
    "open", "mkdir", "makedirs", "unlink", "rename", "rmdir", "rmtree", "write_text", "write_bytes",
    "touch", "symlink_to", "mkstemp", "mkdtemp", "savez", "savetxt", "copytree", "copyfile",
    "copy2", "move", "chmod",
}  # fmt: skip


def writes(path: Path) -> set[str]:
    """The names of calls that change the disk: methods and functions of modules, and `open`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            plain = isinstance(function, ast.Name) and name != "open"  # one of our own, imported
            of_columns = name == "rename" and bool(node.keywords)  # of pandas
            if (
                name in WRITES
                and not plain
                and not of_columns
                and not (name == "open" and only_reads(node))
            ):
                found.add(name)
    return found


def only_reads(call: ast.Call) -> bool:
    """Whether an `open` has no mode, or one to read; `zipfile` and `os` have their own."""
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    texts += [k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)]
    modes = [text for text in texts if isinstance(text, str) and set(text) <= set("rwaxbt+:gz")]
    of_os = ast.unparse(call.func) in ("os.open",)
    return not of_os and not any(set(mode) & set("wax+") for mode in modes)


def test_nothing_but_the_file_functions_writes():
    found = {name: writes(path) - ALLOWED.get(name, set()) for name, path in modules()}
    in_archive = {"proxfl.storage.checkpoint": {"open"}}  # a member of an open archive
    wrong = {name: odd for name, odd in found.items() if odd - in_archive.get(name, set())}
    assert not wrong


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_permissions_are_the_umask_s_and_private_is_private_from_the_first_byte(umask, tmp_path):
    before = os.umask(umask)
    try:
        for private in (False, True):
            path = tmp_path / str(private)
            with whole(path, private) as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                assert mode == (0o600 if private else 0o666) & ~umask
            assert path.stat().st_mode & 0o777 == mode
        with whole_folder(tmp_path / "folder") as made:
            write_bytes(made / "x", b"")
        assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o777 & ~umask
    finally:
        os.umask(before)


def test_files_written_at_once_by_threads_leave_the_umask_alone(tmp_path):
    before = os.umask(0o077)
    try:
        work = lambda i: [write_bytes(tmp_path / f"{i}-{k}", b"x") for k in range(50)]
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        after = os.umask(before)
    assert after == 0o077
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_full_disk_is_said_with_the_name_of_the_file(tmp_path):
    with disk(tmp_path, 1, FULL), pytest.raises(DiskError, match="x: the disk is full; free some"):
        write_bytes(tmp_path / "x", b"x")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"x: this cannot be written \(Not a directory\)"):
        write_bytes(tmp_path / "file" / "x", b"x")


@pytest.mark.parametrize("entries_survive", [False, True])
def test_what_was_appended_is_there_when_the_power_goes(entries_survive, tmp_path):
    path = tmp_path / "lines"
    with disk(tmp_path) as made:
        append(path, b"one")
        append(path, b"two")
    made.after_power_loss(entries_survive)
    assert path.read_bytes() == b"onetwo"
    with disk(tmp_path, 1, FULL), pytest.raises(DiskError, match="lines: the disk is full"):
        append(path, b"three")
    assert path.read_bytes() == b"onetwo"


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: this is no file that can be written"):
        write_bytes(tmp_path / "pipe", b"x")
    assert (tmp_path / "pipe").is_fifo()


def test_a_document_is_what_was_written_or_refused(tmp_path):
    path = tmp_path / "a.json"
    documents.write_json(path, {"x": [1, 0.1, "é", None, True]}, private=True)
    assert documents.read_json(path, dict[str, Any]) == {"x": [1, 0.1, "é", None, True]}
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(path.read_text().replace("0.1", "0.2"))
    with pytest.raises(InputError, match="a.json: it does not fit its digest"):
        documents.read_json(path, dict[str, Any])
    with pytest.raises(ValueError):
        documents.sealed({"x": float("nan")})


def test_sealed_bytes_are_what_was_written_or_refused(tmp_path):
    path = tmp_path / "a.sealed"
    arrays = {"one": np.asarray(1.5), "none": np.zeros((0, 2)), "T": np.arange(6).reshape(2, 3).T}
    write_arrays(path, arrays)
    for name, found in read_arrays(path).items():
        np.testing.assert_array_equal(found, arrays[name], strict=True)
    assert path.stat().st_mode & 0o777 == 0o600
    data = path.read_bytes()
    spoilt = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    for damaged in (*spoilt, b"", data[:-1], data[: -len(data) // 2], data + b"x"):
        path.write_bytes(damaged)
        with pytest.raises(DamageError, match="a.sealed: it does not fit its digest"):
            read_arrays(path)
    path.write_bytes(sealed(b"no arrays"))
    with pytest.raises(DamageError, match="a.sealed: it holds no arrays"):
        read_arrays(path)


def test_a_folder_whose_entry_did_not_reach_the_disk_is_made_again(tmp_path):
    """Else what is later written into it, however well, would be gone with the power."""
    with disk(tmp_path, 2, FULL), pytest.raises(DiskError):  # made, and its parent not synced
        write_bytes(tmp_path / "new" / "file", b"x")
    with disk(tmp_path) as sound:
        write_bytes(tmp_path / "new" / "file", b"x")
        sound.after_power_loss(entries_survive=False)
    assert (tmp_path / "new" / "file").read_bytes() == b"x"
