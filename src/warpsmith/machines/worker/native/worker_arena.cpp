// Mapping of shared arenas and allocation of blocks in the results arena.
#include "worker_arena.h"

#include <algorithm>

#include "driver.h"

namespace worker {
namespace {

constexpr uint64_t kAlignment = 256, kGuard = 1024;
constexpr uint64_t kReserved =
    // The driver serves smaller reservations from an area of its own and then ignores the wanted address.
    1ull << 30;

uint64_t round_up(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string describe_driver_error(const char* what, int error) {
  return std::string(what) + " failed with driver error " + std::to_string(error);
}

std::string map_one(const Driver& driver, const Shared& shared, Arena* arena) {
  unsigned long long handle = 0, address = 0;
  const AccessDescription access = {{kLocationDevice, 0}, kReadWrite};
  if (int error = driver.import(&handle, reinterpret_cast<void*>(intptr_t(shared.fd)), kHandleIsDescriptor))
    return describe_driver_error("cuMemImportFromShareableHandle", error);
  if (int error = driver.reserve(&address, std::max(shared.bytes, kReserved), 0, shared.wanted_address, 0))
    return describe_driver_error("cuMemAddressReserve", error);
  if (int error = driver.map(address, shared.bytes, 0, handle, 0)) return describe_driver_error("cuMemMap", error);
  if (int error = driver.set_access(address, shared.bytes, &access, 1))
    return describe_driver_error("cuMemSetAccess", error);
  *arena = {address, shared.bytes};
  return "";
}

}  // namespace

void* Blocks::allocate(uint64_t bytes) {
  if (bytes > arena_.bytes) return nullptr;
  const uint64_t size = round_up(bytes ? bytes : 1);
  uint64_t start = arena_.base + kGuard;
  for (const auto& [address, length] : allocated_) {
    if (start + size + kGuard <= address) break;
    start = round_up(address + length) + kGuard;
  }
  if (start + size + kGuard > arena_.base + arena_.bytes) return nullptr;
  allocated_[start] = bytes ? bytes : 1;
  return reinterpret_cast<void*>(start);
}

std::string Arenas::map(const std::vector<Shared>& shared) {
  const Driver* driver = Driver::find();
  if (!driver) return "libcuda.so.1 lacks a function that shared memory needs";
  std::vector<Arena> mapped(shared.size());
  for (size_t i = 0; i < shared.size(); ++i)
    if (std::string reason = map_one(*driver, shared[i], &mapped[i]); !reason.empty()) return reason;
  arenas_ = mapped;
  return "";
}

uint64_t Arenas::decode(uint64_t code) const {
  const uint64_t number = code >> kArenaShift, offset = code & kOffsetMask;
  if (number == 0 || number > arenas_.size() || offset >= arenas_[number - 1].bytes) return 0;
  return arenas_[number - 1].base + offset;
}

uint64_t Arenas::encode(uint64_t address) const {
  for (size_t i = 0; i < arenas_.size(); ++i)
    if (address >= arenas_[i].base && address - arenas_[i].base < arenas_[i].bytes)
      return uint64_t(i + 1) << kArenaShift | (address - arenas_[i].base);
  return 0;
}

}  // namespace worker
