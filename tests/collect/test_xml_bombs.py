"""Entities and document types of every kind: none is ever expanded, loaded or even declared."""

from __future__ import annotations

import socket
from pathlib import Path
from xml.etree.ElementTree import Element, tostring

import pytest

from gpumon_static.collect.nvidia import document, smi
from gpumon_static.errors import HostError
from gpumon_static.model import Status

XML = '<?xml version="1.0" ?>'
GPU = '<gpu id="1"><uuid>GPU-1</uuid><product_name>{}</product_name></gpu>'
LOG = f"<nvidia_smi_log>{GPU}</nvidia_smi_log>"
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))

DECLARES = {
    "billion laughs": f'<!DOCTYPE a [<!ENTITY l0 "haha">{LAUGHS}]>' + LOG.format("&l9;"),
    "quadratic blowup": f'<!DOCTYPE a [<!ENTITY l "{"x" * 50_000}">]>' + LOG.format("&l;" * 10_000),
    "file": '<!DOCTYPE a [<!ENTITY l SYSTEM "file:///etc/passwd">]>' + LOG.format("&l;"),
    "public": '<!DOCTYPE a [<!ENTITY l PUBLIC "x" "file:///etc/passwd">]>' + LOG.format("&l;"),
    "parameter": '<!DOCTYPE a [<!ENTITY % p "<!ENTITY l \'boom\'>"> %p;]>' + LOG.format("&l;"),
    "external parameter": '<!DOCTYPE a [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>' + LOG.format("x"),
    "unparsed": '<!DOCTYPE a [<!NOTATION n SYSTEM "n"><!ENTITY l SYSTEM "x" NDATA n>]>' + LOG.format("&l;"),
    "in an attribute": '<!DOCTYPE a [<!ENTITY l "boom">]>' + LOG.format("x").replace('id="1"', 'id="&l;"'),
    "behind a comment": '<!-- ]> --><!DOCTYPE a [<!-- > --><!ENTITY l "boom">]>' + LOG.format("&l;"),
    "behind an instruction": '<?p ]>?><!DOCTYPE a [<?p >?><!ENTITY l "boom">]>' + LOG.format("&l;"),
    "with white space": '<!DOCTYPE\n\ta\r\n[\n<!ENTITY\n l\t"boom"\n>\n]\n>' + LOG.format("&l;"),
    "by name of a good one": '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd" [<!ENTITY amp "boom">]>' + LOG.format("&amp;"),
    "without an XML declaration": '<!DOCTYPE a [<!ENTITY l "boom">]>' + LOG.format("&l;"),
}  # fmt: skip
BEFORE = ["", XML, "\ufeff" + XML, "Welcome!\n" + XML]
ENCODINGS = ["utf-8", "utf-16", "utf-16le", "UTF-7", "ebcdic-cp-us", "cp037", "utf-32", "no-such-encoding"]


def is_refused(text: str) -> str:
    with pytest.raises(HostError) as refused:
        smi.parse(text)
    assert refused.value.status is Status.BAD_OUTPUT
    assert "boom" not in refused.value.reason
    assert "root:" not in refused.value.reason
    assert len(refused.value.reason) < 200
    return refused.value.reason


@pytest.mark.parametrize("before", BEFORE, ids=["bare", "declared", "BOM", "banner"])
@pytest.mark.parametrize("text", DECLARES.values(), ids=DECLARES.keys())
def test_a_document_that_declares_entities_is_refused(text: str, before: str) -> None:
    assert is_refused(before + text) == "nvidia-smi's XML declares entities: refused"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_encoding_that_a_document_claims_changes_nothing(encoding: str) -> None:
    declared = f'<?xml version="1.0" encoding="{encoding}" standalone="no" ?>'
    assert smi.parse(declared + LOG.format("RTX Ä")).gpus[0].name == "RTX Ä"
    is_refused(declared + DECLARES["billion laughs"])


