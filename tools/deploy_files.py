"""Write the files of deploy/ that are made from templates/deploy/: `python -m tools.deploy_files`.

tests/deployment/test_deployment.py fails when one is out of step.
"""

from __future__ import annotations

from pathlib import Path

from gpumon_static.deployment import UNITS
from gpumon_static.deployment.files import text_of
from gpumon_static.deployment.installation import Installation

DEPLOY = Path(__file__).parents[1] / "deploy"
NAMES = {
    "crontab": "crontab",
    "nginx": "nginx.conf",
    "caddy": "Caddyfile",
    "authorized_keys": "authorized_keys.example",
    "ansible-vars": "ansible/group_vars/all.yml",
    **{unit: unit for unit in (*UNITS, "gpumon-dask-worker.service")},
}


def main() -> None:
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


def files() -> dict[Path, str]:
    """Each file as it should be: with the paths of docs/deploy.md, and of the container."""
    usual, contained = Installation(), Installation(site=Path("/site"), server_name="_")
    return {DEPLOY / path: text_of(name, usual) for name, path in NAMES.items()} | {
        DEPLOY / "container-nginx.conf": text_of("nginx", contained)
    }


if __name__ == "__main__":
    main()
