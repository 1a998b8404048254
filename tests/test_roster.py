"""peers.toml and the secrets beside it: what dsgt writes can be used, and what would be unsafe is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dsgt.commands.peers import app
from dsgt.networks.roster import Peer, Roster, check, create, read_peers, read_roster, read_secret
from dsgt.networks.zeromq import Keys, is_key

HERE = [f"tcp://127.0.0.1:{port}" for port in (7000, 7001, 7002)]


def listed(folder: Path, text: str) -> Path:
    path = folder / "peers.toml"
    path.write_text(text)
    return path


def test_every_node_finds_itself_by_its_secret(tmp_path: Path):
    path = create(tmp_path, HERE)
    for i in range(3):
        roster = read_roster(path, secret=tmp_path / f"node-{i}.secret")
        assert (roster.node, roster.peers[i].address) == (i, HERE[i])
        assert roster.keys is not None
        assert roster.keys.public == roster.peers[i].key
        assert roster.keys.secret not in repr(roster)
    assert len({peer.key for peer in read_peers(path)}) == 3


def test_a_secret_is_its_owners_alone(tmp_path: Path):
    create(tmp_path, HERE)
    secret = tmp_path / "node-1.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert is_key(read_secret(secret))
    for mode in (0o640, 0o604, 0o660, 0o620):
        secret.chmod(mode)
        with pytest.raises(PermissionError, match=f"mode {mode:o}.*chmod 600"):
            read_secret(secret)
    secret.chmod(0o400)
    assert is_key(read_secret(secret))


def test_a_secret_is_600_whatever_the_umask_is(tmp_path: Path):
    before = os.umask(0)
    try:
        create(tmp_path, HERE[:1])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "node-0.secret").stat().st_mode) == 0o600


def test_nothing_is_written_over(tmp_path: Path):
    (tmp_path / "node-2.secret").write_text("another job's")
    with pytest.raises(FileExistsError, match=r"node-2\.secret is there already"):
        create(tmp_path, HERE)
    assert [p.name for p in tmp_path.iterdir()] == ["node-2.secret"]


def test_a_secret_of_another_list_or_node_is_refused(tmp_path: Path):
    path, other = create(tmp_path / "a", HERE), create(tmp_path / "b", HERE)
    with pytest.raises(ValueError, match="not the secret of any of the 3 nodes"):
        read_roster(path, secret=other.parent / "node-0.secret")
    with pytest.raises(ValueError, match=r"node is 2, but .*node-0\.secret is the secret of node 0"):
        read_roster(path, secret=path.parent / "node-0.secret", node=2)
    with pytest.raises(ValueError, match="give --secret FILE"):
        read_roster(path, node=0)
    with pytest.raises(ValueError, match="is not that of its secret"):
        Roster(read_peers(path), 0, Keys.new())


def test_without_keys_only_this_machine_is_allowed(tmp_path: Path):
    path = listed(tmp_path, '[[peer]]\naddress = "tcp://127.0.0.1:7000"\n')
    assert read_roster(path, node=0).keys is None
    with pytest.raises(ValueError, match="give --node"):
        read_roster(path)
    for host in ("10.0.0.1", "0.0.0.0", "localhost", "127.0.0.1.example.org", "example.org"):
        with pytest.raises(ValueError, match=r"without keys nothing is encrypted, and only 127\.0\.0\.1 is allowed"):
            check([Peer(f"tcp://{host}:7000")])
        check([Peer(f"tcp://{host}:7000", Keys.new().public)])


KEY = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lists no peers"),
        ("peer = 3", "lists no peers"),
        ("[[peer]\n", "is not TOML"),
        ("[[peers]]\n", "did you mean 'peer'"),
        ("[[peer]]\n", "node 0 has no address"),
        ("[[peer]]\naddress = 7000\n", "address is 7000; expected text"),
        ('[[peer]]\naddress = "tcp://127.0.0.1:7000"\nkeys = ""\n', "did you mean 'key'"),
        ('[[peer]]\naddress = "127.0.0.1:7000"\n', "expected tcp://HOST:PORT"),
        ('[[peer]]\naddress = "tcp://127.0.0.1:0"\n', "expected tcp://HOST:PORT"),
        ('[[peer]]\naddress = "tcp://127.0.0.1:70000"\n', "expected tcp://HOST:PORT"),
        ('[[peer]]\naddress = "tcp://*:7000"\n', "expected tcp://HOST:PORT"),
        ('[[peer]]\naddress = "ipc:///tmp/x"\n', "expected tcp://HOST:PORT"),
        ('[[peer]]\naddress = "tcp://127.0.0.1:7000"\nkey = "short"\n', "no public key"),
        (f'[[peer]]\naddress = "tcp://127.0.0.1:7000"\nkey = "{"#" * 40}"\n', "no public key"),
        (2 * '[[peer]]\naddress = "tcp://127.0.0.1:7000"\n', "nodes 0 and 1 have the same address"),
        (
            f'[[peer]]\naddress = "tcp://h:1"\nkey = "{KEY}"\n[[peer]]\naddress = "tcp://h:2"\nkey = "{KEY}"\n',
            "nodes 0 and 1 have the same key",
        ),
        (
            f'[[peer]]\naddress = "tcp://127.0.0.1:1"\nkey = "{KEY}"\n[[peer]]\naddress = "tcp://127.0.0.1:2"\n',
            "one has a key and one has none",
        ),
    ],
)
def test_a_list_that_cannot_work_is_refused(tmp_path: Path, text: str, said: str):
    with pytest.raises(ValueError, match=said):
        read_peers(listed(tmp_path, text))


def test_the_command_gives_nodes_of_one_host_ports_of_their_own(tmp_path: Path):
    said = CliRunner().invoke(app, ["init", "3", "--out", str(tmp_path / "job"), "--port", "9000"])
    assert said.exit_code == 0, said.output
    path = tmp_path / "job" / "peers.toml"
    assert [p.address for p in read_peers(path)] == [f"tcp://127.0.0.1:{port}" for port in (9000, 9001, 9002)]
    hosts = [word for name in ("a.org", "b.org", "a.org") for word in ("--host", name)]
    CliRunner().invoke(app, ["init", "3", "--out", str(tmp_path / "far"), *hosts])
    found = [p.address for p in read_peers(tmp_path / "far" / "peers.toml")]
    assert found == ["tcp://a.org:7000", "tcp://b.org:7000", "tcp://a.org:7001"]


@pytest.mark.parametrize(
    ("words", "said"), [(["--host", "a", "--host", "b"], "2 hosts were given"), (["--port", "65534"], "expected tcp")]
)
def test_the_command_says_what_is_wrong_and_writes_nothing(tmp_path: Path, words: list[str], said: str):
    done = CliRunner().invoke(app, ["init", "3", "--out", str(tmp_path / "job"), *words])
    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "job").exists()
