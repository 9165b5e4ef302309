"""Inputs that the checkout lacks, in the programs' formats, with fixed seeds."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np


def write_inputs(folder: Path, checkout: Path) -> None:
    """Writes all inputs below ``folder``: files of the ``checkout`` where it has them; those that are there stay."""
    for name, write in _WRITERS.items():
        target = folder / name
        if not target.is_dir():
            target.mkdir(parents=True)
            write(target, np.random.default_rng(7))
        for file in target.iterdir():
            theirs = checkout / "data" / name / file.name
            if theirs.exists():
                shutil.copy(theirs, file)


def _b_plus_tree(folder: Path, random: np.random.Generator) -> None:
    keys = random.permutation(200_000)
    (folder / "mil.txt").write_text(f"{len(keys)}\n" + "\n".join(map(str, keys)) + "\n")
    (folder / "command.txt").write_text("j 6000 3000\nk 10000\n")


def _bfs(folder: Path, random: np.random.Generator, nodes: int = 65_536) -> None:
    degrees = random.integers(2, 11, nodes)
    starts = np.concatenate(([0], np.cumsum(degrees)[:-1]))
    total = int(degrees.sum())
    text = [str(nodes), *(f"{a} {b}" for a, b in zip(starts, degrees)), "", "0", "", str(total)]
    text += [f"{to} {cost}" for to, cost in zip(random.integers(0, nodes, total), random.integers(1, 11, total))]
    (folder / "graph.txt").write_text("\n".join(text) + "\n")


def _cfd(folder: Path, random: np.random.Generator, side: int = 12) -> None:
    """A box of cells, each with four neighbours; -1 is a wall, -2 the far field."""
    lines = [str(side**3)]
    normals = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]], float)
    for cell in range(side**3):
        x, y = cell % side, cell // side % side
        around = [cell + 1 if x + 1 < side else -2, cell - 1 if x else -2,
                  cell + side if y + 1 < side else -1, cell - side if y else -1]  # fmt: skip
        row = [f"{1 + 0.1 * random.random():.6f}"]
        for to, normal in zip(around, normals):
            row.append(f"{to + 1 if to >= 0 else to} {normal[0]:.6f} {normal[1]:.6f} {normal[2]:.6f}")
        lines.append(" ".join(row))
    (folder / "domain").write_text("\n".join(lines) + "\n")


def _bitmap(folder: Path, random: np.random.Generator, side: int = 256) -> None:
    size = 3 * side * side
    header = struct.pack("<2sIHHI", b"BM", 54 + size, 0, 0, 54)
    header += struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, 0, size, 2835, 2835, 0, 0)
    (folder / "image.bmp").write_bytes(header + _smooth(random, side, side, 3).tobytes())


def _smooth(random: np.random.Generator, rows: int, columns: int, channels: int = 1) -> np.ndarray:
    y, x = np.mgrid[0:rows, 0:columns]
    image = 128 + 60 * np.sin(x / 17) * np.cos(y / 23)
    noise = random.integers(-20, 21, (rows, columns, channels))
    return np.clip(image[..., None] + noise, 1, 254).astype(np.uint8)


def _speckle(folder: Path, random: np.random.Generator, rows: int = 656, columns: int = 744, frames: int = 6) -> None:
    """Random spots that drift, as in an ultrasound picture: every place looks different, so it can be followed."""
    field = random.normal(size=(rows, columns + frames))
    for axis in (0, 1):  # blurred, so that neighbours are alike
        for _ in range(3):
            field = sum(np.roll(field, by, axis) for by in range(-2, 3)) / 5
    field = np.clip(128 + 50 * field / field.std(), 1, 254).astype(np.uint8)
    pictures = [field[:, n : n + columns].tobytes() for n in range(frames)]
    (folder / "test.avi").write_bytes(_avi(pictures, rows, columns))


def _cells(rows: int, columns: int) -> Callable[[Path, np.random.Generator], None]:
    """Bright discs that drift, one byte a pixel without compression, as the programs' own reader takes them."""

    def write(folder: Path, random: np.random.Generator, frames: int = 6) -> None:
        y, x = np.mgrid[0:rows, 0:columns]
        centres = random.random((24, 2)) * (rows - 60, columns - 60) + 30
        pictures = []
        for frame in range(frames):
            away = np.min([np.hypot(y - cy, x - cx - frame) for cy, cx in centres], axis=0)
            picture = 60 + 120 / (1 + np.exp((away - 11) / 1.5)) + 8 * np.sin(x / 9) * np.cos(y / 7)
            pictures.append(picture.astype(np.uint8).tobytes())
        (folder / "test.avi").write_bytes(_avi(pictures, rows, columns))

    return write


