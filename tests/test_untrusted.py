"""Files of strangers: nothing is followed, waited for, or believed about its own size."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from capex import untrusted
from capex.errors import DamagedFile
from capex.npz import NotReadable, read_npz


def test_only_regular_files_of_a_size_are_read(tmp_path):
    plain, link, pipe = (tmp_path / name for name in ("plain", "link", "pipe"))
    plain.write_bytes(b"1234")
    link.symlink_to(plain)
    os.mkfifo(pipe)
    assert untrusted.read_bytes(plain) == b"1234"
    for path, said in ((link, "is a link"), (pipe, "no regular file"), (Path("/dev/zero"), "no r")):
        with pytest.raises(DamagedFile, match=said):
            untrusted.read_bytes(path)
    with pytest.raises(DamagedFile, match="it has 4 bytes; at most 3 are read"):
        untrusted.read_bytes(plain, 3)
    os.truncate(plain, 2**40)
    with pytest.raises(DamagedFile, match="at most"):
        untrusted.read_json(plain)
    with pytest.raises(DamagedFile, match="line 1 has more than"):
        next(untrusted.lines(plain, 100))
    with pytest.raises(FileNotFoundError):
        untrusted.read_bytes(tmp_path / "none")


def test_a_folder_with_something_that_leads_out_is_damaged(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").touch()
    untrusted.require_plain_tree(tmp_path)
    (tmp_path / "inner" / "up").symlink_to("..")
    untrusted.require_plain(tmp_path)
    with pytest.raises(DamagedFile, match="is a link"):
        untrusted.require_plain_tree(tmp_path)


@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}")])
def test_json_has_a_limit_of_depth(pair):
    opening, closing = pair

    def nested(depth: int) -> str:
        return opening * depth + "1" + closing * depth

    fine = untrusted.DEPTH_MOST
    assert untrusted.loads(nested(fine)) is not None
    for text in (nested(fine + 1), nested(900), nested(200_000), opening * 200_000):
        for given in (text, text.encode()):
            with pytest.raises(ValueError, match=r"nested too deeply|Expecting"):
                untrusted.loads(given)
    wide = {"a": [[{"b": 1}] for _ in range(5000)], "text": "[" * 5000}
    assert untrusted.loads(untrusted.json.dumps(wide)) == wide


def test_a_template_knows_names_and_short_widths_alone():
    values = {"chunk": 7, "key": "left"}
    assert untrusted.fill("d/chunk-{chunk:03d}/{key}-{chunk}", values) == "d/chunk-007/left-7"
    for template in (
        *("{chunk:9999999999d}", "{chunk:>99}", "{chunk!r}", "{chunk.real}", "{0}", "{other}"),
        *("{key:03d}", "{", "}", "{{chunk}}", "{key[0]}", "{chunk:{chunk}d}"),
    ):
        with pytest.raises(ValueError, match=r"there is no|is no number|alone"):
            untrusted.fill(template, values)


def test_a_path_stays_within_its_folder(tmp_path):
    assert untrusted.within(tmp_path, "a/b.mp4") == tmp_path / "a" / "b.mp4"
    (tmp_path / "out").symlink_to("/")
    for name in ("/etc/passwd", "../x", "a/../../x", "out/etc", "a\0b"):
        with pytest.raises(ValueError, match="leads outside"):
            untrusted.within(tmp_path, name)


def test_pictures_are_bounded_and_of_known_formats():
    out = io.BytesIO()
    Image.new("RGB", (4, 3)).save(out, "PNG")
    assert untrusted.picture(out.getvalue()).size == (4, 3)
    head = struct.pack(">IIBBBBB", 30_000, 30_000, 1, 0, 0, 0, 0)
    pieces = b"".join(
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d))
        for k, d in ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b""))
    )
    with pytest.raises(ValueError, match="pixels"):
        untrusted.picture(b"\x89PNG\r\n\x1a\n" + pieces)
    with pytest.raises(OSError, match="cannot identify"):
        untrusted.picture(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")


def test_an_archive_is_not_believed_about_its_arrays():
    out = io.BytesIO()
    np.savez_compressed(out, a=np.arange(3), b=np.zeros(10**6))
    assert read_npz(io.BytesIO(out.getvalue()), 10**8)["a"].tolist() == [0, 1, 2]
    with pytest.raises(NotReadable, match="unpacks to"):
        read_npz(io.BytesIO(out.getvalue()), 10**6)


def test_lines_and_values_are_counted_before_they_take_memory(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"\n" * (untrusted.LINES_MOST + 1))
    with pytest.raises(DamagedFile, match="more than 262,144 lines"):
        list(untrusted.lines(log))
    for many in ("[],", '{"":{}},', '"a",'):
        body = f"[{many * (untrusted.OPENINGS_MOST + 1)}0]"
        for given in (body, body.encode()):
            with pytest.raises(ValueError, match="brackets and texts"):
                untrusted.loads(given)


@pytest.mark.parametrize(
    "fails",
    [
        *(lambda: {}["x"], lambda: [][1], lambda: int("x"), lambda: len(3), lambda: None.x),
        *(
            lambda: 1 / 0,
            lambda: os.stat("/none"),
            lambda: struct.unpack("I", b""),
            lambda: 2.0**9999,
        ),
    ],
)
def test_whatever_is_wrong_with_a_value_is_damage(fails):
    with pytest.raises(DamagedFile, match="record is damaged"), untrusted.damage(Path("record")):
        fails()


def test_a_video_is_no_list_of_other_files(tmp_path, monkeypatch):
    from capex.worlds.video import Segment, decode, pictures

    segment = Segment(tmp_path / "beside.mp4", (64, 48), 20, pictures(20))
    for _ in range(3):
        segment.add(np.zeros((48, 64, 3), np.uint8))
    segment.close()
    assert len(list(decode(tmp_path / "beside.mp4"))) == 3
    monkeypatch.chdir(tmp_path)
    for text in ("ffconcat version 1.0\nfile beside.mp4\n", "#EXTM3U\n#EXTINF:1,\nbeside.mp4\n"):
        (tmp_path / "left.mp4").write_text(text)
        with pytest.raises(DamagedFile, match="cannot be decoded"):
            list(decode(tmp_path / "left.mp4"))
