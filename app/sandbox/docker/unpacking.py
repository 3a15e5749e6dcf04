"""Files from elsewhere, unpacked into a container's workspace: through the Engine into a directory of their own, and
from there by a script in the container, which is as unprivileged as commands are."""

from __future__ import annotations

import secrets
import tarfile
from collections.abc import AsyncIterator, Sequence

import aiodocker

from app.errors import SandboxError
from app.sandbox import paths, tar
from app.sandbox.base import WORKSPACE
from app.sandbox.docker.container import USER_ID
from app.sandbox.docker.engine import Engine
from app.sandbox.docker.files import ContainerArchives
from app.sandbox.docker.moving import ROOT, not_copied
from app.sandbox.docker.scripts import run_script

_IN_THE_WAY = 44
_MOVED = 100
"""Entries moved at once: a process for each would take minutes for a hundred thousand."""
# $1 the directory with `new`, to be moved over the workspace, and `old`, for what is replaced; $2 the directory that is
# replaced, "." for none and "" for the workspace. All is checked first. A function's own arguments are local, its
# variables are not: none is used after a call of the function by itself. A directory that is not there yet is moved as
# a whole, so an empty workspace takes one command for each name at the top. A directory that is moved or gets entries
# has to be writable. An empty message for every thousand entries shows that there is progress.
_MERGE_SCRIPT = f"""
stage=$1 replaced=$2
cleanup() {{ cd /workspace && chmod -R u+rwx "$stage"; rm -rf "./$stage"; }}
cd /workspace || exit 1
count=0
advance() {{ count=$((count + 1)); case $count in *000) echo >&2 ;; esac; }}
is_directory() {{ [ -d "$1" ] && [ ! -L "$1" ]; }}
exists() {{ [ -e "$1" ] || [ -L "$1" ]; }}
open_up() {{ ! is_directory "$1" || chmod u+rwx "$1"; }}
check() {{
    for entry in "./$stage/new/$1"* "./$stage/new/$1".*; do
        name=${{entry##*/}}
        case $name in .|..) continue ;; esac
        advance
        exists "$entry" && exists "./$1$name" || continue
        if is_directory "$entry" && is_directory "./$1$name"; then
            open_up "./$1$name"
            [ "$1$name" = "$replaced" ] || check "$1$name/" || return 1
        elif is_directory "$entry" || is_directory "./$1$name"; then
            printf %s "$1$name"; return 1
        fi
    done
}}
flush() {{
    [ $# -gt 1 ] || return 0
    into=$1; shift
    mv -f "$@" "./$into"
}}
move() {{
    for entry in "./$stage/new/$1"* "./$stage/new/$1".*; do
        name=${{entry##*/}}
        case $name in .|..) continue ;; esac
        advance
        exists "$entry" || continue
        if is_directory "./$1$name" && [ "$1$name" != "$replaced" ]; then
            move "$1$name/" || return 1
            continue
        fi
        ! is_directory "./$1$name" || mv "./$1$name" "./$stage/old/replaced" || return 1
        [ ! -L "./$1$name" ] || rm -f "./$1$name" || return 1
        set -- "$@" "$entry"
        [ $# -le {_MOVED} ] || {{ flush "$@" && set -- "$1" || return 1; }}
    done
    flush "$@"
}}
check "" || exit {_IN_THE_WAY}
if [ "$replaced" = "" ]; then
    for entry in ./* ./.*; do
        case $entry in ./.|./..|"./$stage") continue ;; esac
        exists "$entry" || continue
        open_up "$entry" && mv "$entry" "./$stage/old/" || exit 1
    done
fi
move ""
"""


async def unpack(
    engine: Engine,
    container: str,
    archives: ContainerArchives,
    archive: AsyncIterator[bytes],
    replaced: Sequence[str] | None,
) -> None:
    """See `Sandbox.unpack`; the container must run."""
    stage = f".palimpsest-{secrets.token_hex(8)}"
    place = f"{WORKSPACE.strip('/')}/{stage}"
    try:
        await archives.put(ROOT, _staged(place, archive))
        arguments = (stage, "." if replaced is None else "/".join(replaced))
        code, output, messages = await run_script(engine, container, _MERGE_SCRIPT, arguments)
    except BaseException as exc:
        await run_script(engine, container, 'rm -rf "/workspace/$1"', (stage,))
        raise not_copied(exc) if isinstance(exc, aiodocker.DockerError) else exc from None
    if code == _IN_THE_WAY:
        raise paths.in_the_way(output)
    if code != 0:
        last = messages.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SandboxError(f"The archive cannot be unpacked: {paths.show(last)}.")


async def _staged(place: str, archive: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for name in (place, f"{place}/new", f"{place}/old"):
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, 0o700
        info.uid = info.gid = USER_ID
        yield info.tobuf(tarfile.GNU_FORMAT)
    async for piece in tar.in_folder(f"{place}/new", archive, USER_ID):
        yield piece
