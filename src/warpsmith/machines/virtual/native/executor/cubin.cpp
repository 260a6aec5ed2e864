// Reader of ELF sections, symbols and the attributes in .nv.info.
#include "cubin.h"

#include <elf.h>
#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

namespace executor {
namespace {

// Attributes of .nv.info: a format byte, an attribute byte, then two bytes of value or size.
constexpr uint8_t kSized = 4, kRegisterCount = 0x2f, kFrameSize = 0x11;
constexpr size_t kReservedShared = 1024;  // bytes of each block that the system uses on compute capability 8 and later
constexpr size_t kMostName = 4096;

// The bytes come from a candidate: every read is checked against their end, whatever offsets and sizes they hold.
struct View {
  const uint8_t* image = nullptr;
  size_t bytes = 0;

  template <class T>
  bool read(size_t offset, T* to) const {
    if (offset > bytes || bytes - offset < sizeof(T)) return false;
    std::memcpy(to, image + offset, sizeof(T));
    return true;
  }

  // Returns an empty range if the part is not wholly inside.
  View part(size_t offset, size_t length) const {
    if (offset > bytes || length > bytes - offset) return {};
    return {image + offset, length};
  }

  std::string_view text(size_t offset) const {
    if (offset >= bytes) return {};
    auto* from = reinterpret_cast<const char*>(image + offset);
    return {from, strnlen(from, std::min(bytes - offset, kMostName))};
  }
};

struct Section {
  Elf64_Shdr header{};
  std::string_view name;
};

struct Elf {
  View whole;
  std::vector<Section> sections;

  View content(const Section& section) const { return whole.part(section.header.sh_offset, section.header.sh_size); }
};

Elf elf_of(const View& view) {
  Elf64_Ehdr head;
  Elf elf{view, {}};
  if (!view.read(0, &head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return elf;
  View table = view.part(head.e_shoff, head.e_shnum * sizeof(Elf64_Shdr));
  Section section;
  for (size_t i = 0; table.read(i * sizeof(Elf64_Shdr), &section.header); ++i) elf.sections.push_back(section);
  if (head.e_shstrndx >= elf.sections.size()) return {view, {}};
  View names = elf.content(elf.sections[head.e_shstrndx]);
  for (Section& named : elf.sections) named.name = names.text(named.header.sh_name);
  return elf;
}

// Returns the first section of a kind. ptxas emits one; many overlapping ones would cost quadratic time.
template <class Is>
const Section* first(const Elf& elf, Is is) {
  for (const Section& section : elf.sections)
    if (is(section)) return &section;
  return nullptr;
}

struct Symbols {
  View table, names;

  std::string_view at(uint32_t number) const {
    Elf64_Sym symbol;
    return table.read(number * sizeof(Elf64_Sym), &symbol) ? names.text(symbol.st_name) : std::string_view{};
  }
};

Symbols symbols_of(const Elf& elf) {
  const Section* table = first(elf, [](const Section& one) { return one.header.sh_type == SHT_SYMTAB; });
  if (!table || table->header.sh_link >= elf.sections.size()) return {};
  return {elf.content(*table), elf.content(elf.sections[table->header.sh_link])};
}

void take(uint8_t attribute, uint32_t value, Resources* found) {
  if (attribute == kRegisterCount) found->registers = int(std::min(value, uint32_t(kMostRegisters)));
  if (attribute == kFrameSize) found->stack = value;
}

void read_info(const View& info, const Symbols& symbols, std::map<std::string, Resources>* found) {
  uint8_t format = 0, attribute = 0;
  uint16_t size = 0;
  for (size_t at = 0; info.read(at, &format) && info.read(at + 1, &attribute) && info.read(at + 2, &size); at += 4) {
    if (format != kSized) continue;
    uint32_t symbol = 0, value = 0;
    bool known = attribute == kRegisterCount || attribute == kFrameSize;
    if (known && size >= 8 && info.read(at + 4, &symbol) && info.read(at + 8, &value))
      if (std::string_view name = symbols.at(symbol); !name.empty())
        take(attribute, value, &(*found)[std::string(name)]);
    at += size;
  }
}

}  // namespace

std::map<std::string, Resources> read_cubin(const uint8_t* image, size_t bytes) {
  Elf elf = elf_of({image, bytes});
  std::map<std::string, Resources> found;
  if (const Section* info = first(elf, [](const Section& one) { return one.name == ".nv.info"; }))
    read_info(elf.content(*info), symbols_of(elf), &found);
  const std::string_view prefix = ".nv.shared.";
  for (const Section& section : elf.sections) {
    if (section.name.substr(0, prefix.size()) != prefix) continue;
    auto kernel = found.find(std::string(section.name.substr(prefix.size())));
    if (kernel == found.end()) continue;
    size_t size = std::min<size_t>(section.header.sh_size, UINT32_MAX);  // sums of sizes must not overflow
    kernel->second.static_shared = size >= kReservedShared ? size - kReservedShared : size;
  }
  return found;
}

}  // namespace executor
