#include "cubin.h"

#include <cstring>
#include <elf.h>
#include <vector>

namespace executor {
namespace {

// Attributes of .nv.info: a format byte, an attribute byte, then two bytes of value or of size.
constexpr uint8_t kSized = 4, kRegisterCount = 0x2f, kFrameSize = 0x11;
constexpr size_t kReservedShared = 1024;  // compute capability 8 and up keep 1 KB a block for the system

struct View {
  const uint8_t* image;
  size_t bytes;

  template <class T>
  bool read(size_t offset, T* to) const {
    if (offset > bytes || bytes - offset < sizeof(T)) return false;
    std::memcpy(to, image + offset, sizeof(T));
    return true;
  }

  std::string text(size_t offset) const {
    std::string found;
    for (; offset < bytes && image[offset] && found.size() < 4096; ++offset) found += char(image[offset]);
    return found;
  }
};

struct Section {
  Elf64_Shdr header;
  std::string name;
};

std::vector<Section> sections_of(const View& view) {
  Elf64_Ehdr head;
  std::vector<Section> found;
  if (!view.read(0, &head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return found;
  for (size_t i = 0; i < head.e_shnum; ++i) {
    Section section{};
    if (!view.read(head.e_shoff + i * sizeof(Elf64_Shdr), &section.header)) return {};
    found.push_back(section);
  }
  if (head.e_shstrndx >= found.size()) return {};
  size_t names = found[head.e_shstrndx].header.sh_offset;
  for (Section& section : found) section.name = view.text(names + section.header.sh_name);
  return found;
}

std::vector<std::string> symbols_of(const View& view, const std::vector<Section>& sections) {
  std::vector<std::string> names;
  for (const Section& section : sections) {
    if (section.header.sh_type != SHT_SYMTAB || section.header.sh_link >= sections.size()) continue;
    size_t strings = sections[section.header.sh_link].header.sh_offset;
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= section.header.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!view.read(section.header.sh_offset + at, &symbol)) return names;
      names.push_back(view.text(strings + symbol.st_name));
    }
  }
  return names;
}

void read_info(const View& view, const Section& section, const std::vector<std::string>& symbols,
               std::map<std::string, Resources>* found) {
  size_t at = section.header.sh_offset, end = at + section.header.sh_size;
  while (at + 4 <= end) {
    uint8_t format = 0, attribute = 0;
    uint16_t size = 0;
    if (!view.read(at, &format) || !view.read(at + 1, &attribute) || !view.read(at + 2, &size)) return;
    at += 4;
    if (format != kSized) continue;
    uint32_t symbol = 0, value = 0;
    if (size >= 8 && view.read(at, &symbol) && view.read(at + 4, &value) && symbol < symbols.size()) {
      if (attribute == kRegisterCount) (*found)[symbols[symbol]].registers = int(value);
      if (attribute == kFrameSize) (*found)[symbols[symbol]].stack = value;
    }
    at += size;
  }
}

}  // namespace

std::map<std::string, Resources> read_cubin(const uint8_t* image, size_t bytes) {
  View view{image, bytes};
  std::vector<Section> sections = sections_of(view);
  std::vector<std::string> symbols = symbols_of(view, sections);
  std::map<std::string, Resources> found;
  for (const Section& section : sections)
    if (section.name == ".nv.info") read_info(view, section, symbols, &found);
  const std::string prefix = ".nv.shared.";
  for (const Section& section : sections) {
    auto kernel = found.end();
    if (section.name.rfind(prefix, 0) == 0) kernel = found.find(section.name.substr(prefix.size()));
    if (kernel == found.end()) continue;
    size_t size = section.header.sh_size;
    kernel->second.static_shared = size >= kReservedShared ? size - kReservedShared : size;
  }
  return found;
}

}  // namespace executor
