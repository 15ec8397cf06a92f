"""What makes a page a lab's own: its accent colour, its logo, its templates."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpumon_static.errors import ConfigError

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

MOST_LOGO_BYTES = 64 * 1024
CONTRAST = 4.6
"""Of the accent as text; a little over the 4.5 that readers need."""

PAPER, INK = "#f7f7f5", "#1e2327"
"""The lightest and the darkest surface that links stand on, as theme.css has them."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True, slots=True)
class Branding:
    accent: str | None = None
    logo: str | None = None
    """A data: URI."""
    templates: Path | None = None

    @property
    def style(self) -> str | None:
        """The lab's colour, darkened or lightened as far as each theme needs to keep it readable."""
        if self.accent is None:
            return None
        light, dark = readable(self.accent, PAPER), readable(self.accent, INK)
        return f":root {{\n  --accent: light-dark({light}, {dark});\n}}\n"


def load_branding(config: Config) -> Branding:
    site = config.site
    problems: list[str] = []
    logo = _logo(site.logo, problems) if site.logo else None
    if site.templates and not site.templates.is_dir():
        problems.append(f"site.templates: {site.templates} is not a directory")
    if problems:
        raise ConfigError(config.path, problems)
    return Branding(site.accent, logo, site.templates)


def _logo(path: Path, problems: list[str]) -> str | None:
    try:
        content = path.read_bytes()
    except OSError as error:
        problems.append(f"site.logo: {path} cannot be read: {error.strerror}")
        return None
    kind = image_kind(content)
    if kind is None:
        problems.append(f"site.logo: {path} is not an SVG, PNG, JPEG, GIF or WebP image")
    if len(content) > MOST_LOGO_BYTES:
        size, most = len(content) // 1024, MOST_LOGO_BYTES // 1024
        problems.append(f"site.logo: {path} has {size} kB; it is part of every page: at most {most} kB")
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def image_kind(content: bytes) -> str | None:
    """By what is inside, not by the file's name. An SVG in an <img> can run and load nothing."""
    for signature, kind in _SIGNATURES:
        if content.startswith(signature):
            return kind
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return "image/svg+xml" if b"<svg" in content[:1024].lower() else None


def readable(colour: str, surface: str) -> str:
    """The colour, mixed with black or white until it can be read on the surface."""
    towards = 0 if _luminance(_channels(surface)) > 0.5 else 255
    for step in range(21):
        mixed = [round(c + (towards - c) * step / 20) for c in _channels(colour)]
        if _contrast(mixed, _channels(surface)) >= CONTRAST:
            break
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _channels(colour: str) -> list[int]:
    return list(bytes.fromhex(colour[1:]))


def _luminance(channels: list[int]) -> float:
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in channels)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: list[int], two: list[int]) -> float:
    low, high = sorted((_luminance(one), _luminance(two)))
    return (high + 0.05) / (low + 0.05)
