// Frames between the evaluator process and the worker; machines/worker/protocol.py is the other half. All fields are
// little-endian and packed in this order. New kinds and flags may be added; existing ones keep their meaning.
//
//   LOAD      the artifact's path; answered by LOADED
//   CALL      u32 flags, u32 name length, u32 number of values, name, values; answered by RESULT
//   RESULT    i32 status, i32 CUDA error, f64 seconds, u32 text length, u32 number of values, text, values
//   value     i32 kind (WsKind), i32 count, then: tensor | count tensors | f64 | i64 | count i64 | nothing
//   tensor    u8 code, u8 bits, u16 lanes, i32 dimensions, shape i64 each, strides i64 each,
//             u64 device address (0: none), u64 length, bytes
//   SHARE     u32 count, then for each arena (worker_arena.h) i32 descriptor, u64 bytes, u64 address (0: any);
//             answered by LOADED
//   ARM       as CALL, but the call waits for GO; answered by READY, a RESULT without values
//   GO        u32 flags: make the armed call; answered by TIMED
//   TIMED     f64 event µs, f64 host µs, u32 blocks, (u64 address, u64 bytes) of each live block, then as RESULT
//   RECORD    answered by RECORDED: u32 text length, text (why the last capture cannot be replayed),
//             u64 address of each arena, then the capture (worker_program.h)
//   PLAY      u32 path length, the artifact's path, u64 address of each arena, a capture; from now on every call
//             replays the capture, ignores its arguments and has no results; answered by LOADED
//   RESTORE   set the device variables to their values before the captured call; answered by LOADED
//
// A tensor comes with an address if the evaluator process owns device memory itself, else with its bytes.
#pragma once

#include <cstdint>

namespace worker {

enum Kind : uint16_t {
  kLoad = 1,
  kCall = 2,
  kLeave = 3,
  kShare = 4,
  kArm = 5,
  kGo = 6,
  kCapture = 7,
  kLoadCapture = 8,
  kRestore = 9,
  kLoaded = 101,
  kResult = 102,
  kReady = 103,
  kTimed = 104,
  kCaptured = 105
};

// kReturnBytes: results come as bytes, else as addresses that the evaluator process reads itself. kAwake: the device
// runs work just before the armed call.
enum CallFlag : uint32_t { kReturnBytes = 1, kCaptureCall = 2, kAwake = 4 };
enum GoFlag : uint32_t { kQueued = 1, kCaptureGo = 2 };  // behind a gate; with a capture of the call

// Positive values are the worker's own; negative values are those of abi.h.
enum Status : int32_t {
  kDone = 0,
  kBadRequest = 1,  // the worker cannot parse the frame
  kNoLoad = 2,      // the artifact does not load, or lacks one of the three functions
  kOtherAbi = 3,
  kCudaError = 4,  // found at the end of the call
  kBadResult = 5,  // the result is not a valid tensor
  kThrew = 6,      // an exception left warpsmith_call
};

constexpr uint64_t kMostFrameBytes = uint64_t(2) << 30;
constexpr int kMostDimensions = 16, kMostResults = 64;

}  // namespace worker
