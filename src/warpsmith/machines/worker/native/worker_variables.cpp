// Reader of the symbol tables of cubins inside a fat binary.
#include "worker_variables.h"

#include <elf.h>
#include <cstring>
#include <set>

namespace worker {
namespace {

constexpr uint16_t kMachineCode = 2, kCudaMachine = 190;
constexpr uint64_t kImageHead = 16, kLeastEntryHead = 24, kMostName = 4096;

// Header of an entry of a fat binary.
struct Entry {
  uint16_t kind, version;
  uint32_t head_bytes;
  uint64_t bytes;
};

// The bytes come from a candidate: every read is checked against their end.
template <class T>
bool read_at(const std::string& bytes, uint64_t at, T* to) {
  if (at > bytes.size() || sizeof(T) > bytes.size() - at) return false;
  std::memcpy(to, bytes.data() + at, sizeof(T));
  return true;
}

std::string name_at(const std::string& bytes, uint64_t at) {
  return at < bytes.size() ? std::string(bytes.c_str() + at, strnlen(bytes.c_str() + at, kMostName)) : "";
}

struct Elf {
  const std::string& bytes;
  Elf64_Ehdr head{};

  bool section(uint64_t number, Elf64_Shdr* to) const {
    return number < head.e_shnum && head.e_shoff < bytes.size() &&
           read_at(bytes, head.e_shoff + number * sizeof(Elf64_Shdr), to);
  }
  std::string section_name(uint64_t number) const {
    Elf64_Shdr one, names;
    return section(number, &one) && section(head.e_shstrndx, &names) ? name_at(bytes, names.sh_offset + one.sh_name)
                                                                     : "";
  }
};

void add_variables(const std::string& cubin, std::set<std::string>* seen, std::vector<Variable>* to) {
  Elf elf{cubin};
  if (!read_at(cubin, 0, &elf.head) || elf.head.e_machine != kCudaMachine) return;
  Elf64_Shdr table, names;
  for (uint64_t i = 0; elf.section(i, &table); ++i) {
    if (table.sh_type != SHT_SYMTAB || !elf.section(table.sh_link, &names)) continue;
    Elf64_Sym one;
    for (uint64_t at = 0; at + sizeof one <= table.sh_size && read_at(cubin, table.sh_offset + at, &one);
         at += sizeof one) {
      if (ELF64_ST_TYPE(one.st_info) != STT_OBJECT || one.st_shndx == SHN_UNDEF || one.st_size == 0) continue;
      const std::string where = elf.section_name(one.st_shndx), name = name_at(cubin, names.sh_offset + one.st_name);
      const bool constant = where.starts_with(".nv.constant");
      if ((constant || where.starts_with(".nv.global")) && seen->insert(name).second)
        to->push_back({name, one.st_size, constant});
    }
  }
}

}  // namespace

std::vector<Variable> list_variables(const std::string& image) {
  std::vector<Variable> found;
  std::set<std::string> seen;
  Entry entry;
  for (uint64_t at = kImageHead; read_at(image, at, &entry) && entry.head_bytes >= kLeastEntryHead;) {
    const uint64_t body = at + entry.head_bytes;
    if (body > image.size() || entry.bytes > image.size() - body) break;
    if (entry.kind == kMachineCode) add_variables(image.substr(body, entry.bytes), &seen, &found);
    at = body + entry.bytes;
  }
  return found;
}

}  // namespace worker
