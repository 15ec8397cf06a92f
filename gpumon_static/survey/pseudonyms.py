"""Names in the place of logins, the same from one render to the next.

A pseudonym is a keyed hash of the login. The key is random, made once per install, and never leaves the data
directory: without it nobody can find out a pseudonym by trying the logins they know.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from gpumon_static.errors import GpumonError

KEY_FILE = "pseudonyms.key"

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
    """The install's key, made on first use and readable by its owner only."""
    path = data_directory / KEY_FILE
    try:
        data_directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        else:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(32) + "\n")
        key = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise GpumonError(f"cannot use {path}: {error.strerror or error}") from error
    if len(key) < 32:
        raise GpumonError(f"{path} is no key for pseudonyms: delete it, and the next render makes a new one")
    return key.encode()
