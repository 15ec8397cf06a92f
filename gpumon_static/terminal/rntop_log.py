"""`top --output`: each reading appended in rntop's log format, for its board and for `history import`.

    timestamp,node,index,utilization,memory_used,memory_total
    2025/11/14 09:10:02.000,gpu01,0,97,41000,81920

The time is local and has no zone, as nvidia-smi prints it; memory is MiB. What is not known has no row.
"""

from __future__ import annotations

from pathlib import Path

from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading

HEADER = "timestamp,node,index,utilization,memory_used,memory_total"


class RntopLog:
    def __init__(self, path: Path) -> None:
        try:
            # Without a buffer: what cannot be written to a full disk is not tried again.
            self._file = path.open("ab", buffering=0)
            if self._file.tell() == 0:
                self._file.write(f"{HEADER}\n".encode())
        except OSError as error:
            raise GpumonError(f"cannot write {path}: {error.strerror}") from error

    def add(self, reading: HostReading) -> None:
        """Write whole lines at once, so that a program that follows the file never reads half of one."""
        self._file.write("".join(f"{row}\n" for row in rows(reading)).encode())

    def close(self) -> None:
        self._file.close()


def rows(reading: HostReading) -> list[str]:
    local = reading.fetched_at.astimezone()
    time = f"{local:%Y/%m/%d %H:%M:%S}.{local.microsecond // 1000:03}"
    known = [
        (gpu.index, gpu.utilization, gpu.memory_used_mib, gpu.memory_total_mib)
        for gpu in reading.gpus
        if gpu.utilization is not None
        and gpu.memory_used_mib is not None
        and gpu.memory_total_mib is not None
    ]
    return [
        f"{time},{reading.host},{index},{u:.0f},{used:.0f},{total:.0f}" for index, u, used, total in known
    ]
