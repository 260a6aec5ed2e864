// Frames over a socket. A peer that closes or sends half a frame ends the connection.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

namespace channel {

inline bool send_all(int fd, const void* from, size_t bytes) {
  auto* place = static_cast<const char*>(from);
  while (bytes) {
    ssize_t sent = ::send(fd, place, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    place += sent;
    bytes -= size_t(sent);
  }
  return true;
}

inline bool receive_all(int fd, void* to, size_t bytes) {
  auto* place = static_cast<char*>(to);
  while (bytes) {
    ssize_t got = ::read(fd, place, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    place += got;
    bytes -= size_t(got);
  }
  return true;
}

constexpr size_t kFirstStep = size_t(1) << 20;

template <class Frame>
bool send_frame(int fd, Frame frame, const void* bytes, size_t length) {
  frame.bytes = length;
  return send_all(fd, &frame, sizeof frame) && (length == 0 || send_all(fd, bytes, length));
}

// Also returns false if the frame announces more than `most` bytes. The buffer grows with the received bytes, so an
// announcement alone allocates nothing.
template <class Frame>
bool receive_frame(int fd, Frame* frame, std::vector<uint8_t>* bytes, uint64_t most) {
  if (!receive_all(fd, frame, sizeof *frame) || frame->bytes > most) return false;
  bytes->clear();
  while (bytes->size() < frame->bytes) {
    size_t had = bytes->size(), step = std::min<uint64_t>(frame->bytes - had, std::max(had, kFirstStep));
    bytes->resize(had + step);
    if (!receive_all(fd, bytes->data() + had, step)) return false;
  }
  return true;
}

}  // namespace channel
