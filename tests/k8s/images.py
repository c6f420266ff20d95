"""Carry out the Dockerfiles in clean roots, and run what they make as Kubernetes would run it.

    python -m tests.k8s.images        both, in some minutes; as root

Read-only root, a user without a name, no compiler: a sidecar passes a stream there, a collector judges it, each ends
with 0; `nft` puts rules in with NET_ADMIN alone and no way to gain more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import aiohttp

from k8s.ruleset import COMMAND, ruleset
from tests.k8s import contained
from tests.k8s.clean_root import build, command, finished
from tests.k8s.dockerfile import Stage, stages
from tests.k8s.tools import ROOT
from tests.readers.reading import Missing
from tests.support.processes import free_ports, get, until

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gapline-images"
COMPILERS: Final = ("as", "c++", "cc", "clang", "cpp", "g++", "gcc", "go", "ld", "make", "pip", "pip3", "rustc")
FOLDERS: Final = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "opt/gapline/bin")
NET_ADMIN: Final = 12
MOST_BYTES: Final = {"gapline": 400 << 20, "gapline-nft": 250 << 20}
"""On disk: a pod waits for the image before it starts. A third of it is the base, which nodes often have."""
_POD: Final = '{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","ports":[{"containerPort":80}]}]}}'
CAN: Final = (
    ("gapline", "injector", "--check-config"),
    ("gapline", "sidecar", "--upstream", "http://u", "--hop", "h", "--compiled", "on", "--check-config"),
    ("python", "-c", "import k8s.injector"),  # its certificates are made by a package that only it needs
    ("sh", "-c", f"echo '{_POD}' | gapline inject -f - --kubernetes 1.33"),
    ("sleep", "0"),  # what puts off the end of a classic sidecar
)
STREAM: Final = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\ndata: [DONE]\n\n'


def compilers(root: Path) -> list[str]:
    """Programs that make programs, and have no business in an image."""
    return [f"{folder}/{name}" for folder in FOLDERS for name in COMPILERS if os.path.lexists(root / folder / name)]


def size_bytes(root: Path) -> int:
    return int(finished(["du", "--summarize", "--block-size=1", "--one-file-system", str(root)]).split()[0])


@contextlib.contextmanager
def running(root: Path, stage: Stage, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of the image, as a pod runs it."""
    user = stage.last("USER")
    assert user is not None
    process = subprocess.Popen(command(root, *words, user=user, environ=stage.environ), stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + STREAM)
    await writer.drain()
    writer.close()


async def is_ready(port: int) -> bool:
    return (await get(f"http://127.0.0.1:{port}/readyz"))[0] == 200


async def ended(process: subprocess.Popen[bytes], name: str) -> None:
    process.send_signal(signal.SIGTERM)
    await until(lambda: process.poll() is not None, f"the {name} ends")
    assert process.returncode == 0, f"the {name} ended with {process.returncode}"


async def try_gapline(root: Path, stage: Stage) -> None:
    """A stream through a sidecar, and the verdict on it."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    app = server.sockets[0].getsockname()[1]
    otlp, query, door, admin = free_ports(4)
    collecting = ("gapline", "collector", "--data", "/tmp/data", "--grpc", f"127.0.0.1:{free_ports(1)[0]}")
    standing = ("gapline", "sidecar", "--hop", "worker", "--upstream", f"http://127.0.0.1:{app}")
    with (
        running(
            root, stage, *collecting, "--http", f"127.0.0.1:{otlp}", "--query", f"127.0.0.1:{query}", "--settle", "1s"
        ) as collector,
        running(
            root,
            stage,
            *(*standing, "--listen", f"127.0.0.1:{door}", "--admin", f"127.0.0.1:{admin}"),
            *("--export", f"http://127.0.0.1:{otlp}"),
        ) as sidecar,
    ):
        for port in (query, admin):
            await until(lambda port=port: is_ready(port), "it is ready", within_s=60)
        async with aiohttp.ClientSession() as session:
            headers = {"X-Request-Id": "image-1"}
            async with session.post(f"http://127.0.0.1:{door}/v1/chat/completions", headers=headers) as response:
                assert await response.read() == STREAM

        async def is_judged() -> bool:
            status, text = await get(f"http://127.0.0.1:{query}/v1/requests/image-1/verdict")
            return status == 200 and json.loads(text)["status"] == "healthy"

        await until(is_judged, "the verdict is there")
        await ended(sidecar, "sidecar")
        await ended(collector, "collector")
    server.close()
    for words in CAN:
        finished(command(root, *words, user=stage.last("USER") or "", environ=stage.environ))
    assert "gapline" in finished(
        command(root, "gapline", "version", user=stage.last("USER") or "", environ=stage.environ)
    )


def try_nft(root: Path, stage: Stage) -> None:
    """The rules of a redirecting pod, put in twice."""
    rules = ruleset(app_port=8_000, listen_port=24_080, probe_port=24_081)
    user = (stage.last("USER") or "").partition(":")[0]
    contain = ("unshare", "--mount", "--net", sys.executable, contained.__file__, str(root), user, str(NET_ADMIN), "--")
    said = finished([*contain, *COMMAND, rules + rules])
    assert said.count("redirect to :24080") == said.count("redirect to :8000") == 1, said
    through_shell = f"{COMMAND[0]} add table inet more && echo gained || echo refused"
    said = finished([*contain, "/bin/sh", "-c", through_shell])
    assert "refused" in said, "a shell in front of nft should lose the capability"


IMAGES: Final[Mapping[str, str]] = {"gapline": "Dockerfile", "gapline-nft": "k8s/nft.Dockerfile"}


def check(name: str, folder: Path) -> None:
    started_s = time.monotonic()
    read = stages((ROOT / IMAGES[name]).read_text("utf-8"))
    root = build(read, context=ROOT, cache=CACHE, folder=folder)
    assert not compilers(root), compilers(root)
    size = size_bytes(root)
    assert size <= MOST_BYTES[name], f"{name}: {size >> 20} MiB"
    if name == "gapline":
        asyncio.run(try_gapline(root, read[-1]))
    else:
        try_nft(root, read[-1])
    print(f"{name}: {size >> 20} MiB, built and run in {time.monotonic() - started_s:.0f} s", flush=True)


def main() -> int:
    try:
        for name in IMAGES:
            with tempfile.TemporaryDirectory(prefix="gapline-image-") as folder:
                check(name, Path(folder))
    except Missing as error:
        print(f"not checked: {error}", file=sys.stderr)
        return 1
    print(f"{len(IMAGES)} passed, 0 failed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
