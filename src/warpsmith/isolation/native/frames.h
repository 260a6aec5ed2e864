// Fixed-layout frames between two processes that do not trust each other; the same layout as isolation/frames.py.
// The meaning of a payload is the caller's.
//
//   offset 0  u32  magic "WSF1"
//          4  u16  version, 1
//          6  u16  kind, chosen by the two ends
//          8  u64  length of the payload in bytes
//         16  u32  crc32 of the 16 bytes before and of the payload
//         20  payload
// Little-endian, which both supported machines (x86_64, aarch64) are.
#pragma once

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace warpsmith::frames {

constexpr uint32_t kMagic = 0x31465357;
constexpr uint16_t kVersion = 1;
constexpr size_t kHeaderBytes = 20;

enum class Fault {
  kNone,
  kMissing,    // the other end closed before a first byte
  kShort,      // it closed inside a frame
  kJunk,       // wrong magic or version
  kOversized,  // longer than the reader allows
  kChecksum,
  kSystem,  // read or write failed; errno says why
};

struct Frame {
  uint16_t kind = 0;
  std::vector<uint8_t> payload;
};

// Slicing by eight: a byte-at-a-time table would be slower than the pipe for tensors.
inline uint32_t crc32(uint32_t seed, const void* data, size_t count) {
  static const auto tables = [] {
    std::array<std::array<uint32_t, 256>, 8> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xEDB88320u : 0);
      t[0][i] = value;
    }
    for (uint32_t i = 0; i < 256; ++i)
      for (int k = 1; k < 8; ++k) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFF];
    return t;
  }();
  const auto* at = static_cast<const uint8_t*>(data);
  uint32_t crc = ~seed;
  for (; count >= 8; count -= 8, at += 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; count > 0; --count, ++at) crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

inline void encode_header(uint8_t* out, uint16_t kind, const void* payload, uint64_t length) {
  memcpy(out, &kMagic, 4);
  memcpy(out + 4, &kVersion, 2);
  memcpy(out + 6, &kind, 2);
  memcpy(out + 8, &length, 8);
  const uint32_t crc = crc32(crc32(0, out, 16), payload, length);
  memcpy(out + 16, &crc, 4);
}

// Reads exactly `count` bytes; returns how many came before the other end closed, or -1 with errno.
inline ssize_t read_fully(int fd, void* out, size_t count) {
  size_t got = 0;
  while (got < count) {
    const ssize_t n = ::read(fd, static_cast<uint8_t*>(out) + got, count - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  return static_cast<ssize_t>(got);
}

inline bool write_fully(int fd, const void* from, size_t count) {
  size_t put = 0;
  while (put < count) {
    const ssize_t n = ::write(fd, static_cast<const uint8_t*>(from) + put, count - put);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    put += static_cast<size_t>(n);
  }
  return true;
}

inline Fault write_frame(int fd, uint16_t kind, const void* payload, uint64_t length) {
  uint8_t header[kHeaderBytes];
  encode_header(header, kind, payload, length);
  const bool whole = write_fully(fd, header, kHeaderBytes) && write_fully(fd, payload, length);
  return whole ? Fault::kNone : Fault::kSystem;
}

inline Fault write_frame(int fd, uint16_t kind, const std::string& payload) {
  return write_frame(fd, kind, payload.data(), payload.size());
}

// Reads one frame and waits for it; no payload longer than `limit_bytes` is ever allocated.
inline Fault read_frame(int fd, Frame* frame, uint64_t limit_bytes) {
  uint8_t header[kHeaderBytes];
  const ssize_t got = read_fully(fd, header, kHeaderBytes);
  if (got < 0) return Fault::kSystem;
  if (got == 0) return Fault::kMissing;
  if (got < static_cast<ssize_t>(kHeaderBytes)) return Fault::kShort;
  uint32_t magic, crc;
  uint16_t version;
  uint64_t length;
  memcpy(&magic, header, 4);
  memcpy(&version, header + 4, 2);
  memcpy(&frame->kind, header + 6, 2);
  memcpy(&length, header + 8, 8);
  memcpy(&crc, header + 16, 4);
  if (magic != kMagic || version != kVersion) return Fault::kJunk;
  if (length > limit_bytes) return Fault::kOversized;
  frame->payload.resize(length);
  const ssize_t body = read_fully(fd, frame->payload.data(), length);
  if (body < 0) return Fault::kSystem;
  if (static_cast<uint64_t>(body) < length) return Fault::kShort;
  return crc32(crc32(0, header, 16), frame->payload.data(), length) == crc ? Fault::kNone : Fault::kChecksum;
}

}  // namespace warpsmith::frames
