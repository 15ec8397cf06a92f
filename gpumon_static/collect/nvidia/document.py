"""nvidia-smi's output to the XML document in it, or to the reason why there is none.

Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error     around it: kept as text
<?xml version="1.0" ?>                                                          cut off, as all declarations
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">                         cut off
<nvidia_smi_log>...</nvidia_smi_log>                                            all that the XML parser sees

A document can declare entities before its root only. The parser starts at the root, with text that is decoded
already: no declaration reaches it, whatever encoding one claims.

The name of a process is its user's text, and some drivers print it as it is: `</process_name>` and a whole
GPU may stand in it. So names are escaped before anything is looked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NoReturn, TypeVar, cast
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, fromstring
from xml.parsers.expat import ExpatError, ParserCreate

from gpumon_static.collect.values import known
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.text import one_line

T = TypeVar("T")

MOST_MARKS = 200_000
"""Of each of `<`, `>`, `=` and `&`: the memory of a tree goes by its tags. Eight B200 need 12,000."""

MOST_DOCUMENTS = 100
"""With `-l`; what comes after them is text around them."""
LONGEST_TAG = 64 * 1024
"""Bytes, with its attributes; of a comment too."""

_START = re.compile(r"<\?xml|<(?:\w{1,20}:)?nvidia_smi_log")
_ROOT = re.compile(r"<(?:\w{1,20}:)?nvidia_smi_log")
_END = re.compile(r"nvidia_smi_log\s*>")
_CLOSES = re.compile(r"</(?:\w{1,20}:)?$")
_SCHEMA = re.compile(r"nvsmi_device_v(\d{1,4})\.dtd")
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME, _END_OF_NAME = "<process_name>", "</process_name>"
_NO_ENTITY = re.compile(r"&(?!(?:lt|gt|amp|quot|apos);)")
_BARE_AMPERSAND = re.compile(r"&(?!#?\w{1,8};)")

# What nvidia-smi prints instead of XML, and what that means. Its exit status is not reliable: 255 is
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


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    root: int
    end: int


def find(stdout: str, stderr: str, exit_status: int) -> Document:
    """A complete document counts, whatever the exit status; an incomplete one is refused."""
    stdout = _with_escaped_names(stdout)
    spans = list(islice(_documents(stdout), MOST_DOCUMENTS))
    if not spans:
        raise _no_document(stdout, stderr, exit_status)
    first = spans[0]
    prolog = stdout[: first.root]
    if "<!ENTITY" in prolog:
        raise HostError(Status.BAD_OUTPUT, "nvidia-smi's XML declares entities: refused")
    schema = _SCHEMA.search(prolog)
    starts, ends = [0, *(span.end for span in spans)], [*(span.start for span in spans), len(stdout)]
    around = [stdout[start:end] for start, end in zip(starts, ends, strict=True)]
    root = _root(stdout[first.root : first.end])
    return Document(root, "\n".join([*around, stderr]), int(schema[1]) if schema else None)


def _documents(stdout: str) -> Iterator[_Span]:
    """Where each begins and ends; with `-l` there are several, of which the first counts."""
    start = _START.search(stdout)
    while start and (root := _ROOT.search(stdout, start.start())) and (end := _end(stdout, root.end())):
        yield _Span(start.start(), root.start(), end)
        start = _START.search(stdout, end)


def _end(stdout: str, start: int) -> int | None:
    """The end of the next closing tag. Its name is looked for first: `</` is in every line."""
    for name in _END.finditer(stdout, start):
        if _CLOSES.search(stdout[max(0, name.start() - 24) : name.start()]):
            return name.end()
    return None


class Texts:
    """The texts of the tags below an element, by their path: `fb_memory_usage/used`.

    Most of a GPU's tags are never used, so only the blocks on the way to a path are read.
    """

    __slots__ = ("_blocks", "_elements", "own")

    def __init__(self, element: Element) -> None:
        self.own = element.text
        self._elements: dict[str, Sequence[Element]] = {"": (element,)}
        self._blocks: dict[str, dict[str, Sequence[str | None]]] = {}

    def get(self, path: str) -> Sequence[str | None]:
        block, tag = _PARTS[path]
        texts = self._blocks.get(block)
        if texts is None:
            texts = self._blocks[block] = _by_tag(self._inside(block))
        return texts.get(tag, _NONE)

    def below(self, path: str) -> list[str | None]:
        """Of all the tags in this block, whatever they are called."""
        return [child.text for element in self._inside(path) for child in element]

    def _inside(self, path: str) -> Sequence[Element]:
        """All blocks of this path."""
        found = self._elements.get(path)
        if found is None:
            parent, tag = _PARTS[path]
            found = self._elements[path] = [e for above in self._inside(parent) for e in above.findall(tag)]
        return found


_NONE: tuple[str | None, ...] = ()


class _Parts(dict[str, tuple[str, str]]):
    """The block and the tag of a path: of those in this package only."""

    def __missing__(self, path: str) -> tuple[str, str]:
        block, _, tag = path.rpartition("/")
        return self.setdefault(path, (block, tag))


_PARTS = _Parts()


def _by_tag(elements: Sequence[Element]) -> dict[str, Sequence[str | None]]:
    if len(elements) == 1:
        alone = {child.tag: (child.text,) for child in elements[0]}
        if len(alone) == len(elements[0]):
            return cast("dict[str, Sequence[str | None]]", alone)
    found: dict[str, list[str | None]] = {}
    for element in elements:
        for child in element:
            found.setdefault(child.tag, []).append(child.text)
    return cast("dict[str, Sequence[str | None]]", found)


def first(texts: Texts, paths: Iterable[str], read: Callable[[str | None], T | None]) -> T | None:
    """The first of these paths with a value; of a tag that is there twice, the one that has it."""
    for path in paths:
        for text in texts.get(path):
            value = read(text)
            if value is not None:
                return value
    return None


def first_text(texts: Texts, *paths: str) -> str | None:
    """The same, as text."""
    return first(texts, paths, known)


def _root(document: str) -> Element:
    # A short one, as nearly all are, cannot have so many.
    for mark in "<>=&" if len(document) > MOST_MARKS else "":
        if document.count(mark) > MOST_MARKS:
            message = f"nvidia-smi's XML is too large: more than {MOST_MARKS:,} times {mark!r}"
            raise HostError(Status.BAD_OUTPUT, message)
    try:
        # It can neither declare nor name an entity, and expat refuses what is not well-formed.
        return fromstring(document) if _is_plain(document) else _tree(document)  # noqa: S314
    except (ParseError, ExpatError, UnicodeEncodeError):
        pass
    try:
        return _tree(_repaired(document))
    except (ExpatError, UnicodeEncodeError) as error:
        raise HostError(Status.BAD_OUTPUT, f"nvidia-smi's XML is not well-formed: {error}") from error


def _is_plain(document: str) -> bool:
    """Tags and texts, as nvidia-smi prints it, and none of them long: safe for the library's own parser."""
    # One letter is found many times faster than two, of which the first is everywhere.
    if any(mark[1] in document and mark in document for mark in ("<!", "<?")) or "xmlns" in document:
        return False
    # No tag has a second `<` in it: where one is in each half of the length, none is longer than that.
    half = LONGEST_TAG // 2
    return all(document.find("<", start, start + half) >= 0 for start in range(0, len(document) - half, half))


