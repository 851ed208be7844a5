"""Who may read a key: its owner."""

import os
import stat

from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_private_key

from proxfl.deploy.ops.keys import make_server_keys, make_site_keys, public_keys


def test_keys_are_readable_by_their_owner_only_and_made_once(tmp_path):
    old = os.umask(0)
    try:
        server = make_server_keys(tmp_path / "a", ["hospital.example", "10.1.2.3"])
        site = make_site_keys(tmp_path / "b", "north")
    finally:
        os.umask(old)
    for path in (server.key, tmp_path / "a" / "ca.key", site.private):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in ("a", "b"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
    before = server.key.read_bytes()
    assert make_server_keys(tmp_path / "a").key.read_bytes() == before
    ((name, key),) = public_keys(tmp_path / "b").items()
    private = load_ssh_private_key(site.private.read_bytes(), None)
    assert name == "north" and load_pem_public_key(key) == private.public_key()
