// Sends every frame back with the next kind; a frame at fault is answered with kind 99 and the fault's name.
#include "frames.h"

int main() {
  using namespace warpsmith::frames;
  Frame frame;
  for (;;) {
    switch (read_frame(0, &frame, 1 << 30)) {
      case Fault::kNone:
        write_frame(1, frame.kind + 1, frame.payload.data(), frame.payload.size());
        break;
      case Fault::kMissing:
        return 0;
      case Fault::kChecksum:
        return write_frame(1, 99, "checksum") == Fault::kNone ? 0 : 1;
      default:
        return write_frame(1, 99, "junk") == Fault::kNone ? 0 : 1;
    }
  }
}
