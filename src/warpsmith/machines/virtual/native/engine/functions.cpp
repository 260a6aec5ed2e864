// Functions that the device runtime supplies: printf, assert, malloc and free; and the copies of arguments.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "control.h"
#include "lower.h"

namespace vgpu {

void copy_local(Warp& warp, const Inst& inst) {
  each(warp.mask, [&](int lane) {
    uint8_t* frame = warp.local + warp.local_stride * size_t(lane);
    std::memmove(frame + inst.d, frame + inst.a, size_t(inst.imm));
  });
}

namespace {

template <class T>
T read_argument(const Warp& warp, int lane, size_t offset) {
  T value{};
  if (offset + sizeof value <= warp.local_stride)
    std::memcpy(&value, warp.local + warp.local_stride * size_t(lane) + offset, sizeof value);
  return value;
}

// The text may declare a function without a result; then there is no room for one.
template <class T>
void write_result(Warp& warp, int lane, T value) {
  if (sizeof value <= warp.local_stride)
    std::memcpy(warp.local + warp.local_stride * size_t(lane), &value, sizeof value);
}

bool read_memory(const Warp& warp, int lane, Address at, void* to, size_t bytes) {
  if (at - kLocalWindow < kWindowBytes) {
    size_t offset = at - kLocalWindow;
    if (offset + bytes > warp.local_stride) return false;
    std::memcpy(to, warp.local + warp.local_stride * size_t(lane) + offset, bytes);
    return true;
  }
  if (at - kSharedWindow < kWindowBytes) {
    size_t offset = at - kSharedWindow;
    if (offset + bytes > warp.grid->shared_bytes) return false;
    std::memcpy(to, warp.block->shared.data() + offset, bytes);
    return true;
  }
  if (!warp.grid->memory->holder(at, bytes)) return false;
  std::memcpy(to, warp.grid->memory->host(at), bytes);
  return true;
}

std::string text_at(const Warp& warp, int lane, Address at) {
  std::string text;
  char letter = 0;
  while (text.size() < 4096 && read_memory(warp, lane, at + text.size(), &letter, 1) && letter) text.push_back(letter);
  return text;
}

// Flags, widths and length modifiers that a conversion may contain. The format is text of the candidate, and the host's
// printf accepts more: %n writes to an address from the arguments, and 7$ reads an argument that was not passed.
constexpr const char* kModifiers = "-+ #0123456789.*lhzjt";
constexpr int kWidest = 500;  // characters of a conversion; a larger width would pad by gigabytes

// Limits every number in a conversion.
std::string limit_widths(const std::string& spec) {
  std::string out;
  for (size_t i = 0; i < spec.size();) {
    size_t end = std::min(spec.find_first_not_of("0123456789", i), spec.size());
    if (end == i || spec[i] == '0') out += spec[i++];
    else {
      out += end - i > 3 ? std::to_string(kWidest) : spec.substr(i, end - i);
      i = end;
    }
  }
  return out;
}

// Formats one conversion; length modifiers are replaced by the host's.
std::string format_conversion(const Warp& warp, int lane, std::string spec, Address arguments, size_t* at) {
  char kind = spec.back();
  auto next = [&](size_t bytes, void* to) {
    *at = (*at + bytes - 1) & ~(bytes - 1);
    bool ok = read_memory(warp, lane, arguments + *at, to, bytes);
    *at += bytes;
    return ok;
  };
  char buffer[512];
  bool wide = spec.find('l') != std::string::npos || spec.find('z') != std::string::npos ||
              spec.find('j') != std::string::npos || spec.find('t') != std::string::npos;
  for (size_t star; (star = spec.find('*')) != std::string::npos;) {
    int32_t width = 0;
    next(4, &width);
    spec.replace(star, 1, std::to_string(std::clamp(width, -kWidest, kWidest)));
  }
  spec = limit_widths(spec);
  std::string plain;
  for (char letter : spec)
    if (!std::strchr("lhzjt", letter) || letter == kind) plain.push_back(letter);
  if (std::strchr("diouxXc", kind)) {
    uint64_t bits = 0;
    if (wide && kind != 'c') {
      next(8, &bits);
      plain.insert(plain.size() - 1, "ll");
      std::snprintf(buffer, sizeof buffer, plain.c_str(), bits);
    } else {
      next(4, &bits);
      std::snprintf(buffer, sizeof buffer, plain.c_str(), uint32_t(bits));
    }
  } else if (std::strchr("eEfFgGaA", kind)) {
    double number = 0;
    next(8, &number);
    std::snprintf(buffer, sizeof buffer, plain.c_str(), number);
  } else if (kind == 'p') {
    uint64_t pointer = 0;
    next(8, &pointer);
    std::snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(pointer));
  } else if (kind == 's') {
    uint64_t pointer = 0;
    next(8, &pointer);
    std::snprintf(buffer, sizeof buffer, plain.c_str(), text_at(warp, lane, pointer).c_str());
  } else return spec;
  return buffer;
}

std::string format_arguments(const Warp& warp, int lane, const std::string& format, Address arguments) {
  std::string out;
  size_t at = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out.push_back(format[i]);
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == '%') {
      out.push_back('%');
      ++i;
      continue;
    }
    size_t end = format.find_first_not_of(kModifiers, i + 1);
    if (end == std::string::npos || end - i > 32 || !std::strchr("diouxXceEfFgGaAps", format[end])) {
      out.push_back('%');  // not a conversion: printed as it stands
      continue;
    }
    out += format_conversion(warp, lane, format.substr(i, end - i + 1), arguments, &at);
    i = end;
  }
  return out;
}