def _tree(document: str) -> Element:
    """Read by the C parser, without namespaces: each tag would carry its own, which a host may make long."""
    builder, parser = TreeBuilder(), ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    data = document.encode()
    for start in range(0, len(data), LONGEST_TAG):
        parser.Parse(data[start : start + LONGEST_TAG], False)
        # A tag that is not yet complete is read again from its beginning when more comes.
        if start - parser.CurrentByteIndex > LONGEST_TAG:
            raise HostError(Status.BAD_OUTPUT, f"nvidia-smi's XML has a tag of more than {LONGEST_TAG} bytes")
    parser.Parse(b"", True)
    root = builder.close()
    if ":" in root.tag:
        for element in root.iter():
            element.tag = element.tag.rpartition(":")[2]
    return root


def _refuse(*_declared: object) -> NoReturn:
    """Never called: a document that starts at its root has no place for a DOCTYPE. Safe all the same."""
    raise HostError(
        Status.BAD_OUTPUT, "nvidia-smi's XML declares a document type inside the document: refused"
    )


def _repaired(document: str) -> str:
    """Without what is never XML: control characters, ampersands that begin nothing."""
    return _BARE_AMPERSAND.sub("&amp;", _NOT_XML.sub("\ufffd", document, count=MOST_MARKS))


def _with_escaped_names(text: str) -> str:
    """A name ends at the last closing tag of the line in which the first one stands."""
    parts, done = [], 0
    while (tag := text.find(_NAME, done)) >= 0:
        start = tag + len(_NAME)
        first = text.find(_END_OF_NAME, start)
        if first < 0:
            break
        line_end = text.find("\n", first)
        end = text.rfind(_END_OF_NAME, first, line_end if line_end >= 0 else len(text))
        parts += [text[done:start], _escaped(text[start:end])]
        done = end
    return "".join([*parts, text[done:]])


def _escaped(name: str) -> str:
    """A name as XML has it; parts of it may be escaped already."""
    if "<" not in name and ">" not in name and "&" not in name:
        return name
    return _NO_ENTITY.sub("&amp;", name).replace("<", "&lt;").replace(">", "&gt;")


def _no_document(stdout: str, stderr: str, exit_status: int) -> HostError:
    output = one_line(stdout) or one_line(stderr)
    if exit_status == 127:
        return HostError(Status.NO_NVIDIA_SMI, "nvidia-smi is not installed, or not on this login's PATH")
    if exit_status in _TIMEOUT_EXITS:
        message = f"; {why}" if (why := one_line(stderr)) else ""
        return HostError(Status.TIMEOUT, f"nvidia-smi did not answer in time: the driver may hang{message}")
    if "<nvidia_smi_log" in stdout:
        return HostError(Status.BAD_OUTPUT, f"nvidia-smi's XML was cut off after {len(stdout)} characters")
    for pattern, status in _MESSAGES:
        if pattern.search(stdout) or pattern.search(stderr):
            return HostError(status, output or "nvidia-smi failed")
    if exit_status in _DRIVER_EXITS:
        return HostError(Status.DRIVER, output or f"nvidia-smi failed with exit status {exit_status}")
    if output is None:
        return HostError(Status.BAD_OUTPUT, f"nvidia-smi printed nothing (exit status {exit_status})")
    return HostError(Status.BAD_OUTPUT, f"nvidia-smi printed no XML (exit status {exit_status}): {output}")
