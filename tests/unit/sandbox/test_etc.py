from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.sandbox.host.etc import Etc


@pytest.fixture
def host(tmp_path: Path) -> Path:
    directory = tmp_path / "host"
    (directory / "ssl/certs").mkdir(parents=True)
    (directory / "ssl/private").mkdir()
    (directory / "gitconfig").write_text("token")
    (directory / "services").write_text("http 80/tcp")
    (directory / "resolv.conf").write_text("nameserver 192.0.2.1")
    (directory / "zone").write_text("UTC")
    (directory / "localtime").symlink_to("zone")
    return directory


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_only_listed_files_are_copied(host: Path, tmp_path: Path) -> None:
    without, with_network = (Etc(tmp_path / str(on), network=on, host=host) for on in (False, True))
    for etc in (without, with_network):
        etc.refresh()
    assert files(without.directory) == {"services", "localtime", "passwd", "group"}
    assert files(with_network.directory) == {"services", "localtime", "passwd", "group", "resolv.conf"}
    assert (without.directory / "localtime").read_text() == "UTC"
    assert not (without.directory / "localtime").is_symlink()


def test_directories_are_mounted_where_the_host_has_them(host: Path, tmp_path: Path) -> None:
    etc = Etc(tmp_path / "copies", network=False, host=host)
    etc.refresh()
    mounts = ["--ro-bind", str(tmp_path / "copies"), "/etc"]
    assert list(etc.arguments()) == [*mounts, "--ro-bind-try", str(host / "ssl/certs"), "/etc/ssl/certs"]
    assert (tmp_path / "copies/ssl/certs").is_dir()


def test_a_command_with_a_user_of_its_own_can_read_them(host: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        Etc(tmp_path / "copies", network=False, host=host).refresh()
    finally:
        os.umask(before)
    for path in ((tmp_path / "copies"), *(tmp_path / "copies").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


def test_changes_on_the_host_are_seen_by_the_next_command(host: Path, tmp_path: Path) -> None:
    etc = Etc(tmp_path / "copies", network=True, host=host)
    etc.refresh()
    (host / "resolv.conf").write_text("nameserver 192.0.2.22")
    (host / "services").unlink()
    (host / "hosts").write_text("192.0.2.3 three")
    etc.refresh()
    assert (etc.directory / "resolv.conf").read_text() == "nameserver 192.0.2.22"
    assert files(etc.directory) == {"localtime", "passwd", "group", "resolv.conf", "hosts"}


def test_what_did_not_change_is_not_copied_again(host: Path, tmp_path: Path) -> None:
    etc = Etc(tmp_path / "copies", network=False, host=host)
    etc.refresh()
    copies = {name: (etc.directory / name).stat().st_ino for name in files(etc.directory)}
    etc.refresh()
    assert {name: (etc.directory / name).stat().st_ino for name in files(etc.directory)} == copies


def test_copies_of_an_earlier_server_are_replaced_or_removed(host: Path, tmp_path: Path) -> None:
    Etc(tmp_path / "copies", network=True, host=host).refresh()
    (host / "resolv.conf").unlink()
    (host / "services").write_text("https 443/tcp")
    Etc(tmp_path / "copies", network=True, host=host).refresh()
    assert (tmp_path / "copies/services").read_text() == "https 443/tcp"
    assert files(tmp_path / "copies") == {"services", "localtime", "passwd", "group"}


def test_a_removed_directory_is_made_again(host: Path, tmp_path: Path) -> None:
    etc = Etc(tmp_path / "copies", network=False, host=host)
    etc.refresh()
    shutil.rmtree(tmp_path / "copies")
    etc.refresh()
    assert files(tmp_path / "copies") == {"services", "localtime", "passwd", "group"}


def test_nodes_that_start_on_one_directory_at_once_do_not_disturb_each_other(host: Path, tmp_path: Path) -> None:
    nodes = [Etc(tmp_path / "copies", network=True, host=host) for _ in range(200)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Etc.refresh, nodes))
    assert files(tmp_path / "copies") == {"services", "localtime", "passwd", "group", "resolv.conf"}
