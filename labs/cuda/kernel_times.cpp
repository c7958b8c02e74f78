// The time of every kernel of a program and of the runtime's calls that took the host longest, from CUPTI's activity
// records: a library that the driver loads.
//
//   CUDA_INJECTION64_PATH=build/cuda/bin/kernel_times.so PROGRAM
//
// Printed to stderr when the program ends.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Total {
  double seconds = 0;
  long count = 0;
};

std::mutex lock;
std::map<std::string, Total> kernels;
std::map<std::string, Total> calls;

void request(uint8_t** buffer, size_t* size, size_t* records) {
  *size = size_t{8} << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *size));
  *records = 0;
}

void add(std::map<std::string, Total>& totals, const char* name, uint64_t start, uint64_t end) {
  Total& total = totals[name];
  total.seconds += static_cast<double>(end - start) * 1e-9;
  ++total.count;
}

void add_call(const CUpti_ActivityAPI& call) {
  const char* name = nullptr;
  if (cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, call.cbid, &name) == CUPTI_SUCCESS)
    add(calls, name, call.start, call.end);
}

void complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::scoped_lock guard(lock);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      add(kernels, kernel->name, kernel->start, kernel->end);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME) {
      add_call(*reinterpret_cast<const CUpti_ActivityAPI*>(record));
    }
  }
  std::free(buffer);
}

std::string readable(const std::string& name) {
  int status = 0;
  char* plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string text = status == 0 ? plain : name;
  std::free(plain);
  return text.substr(0, 150);
}

void print_longest(const char* what, const std::map<std::string, Total>& totals, size_t most) {
  std::vector<std::pair<std::string, Total>> rows(totals.begin(), totals.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  double all = 0;
  for (const auto& row : rows) all += row.second.seconds;
  std::fprintf(stderr, "kernel_times: %.3f s in %s\n", all, what);
  for (size_t i = 0; i < rows.size() && i < most; ++i)
    std::fprintf(stderr, "%9.3f ms %7ld  %s\n", rows[i].second.seconds * 1e3, rows[i].second.count,
                 readable(rows[i].first).c_str());
}

void print() {
  cuptiActivityFlushAll(1);
  const std::scoped_lock guard(lock);
  print_longest("kernels", kernels, 40);
  print_longest("calls of the runtime", calls, 10);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  if (cuptiActivityRegisterCallbacks(request, complete) != CUPTI_SUCCESS) return 0;
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_RUNTIME})
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS) return 0;
  std::atexit(print);
  return 1;
}