def _chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _avi(frames: list[bytes], rows: int, columns: int) -> bytes:
    size = rows * columns
    main = struct.pack("<14I", 40_000, 25 * size, 0, 0x10, len(frames), 0, 1, size, columns, rows, 0, 0, 0, 0)
    stream = struct.pack("<4s4sIIIIIIIIIIHHHH", b"vids", b"\0\0\0\0", 0, 0, 0, 1, 25, 0, len(frames), size, 0, 0, 0, 0,
                         columns, rows)  # fmt: skip
    picture = struct.pack("<IiiHHIIiiII", 40, columns, rows, 1, 8, 0, size, 0, 0, 0, 0)
    streams = b"LIST" + struct.pack("<I", 4 + 16 + len(stream) + len(picture)) + b"strl"
    streams += _chunk(b"strh", stream) + _chunk(b"strf", picture)
    header = b"hdrl" + _chunk(b"avih", main) + streams
    data, index, at = b"movi", b"", 4
    for frame in frames:
        index += struct.pack("<4sIII", b"00db", 0x10, at, len(frame))
        data += _chunk(b"00db", frame)
        at = len(data)
    body = b"AVI " + _chunk(b"LIST", header) + _chunk(b"LIST", data) + _chunk(b"idx1", index)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _fields(folder: Path, random: np.random.Generator, cells: int = 512 * 512) -> None:
    np.savetxt(folder / "temp", 323 + 10 * random.random(cells), fmt="%.6f")
    np.savetxt(folder / "power", 1e-3 * random.random(cells), fmt="%.6f")


def _fields_3d(folder: Path, random: np.random.Generator) -> None:
    _fields(folder, random, 512 * 512 * 8)


def _text(folder: Path, random: np.random.Generator) -> None:
    weights = 1.0 / np.arange(1, 65)
    (folder / "text.in").write_bytes(random.choice(64, 1 << 18, p=weights / weights.sum()).astype(np.uint8).tobytes())


def _points(folder: Path, random: np.random.Generator, points: int = 20_000, features: int = 34) -> None:
    centres = random.random((5, features)) * 20
    data = centres[random.integers(0, 5, points)] + random.normal(size=(points, features))
    lines = [f"{i} " + " ".join(f"{v:.4f}" for v in row) for i, row in enumerate(data)]
    (folder / "points").write_text("\n".join(lines) + "\n")


def _genome(folder: Path, random: np.random.Generator, length: int = 30_000, queries: int = 2_000) -> None:
    letters = "".join(np.array(list("ACGT"))[random.integers(0, 4, length)])
    rows = [letters[i : i + 70] for i in range(0, length, 70)]
    (folder / "reference.fna").write_text(">reference\n" + "\n".join(rows) + "\n")
    starts = random.integers(0, length - 50, queries)
    (folder / "queries.fna").write_text("".join(f">q{i}\n{letters[s : s + 50]}\n" for i, s in enumerate(starts)))


def _cell(folder: Path, random: np.random.Generator) -> None:
    """Initial values and parameters as many as the cell model has. From any but its own, rounding alone decides how
    many steps it takes."""
    (folder / "y.txt").write_text("\n".join(f"{v:.6f}" for v in 0.1 + 0.2 * random.random(91)) + "\n")
    (folder / "params.txt").write_text("\n".join(f"{v:.6f}" for v in 0.5 + random.random(18)) + "\n")


def _hurricanes(folder: Path, random: np.random.Generator, files: int = 4, records: int = 10_690) -> None:
    names = []
    for number in range(files):
        rows = []
        for _ in range(records):
            when = f"{random.integers(1950, 2005)} {random.integers(1, 13):2d} {random.integers(1, 29):2d} "
            when += f"{random.choice([0, 6, 12, 18]):2d} {random.integers(1, 30):2d} STORM    "
            where = f"{7 + 63 * random.random():5.1f} {358 * random.random():5.1f} "
            rows.append(f"{when:<28}"[:28] + where + f"{random.integers(10, 160):4d} {random.integers(0, 1000):4d}")
        (folder / f"cane{number}.db").write_text("\n".join(f"{r:<48}"[:48] for r in rows) + "\n")
        names.append(str(folder / f"cane{number}.db"))
    (folder / "filelist").write_text("\n".join(names) + "\n")


def _picture(folder: Path, random: np.random.Generator) -> None:
    rows = "\n".join(" ".join(map(str, row)) for row in _smooth(random, 502, 458)[..., 0])
    (folder / "image.pgm").write_text(f"P2\n458 502\n255\n{rows}\n")


_WRITERS: dict[str, Callable[[Path, np.random.Generator], None]] = {
    "b+tree": _b_plus_tree, "bfs": _bfs, "cfd": _cfd, "dwt2d": _bitmap, "heartwall": _speckle,
    "hotspot": _fields, "hotspot3D": _fields_3d, "huffman": _text, "kmeans": _points, "leukocyte": _cells(480, 640),
    "mummergpu": _genome, "myocyte": _cell, "nn": _hurricanes, "srad": _picture,
}  # fmt: skip
