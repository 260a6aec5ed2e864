// What the judge and the worker say to each other inside frames; sandbox/protocol.py is the other half.
// Little-endian, packed in this order, no padding. New kinds and new flags may come; old ones keep their meaning.
//
//   LOAD      the artifact's path
//   CALL      u32 flags, u32 name length, u32 values, name, values
//   RESULT    i32 status, i32 cuda error, f64 seconds, u32 text length, u32 values, text, values
//   value     i32 kind (WsKind), i32 count, then: tensor | count tensors | f64 | i64 | count i64 | nothing
//   tensor    u8 code, u8 bits, u16 lanes, i32 dimensions, shape i64 each, strides i64 each,
//             u64 device address (0: none), u64 length, bytes
//   SHARE     u32 count, then i32 descriptor, u64 bytes, u64 address (0: any) each: the judge's memory
//   (worker_arena.h);
//             answered by LOADED
//   ARM       as CALL: everything is put in place, and where asked the device is seen idle; answered by READY, a RESULT
//   without values GO        u32 flags: the armed call is made; answered by TIMED TIMED     f64 event µs, f64 host µs,
//   u32 blocks, (u64 address, u64 bytes) each that live on, then as RESULT RECORD    answered by RECORDED: u32 text
//   length, text (why the last recorded call cannot be repeated), u64 address of
//             each arena, then the recording (worker_program.h)
//   PLAY      u32 path length, the artifact's path, u64 address of each arena, a recording: from now on a call asks for
//   what
//             was recorded, whatever its arguments are, and has no results; answered by LOADED
//   RESTORE   the variables of the device code hold again what they held before the recorded call; answered by LOADED
// A tensor comes either with an address, when the judge owns device memory itself, or with its bytes.
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
  kRecord = 7,
  kPlay = 8,
  kRestore = 9,
  kLoaded = 101,
  kResult = 102,
  kReady = 103,
  kTimed = 104,
  kRecorded = 105
};

// Bytes: else addresses, which the judge reads for itself. Awake: an armed call finds the device so.
enum CallFlag : uint32_t { kReturnBytes = 1, kRecordCall = 2, kAwake = 4 };
enum GoFlag : uint32_t { kQueued = 1, kRecordGo = 2 };  // behind a gate, and with a snapshot of the results at the end

// Above zero are the worker's own; below are those of abi.h.
enum Status : int32_t {
  kDone = 0,
  kBadRequest = 1,  // a frame the worker cannot read
  kNoLoad = 2,      // the artifact does not load, or lacks one of the three functions
  kOtherAbi = 3,
  kCudaError = 4,  // seen at the end of the call
  kBadResult = 5,  // a result that no tensor can be
  kThrew = 6,      // an exception came out of warpsmith_call
};

constexpr uint64_t kMostFrameBytes = uint64_t(2) << 30;
constexpr int kMostDimensions = 16, kMostResults = 64;

}  // namespace worker
