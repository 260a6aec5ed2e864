"""A reader of the few parts of an ELF shared library that say what it needs. Knows nothing of CUDA."""

import struct
from collections.abc import Iterator
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
        tables = self._of(DYNSYM)
        rows = ((table.link, row) for table in tables for row in self._rows(table, SYMBOL))
        names = {self._string(link, row[0]) for link, row in rows if row[3] == UNDEFINED and row[0]}
        return tuple(sorted(names))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The sonames of the libraries it asks the loader for."""
        tables = self._of(DYNAMIC_SECTION)
        rows = ((table.link, row) for table in tables for row in self._rows(table, DYNAMIC))
        return tuple(self._string(link, value) for link, (tag, value) in rows if tag == NEEDED)

    def _of(self, kind: int) -> Iterator[Section]:
        """All of a kind: assembly gives any section any kind, and one before the linker's own hides nothing."""
        return (section for section in self.sections if section.kind == kind)

    def _rows(self, section: Section, row: struct.Struct) -> Iterator[tuple[int, ...]]:
        raw = self.raw[section.offset : section.offset + section.size]
        if len(raw) != section.size:
            raise ValueError(f"a section of {section.size} bytes ends beyond the file's {len(self.raw)}")
        return row.iter_unpack(raw[: len(raw) - len(raw) % row.size])

    def _string(self, section: int, offset: int) -> str:
        if section >= len(self.sections):
            raise ValueError(f"strings in section {section} of {len(self.sections)}")
        start = self.sections[section].offset + offset
        end = self.raw.find(b"\0", start)
        if end < 0:
            raise ValueError(f"the string at {start} has no end")
        return self.raw[start:end].decode(errors="replace")
