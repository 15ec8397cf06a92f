"""Faults of the system, made by a small library that is loaded before libc: EIO, ENOSPC, ENOLCK and so on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.command import PROGRAM

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int is_hit(const char *call, const char *path) {
    const char *wanted = getenv("FAULT_CALL"), *end = getenv("FAULT_FILE");
    if (!wanted || !end || strcmp(wanted, call) || strlen(path) < strlen(end)) return 0;
    if (strcmp(path + strlen(path) - strlen(end), end)) return 0;
    errno = atoi(getenv("FAULT_ERRNO"));
    return 1;
}

static int is_hit_at(const char *call, int handle) {
    char link[64] = "/proc/self/fd/", path[4096];
    char digits[16]; int at = 15; digits[at] = 0;
    do digits[--at] = '0' + handle % 10; while (handle /= 10);
    strcat(link, digits + at);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_hit(call, path);
}

#define OPEN(name) \
int name(const char *path, int flags, ...) { \
    va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
    if (is_hit("open", path)) return -1; \
    return ((int (*)(const char *, int, ...)) dlsym(RTLD_NEXT, #name))(path, flags, mode); \
}
OPEN(open)
OPEN(open64)

ssize_t read(int handle, void *buffer, size_t size) {
    if (is_hit_at("read", handle)) return -1;
    return ((ssize_t (*)(int, void *, size_t)) dlsym(RTLD_NEXT, "read"))(handle, buffer, size);
}

#define PREAD(name) \
ssize_t name(int handle, void *buffer, size_t size, off_t at) { \
    if (is_hit_at("pread", handle)) return -1; \
    return ((ssize_t (*)(int, void *, size_t, off_t)) dlsym(RTLD_NEXT, #name))(handle, buffer, size, at); \
}
PREAD(pread)
PREAD(pread64)

ssize_t write(int handle, const void *buffer, size_t size) {
    if (is_hit_at("write", handle)) return -1;
    return ((ssize_t (*)(int, const void *, size_t)) dlsym(RTLD_NEXT, "write"))(handle, buffer, size);
}

int flock(int handle, int operation) {
    if (is_hit_at("flock", handle)) return -1;
    return ((int (*)(int, int)) dlsym(RTLD_NEXT, "flock"))(handle, operation);
}
"""


def shim(directory: Path) -> Path:
    """Build the library with gcc."""
    library = directory / "faults.so"
    words = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), "-x", "c", "-", "-ldl"]
    subprocess.run(words, input=SOURCE, text=True, check=True, capture_output=True)
    return library


def environment(library: Path, call: str, file: str, number: int) -> dict[str, str]:
    """`call`: open, read, pread, write or flock; it fails with this number for files whose path ends in `file`."""
    return os.environ | {
        "LD_PRELOAD": str(library),
        "FAULT_CALL": call,
        "FAULT_FILE": file,
        "FAULT_ERRNO": str(number),
    }


def gpumon_with(fault: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run gpumon-static with a fault."""
    words = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(words, env=fault, capture_output=True, text=True, timeout=60, check=False)