void vprintf_of_device(Warp& warp, const Inst&) {
  std::string& log = *warp.grid->printed;
  size_t limit = warp.grid->options->print_limit;
  each(warp.mask, [&](int lane) {
    if (log.size() < limit) {
      log += format_arguments(warp, lane, text_at(warp, lane, read_argument<uint64_t>(warp, lane, 0)),
                              read_argument<uint64_t>(warp, lane, 8));
      if (log.size() >= limit) {
        log.resize(limit);
        log += "\n[printf beyond " + std::to_string(limit) + " bytes is not kept]\n";
      }
    }
    write_result<int32_t>(warp, lane, 0);
  });
}

// Arguments: expression, file, line, function, size of a character.
void assert_fail(Warp& warp, const Inst& inst) {
  int lane = __builtin_ctz(warp.mask);
  std::string expression = text_at(warp, lane, read_argument<uint64_t>(warp, lane, 0)),
              file = text_at(warp, lane, read_argument<uint64_t>(warp, lane, 8));
  uint32_t line = read_argument<uint32_t>(warp, lane, 16);
  std::string detail = file + ":" + std::to_string(line) + ": assertion `" + expression + "` failed";
  report(warp, inst, lane, {"trap", 0, 0, "", false}, [&] { return detail; });
  stop(warp, inst, Status::Assert, detail);
}

void device_malloc(Warp& warp, const Inst&) {
  each(warp.mask, [&](int lane) {
    Allocation* allocation =
        warp.grid->memory->allocate(size_t(read_argument<uint64_t>(warp, lane, 0)), "a block of the device heap", 16);
    write_result<uint64_t>(warp, lane, allocation ? allocation->start : 0);
  });
}

void device_free(Warp& warp, const Inst& inst) {
  each(warp.mask, [&](int lane) {
    Address at = read_argument<uint64_t>(warp, lane, 0);
    if (at && !warp.grid->memory->release(at))
      report(warp, inst, lane, {"out_of_bounds", at, 0, "global", true},
             [&] { return "frees " + hex(at) + ", which is not the start of a live allocation"; });
  });
}

}  // namespace

Handler builtin(const std::string& name) {
  return find_handler(
      {{"vprintf", vprintf_of_device}, {"__assertfail", assert_fail}, {"malloc", device_malloc}, {"free", device_free}},
      name);
}

const LowerEntry kFunctionOps[] = {{nullptr, nullptr}};

}  // namespace vgpu
