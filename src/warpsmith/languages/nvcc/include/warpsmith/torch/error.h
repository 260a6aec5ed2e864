// Exceptions and the check macros. A check that fails ends the call; the caller reads the text through WsHost.complain.
#pragma once

#include <cassert>
#include <exception>

#include "text.h"

namespace c10 {

class Error : public std::exception {
 public:
  explicit Error(std::string text, int status = WS_REFUSED) : text_(static_cast<std::string&&>(text)), status_(status) {}
  const char* what() const noexcept override { return text_.c_str(); }
  const char* what_without_backtrace() const noexcept { return text_.c_str(); }
  const std::string& msg() const { return text_; }
  int status() const { return status_; }

 private:
  std::string text_;
  int status_;
};
using ValueError = Error;
using TypeError = Error;
using IndexError = Error;
using NotImplementedError = Error;

namespace detail {

[[noreturn]] inline void refuse(const char* condition, int line, const std::string& said) {
  std::string whole = said.empty() ? std::string("Expected ") + condition + " to be true, but got false." : said;
  throw Error(whole + " (line " + std::to_string(line) + ")");
}

inline void cuda_check(cudaError_t status, const char* call, int line) {
  if (status == cudaSuccess) return;
  throw Error(warpsmith::text("CUDA error: ", cudaGetErrorString(status), " in ", call, " (line ", line, ")"),
              WS_CUDA_ERROR);
}

}  // namespace detail
}  // namespace c10

#ifdef __CUDA_ARCH__  // host code in the device's pass, which needs no messages
#define TORCH_CHECK(CONDITION, ...) ((void)(CONDITION))
#else
#define TORCH_CHECK(CONDITION, ...)                                                                  \
  do {                                                                                               \
    if (!(CONDITION)) ::c10::detail::refuse(#CONDITION, __LINE__, ::warpsmith::text(__VA_ARGS__));   \
  } while (0)
#endif
#define TORCH_CHECK_WITH(KIND, CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(CONDITION, ...) ((void)0)
#define TORCH_CHECK_EQ(A, B) TORCH_CHECK((A) == (B), #A " == " #B " does not hold: ", (A), " and ", (B))
#define TORCH_CHECK_NE(A, B) TORCH_CHECK((A) != (B), #A " != " #B " does not hold: ", (A), " and ", (B))
#define TORCH_CHECK_LT(A, B) TORCH_CHECK((A) < (B), #A " < " #B " does not hold: ", (A), " and ", (B))
#define TORCH_CHECK_LE(A, B) TORCH_CHECK((A) <= (B), #A " <= " #B " does not hold: ", (A), " and ", (B))
#define TORCH_CHECK_GT(A, B) TORCH_CHECK((A) > (B), #A " > " #B " does not hold: ", (A), " and ", (B))
#define TORCH_CHECK_GE(A, B) TORCH_CHECK((A) >= (B), #A " >= " #B " does not hold: ", (A), " and ", (B))
#define TORCH_WARN(...) ((void)0)
#define TORCH_WARN_ONCE(...) ((void)0)
#define AT_ASSERT(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define AT_ASSERTM(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define AT_CHECK(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define AT_ERROR(...) ::c10::detail::refuse("", __LINE__, ::warpsmith::text(__VA_ARGS__))
#define C10_THROW_ERROR(KIND, TEXT) ::c10::detail::refuse("", __LINE__, ::warpsmith::text(TEXT))

#define C10_CUDA_CHECK(CALL) ::c10::detail::cuda_check((CALL), #CALL, __LINE__)
#define AT_CUDA_CHECK(CALL) C10_CUDA_CHECK(CALL)
#define C10_CUDA_CHECK_WARN(CALL) ((void)(CALL))
#define C10_CUDA_ERROR_HANDLED(CALL) (CALL)
#define C10_CUDA_IGNORE_ERROR(CALL) ((void)(CALL))
#define C10_CUDA_CLEAR_ERROR() ((void)cudaGetLastError())
#define C10_CUDA_KERNEL_LAUNCH_CHECK() ::c10::detail::cuda_check(cudaGetLastError(), "a kernel launch", __LINE__)
#define TORCH_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_KERNEL_LAUNCH_CHECK()
#define CUDA_KERNEL_ASSERT(CONDITION) assert(CONDITION)
#define CUDA_KERNEL_ASSERT_MSG(CONDITION, ...) assert(CONDITION)
