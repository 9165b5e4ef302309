"""Reading and linking x86-64 ELF object files: bytes in, a relocated memory image out.

Only what a code generator's position-independent output holds is understood. A file that
is not well formed raises `TargetError`; one that is, but holds something this linker does
not do, raises `Unlinkable` so that another linker can be tried.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from weft.ir.errors import TargetError

PAGE = 4096
_EXECUTE, _ALLOC, _WRITE, _TLS = 0x4, 0x2, 0x1, 0x400
_SYMTAB, _STRTAB, _RELA, _NOBITS, _REL, _INIT_ARRAY = 2, 3, 4, 8, 9, 14
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
_SKIPPED = (".eh_frame", ".note", ".comment", ".llvm_addrsig", ".debug")
_STUB = struct.Struct("<6sQ2x")  # jmp *[rip+0] and the address it jumps to
_JUMP = b"\xff\x25\x00\x00\x00\x00"

_R_NONE, _R_64, _R_PC32, _R_PLT32, _R_GOTPCREL, _R_32, _R_32S, _R_PC64 = 0, 1, 2, 4, 9, 10, 11, 24
_GOT_RELATIVE = (_R_GOTPCREL, 41, 42, 43)
_KNOWN = (_R_NONE, _R_64, _R_PC32, _R_PLT32, _R_32, _R_32S, _R_PC64, *_GOT_RELATIVE)


class Unlinkable(Exception):
    """A sound object file that this linker cannot place; the text says why."""


class Section(NamedTuple):
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int

    @property
    def is_loaded(self) -> bool:
        return bool(self.flags & _ALLOC) and not self.name.startswith(_SKIPPED)


class Symbol(NamedTuple):
    name: str
    section: int
    value: int


class Relocation(NamedTuple):
    section: int
    offset: int
    type: int
    symbol: int
    addend: int


class ObjectFile(NamedTuple):
    """A parsed object, with every offset known to lie inside ``data``."""

    data: bytes
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]

    @property
    def undefined(self) -> tuple[str, ...]:
        """Names the object expects others to define."""
        return tuple(s.name for s in self.symbols if s.section == _UNDEFINED and s.name)


class Image(NamedTuple):
    """Where everything goes: ``code`` bytes that become read-only, then writable data up to ``size``."""

    starts: Mapping[int, int]
    code: int
    size: int
    slots: Mapping[tuple[str, str], int]


def _bad(why: str) -> TargetError:
    return TargetError("the object file is damaged", why=why, help="remove it from the cache and compile again")


def read_object(data: bytes) -> ObjectFile:
    """The sections, symbols and relocations of ``data``."""
    try:
        return _read(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _bad(f"it ends or points outside itself ({error})") from None


def _read(data: bytes) -> ObjectFile:
    if data[:4] != b"\x7fELF" or len(data) < 64:
        raise _bad("it does not begin as an ELF file")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != 1:
        raise _bad("it is not a relocatable object")
    if machine != 62 or data[4:6] != b"\x02\x01":
        raise TargetError(
            "the object code is for another processor",
            why=f"this is an x86-64 process, the object says ELF machine {machine}",
            help="compile for the host, or only look at the assembly",
        )
    sections = _read_sections(data)
    symbols = _read_symbols(data, sections)
    return ObjectFile(data, sections, symbols, _read_relocations(data, sections, len(symbols)))


def _read_sections(data: bytes) -> tuple[Section, ...]:
    (table,) = struct.unpack_from("<Q", data, 40)
    entry, count, names_at = struct.unpack_from("<HHH", data, 58)
    if entry != 64 or not 0 < count < 0xFF00 or names_at >= count:
        raise _bad("its section table has an impossible layout")
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]
    names = rows[names_at]
    sections = []
    for name, type_, flags, _, offset, size, link, info, align, _ in rows:
        if type_ != _NOBITS and offset + size > len(data):
            raise _bad("a section reaches beyond its end")
        if align & (align - 1) or align > PAGE or size > 1 << 31:
            raise _bad("a section has an impossible size or alignment")
        text = _text(data, names[4], names[5], name)
        sections.append(Section(text, type_, flags, offset, size, link, info, max(1, align)))
    for section in sections:
        if section.is_loaded and (section.flags & _TLS or section.type == _INIT_ARRAY):
            raise Unlinkable(f"section {section.name} needs a full loader")
    return tuple(sections)


def _text(data: bytes, table: int, size: int, offset: int) -> str:
    if offset >= max(size, 1):
        raise _bad("a name lies outside its table")
    end = data.find(b"\0", table + offset, table + size)
    if end < 0 and size:
        raise _bad("a name does not end")
    return data[table + offset : end].decode() if size else ""


def _read_symbols(data: bytes, sections: tuple[Section, ...]) -> tuple[Symbol, ...]:
    tables = [s for s in sections if s.type == _SYMTAB]
    if len(tables) > 1:
        raise _bad("it has two symbol tables")
    symbols = []
    for table in tables:
        names = sections[table.link]
        for at in range(table.offset, table.offset + table.size - 23, 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 in (6, 10) or section in (0xFFF2, 0xFFFF):
                raise Unlinkable("thread-local, indirect or common symbols")
            if section != _ABSOLUTE and section >= len(sections):
                raise _bad("a symbol lies in no section")
            if section not in (_ABSOLUTE, _UNDEFINED) and value > sections[section].size:
                raise _bad("a symbol lies outside its section")
            symbols.append(Symbol(_text(data, names.offset, names.size, name), section, value))
    return tuple(symbols)


def _read_relocations(data: bytes, sections: tuple[Section, ...], symbols: int) -> tuple[Relocation, ...]:
    relocations = []
    for table in sections:
        if table.type not in (_RELA, _REL) or table.info >= len(sections) or not sections[table.info].is_loaded:
            continue
        if table.type == _REL:
            raise Unlinkable("relocations without addends")
        for at in range(table.offset, table.offset + table.size - 23, 24):
            offset, info, addend = struct.unpack_from("<QQq", data, at)
            kind, symbol = info & 0xFFFFFFFF, info >> 32
            if kind not in _KNOWN:
                raise Unlinkable(f"relocation type {kind}")
            width = 0 if kind == _R_NONE else 8 if kind in (_R_64, _R_PC64) else 4
            if symbol >= symbols or offset + width > sections[table.info].size:
                raise _bad("a relocation points outside its section or symbol table")
            if sections[table.info].type == _NOBITS:
                raise _bad("a relocation patches memory that has no contents")
            relocations.append(Relocation(table.info, offset, kind, symbol, addend))
    return tuple(relocations)


def lay_out(obj: ObjectFile) -> Image:
    """Code and constants first, then the jump stubs and addresses of far symbols, then writable data."""
    starts: dict[int, int] = {}
    end = _place(obj, starts, 0, writable=False)
    slots: dict[tuple[str, str], int] = {}
    end = _aligned(end, 16)
    for r in obj.relocations:
        symbol = obj.symbols[r.symbol]
        key = None
        if r.type in _GOT_RELATIVE:
            key = ("address", symbol.name or str(r.symbol))
        elif r.type in (_R_PC32, _R_PLT32) and symbol.section == _UNDEFINED:
            key = ("stub", symbol.name)
        if key is not None and key not in slots:
            slots[key] = end
            end += _STUB.size
    code = _aligned(end, PAGE)
    end = _place(obj, starts, code, writable=True)
    return Image(starts, code, max(PAGE, _aligned(end, PAGE)), slots)


def _place(obj: ObjectFile, starts: dict[int, int], end: int, *, writable: bool) -> int:
    for index, section in enumerate(obj.sections):
        if section.is_loaded and bool(section.flags & _WRITE) == writable:
            starts[index] = end = _aligned(end, section.align)
            end += section.size
    return end


def _aligned(offset: int, align: int) -> int:
    return (offset + align - 1) // align * align


def link_image(obj: ObjectFile, image: Image, base: int, symbols: Mapping[str, int]) -> bytearray:
    """The bytes to put at ``base``, every reference resolved."""
    memory = bytearray(image.size)
    for index, start in image.starts.items():
        section = obj.sections[index]
        if section.type != _NOBITS:
            memory[start : start + section.size] = obj.data[section.offset : section.offset + section.size]
    resolve = _resolver(obj, image, base, symbols)
    for r in obj.relocations:
        if r.type != _R_NONE:
            _patch(memory, obj, image, base, r, resolve(r.symbol))
    return memory


def _resolver(obj: ObjectFile, image: Image, base: int, symbols: Mapping[str, int]) -> Callable[[int], int]:
    def resolve(index: int) -> int:
        symbol = obj.symbols[index]
        if symbol.section == _ABSOLUTE:
            return symbol.value
        if symbol.section == _UNDEFINED:
            if symbol.name not in symbols:
                raise TargetError(
                    f"the machine code needs `{symbol.name}`, which nothing defines",
                    why="the runtime offers: " + (", ".join(sorted(symbols)) or "nothing"),
                )
            return symbols[symbol.name]
        if symbol.section not in image.starts:
            raise _bad(f"it refers to section {obj.sections[symbol.section].name}, which is not loaded")
        return base + image.starts[symbol.section] + symbol.value

    return resolve


def _patch(memory: bytearray, obj: ObjectFile, image: Image, base: int, r: Relocation, target: int) -> None:
    at = image.starts[r.section] + r.offset
    name = obj.symbols[r.symbol].name
    if r.type in _GOT_RELATIVE:
        slot = image.slots["address", name or str(r.symbol)]
        struct.pack_into("<Q", memory, slot, target)
        target = base + slot
    elif ("stub", name) in image.slots and r.type in (_R_PC32, _R_PLT32):
        slot = image.slots["stub", name]
        _STUB.pack_into(memory, slot, _JUMP, target)
        if not _fits_signed(target + r.addend - base - at):
            if r.type == _R_PC32:
                raise Unlinkable(f"`{name}` is out of reach as data")
            target = base + slot
    value = target + r.addend
    if r.type not in (_R_64, _R_32, _R_32S):
        value -= base + at
    _write(memory, at, r.type, value)


def _fits_signed(value: int) -> bool:
    return -(1 << 31) <= value < 1 << 31


def _write(memory: bytearray, at: int, kind: int, value: int) -> None:
    if kind in (_R_64, _R_PC64):
        struct.pack_into("<Q", memory, at, value & ((1 << 64) - 1))
        return
    fits = 0 <= value < 1 << 32 if kind == _R_32 else _fits_signed(value)
    if not fits:
        raise Unlinkable("a 32-bit reference does not reach its target")
    struct.pack_into("<I", memory, at, value & 0xFFFFFFFF)


def defined_symbols(obj: ObjectFile, image: Image, base: int) -> dict[str, int]:
    """Addresses of everything named that the object defines."""
    return {
        s.name: base + image.starts[s.section] + s.value
        for s in obj.symbols
        if s.name and s.section in image.starts and s.section != _UNDEFINED
    }
