"""A reader of the few parts of an ELF shared library that say what it needs. Knows nothing of CUDA."""

import struct
from dataclasses import dataclass
from functools import cached_property

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
DYNAMIC = struct.Struct("<qQ")
DYNSYM, DYNAMIC_SECTION = 11, 6  # sh_type
NEEDED = 1  # d_tag
UNDEFINED = 0  # st_shndx


@dataclass(frozen=True)
class Section:
    """Where a section's bytes lie, and the section its strings lie in."""

    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Elf:
    """A 64-bit little-endian shared library; a `ValueError` when the bytes are none."""

    raw: bytes

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The section table."""
        try:
            header = HEADER.unpack_from(self.raw)
            if header[0][:6] != b"\x7fELF\x02\x01":
                raise ValueError("not a 64-bit little-endian ELF file")
            start, size, count = header[6], header[11], header[12]
            rows = [SECTION.unpack_from(self.raw, start + i * size) for i in range(count)]
        except struct.error as error:
            raise ValueError(f"a truncated ELF file: {error}") from error
        return tuple(Section(row[1], row[4], row[5], row[6]) for row in rows)

    @cached_property
    def undefined(self) -> tuple[str, ...]:
        """The names of the symbols that other libraries must provide, in order of the alphabet."""
        table = self._first(DYNSYM)
        if table is None:
            return ()
        rows = SYMBOL.iter_unpack(self._bytes(table))
        names = {self._string(table.link, row[0]) for row in rows if row[3] == UNDEFINED and row[0]}
        return tuple(sorted(names))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The sonames of the libraries it asks the loader for."""
        table = self._first(DYNAMIC_SECTION)
        if table is None:
            return ()
        rows = DYNAMIC.iter_unpack(self._bytes(table))
        return tuple(self._string(table.link, value) for tag, value in rows if tag == NEEDED)

    def _first(self, kind: int) -> Section | None:
        return next((section for section in self.sections if section.kind == kind), None)

    def _bytes(self, section: Section) -> bytes:
        return self.raw[section.offset : section.offset + section.size]

    def _string(self, section: int, offset: int) -> str:
        start = self.sections[section].offset + offset
        return self.raw[start : self.raw.index(b"\0", start)].decode(errors="replace")
