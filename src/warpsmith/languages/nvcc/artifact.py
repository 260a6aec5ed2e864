"""Readers of an artifact's ELF tables, PTX externals and exported signatures."""

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from warpsmith.languages.nvcc.bounds import (
    ENTRIES,
    NAME_BYTES,
    NAMES,
    NAMES_BYTES,
    SECTIONS,
    TABLE_BYTES,
    check_count,
    check_names,
)

# Possessive quantifiers (`++`) never give characters back, and no part crosses the bracket of another match, so the
# time is linear in the bytes.
PTX_EXTERN = re.compile(rb"^\.extern \.func\s++(?:\([^()]*+\)\s*+)?([\w$]{1,%d})" % (NAME_BYTES + 1), re.MULTILINE)
# Our header writes each exported signature between these bytes, so an artifact is described without running its code.
MARK = b"\x7fWARPSMITH-ENTRY\x7f"
RECORD = re.compile(re.escape(MARK) + rb"([^\0]{1,200})\0([^\0]{0,4000})\0")
# Layouts of elf(5): Elf64_Ehdr, Elf64_Shdr, Elf64_Sym, Elf64_Dyn.
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
DYNAMIC = struct.Struct("<qQ")
DYNSYM, DYNAMIC_SECTION = 11, 6  # sh_type
NEEDED = 1  # d_tag
UNDEFINED = 0  # st_shndx


@dataclass(frozen=True)
class Section:
    """A section's kind, place and size, and the section of its strings."""

    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Elf:
    """A 64-bit little-endian shared library, checked with ValueError."""

    raw: bytes

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The section table."""
        try:
            # Class 2 is 64-bit, data 1 is little-endian (EI_CLASS and EI_DATA).
            header = HEADER.unpack_from(self.raw)
            if header[0][:6] != b"\x7fELF\x02\x01":
                raise ValueError("not a 64-bit little-endian ELF file")
            start, size, count = header[6], header[11], header[12]
            if size != SECTION.size or not count:  # a count of 0 stands for one of more than 65279 elsewhere
                raise ValueError(f"{count} ELF sections in rows of {size} bytes")
            check_count(count, SECTIONS, "sections")
            rows = [SECTION.unpack_from(self.raw, start + i * size) for i in range(count)]
        except (struct.error, OverflowError) as error:
            raise ValueError(f"a truncated ELF file: {error}") from error
        return tuple(Section(row[1], row[4], row[5], row[6]) for row in rows)

    @cached_property
    def undefined(self) -> tuple[str, ...]:
        """Sorted names of symbols that other libraries must provide."""
        # Assembly can give any section any type. All sections of the type are read, so that one placed before the
        # linker's own table hides no symbol.
        tables = self._of(DYNSYM)
        rows = ((table.link, row) for table in tables for row in self._rows(table, SYMBOL))
        places = {(link, row[0]) for link, row in rows if row[3] == UNDEFINED and row[0]}
        return tuple(sorted(self._names(places, "undefined symbols")))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """Sonames of the libraries that the loader must load."""
        tables = self._of(DYNAMIC_SECTION)
        rows = ((table.link, row) for table in tables for row in self._rows(table, DYNAMIC))
        return self._names({(link, value): None for link, (tag, value) in rows if tag == NEEDED}, "libraries")

    def _of(self, kind: int) -> list[Section]:
        """Return all sections of a kind, within the bound of table bytes."""
        found = [section for section in self.sections if section.kind == kind]
        check_count(sum(section.size for section in found), TABLE_BYTES, "bytes of tables")
        return found

    def _rows(self, section: Section, row: struct.Struct) -> Iterator[tuple[int, ...]]:
        """Yield the rows of a table."""
        # Offsets and sizes come from the candidate, so each is compared with the file before a slice is taken.
        if section.offset + section.size > len(self.raw):
            raise ValueError(f"a section of {section.size} bytes ends beyond the file's {len(self.raw)}")
        raw = self.raw[section.offset : section.offset + section.size]
        # A size that is no multiple of the row's leaves a rest; iter_unpack would raise for it.
        return row.iter_unpack(raw[: len(raw) - len(raw) % row.size])

    def _names(self, places: Iterable[tuple[int, int]], plural: str) -> tuple[str, ...]:
        """Return the distinct strings at these places. Raise Exceeded beyond a bound."""
        names: dict[str, None] = {}
        total = 0
        # The bounds are checked for each name, before all names are in memory.
        for link, offset in places:
            name = self._string(link, offset)
            total += 0 if name in names else len(name)
            names[name] = None
            check_count(len(names), NAMES, plural)
            check_count(total, NAMES_BYTES, f"bytes in the names of its {plural}")
        return tuple(names)

    def _string(self, section: int, offset: int) -> str:
        """Return the string at an offset of a string section."""
        if section >= len(self.sections):
            raise ValueError(f"strings in section {section} of {len(self.sections)}")
        start = self.sections[section].offset + offset
        # The search ends after the longest allowed name: a table without zero bytes would cost the whole file for each
        # symbol.
        end = self.raw.find(b"\0", start, start + NAME_BYTES + 1)
        if end < 0:
            raise ValueError(f"the string at {start} has no end within {NAME_BYTES} bytes")
        return self.raw[start:end].decode(errors="replace")


def ptx_externs(artifact: bytes) -> tuple[str, ...]:
    """Return external PTX functions. Raise Exceeded beyond a bound."""
    found: set[bytes] = set()
    for match in PTX_EXTERN.finditer(artifact):
        found.add(match[1])
        check_count(len(found), NAMES, "functions from elsewhere")
    names = sorted(name.decode() for name in found)
    check_names(names, "functions from elsewhere")
    return tuple(names)


def entry_texts(artifact: bytes) -> dict[str, str]:
    """Return exported signatures by name. Raise Exceeded beyond a bound."""
    found: dict[str, str] = {}
    for match in RECORD.finditer(artifact):
        found[match[1].decode(errors="replace")] = match[2].decode(errors="replace")
        check_count(len(found), ENTRIES, "functions to call")
    return found
