// Streams and events; the executor holds all their rules.
#include "link.h"

using namespace standin;

namespace {

int create(void** stream, unsigned flags, int priority) {
  Result result = call_executor(Call::StreamCreate, {flags, uint64_t(int64_t(priority))});
  *stream = result.error ? nullptr : handle(result.words[0]);
  return result.error;
}

int event(void** made, unsigned flags) {
  Result result = call_executor(Call::EventCreate, {flags});
  *made = result.error ? nullptr : handle(result.words[0]);
  return result.error;
}

int elapsed(float* ms, void* first, void* second) {
  Result result = call_executor(Call::EventElapsed, {id_of(first), id_of(second)});
  *ms = float(double(int64_t(result.words[0])) / 1e6);
  return result.error;
}

int facts(uint64_t stream, unsigned* flags, int* priority) {
  Result result = call_executor(Call::StreamFacts, {stream});
  if (flags) *flags = unsigned(result.words[0]);
  if (priority) *priority = int(int64_t(result.words[1]));
  return result.error;
}

}  // namespace

extern "C" {

int cudaStreamCreate(void** stream) { return create(stream, 0, 0); }
int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  return flags > 1 ? set_last_error(cuda::kInvalidValue) : create(stream, flags, 0);
}
int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  return flags > 1 ? set_last_error(cuda::kInvalidValue) : create(stream, flags, priority);
}
int cudaStreamDestroy(void* stream) { return submit(Call::StreamDestroy, {stream_of(stream)}); }
int cudaStreamSynchronize(void* stream) { return submit(Call::StreamSync, {stream_of(stream)}); }
int cudaStreamSynchronize_ptsz(void* stream) { return submit(Call::StreamSync, {stream_of_ptsz(stream)}); }
int cudaStreamQuery(void* stream) { return submit(Call::StreamQuery, {stream_of(stream)}); }
int cudaStreamQuery_ptsz(void* stream) { return submit(Call::StreamQuery, {stream_of_ptsz(stream)}); }
int cudaStreamWaitEvent(void* stream, void* event, unsigned) {
  return submit(Call::StreamWait, {stream_of(stream), id_of(event)});
}
int cudaStreamWaitEvent_ptsz(void* stream, void* event, unsigned) {
  return submit(Call::StreamWait, {stream_of_ptsz(stream), id_of(event)});
}
int cudaStreamGetFlags(void* stream, unsigned* flags) { return facts(stream_of(stream), flags, nullptr); }
int cudaStreamGetFlags_ptsz(void* stream, unsigned* flags) { return facts(stream_of_ptsz(stream), flags, nullptr); }
int cudaStreamGetPriority(void* stream, int* priority) { return facts(stream_of(stream), nullptr, priority); }
int cudaStreamGetPriority_ptsz(void* stream, int* priority) { return facts(stream_of_ptsz(stream), nullptr, priority); }
int cudaStreamGetId(void* stream, unsigned long long* id) {
  *id = stream_of(stream);
  return facts(*id, nullptr, nullptr);
}
int cudaStreamGetId_ptsz(void* stream, unsigned long long* id) {
  *id = stream_of_ptsz(stream);
  return facts(*id, nullptr, nullptr);
}
int cudaStreamGetDevice(void* stream, int* number) {
  *number = 0;
  return facts(stream_of(stream), nullptr, nullptr);
}
int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cuda::kSuccess;
}

// Hints about caches and priorities: accepted, without effect on results.
int cudaStreamSetAttribute(void* stream, int, const void*) { return facts(stream_of(stream), nullptr, nullptr); }
int cudaStreamSetAttribute_ptsz(void* stream, int, const void*) {
  return facts(stream_of_ptsz(stream), nullptr, nullptr);
}
int cudaStreamCopyAttributes(void*, void*) { return cuda::kSuccess; }
int cudaCtxResetPersistingL2Cache() { return cuda::kSuccess; }

int cudaEventCreate(void** made) { return event(made, 0); }
int cudaEventCreateWithFlags(void** made, unsigned flags) { return event(made, flags); }
int cudaEventDestroy(void* event) { return submit(Call::EventDestroy, {id_of(event)}); }
int cudaEventRecord(void* event, void* stream) { return submit(Call::EventRecord, {id_of(event), stream_of(stream)}); }
int cudaEventRecord_ptsz(void* event, void* stream) {
  return submit(Call::EventRecord, {id_of(event), stream_of_ptsz(stream)});
}
int cudaEventRecordWithFlags(void* event, void* stream, unsigned) { return cudaEventRecord(event, stream); }
int cudaEventRecordWithFlags_ptsz(void* event, void* stream, unsigned) { return cudaEventRecord_ptsz(event, stream); }
int cudaEventSynchronize(void* event) { return submit(Call::EventSync, {id_of(event)}); }
int cudaEventQuery(void* event) { return submit(Call::EventQuery, {id_of(event)}); }
int cudaEventElapsedTime(float* ms, void* first, void* second) { return elapsed(ms, first, second); }
int cudaEventElapsedTime_v2(float* ms, void* first, void* second) { return elapsed(ms, first, second); }

int cudaDeviceSynchronize() { return submit(Call::DeviceSync, {}); }
int cudaThreadSynchronize() { return submit(Call::DeviceSync, {}); }

}  // extern "C"
