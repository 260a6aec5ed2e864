// A decoded entry: basic blocks of instructions whose operands are places in a warp's register file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ptx.h"

namespace vgpu {

struct Warp;
struct Inst;
struct Memo;
using Handler = void (*)(Warp&, const Inst&);

// An instruction. The fields d, a, b and c are the destination and the sources of the PTX ISA, as places. A place below
// zero is an offset into the program's constants, another one an offset into the warp's registers; a predicate is its
// number.
struct Inst {
  Handler fn = nullptr;
  Handler inner = nullptr;  // the handler that a guard wraps
  int32_t d = 0, a = 0, b = 0, c = 0;
  int32_t extra[8] = {};  // elements of a vector operand, or further operands
  int64_t imm = 0;
  int32_t guard = -1;
  uint8_t negated = 0;
  uint8_t count = 1;  // elements of a vector access
  uint8_t bytes = 0;  // of one element of an access
  uint8_t flags = 0;
  uint32_t where = 0;  // into Program::places
  Memo* memo = nullptr;
  const void* table = nullptr;
};

enum class Control : uint8_t {
  Fall,
  Jump,
  Branch,
  Index,
  Call,
  CallIndirect,
  Return,
  Exit,
  Barrier,
  ClusterWait,
  WarpSync,
  Trap,
  Unknown,
  Builtin,
  Yield
};

enum class Class : uint8_t {
  Int,
  Fp32,
  Fp64,
  Fp16,
  Sfu,
  Tensor,   // in products of 16x8x16 halves, the unit of mma.sync
  Wgmma,    // in the same unit
  Convert,  // only conversions that use the special function unit
  Move,
  Control,
  Sync,
  Global,
  Shared,
  Local,
  Param,
  Atomic,
  Warp,
  Count
};
const char* class_name(Class kind);

struct BasicBlock {
  uint32_t first = 0, count = 0;  // straight instructions
  uint32_t weight = 0;            // number of PTX instructions
  Control control = Control::Fall;
  uint32_t target = 0;
  Inst last;
  uint16_t classes[size_t(Class::Count)] = {};
};

struct Place {  // source location of an instruction
  int location = -1;
  int text_line = 0;
  std::string opcode;
};

struct DecodedFunction {
  std::string name;
  uint32_t first_block = 0;
  bool decoded = false;
};

struct Program {
  std::string name;
  const ptx::Module* module = nullptr;
  std::vector<Inst> code;
  std::vector<BasicBlock> blocks;
  std::vector<Place> places;
  std::vector<uint32_t> block_function;  // block index to function index
  std::vector<DecodedFunction> functions;
  std::vector<std::unique_ptr<std::vector<uint32_t>>> tables;
  std::vector<std::unique_ptr<Memo>> memos;
  std::vector<std::pair<uint64_t, int>> constants;  // bits and width, each repeated for 32 lanes
  size_t constant_bytes = 0;
  uint8_t* constants_end = nullptr;
  std::unique_ptr<uint8_t[]> constant_storage;
  uint32_t entry_block = 0;
  size_t register_bytes = 0, predicate_count = 2;
  size_t local_bytes = 0;
  size_t static_shared = 0;
  size_t parameter_bytes = 0;  // a launch passes at least as many
  int shared_shift = 2;        // log2 of the granule of the shared shadow: the narrowest access
};

}  // namespace vgpu
