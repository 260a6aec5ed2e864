// Capture: the device operations that a candidate asks for in one call, in the order of the requests, so that a replay
// process without host code of the candidate can repeat them. A capture is not trusted: the results of every replay are
// checked, so a capture that leaves work out gives wrong results.
//
// The worker defines the functions of the CUDA runtime that submit work (worker_hooks.cpp) and forwards each call. The
// dynamic linker resolves a candidate's calls to them first. Streams and events are not captured, because the order in
// which the host submits work is one of the orders that they allow. A replay uses one stream and would hide a missing
// dependency, so the capture is refused unless all work waits for the call's own stream at its beginning and is joined
// with it at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace worker {
class Arenas;
class Memory;

std::string read_file(const std::string& path);  // returns an empty string if the file cannot be read
}  // namespace worker

namespace worker::capture {

// Reads the kernels of an artifact: the sizes of their parameters stand in its PTX.
void open(const std::string& artifact);
// Returns the parameter sizes of a kernel in bytes, or nullptr if the artifact has no such kernel.
const std::vector<uint32_t>* parameters(const std::string& kernel);
// Serves the candidate's cudaMalloc calls from shared memory while some is left. The replay process maps the same
// memory.
void use_memory(Memory* memory, const Arenas* arenas);
void begin(void* stream);  // begins the capture of a call on this stream
void end();
// Returns the operations between begin and end with the settings that precede them. `refusal` says why they cannot be
// replayed; empty if they can.
const std::string& operations();
const std::string& refusal();

}  // namespace worker::capture
