"""nvidia-smi's output to the XML document in it, or to the reason why there is none.

Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error     around it: kept as text
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">                          never loaded
<nvidia_smi_log>...</nvidia_smi_log>
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from xml.etree.ElementTree import ParseError
from xml.sax.saxutils import escape, unescape

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from gpumon_static.collect.values import known
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.text import one_line

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

T = TypeVar("T")

Texts = Mapping[str, Sequence[str | None]]
"""What the tags below an element say, by their path: `fb_memory_usage/used`."""

DEEPEST = 6
"""Tags in a path; no driver has used more than four, and a host that lies may nest a million."""

_START = re.compile(r"<\?xml|<(?:\w+:)?nvidia_smi_log")
_END = re.compile(r"</(?:\w+:)?nvidia_smi_log\s*>")
_SCHEMA = re.compile(r"<!DOCTYPE[^>]*?nvsmi_device_v(\d+)\.dtd")
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PROCESS_NAME = re.compile(r"(?<=<process_name>).*?(?=</process_name>)", re.DOTALL)
_BARE_AMPERSAND = re.compile(r"&(?!#?\w{1,8};)")

# What nvidia-smi prints instead of XML, and what that means. Its exit status is no safe guide: 255 is
# also that of ssh, and the driver's messages come on stdout.
_MESSAGES = (
    (re.compile(r"No devices were found", re.IGNORECASE), Status.NO_GPUS),
    (re.compile(r"couldn't communicate with the NVIDIA driver", re.IGNORECASE), Status.DRIVER),
    (re.compile(r"Failed to initialize NVML", re.IGNORECASE), Status.DRIVER),
    (re.compile(r"couldn't find libnvidia-ml", re.IGNORECASE), Status.DRIVER),
    (re.compile(r"Unable to determine the device handle", re.IGNORECASE), Status.DRIVER),
    (re.compile(r"GPU is lost|driver is not loaded|version mismatch", re.IGNORECASE), Status.DRIVER),
    (re.compile(r"GPU access blocked by the operating system", re.IGNORECASE), Status.DRIVER),
)
_DRIVER_EXITS = {4, 9, 12, 15, 18}
_TIMEOUT_EXITS = {124, 137}


@dataclass(frozen=True)
class Document:
    root: Element
    around: str
    """What else was printed, before and after it and on stderr."""
    schema: int | None


def find(stdout: str, stderr: str, exit_status: int) -> Document:
    """A complete document counts, whatever the exit status; an incomplete one is refused."""
    spans = list(_documents(stdout))
    if not spans:
        raise _no_document(stdout, stderr, exit_status)
    document = stdout[slice(*spans[0])]
    schema = _SCHEMA.search(stdout, endpos=spans[0][1])
    ends = [0, *(place for span in spans for place in span), len(stdout)]
    around = [stdout[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]
    return Document(_root(document), "\n".join([*around, stderr]), int(schema[1]) if schema else None)


def _documents(stdout: str) -> Iterator[tuple[int, int]]:
    """Where each begins and ends; with `-l` there are several, of which the first counts."""
    start = _START.search(stdout)
    while start and (end := _END.search(stdout, start.end())):
        yield start.start(), end.end()
        start = _START.search(stdout, end.end())


def texts(element: Element) -> Texts:
    """In one walk: a GPU is asked for a hundred paths. The empty path has the element's own text."""
    found: dict[str, list[str | None]] = {"": [element.text]}

    def walk(parent: Element, path: str, depth: int) -> None:
        for child in parent:
            here = path + child.tag
            found.setdefault(here, []).append(child.text)
            if depth < DEEPEST and len(child):
                walk(child, here + "/", depth + 1)

    walk(element, "", 1)
    return found


def first(texts: Texts, paths: Iterable[str], read: Callable[[str | None], T | None]) -> T | None:
    """The first of these paths with a value; of a tag that is there twice, the one that has it."""
    values = (read(text) for path in paths for text in texts.get(path, ()))
    return next((value for value in values if value is not None), None)


def told(texts: Texts, *paths: str) -> str | None:
    """The same, as text."""
    return first(texts, paths, known)


def _root(document: str) -> Element:
    document = _NOT_XML.sub("\ufffd", document)
    try:
        return _without_namespaces(fromstring(document))
    except (ParseError, DefusedXmlException):
        pass
    try:
        # Some drivers print names as they are: `<script>` is a legal one of a process.
        repaired = _PROCESS_NAME.sub(lambda m: escape(unescape(m[0])), document)
        return _without_namespaces(fromstring(_BARE_AMPERSAND.sub("&amp;", repaired)))
    except ParseError as error:
        raise HostError(Status.BAD_OUTPUT, f"nvidia-smi's XML is not well-formed: {error}") from error
    except DefusedXmlException as error:
        raise HostError(Status.BAD_OUTPUT, "nvidia-smi's XML declares entities: refused") from error


def _without_namespaces(root: Element) -> Element:
    if "xmlns" in str(root.attrib) or "}" in root.tag:
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
    return root


def _no_document(stdout: str, stderr: str, exit_status: int) -> HostError:
    said = one_line(stdout) or one_line(stderr)
    if exit_status == 127:
        return HostError(Status.NO_NVIDIA_SMI, "nvidia-smi is not installed, or not on this login's PATH")
    if exit_status in _TIMEOUT_EXITS:
        told = f"; {why}" if (why := one_line(stderr)) else ""
        return HostError(Status.TIMEOUT, f"nvidia-smi did not answer in time: the driver may hang{told}")
    if "<nvidia_smi_log" in stdout:
        return HostError(Status.BAD_OUTPUT, f"nvidia-smi's XML was cut off after {len(stdout)} characters")
    for pattern, status in _MESSAGES:
        if pattern.search(stdout) or pattern.search(stderr):
            return HostError(status, said or "nvidia-smi failed")
    if exit_status in _DRIVER_EXITS:
        return HostError(Status.DRIVER, said or f"nvidia-smi failed with exit status {exit_status}")
    if said is None:
        return HostError(Status.BAD_OUTPUT, f"nvidia-smi printed nothing (exit status {exit_status})")
    return HostError(Status.BAD_OUTPUT, f"nvidia-smi printed no XML (exit status {exit_status}): {said}")
