// Parsing of fat binaries, whose every size is checked, and the choice of the PTX.
#include "fatbin.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace executor {
namespace {

constexpr uint32_t kMagic = 0xba55ed50;
constexpr uint16_t kPtx = 1, kElf = 2;
constexpr int kMostNumber = 99999;
constexpr uint64_t kCompressed = 0xf000;  // any of the compression flags of nvcc

struct Header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
};

struct Entry {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t compressed_bytes, options_offset;
  uint16_t minor, major;
  uint32_t arch, name_offset, name_bytes;
  uint64_t flags, zero, plain_bytes;
};
static_assert(sizeof(Header) == 16 && sizeof(Entry) == 64);

struct Target {
  int arch = 0;
  bool exact = false;  // sm_90a: code for this architecture only
};

// Parses a number. Larger numbers than any architecture or version are clamped, so that they stay invalid.
int number_at(const std::string& text, size_t* at) {
  int found = 0;
  for (; *at < text.size() && std::isdigit(static_cast<unsigned char>(text[*at])); ++*at)
    found = std::min(found * 10 + (text[*at] - '0'), kMostNumber);
  return found;
}

Target target_of(const std::string& ptx) {
  Target found;
  size_t at = ptx.find(".target");
  if (at == std::string::npos) return found;
  at = ptx.find("sm_", at);
  if (at == std::string::npos) return found;
  at += 3;
  found.arch = number_at(ptx, &at);
  found.exact = at < ptx.size() && ptx[at] == 'a';
  return found;
}

bool runs(const Target& target, int arch) {
  return target.arch > 0 && (target.exact ? target.arch == arch : target.arch <= arch);
}

int version_of(const std::string& ptx) {
  size_t at = ptx.find(".version");
  if (at == std::string::npos) return 0;
  at = ptx.find_first_not_of(" \t", at + std::strlen(".version"));
  if (at == std::string::npos) return 0;
  int major = number_at(ptx, &at);
  if (at >= ptx.size() || ptx[at++] != '.') return 0;
  return major * 10 + number_at(ptx, &at);
}

std::string text_of(const uint8_t* from, size_t bytes) {
  std::string text(reinterpret_cast<const char*>(from), bytes);
  text.resize(std::strlen(text.c_str()));  // the text is padded with zeros to a multiple of 8 bytes
  return text;
}

void take(const Entry& entry, const uint8_t* body, size_t bytes, int arch, Image* image, bool* compressed) {
  bool squeezed = entry.compressed_bytes != 0 || (entry.flags & kCompressed);
  if (squeezed) *compressed = *compressed || entry.kind == kPtx;
  if (squeezed) return;
  if (entry.kind == kElf && int(entry.arch) / 10 == arch / 10 && int(entry.arch) <= arch)
    for (auto& [name, found] : read_cubin(body, bytes)) image->resources[name] = found;
  if (entry.kind != kPtx) return;
  std::string text = text_of(body, bytes);
  Target target = target_of(text);
  bool better = target.arch > image->arch || (target.arch == image->arch && target.exact);
  if (!runs(target, arch) || !better) return;
  image->arch = target.arch;
  image->ptx_version = version_of(text);
  image->ptx = std::move(text);
}

}  // namespace

Image read_fatbin(const uint8_t* from, size_t bytes, int major, int minor) {
  Image image;
  bool compressed = false, whole = true;
  int arch = major * 10 + minor;
  size_t at = 0;
  while (at + sizeof(Header) <= bytes) {
    Header header;
    std::memcpy(&header, from + at, sizeof header);
    if (header.magic != kMagic || header.header_bytes < sizeof header) break;
    size_t place = at + header.header_bytes;
    whole = place <= bytes && header.bytes <= bytes - place;
    size_t end = whole ? place + header.bytes : bytes;
    while (place + sizeof(Entry) <= end) {
      Entry entry;
      std::memcpy(&entry, from + place, sizeof entry);
      if (entry.header_bytes < sizeof entry || entry.header_bytes > end - place) {
        whole = false;
        break;
      }
      size_t body = place + entry.header_bytes;
      if (entry.bytes > end - body) {
        whole = false;
        break;
      }
      take(entry, from + body, entry.bytes, arch, &image, &compressed);
      place = body + entry.bytes;
    }
    if (!whole) break;
    at = end;
  }
  if (!whole) image.error = "The fat binary of the artifact is cut short or damaged.";
  else if (image.ptx.empty() && compressed)
    image.error = "The PTX of the artifact is compressed; compile with --no-compress.";
  else if (image.ptx.empty())
    image.error = "The artifact holds no PTX that compute capability " + std::to_string(major) + "." +
                  std::to_string(minor) + " can run.";
  return image;
}

}  // namespace executor
