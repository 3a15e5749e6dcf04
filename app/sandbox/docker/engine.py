"""Client of one Docker Engine or anything that speaks its API; translates its errors."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple, TypeVar

import aiodocker
import aiohttp
from aiodocker.containers import DockerContainer

from app.errors import SandboxAwayError, SandboxError, SandboxUnavailableError

DEFAULT_HOST = "unix:///var/run/docker.sock"
T = TypeVar("T")

NETWORK = "palimpsest"
"""The bridge shared by sandboxes with a network; it forwards nothing between them."""
_PING_TIMEOUT_S = 3.0
"""Seconds the Engine has to answer a ping. Readiness must be reported within five, and a check that began while the
Engine was silent has to end before one that finds it healthy."""
_LOOK_TIMEOUT_S = 15.0
"""Timeout for describing a container, in seconds; a healthy Engine answers within milliseconds."""
_ANSWER_TIMEOUT_S = 60.0
"""Timeout for everything else, in seconds: a container is created within one, but a hundred requested at once are
created one after another. For a file or an archive it counts from the last piece."""
_REGISTRY_TIMEOUT_S = 15.0


class Process(NamedTuple):
    """A process by the numbers of the Engine's host, which differ from those inside the container."""

    pid: int
    parent: int


class Engine:
    """A connection to the Engine at `host`, made on first use. Methods raise `SandboxUnavailableError` if it does not
    answer and `aiodocker.DockerError` if it refuses, unless noted."""

    def __init__(self, host: str | None = None, *, answer_timeout_s: float = _ANSWER_TIMEOUT_S) -> None:
        """`answer_timeout_s` is how many seconds it may be silent before it counts as away."""
        self.answer_s = answer_timeout_s
        self.look_s = min(answer_timeout_s, _LOOK_TIMEOUT_S)
        """Seconds it may be silent on a lookup."""
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
                raise SandboxUnavailableError(self.away("the address is invalid").detail) from exc
        return self._docker

    def _connect(self) -> aiodocker.Docker:
        prefix, _, path = self.host.partition("unix://")
        if prefix or not path:
            return aiodocker.Docker(url=self.host)
        # every running command holds a connection, so the client's default limit of 100 is too low
        self._connector = aiohttp.UnixConnector(path, limit=0)
        return aiodocker.Docker(url="unix://localhost", connector=self._connector)

    async def version(self) -> str:
        """The Engine's version. Raises `SandboxUnavailableError` if it does not answer within three seconds."""
        with self.translated():
            try:
                async with asyncio.timeout(_PING_TIMEOUT_S):
                    version = await self.docker.version()
            except (aiodocker.DockerError, TimeoutError) as exc:
                raise self.away(f"it does not answer ({exc})") from exc
        return str(version.get("Version", "(unknown version)"))

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turns connection errors into `SandboxUnavailableError`; the Engine's own errors pass through."""
        try:
            yield
        except aiodocker.DockerError as exc:
            if exc.status == 900:  # aiodocker's own, code for a refused connection
                raise self.away("it does not answer") from exc
            raise
        except TimeoutError as exc:
            raise self.away("it accepts connections but does not answer") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise self.away("the connection was lost") from exc

    @asynccontextmanager
    async def answering(
        self, timeout_s: float | None = None, *, accepted: Collection[int] = ()
    ) -> AsyncIterator[Callable[[], None]]:
        """Like `translated`, with a timeout for an Engine that says nothing. Calling the yielded function restarts the
        timeout. A refusal with an `accepted` status ends the work without an error."""
        wait_s = self.answer_s if timeout_s is None else timeout_s
        with self.translated():
            async with asyncio.timeout(wait_s) as limit:
                try:
                    yield lambda: limit.reschedule(asyncio.get_running_loop().time() + wait_s)
                except aiodocker.DockerError as exc:
                    if exc.status not in accepted:
                        raise

    def away(self, reason: str) -> SandboxAwayError:
        """The error to raise if it does not answer."""
        return SandboxAwayError(
            f"No Docker Engine at {self.host}: {reason}. Start it, give this user access to its socket,"
            " or set DOCKER_HOST."
        )

    def in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs `work` in a task that may outlive its caller, since the Engine may be slow; `aclose` ends it at the
        latest."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._heed)
        return task

    def _heed(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here in case the caller no longer waits

    async def find(self, name: str) -> dict[str, Any] | None:
        """A container's description, None if it does not exist."""
        async with self.answering(self.look_s, accepted=(404,)):
            return await self.docker.containers.container(name).show()
        return None

    def container(self, name: str) -> DockerContainer:
        return self.docker.containers.container(name)

    async def create(self, config: dict[str, Any], name: str) -> DockerContainer:
        """Creates a container without starting it."""
        async with self.answering():
            return await self.docker.containers.create(config, name=name)

    async def start(self, name: str) -> None:
        async with self.answering():
            await self.container(name).start()

    async def has_image(self, image: str) -> bool:
        """Whether the Engine has an image. Also raises `SandboxUnavailableError` for a name that it refuses."""
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
        """Raises `SandboxUnavailableError` if the image's registry does not have it."""
        with self.translated():
            try:
                async with asyncio.timeout(_REGISTRY_TIMEOUT_S):
                    await self.docker._query_json(f"distribution/{image}/json")
            except (aiodocker.DockerError, TimeoutError, ValueError) as exc:
                raise _no_image(image, exc) from exc

    async def pull(self, image: str) -> None:
        """Raises `SandboxUnavailableError` if the image cannot be pulled. Has no timeout: the registry may be slow."""
        with self.translated():
            try:
                await self.docker.images.pull(image)
            except (aiodocker.DockerError, ValueError) as exc:
                raise _no_image(image, exc) from exc

    async def ensure_network(self) -> None:
        async with self.answering(accepted=(409,)):  # there already
            await self.docker.networks.create(
                {
                    "Name": NETWORK,
                    "CheckDuplicate": True,
                    "Driver": "bridge",
                    "Options": {"com.docker.network.bridge.enable_icc": "false"},
                }
            )

    async def kill(self, name: str) -> None:
        """Kills all processes in a container, which stays, and returns when they are dead; does nothing if none run."""
        async with self.answering(self.look_s, accepted=(404, 409)):
            await self.container(name).kill()
            await self.container(name).wait(condition="not-running")

    async def remove(self, name: str) -> None:
        """Removes a container with all its processes and returns when it is gone; does nothing if it does not exist."""
        async with self.answering(accepted=(404,)):
            await self._delete(self.container(name))

    async def _delete(self, container: DockerContainer) -> None:
        try:
            await container.delete(force=True, v=True)
        except aiodocker.DockerError as exc:
            if exc.status != 409:
                raise
            # It is already being removed, and uses its volume until then.
            await container.wait(condition="removed")

    async def has_volume(self, name: str) -> bool:
        """Whether a volume of that name exists."""
        async with self.answering(self.look_s, accepted=(404,)):
            await self.docker._query_json(f"volumes/{name}")
            return True
        return False

    async def remove_volume(self, name: str) -> None:
        async with (
            self.answering(accepted=(404,)),
            self.docker._query(f"volumes/{name}", method="DELETE", params={"force": "1"}),
        ):
            pass

    async def labelled(self, label: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The containers, running or not, and the volumes that carry a label."""
        async with self.answering():
            filters = json.dumps({"label": [label]})
            containers = await self.docker._query_json("containers/json", params={"all": "1", "filters": filters})
            volumes = await self.docker._query_json("volumes", params={"filters": filters})
        return containers, volumes["Volumes"] or []

    async def id(self) -> str | None:
        """The Engine's id, which is that of its volumes; None if it has none: Podman answers another one each time."""
        async with self.answering(self.look_s):
            first, second = [(await self.docker.system.info()).get("ID") for _ in range(2)]
        return str(first) if first and first == second else None

    async def executing(self, name: str) -> set[str]:
        """Ids of the commands that were started through the Engine and are still running in the container."""
        shown = await self.find(name)
        found: set[str] = set()
        for exec_id in (shown or {}).get("ExecIDs") or ():
            async with self.answering(self.look_s):
                try:
                    described = await self.docker._query_json(f"exec/{exec_id}/json")
                except aiodocker.DockerError:
                    continue  # it has ended and was forgotten
            if described.get("Running"):
                found.add(exec_id)
        return found

    async def processes(self, name: str) -> list[Process]:
        """The processes of a running container, oldest first, as the Engine's host sees them: a process in the
        container cannot influence that."""
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
        await asyncio.sleep(0)  # closed sockets are released in the event loop's next iteration


@contextmanager
def translated_refusals() -> Iterator[None]:
    """Raises `SandboxError` where the Engine refuses."""
    try:
        yield
    except aiodocker.DockerError as exc:
        raise refused(exc) from exc


def refused(exc: aiodocker.DockerError) -> SandboxError:
    """Translates the Engine's refusal."""
    return SandboxError(f"The Docker Engine refused: {exc.message}")


def _no_image(image: str, reason: Exception) -> SandboxUnavailableError:
    said = str(reason) or "its registry does not answer"
    return SandboxUnavailableError(
        f"The image {image} is not available locally and cannot be pulled ({said}). Run `docker pull {image}` where the"
        " Engine runs, or name another one in PALIMPSEST_SANDBOX_IMAGE."
    )
