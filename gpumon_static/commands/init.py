"""`gpumon-static init`: write a commented config.ini, and the files for cron, systemd and web servers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from gpumon_static.config import file as config_file
from gpumon_static.config.hostlist import split_commas
from gpumon_static.config.settings import Config
from gpumon_static.deployment.files import cron_quoted, text_of
from gpumon_static.deployment.installation import Installation, home_of, installation_of
from gpumon_static.deployment.schedule import cron_schedule
from gpumon_static.errors import ConfigError, GpumonError
from gpumon_static.system import resources
from gpumon_static.system.resources import own_program

EXAMPLE = "config.example.ini"


@dataclass(frozen=True)
class Answers:
    """The user's answers; None leaves the key at its default, as a comment."""

    hosts: str
    user: str | None = None
    key_filename: str | None = None
    site: str | None = None
    data: str | None = None


def write_config(directory: Path, answers: Answers) -> Config:
    """Write the config. Never overwrites; a config that would not load is removed."""
    path = directory / "config.ini"
    if path.exists():
        raise GpumonError(f"{path} exists already; init never overwrites")
    missing = answers.key_filename and not _may_exist(Path(answers.key_filename).expanduser(), directory)
    if missing:
        raise ConfigError(path, [f"key_filename: {answers.key_filename} does not exist; nothing was written"])
    made = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(config_text(answers))
    except OSError as error:
        raise GpumonError(f"cannot write {path}: {error.strerror}") from error
    try:
        return config_file.load(path)
    except ConfigError:
        path.unlink()
        if made:
            directory.rmdir()
        raise


def _may_exist(file: Path, base: Path) -> bool:
    """False only where it is known not to: a key may be in a directory of another user's."""
    try:
        return (base / file).exists()
    except OSError:
        return True


def config_text(answers: Answers) -> str:
    """The example config with these values, and without its example host."""
    text = resources.find(EXAMPLE).read_text(encoding="utf-8")
    text, own = text.split("# What differs for one host", 1)
    comment = "".join(f"{line}\n" if line.startswith("#") else f"# {line}\n" for line in own.splitlines())
    text += "# What differs for one host" + comment.removeprefix("# ")
    text = _set(text, "hosts", json.dumps(split_commas(answers.hosts), ensure_ascii=False))
    for key in ("user", "key_filename", "site", "data"):
        value = getattr(answers, key)
        if value:
            text = _set(text, key, json.dumps(value, ensure_ascii=False))
    return text


def _set(text: str, key: str, value: str) -> str:
    """The first line of that key, commented out or not; the comment after it stays."""
    line = re.compile(rf"^(?:# )?{key} = (?:\[.*\]|\"[^\"]*\")", re.MULTILINE)
    return line.sub(lambda _: f"{key} = {value}", text, count=1)


def crontab_line(config: Config) -> str:
    """For `crontab -e`, which has no column for the user."""
    program, path = cron_quoted(str(own_program())), cron_quoted(str(config.path.absolute()))
    schedule = cron_schedule(config.site.interval)
    return f"{schedule} {program} fetch --changes -c {path} && {program} render -c {path}"


def nginx_lines(config: Config) -> str:
    """For a server that is there already."""
    return text_of("nginx-locations", installation_of(config, Installation.account))


def printed(
    what: str, directory: Path, config_path: Path | None, account: str, server_name: str | None
) -> str:
    """A file of the deployment, with the values of the config, else with the usual ones."""
    path = config_path or directory / "config.ini"
    if config_path or path.exists():
        there = installation_of(config_file.load(path), account, server_name)
    else:
        there = Installation(
            account, home_of(account), own_program(), server_name=server_name or Installation.server_name
        )
    return text_of(what, there)
