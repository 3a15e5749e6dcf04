"""A real git server: git's own `http-backend` behind HTTPS, with or without a password."""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import subprocess
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

AUTHOR = ("-c", "user.name=Test", "-c", "user.email=test@example.com")


class GitServer:
    """Serves the bare repository `project.git`. `asked` are the paths of all requests, `password` the one that is
    required, of any user; `redirect` is where everything is redirected to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.password: str | None = None
        self.redirect: str | None = None
        self.asked: list[str] = []
        self.during: list[bytes] = []
        """The arguments and environments of all processes of this machine during a request with the password."""
        self.authority = folder / "authority.pem"
        self.port = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def stall(self) -> None:
        """Answers nothing until `proceed`."""
        self.may_answer.clear()

    def proceed(self) -> None:
        self.may_answer.set()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/project.git"

    def git(self, *arguments: str) -> str:
        work = self.folder / "work"
        return subprocess.run(
            ["git", *AUTHOR, "-C", str(work), *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, files: dict[str, str], branch: str = "main") -> str:
        """Adds a commit to a branch and returns its hash."""
        self.git("checkout", "--quiet", "-B", branch)
        for name, text in files.items():
            path = self.folder / "work" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "Change")
        self.git("push", "--quiet", "../project.git", f"HEAD:refs/heads/{branch}")
        return self.git("rev-parse", "HEAD")

    def object(self, kind: str, content: bytes) -> str:
        """Adds an object to the repository, whether or not it is well formed, and returns its hash."""
        argv = [
            "git",
            "-C",
            str(self.folder / "project.git"),
            "hash-object",
            "-w",
            "--literally",
            "--stdin",
            "-t",
            kind,
        ]
        return subprocess.run(argv, check=True, input=content, capture_output=True).stdout.decode().strip()

    def commit_of(self, blobs: dict[str, str], author: str = "A <a@example.com> 0 +0000") -> str:
        """Adds a commit without parents that has these files, by name, and returns its hash."""
        tree = b"".join(b"100644 %s\0%s" % (name.encode(), bytes.fromhex(blobs[name])) for name in sorted(blobs))
        text = f"tree {self.object('tree', tree)}\nauthor {author}\ncommitter {author}\n\nx\n"
        return self.object("commit", text.encode())

    def delta(self, base: bytes, copies: int) -> tuple[str, str]:
        """Adds `base`, and a blob of so many copies of it that is stored as their description; returns both hashes.
        `base` has less than 16 MiB."""
        whole = _length(len(base)) + _length(len(base) * copies)
        whole += (b"\xf0" + len(base).to_bytes(3, "little")) * copies
        pack = b"PACK" + (2).to_bytes(4, "big") * 2
        pack += _head(3, len(base)) + zlib.compress(base, 9)
        pack += _head(7, len(whole)) + _blob(base).digest() + zlib.compress(whole, 9)
        argv = ["git", "-C", str(self.folder / "project.git"), "index-pack", "--stdin"]
        subprocess.run(argv, check=True, input=pack + hashlib.sha1(pack).digest(), capture_output=True)
        return _blob(base).hexdigest(), _blob(base, copies).hexdigest()

    def point(self, branch: str, commit: str) -> None:
        """Has a branch end at a commit."""
        (self.folder / "project.git" / "refs" / "heads" / branch).write_text(commit + "\n")

    def prepare(self) -> None:
        self._run("git", "init", "--quiet", "--bare", "--initial-branch=main", "project.git")
        self._run("git", "init", "--quiet", "--initial-branch=main", "work")
        self._run(
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", "key.pem", "-out", "authority.pem", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        )

    def _run(self, *argv: str) -> None:
        subprocess.run(argv, check=True, capture_output=True, cwd=self.folder)


def _head(kind: int, size: int) -> bytes:
    """The head of an object in a pack."""
    first, rest = kind << 4 | size & 15, size >> 4
    return bytes([first | 0x80]) + _length(rest) if rest else bytes([first])


def _length(size: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    rest = size >> 7
    return bytes([size & 0x7F | 0x80]) + _length(rest) if rest else bytes([size])


def _blob(base: bytes, copies: int = 1) -> hashlib._Hash:
    made = hashlib.sha1(b"blob %d\0" % (len(base) * copies))
    for _ in range(copies):
        made.update(base)
    return made


def _handler(git: GitServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            git.asked.append(self.path)
            git.may_answer.wait(30)
            if git.redirect is not None:
                self._answer(302, {"Location": git.redirect + self.path})
            elif not self._is_allowed():
                self._answer(401, {"WWW-Authenticate": 'Basic realm="git"'})
            else:
                self._backend()

        do_POST = do_GET

        def _is_allowed(self) -> bool:
            if git.password is None:
                return True
            given = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
            if given.partition(":")[2] != git.password:
                return False
            git.during += list(_processes())
            return True

        def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _backend(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            ran = subprocess.run(
                ["git", "http-backend"],
                check=True,
                input=body,
                capture_output=True,
                env={
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(git.folder),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "GIT_CONFIG_COUNT": "2",
                    "GIT_CONFIG_KEY_0": "safe.directory",
                    "GIT_CONFIG_VALUE_0": "*",
                    "GIT_CONFIG_KEY_1": "uploadpack.allowReachableSHA1InWant",
                    "GIT_CONFIG_VALUE_1": "true",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "REMOTE_USER": "test",
                },
            )
            head, _, content = ran.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            status = int(headers.pop("Status", "200").split()[0])
            self._answer(status, headers, content)

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing."""

    return Handler


def _processes() -> Iterator[bytes]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            try:
                yield Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue


@contextmanager
def git_server(folder: Path) -> Iterator[GitServer]:
    git = GitServer(folder)
    git.prepare()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "authority.pem", folder / "key.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(git)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        git.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield git
        finally:
            git.proceed()
            server.shutdown()
            thread.join()
