"""Where a ledger can lie: a fresh SQLite file, and a fresh database on a real PostgreSQL."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def server_folder() -> Path | None:
    """The folder of PostgreSQL's programs."""
    found = shutil.which("pg_ctl")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    return Path(found).resolve().parent if found else debian[-1].parent if debian else None


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """A server of this session alone, on loopback; yields its address without a database."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgresql)")
    programs = server_folder()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    user = None
    if os.geteuid() == 0:  # the server refuses to run as root
        user = next((u for u in ("postgres", "nobody") if _known(u)), None)
        if user is None:
            pytest.skip("PostgreSQL does not run as root, and there is no other user")
    folder = Path(tempfile.mkdtemp(prefix="insular-pg-", dir="/tmp"))
    if user is not None:
        shutil.chown(folder, user)
    port = free_port()

    def call(program: str, *arguments: str) -> None:
        done = subprocess.run(
            [programs / program, "-D", folder / "data", *arguments],
            user=user,
            extra_groups=None if user is None else [],
            cwd=folder,
            stdout=subprocess.DEVNULL,  # a server that keeps a pipe open is waited for
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
        assert done.returncode == 0, (program, done.returncode)

    try:
        call("initdb", "--username=insular", "--auth=trust", "--no-locale", "--encoding=UTF8")
        settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
        call("pg_ctl", "-w", "-l", str(folder / "log"), "-o", settings, "start")
        try:
            yield f"postgresql://insular@127.0.0.1:{port}"
        finally:
            call("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place without a ledger."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return fresh_database(request.getfixturevalue("postgresql_server"))


def fresh_database(server: str) -> str:
    import psycopg

    name = f"ledger_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server}/{name}"