def test_declarations_in_another_encoding_are_text_that_is_cut_off() -> None:
    hidden = '<!DOCTYPE a [<!ENTITY l "boom">]>'
    for encoding in ("utf-16le", "utf-16be", "utf-7", "cp037"):
        disguised = hidden.encode(encoding).decode("utf-8", errors="replace")
        is_refused(f'<?xml version="1.0" encoding="{encoding}" ?>{disguised}{LOG.format("&l;")}')


@pytest.mark.parametrize(
    "inside",
    [
        '<!DOCTYPE a [<!ENTITY l "boom">]>',
        '<!ENTITY l "boom">',
        "<!ELEMENT gpu (uuid)>",
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">',
        "&l;",
        "&#0;",
    ],
)
def test_nothing_can_be_declared_inside_the_document(inside: str) -> None:
    for text in (
        LOG.format(inside),
        LOG.format(f"{inside}&l;"),
        LOG.format("x").replace("<gpu", f"{inside}<gpu", 1),
    ):
        is_refused(XML + text)


def test_a_second_document_type_after_the_root_is_not_looked_at() -> None:
    assert smi.parse(f'{XML}{LOG.format("X")}<!DOCTYPE a [<!ENTITY l "boom">]>').gpus[0].name == "X"


@pytest.mark.parametrize("decoy", ["<!-- <nvidia_smi_log> -->", "<?p <nvidia_smi_log?>", "<nvidia_smi_log"])
def test_a_root_before_the_root_does_not_open_a_way(decoy: str) -> None:
    is_refused(f'{XML}{decoy}<!DOCTYPE a [<!ENTITY l "boom">]>{LOG.format("&l;")}')


def test_no_declaration_reaches_the_parser_and_it_would_refuse_one() -> None:
    with pytest.raises(HostError, match="document type"):
        document._tree("<!DOCTYPE a><a/>")
    assert isinstance(document._tree("<a/>"), Element)


PLAIN = LOG.format("A &amp; B &lt;x&gt; &#65; Ü")
SPECIAL = {
    "a comment": LOG.format("X<!-- c -->"),
    "marked text": LOG.format("<![CDATA[X]]>"),
    "an instruction": LOG.format("<?p x?>X"),
    "a namespace": LOG.format("X").replace("<gpu", '<gpu xmlns="urn:x"'),
    "a long tag": LOG.format("X").replace('id="1"', f'id="{"1" * document.LONGEST_TAG}"'),
    "a long text": LOG.format("X" * document.LONGEST_TAG),
}


def test_what_is_plain_is_read_alike_by_the_fast_parser_and_by_the_careful_one() -> None:
    assert document._is_plain(PLAIN)
    assert document._is_plain(PLAIN * (2 * document.LONGEST_TAG // len(PLAIN)))
    assert tostring(document._root(PLAIN)) == tostring(document._tree(PLAIN))


@pytest.mark.parametrize("text", SPECIAL.values(), ids=SPECIAL.keys())
def test_all_else_is_for_the_careful_one(text: str) -> None:
    for around in ("", PLAIN * (document.LONGEST_TAG // len(PLAIN))):
        assert not document._is_plain(around + text + around)


def test_a_comment_and_marked_text_are_read_as_such() -> None:
    found = smi.parse(XML + LOG.format("<![CDATA[<!DOCTYPE a> & b]]>") + "<!-- bye -->").gpus[0]
    assert found.name == "<!DOCTYPE a> & b"
    assert smi.parse(XML + "<!-- hello -->" + LOG.format("X<!-- c -->Y")).gpus[0].name == "XY"


def test_nothing_is_loaded(tmp_path: Path) -> None:
    """A file system path and a port that answers: neither is opened."""
    (tmp_path / "secret").write_text("boom")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        port = server.getsockname()[1]
        for place in (f"file://{tmp_path}/secret", f"{tmp_path}/secret", f"http://127.0.0.1:{port}/x.dtd"):
            assert smi.parse(f'{XML}<!DOCTYPE a SYSTEM "{place}">{LOG.format("X")}').gpus[0].name == "X"
            included = f'<x:include xmlns:x="http://www.w3.org/2001/XInclude" href="{place}" parse="text"/>'
            assert smi.parse(XML + LOG.format(included)).gpus[0].name is None
        with pytest.raises(TimeoutError):
            server.accept()
