"""Files of a container whose commands are in the way, on purpose or not."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import aiodocker
import pytest

from app.errors import InvalidRequestError, NotFoundError, PalimpsestError, SandboxError
from app.sandbox.base import Sandbox
from app.sandbox.docker.engine import Engine
from app.sandbox.docker.factory import DockerFactory
from app.sandbox.docker.files import ContainerArchives, ContainerFiles, PathStatus, parse_listing
from tests.unit.sandbox.shell import Shell, new_config


@pytest.mark.docker
async def test_a_closed_directory_is_refused(docker: None, instance_id: str) -> None:
    factory = DockerFactory(instance_id)
    sandbox: Sandbox = factory.open(new_config())
    try:
        await Shell(sandbox).run("mkdir closed; echo 1 >closed/file; chmod 000 closed")
        for attempt in (sandbox.list("closed"), sandbox.write("closed/file", b"2"), sandbox.write("closed/a/b", b"2")):
            with pytest.raises(InvalidRequestError) as refused:
                await attempt
            assert refused.value.code == "permission_denied"
        await Shell(sandbox).run("chmod 500 closed")
        with pytest.raises(InvalidRequestError):
            await sandbox.write("closed/file", b"2")
        assert await sandbox.read("closed/file") == b"1\n"
    finally:
        await sandbox.remove()
        await factory.aclose()


class Swapped(ContainerArchives):
    """What was a file when it was looked at, and is refused when it is read."""

    def __init__(self, status: int) -> None:
        super().__init__(Engine(), "any")
        self._refusal = aiodocker.DockerError(status, "Could not find the file /workspace/d/f.")

    async def status(self, path: str) -> PathStatus | None:
        return PathStatus(0o644 if path.endswith("f") else 1 << 31, 5)

    async def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        raise self._refusal
        yield b""


@pytest.mark.parametrize(("status", "told"), [(404, NotFoundError), (500, SandboxError)])
async def test_a_file_that_is_gone_when_read_is_reported(status: int, told: type[PalimpsestError]) -> None:
    files = ContainerFiles(Engine(), "any", Swapped(status))
    with pytest.raises(told):
        await files.read("d/f", None)
    with pytest.raises(told):
        [piece async for piece in files.archive()]


ENTRY = b"nonce 81a4 5 1700000000 ./a\n"


@pytest.mark.parametrize("forged", [b"", b"x", b"81a4 5", b"zz 1 1 ./b\n", b"81a4 1e9 1 ./b\n", b"81a4 5 nan ./b\n"])
def test_a_forged_entry_invalidates_the_listing(forged: bytes) -> None:
    """A process that a command left behind may write into the script's output."""
    with pytest.raises(SandboxError):
        parse_listing(ENTRY + b"nonce " + forged, "nonce", (), complete=True)
    assert [info.path for info in parse_listing(ENTRY, "nonce", (), complete=True)] == ["a"]


def test_an_entry_with_huge_numbers_is_invalid() -> None:
    with pytest.raises(SandboxError):
        parse_listing(b"nonce 81a4 " + b"9" * 5_000 + b" 1 ./a\n", "nonce", (), complete=True)
