// Protocol of the executor with the stand-in runtime and the evaluator process: fixed-layout frames over a socket. A
// request may be followed by host accesses, which the executor sends back because it cannot read the candidate's
// memory, and ends with one reply.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wire {

constexpr uint32_t kMagic = 0x57533031;  // "WS01"
constexpr uint64_t kMostBytes = uint64_t(8) << 30;

enum class Call : uint32_t {
  // modules: bytes hold the fat binary, the name of a function or of a variable
  LoadModule = 1,  // -> module
  DropModule,      // module
  Function,        // module; bytes name -> function, static shared; bytes: parameters as (offset, size) pairs
  Symbol,          // module; bytes name -> address, size
  UnknownCall,     // bytes name
  Describe,        // -> bytes: the attributes of the device, a wire::Device
  // memory
  Allocate = 20,  // bytes wanted -> address
  Free,           // address
  AllocateAsync,  // bytes wanted, stream -> address
  FreeAsync,      // address, stream
  MemoryInfo,     // -> free, total
  Pointer,        // address -> 1 when it lies in device memory
  Import,         // bytes -> address of the next memory that the evaluator process passed as a descriptor
  // transfers: rows of `width` bytes
  CopyIn = 30,  // stream, to, to pitch, from (host), from pitch, width, height, flags; bytes: the rows, unless lazy
  CopyOut,      // stream, to (host), to pitch, from, from pitch, width, height, flags
  CopyWithin,   // stream, to, to pitch, from, from pitch, width, height, flags
  Fill,         // stream, to, pitch, value, element bytes, elements a row, rows, flags
  // launches
  // A kernel in words: function, (grid x, y), (grid z, block x), (block y, z), shared, flags, (cluster x, y), z.
  Launch = 40,    // stream, kernel; bytes: parameters
  FunctionFacts,  // function -> registers, static shared, local, max threads, max dynamic shared, ptx, binary
  AllowShared,    // function, bytes
  Occupancy,      // function, threads, dynamic shared -> blocks an SM
  // streams and events
  StreamCreate = 50,  // flags, priority -> stream
  StreamDestroy,
  StreamSync,
  StreamQuery,
  StreamWait,   // stream, event
  StreamFacts,  // stream -> flags, priority, id
  EventCreate,  // flags -> event
  EventDestroy,
  EventRecord,  // event, stream
  EventSync,
  EventQuery,
  EventElapsed,  // first, second -> nanoseconds
  DeviceSync,
  // graphs
  CaptureBegin = 70,  // stream, mode
  CaptureEnd,         // stream -> graph
  CaptureState,       // stream -> state, id
  GraphCreate,        // -> graph
  GraphDestroy,       // graph
  GraphClone,         // graph -> graph
  GraphAddEmpty,      // graph; bytes: the nodes it waits for -> node
  GraphAddKernel,     // graph, kernel, and in word 12 the number of nodes; bytes: nodes, parameters -> node
  GraphAddCopy,       // graph, direction, to, to pitch, from, from pitch, width, height; bytes: nodes -> node
  GraphAddFill,       // graph, to, pitch, value, element, elements, rows; bytes: nodes -> node
  GraphNodes,         // graph -> bytes: nodes
  GraphEdge,          // graph, from, to
  NodeKind,           // node -> kind
  NodeSetKernel,      // exec or 0, node, kernel; bytes: parameters
  NodeSetCopy,        // exec or 0, node, direction, ...
  NodeSetFill,        // exec or 0, node, to, ...
  NodeKernel,         // node -> function, grid, block, shared; bytes: parameters
  Instantiate,        // graph -> exec
  ExecUpdate,         // exec, graph -> result, node
  ExecLaunch,         // exec, stream
  ExecDestroy,        // exec
  GraphEdges,         // graph -> bytes: pairs of nodes, the second of which waits for the first
  // requests of the evaluator process
  EvaluatorAllocate = 200,  // bytes wanted -> address
  EvaluatorWrite,           // address; bytes
  EvaluatorRead,            // address, length -> bytes
  EvaluatorFill,            // address, value, element bytes, elements
  EvaluatorFacts,           // flags: 1 finish pending work, 2 clear afterwards -> bytes: JSON
  EvaluatorMemory,          // -> free, total
};

enum class Kind : uint32_t {
  Done = 1,
  ReadHost,   // address, pitch, width, height: answer with the rows
  WriteHost,  // address, pitch, width, height; bytes: the rows: answer with an empty frame
};

enum Flag : uint64_t {
  kBlocking = 1,    // the host waits for this operation
  kLazySource = 2,  // CopyIn: pinned memory, read when the copy runs
  kCooperative = 4,
  kNonPortable = 8,  // clusters of more than eight blocks are allowed
};

struct Request {
  uint32_t magic = kMagic;
  Call call = Call::Describe;
  uint64_t words[16] = {};
  uint64_t bytes = 0;
};

struct Reply {
  Kind kind = Kind::Done;
  int32_t error = 0;
  uint64_t words[8] = {};
  uint64_t bytes = 0;
};

static_assert(sizeof(Request) == 144 && sizeof(Reply) == 80);

constexpr uint64_t pack(uint32_t low, uint32_t high) { return low | uint64_t(high) << 32; }
constexpr uint32_t low(uint64_t word) { return uint32_t(word); }
constexpr uint32_t high(uint64_t word) { return uint32_t(word >> 32); }

// Reply of `Describe`.
struct Device {
  char name[64] = {};
  uint64_t memory_bytes = 0, shared_per_block = 0, shared_per_block_optin = 0, shared_per_sm = 0, l2_bytes = 0;
  int32_t sm_count = 0, major = 0, minor = 0, threads_per_block = 0, threads_per_sm = 0, blocks_per_sm = 0;
  int32_t registers_per_sm = 0, clock_khz = 0, memory_clock_khz = 0, bus_bits = 0;
};

// Environment variable with the descriptor of the stand-in's socket.
constexpr const char* kSocketVariable = "WARPSMITH_VGPU_FD";

}  // namespace wire
