"""One Docker Engine, or whatever speaks its API, with its errors told in ours."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple, TypeVar

import aiodocker
import aiohttp
from aiodocker.containers import DockerContainer

from app.errors import SandboxAwayError, SandboxError, SandboxUnavailableError

DEFAULT_HOST = "unix:///var/run/docker.sock"
T = TypeVar("T")

NETWORK = "palimpsest"
"""The bridge that sandboxes with a network share; it passes nothing from one to another."""
_PING_TIMEOUT_S = 3.0
"""How long it may take to say that it is there, in seconds. Readiness is to be told within five, and a look that began
while it said nothing has to end before the one that finds it well."""
_LOOK_TIMEOUT_S = 15.0
"""How long the Engine may take to describe a container, in seconds; one that works answers within milliseconds."""
_ANSWER_TIMEOUT_S = 60.0
"""How long it may take for all else, in seconds: a container is made within one, and a hundred that are asked for at
once follow one another. A file's or an archive's time is counted from its last piece."""
_REGISTRY_TIMEOUT_S = 15.0


class Process(NamedTuple):
    """A process by the numbers of the Engine's host, which are others than those in the container."""

    pid: int
    parent: int


class Engine:
    """A connection to the Engine at `host`, made on first use. Methods raise `SandboxUnavailableError` where it does
    not answer and `aiodocker.DockerError` for what it refuses, unless said otherwise."""

    def __init__(self, host: str | None = None, *, answer_timeout_s: float = _ANSWER_TIMEOUT_S) -> None:
        """`answer_timeout_s` is how many seconds it may keep silent before it counts as away."""
        self.answer_s = answer_timeout_s
        self.look_s = min(answer_timeout_s, _LOOK_TIMEOUT_S)
        """Seconds that it may keep silent where it only has to look something up."""
        self.host = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        self._docker: aiodocker.Docker | None = None
        self._connector: aiohttp.UnixConnector | None = None
        self._background: set[asyncio.Task[Any]] = set()

    @property
    def docker(self) -> aiodocker.Docker:
        if self._docker is None:
            try:
                self._docker = self._connect()
            except ValueError as exc:
                raise SandboxUnavailableError(self.away("the address cannot be understood").detail) from exc
        return self._docker

    def _connect(self) -> aiodocker.Docker:
        prefix, _, path = self.host.partition("unix://")
        if prefix or not path:
            return aiodocker.Docker(url=self.host)
        # every running command holds a connection, so the client's own limit of 100 must not stand
        self._connector = aiohttp.UnixConnector(path, limit=0)
        return aiodocker.Docker(url="unix://localhost", connector=self._connector)

    async def version(self) -> str:
        """The Engine's version. Raises `SandboxUnavailableError` where none answers within three seconds."""
        with self.translated():
            try:
                async with asyncio.timeout(_PING_TIMEOUT_S):
                    version = await self.docker.version()
            except (aiodocker.DockerError, TimeoutError) as exc:
                raise self.away(f"it does not answer ({exc})") from exc
        return str(version.get("Version", "of an unknown version"))

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turns a connection's errors into `SandboxUnavailableError`; the Engine's own refusals pass."""
        try:
            yield
        except aiodocker.DockerError as exc:
            if exc.status == 900:  # aiodocker's own, for a refused connection
                raise self.away("it does not answer") from exc
            raise
        except TimeoutError as exc:
            raise self.away("it takes connections and does not answer") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise self.away("the connection was lost") from exc

    @asynccontextmanager
    async def answering(self, timeout_s: float | None = None) -> AsyncIterator[Callable[[], None]]:
        """As `translated`; and an Engine that says nothing for so long does not answer. The value, called, counts from
        then on."""
        wait_s = self.answer_s if timeout_s is None else timeout_s
        with self.translated():
            async with asyncio.timeout(wait_s) as limit:
                yield lambda: limit.reschedule(asyncio.get_running_loop().time() + wait_s)

    def away(self, reason: str) -> SandboxAwayError:
        """The error to raise where it does not answer."""
        return SandboxAwayError(
            f"No Docker Engine at {self.host}: {reason}. Start it, give this user access to its socket,"
            " or set DOCKER_HOST."
        )

    def in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs `work` in a task that may outlast its caller, since the Engine may take its time; at the latest `aclose`
        ends it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._heed)
        return task

    def _heed(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # for the caller, if it still waits

    async def find(self, name: str) -> dict[str, Any] | None:
        """A container's description, None where there is none of that name."""
        async with self.answering(self.look_s):
            try:
                return await self.docker.containers.container(name).show()
            except aiodocker.DockerError as exc:
                if exc.status == 404:
                    return None
                raise

    def container(self, name: str) -> DockerContainer:
        return self.docker.containers.container(name)

    async def create(self, config: dict[str, Any], name: str) -> DockerContainer:
        """Makes a container, which does not run yet."""
        async with self.answering():
            return await self.docker.containers.create(config, name=name)

    async def start(self, name: str) -> None:
        async with self.answering():
            await self.container(name).start()

    async def has_image(self, image: str) -> bool:
        """Whether the Engine holds an image. Raises `SandboxUnavailableError` also for a name that it refuses."""
        async with self.answering(min(self.answer_s, _PING_TIMEOUT_S)):
            try:
                await self.docker.images.inspect(image)
            except aiodocker.DockerError as exc:
                if exc.status == 404:
                    return False
                if exc.status == 900:  # no answer at all
                    raise
                raise _no_image(image, exc) from exc
        return True

    async def find_remote(self, image: str) -> None:
        """Raises `SandboxUnavailableError` where the image's registry does not offer it."""
        with self.translated():
            try:
                async with asyncio.timeout(_REGISTRY_TIMEOUT_S):
                    await self.docker._query_json(f"distribution/{image}/json")
            except (aiodocker.DockerError, TimeoutError, ValueError) as exc:
                raise _no_image(image, exc) from exc

    async def pull(self, image: str) -> None:
        """Raises `SandboxUnavailableError` where the image cannot be had. It takes as long as its registry does."""
        with self.translated():
            try:
                await self.docker.images.pull(image)
            except (aiodocker.DockerError, ValueError) as exc:
                raise _no_image(image, exc) from exc

    async def ensure_network(self) -> None:
        async with self.answering():
            try:
                await self.docker.networks.create(
                    {
                        "Name": NETWORK,
                        "CheckDuplicate": True,
                        "Driver": "bridge",
                        "Options": {"com.docker.network.bridge.enable_icc": "false"},
                    }
                )
            except aiodocker.DockerError as exc:
                if exc.status != 409:  # there already
                    raise

    async def kill(self, name: str) -> None:
        """Kills all that runs in a container, which stays, and returns when it is dead; does nothing where nothing
        runs."""
        async with self.answering(self.look_s):
            try:
                await self.container(name).kill()
                await self.container(name).wait(condition="not-running")
            except aiodocker.DockerError as exc:
                if exc.status not in (404, 409):
                    raise

    async def remove(self, name: str) -> None:
        """Removes a container with all that runs in it, and returns when it is gone; does nothing where there is
        none."""
        async with self.answering():
            try:
                await self._delete(self.container(name))
            except aiodocker.DockerError as exc:
                if exc.status != 404:
                    raise

    async def _delete(self, container: DockerContainer) -> None:
        try:
            await container.delete(force=True, v=True)
        except aiodocker.DockerError as exc:
            if exc.status != 409:
                raise
            # It is being removed already, and uses its volume until that has ended.
            await container.wait(condition="removed")

    async def has_volume(self, name: str) -> bool:
        """Whether there is a volume of that name."""
        async with self.answering(self.look_s):
            try:
                await self.docker._query_json(f"volumes/{name}")
            except aiodocker.DockerError as exc:
                if exc.status == 404:
                    return False
                raise
        return True

    async def remove_volume(self, name: str) -> None:
        async with self.answering():
            try:
                async with self.docker._query(f"volumes/{name}", method="DELETE", params={"force": "1"}):
                    pass
            except aiodocker.DockerError as exc:
                if exc.status != 404:
                    raise

    async def labelled(self, label: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The containers, running or not, and the volumes that carry a label."""
        async with self.answering():
            filters = json.dumps({"label": [label]})
            containers = await self.docker._query_json("containers/json", params={"all": "1", "filters": filters})
            volumes = await self.docker._query_json("volumes", params={"filters": filters})
        return containers, volumes["Volumes"] or []

    async def executing(self, name: str) -> bool:
        """Whether a command started through the Engine is still running in the container."""
        shown = await self.find(name)
        for exec_id in (shown or {}).get("ExecIDs") or ():
            async with self.answering(self.look_s):
                try:
                    described = await self.docker._query_json(f"exec/{exec_id}/json")
                except aiodocker.DockerError:
                    continue  # it has ended and is forgotten
            if described.get("Running"):
                return True
        return False

    async def processes(self, name: str) -> list[Process]:
        """What lives in a running container, oldest first, as the Engine's host sees it: nothing in the container has a
        say in that."""
        async with self.answering(self.look_s):
            arguments = {"ps_args": "-eo pid,ppid,stat --sort=start_time"}
            shown = await self.docker._query_json(f"containers/{name}/top", params=arguments)
        return [
            Process(int(pid), int(parent)) for pid, parent, state in shown["Processes"] or () if state[0] not in "ZX"
        ]

    async def aclose(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._docker is not None:
            docker, self._docker = self._docker, None
            await docker.close()
        if self._connector is not None:
            await self._connector.close()
        await asyncio.sleep(0)  # closed sockets are let go in the event loop's next round


def refused(exc: aiodocker.DockerError) -> SandboxError:
    """The Engine's refusal as an error of ours."""
    return SandboxError(f"The Docker Engine refused: {exc.message}")


def _no_image(image: str, reason: Exception) -> SandboxUnavailableError:
    said = str(reason) or "its registry does not answer"
    return SandboxUnavailableError(
        f"The image {image} is not here and cannot be pulled ({said}). Run `docker pull {image}` where the Engine runs,"
        " or name another one in PALIMPSEST_SANDBOX_IMAGE."
    )
