// Reader of the ELF sections that hold a fat binary. The file is a candidate's: every offset is checked against its
// size.
#include "worker_image.h"

#include <elf.h>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace worker {
namespace {

// Size of the wrapper that nvcc emits, and the offset of its pointer to the image.
constexpr uint64_t kWrapperBytes = 24, kPointerAt = 8;

class Sections {
 public:
  explicit Sections(const std::string& file) : file_(file) {
    Elf64_Ehdr head{};
    if (file.size() < sizeof head) return;
    std::memcpy(&head, file.data(), sizeof head);
    std::vector<Elf64_Shdr> all(head.e_shnum);
    if (head.e_shstrndx >= all.size() || head.e_shoff > file.size()) return;
    if (all.size() * sizeof(Elf64_Shdr) > file.size() - head.e_shoff) return;
    std::memcpy(all.data(), file.data() + head.e_shoff, all.size() * sizeof(Elf64_Shdr));
    names_ = all[head.e_shstrndx].sh_offset;
    all_ = std::move(all);
  }
  // Returns the section of this name, or nullptr if there is none or more than one.
  const Elf64_Shdr* find_only(const char* name) const {
    auto named = [&](const Elf64_Shdr& one) {
      const uint64_t at = names_ + one.sh_name;
      return at < file_.size() && std::strcmp(file_.c_str() + at, name) == 0;
    };
    return std::count_if(all_.begin(), all_.end(), named) == 1 ? &*std::find_if(all_.begin(), all_.end(), named)
                                                               : nullptr;
  }
  std::string bytes(const Elf64_Shdr& one) const {
    return file_.substr(std::min<uint64_t>(one.sh_offset, file_.size()), one.sh_size);
  }

 private:
  const std::string& file_;
  std::vector<Elf64_Shdr> all_;
  uint64_t names_ = 0;
};

template <class T>
T read_at(const std::string& bytes, uint64_t at) {
  T value{};
  if (at <= bytes.size() && sizeof(T) <= bytes.size() - at) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Returns the address at which the runtime finds the image: the value that the loader relocates, else the stored value.
// Returns 0 if the relocations are ambiguous, because the runtime could then use another image than the one checked
// here.
uint64_t find_image_address(const Sections& sections, const Elf64_Shdr& wrapper) {
  uint64_t found = read_at<uint64_t>(sections.bytes(wrapper), kPointerAt), count = 0;
  const Elf64_Shdr* const table = sections.find_only(".rela.dyn");
  const std::string raw = table ? sections.bytes(*table) : "";
  for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= raw.size(); at += sizeof(Elf64_Rela)) {
    const auto one = read_at<Elf64_Rela>(raw, at);
    if (one.r_offset + sizeof(uint64_t) <= wrapper.sh_addr || one.r_offset >= wrapper.sh_addr + kWrapperBytes) continue;
    const bool plain = one.r_offset == wrapper.sh_addr + kPointerAt && ELF64_R_SYM(one.r_info) == 0 && ++count == 1;
    if (!plain) return 0;
    found = uint64_t(one.r_addend);
  }
  return found;
}

bool is_one_image(const std::string& section) {
  struct Head {
    uint32_t magic;
    uint16_t version, head_bytes;
    uint64_t bytes;
  };
  const auto head = read_at<Head>(section, 0);
  return head.magic == 0xba55ed50 && head.head_bytes <= section.size() &&
         head.bytes == section.size() - head.head_bytes;
}

}  // namespace

std::string extract_image(const std::string& file) {
  const Sections sections(file);
  const Elf64_Shdr *const code = sections.find_only(".nv_fatbin"), *const wrapper =
                                                                       sections.find_only(".nvFatBinSegment");
  if (!code || !wrapper || wrapper->sh_size != kWrapperBytes || find_image_address(sections, *wrapper) != code->sh_addr)
    return "";
  const std::string image = sections.bytes(*code);
  return is_one_image(image) ? image : "";
}

}  // namespace worker
