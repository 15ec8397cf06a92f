"""Names in the place of logins, the same from one render to the next.

A pseudonym is a keyed hash of the login. The key is random, made once per install, and never leaves the data
directory: without it a pseudonym cannot be found by trying known logins.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from gpumon_static.errors import GpumonError
from gpumon_static.system.command import Command
from gpumon_static.system.files import NOT_FOR_OTHERS, NotAFile, owner_of, read_file, write_atomic

KEY_FILE = "pseudonyms.key"
KEY = re.compile(rb"[ -~]{32,1024}")
"""One line of printable characters: ours has 64, a lab's own may have others."""
MOST_BYTES = 2000

ADJECTIVES = (
    "amber ample azure bold brave brisk bronze calm cedar clever cobalt coral cosmic crisp dapper "
    "deft eager early fair fleet fond frank gentle giddy glad golden grand happy hardy hazel honest "
    "humble icy indigo ivory jade jolly keen kind lively lucky lunar mellow merry mild misty nimble "
    "noble olive opal plucky polar proud quick quiet rapid rosy royal ruby rustic sandy silver sunny "
    "teal"
).split()
ANIMALS = (
    "alpaca badger bat bear beaver bison bobcat camel cat cod condor coyote crab crane crow deer "
    "dingo dove duck eagle eel egret elk falcon ferret finch fox frog gecko gibbon goose hare hawk "
    "heron ibex ibis jay kiwi koala lark lemur lion llama lynx marten mole moose moth newt ocelot "
    "okapi orca osprey otter owl panda perch pika puffin quail raven robin salmon seal"
).split()


def pseudonym(login: str, key: bytes) -> str:
    digest = int.from_bytes(hmac.digest(key, login.encode(errors="surrogateescape"), hashlib.sha256)[:8])
    digest, number = divmod(digest, 1000)
    digest, adjective = divmod(digest, len(ADJECTIVES))
    return f"{ADJECTIVES[adjective]}-{ANIMALS[digest % len(ANIMALS)]}-{number:03}"


def read_key(data_directory: Path) -> bytes:
    """The install's key, made on first use and readable by its owner only.

    A damaged key is an error and never replaced: a new one gives all users other names.
    """
    path = data_directory / KEY_FILE
    try:
        if not path.exists():
            _make_key(path)
        content = read_file(path, MOST_BYTES)
    except NotAFile as error:
        raise _no_key(path, "is not a file") from error
    except PermissionError as error:
        raise GpumonError(f"cannot use {path}: {NOT_FOR_OTHERS}") from error
    except OSError as error:
        raise GpumonError(f"cannot use {path}: {error.strerror or error}") from error
    key = content.strip()
    if not KEY.fullmatch(key):
        raise _no_key(path, "is not a key for pseudonyms")
    return key


def _make_key(path: Path) -> None:
    """Create the key in one step, without replacing one that another render has created meanwhile."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    write_atomic(temporary, secrets.token_hex(32) + "\n", private=True)
    try:
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()


def _no_key(path: Path, what: str) -> GpumonError:
    again = Command.of("mv", path, f"{path}.damaged").by(owner_of(path.parent))
    return GpumonError(
        f"{path} {what}: restore it from a backup. Or start again with a new key, which gives all users other"
        f" pseudonyms, {again.who}: {again}"
    )
