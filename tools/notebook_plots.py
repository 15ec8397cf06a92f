"""Draw the two plots of docs/notebooks.md from the demo's past: `python -m tools.notebook_plots`.

matplotlib is needed for this only: `pip install .[docs]`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gpumon_static import frames
from gpumon_static.config import file as config_file
from gpumon_static.demo import past
from gpumon_static.demo.lab import DemoSpec, build

if TYPE_CHECKING:
    import pandas as pd

DOCS = Path(__file__).parents[1] / "docs"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAYS = 21


def demo_history(folder: Path, days: int = DAYS) -> Path:
    """Write the demo's past into a folder; return the path of its config."""
    hosts = build(DemoSpec())
    lines = ["[common]", f"hosts = {json.dumps([host.name for host in hosts])}"]
    for host in hosts:
        lines += [f'[hosts."{host.name}"]', f'group = "{host.group}"'] if host.group else []
    path = folder / "config.ini"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    past.fill(config_file.load(path), hosts, NOW, days)
    return path


def hours_by_user(config: Path) -> pd.DataFrame:
    """The first example of the page."""
    hours = frames.gpu_hours(by="user", config=config)
    return hours.set_index("user")[["busy_hours", "held_idle_hours"]].head(10)


def busy_by_hour(config: Path) -> pd.DataFrame:
    """The second one: percent of GPUs in use, by weekday and hour."""
    runs = frames.runs(config=config)
    whole = runs[(runs["share"] > 0) & runs["state"].isin(["free", "busy", "held"])]
    taken = (whole["state"] != "free").astype(float) * 100
    times = whole["fetched_at"].dt
    table = taken.groupby([times.day_of_week.rename("weekday"), (times.hour // 2 * 2).rename("hour")]).mean()
    return table.unstack("hour")


def main() -> None:
    import matplotlib as mpl

    mpl.use("svg")
    # Without a date and with fixed names inside, so that the same data gives the same file.
    mpl.rcParams["svg.hashsalt"] = "gpumon-static"
    import matplotlib.pyplot as plt

    with TemporaryDirectory() as folder:
        config = demo_history(Path(folder))
        hours, week = hours_by_user(config), busy_by_hour(config)
    figure, axes = plt.subplots(figsize=(7, 3.5))
    hours.plot.barh(ax=axes, stacked=True, xlabel="GPU hours", color=["#2a7", "#ca5"])
    axes.invert_yaxis()
    figure.savefig(DOCS / "notebook-users.svg", metadata={"Date": None}, bbox_inches="tight")
    figure, axes = plt.subplots(figsize=(7, 2.6))
    drawn = axes.imshow(week.to_numpy(dtype=float), aspect="auto", cmap="Greens", vmin=0, vmax=100)
    axes.set_xticks(range(len(week.columns)), week.columns)
    axes.set_yticks(
        range(len(week.index)), ["Mon Tue Wed Thu Fri Sat Sun".split()[day] for day in week.index]
    )
    figure.colorbar(drawn, label="GPUs in use, %")
    figure.savefig(DOCS / "notebook-week.svg", metadata={"Date": None}, bbox_inches="tight")


if __name__ == "__main__":
    main()
