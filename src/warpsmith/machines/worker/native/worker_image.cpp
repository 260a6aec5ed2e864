#include "worker_image.h"

#include <elf.h>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace worker {
namespace {

constexpr uint64_t kWrapperBytes = 24,
                   kPointerAt = 8;  // what nvcc leaves for the runtime, and in it where the image is

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
  // The only one of a name; nullptr where there is none, or another.
  const Elf64_Shdr* only(const char* name) const {
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
T word_at(const std::string& bytes, uint64_t at) {
  T value{};
  if (at <= bytes.size() && sizeof(T) <= bytes.size() - at) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Where the runtime is told that the image lies: what the loader puts there, else what stands there. 0: nobody can
// tell.
uint64_t pointed_to(const Sections& sections, const Elf64_Shdr& wrapper) {
  uint64_t found = word_at<uint64_t>(sections.bytes(wrapper), kPointerAt), count = 0;
  const Elf64_Shdr* const table = sections.only(".rela.dyn");
  const std::string raw = table ? sections.bytes(*table) : "";
  for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= raw.size(); at += sizeof(Elf64_Rela)) {
    const auto one = word_at<Elf64_Rela>(raw, at);
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
  const auto head = word_at<Head>(section, 0);
  return head.magic == 0xba55ed50 && head.head_bytes <= section.size() &&
         head.bytes == section.size() - head.head_bytes;
}

}  // namespace

std::string image_of(const std::string& file) {
  const Sections sections(file);
  const Elf64_Shdr *const code = sections.only(".nv_fatbin"), *const wrapper = sections.only(".nvFatBinSegment");
  if (!code || !wrapper || wrapper->sh_size != kWrapperBytes || pointed_to(sections, *wrapper) != code->sh_addr)
    return "";
  const std::string image = sections.bytes(*code);
  return is_one_image(image) ? image : "";
}

}  // namespace worker
