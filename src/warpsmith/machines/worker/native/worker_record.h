// What a candidate asks of the device in one call, written down in the order in which it asks, so that a process which
// holds none of its host code can ask for the same. A recording is a claim like all else, and need not be believed: one
// that leaves something out gives wrong results where it is repeated, and those are looked at.
//
// The runtime's functions that ask for work are defined in the worker itself and pass the request on: a candidate that
// is loaded finds these first. Streams and events are left out: the order in which the host asks is one that they
// allow. But everything must wait for the call's own stream first and be joined with it at the end, since nobody would
// see that it does not once all is repeated in one order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace worker {
class Arenas;
class Memory;

std::string contents_of(const std::string& path);  // of a file; empty where it cannot be read
}  // namespace worker

namespace worker::record {

// The file whose kernels will be launched: how many bytes their parameters have stands in its PTX.
void open(const std::string& artifact);
// Those of a kernel; nullptr when the artifact has none of that name.
const std::vector<uint32_t>* parameters(const std::string& kernel);
// Where device memory that the candidate asks the runtime for is taken from, as long as there is some: what another
// process maps too.
void serve(Memory* memory, const Arenas* arenas);
void begin(void* stream);  // of a call on this stream
void end();
// The operations between begin and end, and what was set before; `fault` says why they cannot be repeated, if so.
const std::string& operations();
const std::string& fault();

}  // namespace worker::record
