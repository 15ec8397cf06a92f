"""The kind of page this project descends from, written for the bench: a Bootstrap-style table, a row per GPU.

Every process is in its row, the search looks through the text of all rows at each letter.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from gpumon_static.model import Gpu, HostReading

HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>GPU status</title>
<style>
*, *::before, *::after { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 sans-serif; color: #212529; }
.container { width: 100%; max-width: 1320px; margin: 0 auto; padding: 0 12px; }
.form-control { width: 100%; padding: 6px 12px; border: 1px solid #ced4da; border-radius: 4px; }
.table { width: 100%; margin-bottom: 16px; border-collapse: collapse; }
.table th, .table td { padding: 8px; border-bottom: 1px solid #dee2e6; text-align: left; }
.table-striped tr:nth-of-type(odd) td { background: rgba(0, 0, 0, .05); }
.badge { padding: 5px 10px; border-radius: 6px; color: #fff; font-weight: 700; }
.bg-success { background: #198754; } .bg-danger { background: #dc3545; }
.progress { height: 16px; background: #e9ecef; } .progress-bar { height: 100%; background: #0d6efd; }
</style></head>
<body><div class="container"><h1>GPU status</h1>
<input class="form-control" type="search" placeholder="Search" name="q">
<table class="table table-striped"><thead><tr><th>Host</th><th>GPU</th><th>Model</th><th>Status</th>
<th>Utilization</th><th>Memory</th><th>Temperature</th><th>Power</th><th>Processes</th></tr></thead><tbody>
"""
FOOT = """</tbody></table></div>
<script>
document.querySelector("input").addEventListener("input", (event) => {
  const value = event.target.value.toLowerCase();
  for (const row of document.querySelectorAll("tbody tr")) {
    row.style.display = row.textContent.toLowerCase().includes(value) ? "" : "none";
  }
});
</script></body></html>
"""


def ancestor_page(readings: Iterable[HostReading]) -> str:
    return HEAD + "\n".join(_row(reading.host, gpu) for reading in readings for gpu in reading.gpus) + FOOT


def _row(host: str, gpu: Gpu) -> str:
    badge = ("bg-danger", "Busy") if gpu.processes else ("bg-success", "Free")
    lines = "".join(
        f"<li>{p.pid} {escape(str(p.user))} {escape(str(p.name))} {p.memory_mib or 0:.0f} MiB</li>"
        for p in gpu.processes
    )
    memory = f"{gpu.memory_used_mib or 0:.0f} / {gpu.memory_total_mib or 0:.0f} MiB"
    load = f"{gpu.utilization or 0:.0f}%"
    return (
        f"<tr><td>{escape(host)}</td><td>{gpu.index}</td><td>{escape(str(gpu.name))}</td>"
        f'<td><span class="badge {badge[0]}">{badge[1]}</span></td>'
        f'<td><div class="progress"><div class="progress-bar" style="width: {load}"></div>'
        f"</div>{load}</td><td>{memory}</td><td>{gpu.temperature_c or 0:.0f}&deg;C</td>"
        f"<td>{gpu.power_w or 0:.0f} W</td><td><ul>{lines}</ul></td></tr>"
    )
