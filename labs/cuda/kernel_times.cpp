// The time of every kernel of a program, from CUPTI's activity records: a library that the driver loads.
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
std::map<std::string, Total> totals;

void request(uint8_t** buffer, size_t* size, size_t* records) {
  *size = size_t{8} << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *size));
  *records = 0;
}

void complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::scoped_lock guard(lock);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    Total& total = totals[kernel->name];
    total.seconds += static_cast<double>(kernel->end - kernel->start) * 1e-9;
    ++total.count;
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

void print() {
  cuptiActivityFlushAll(1);
  const std::scoped_lock guard(lock);
  std::vector<std::pair<std::string, Total>> rows(totals.begin(), totals.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  double all = 0;
  for (const auto& row : rows) all += row.second.seconds;
  std::fprintf(stderr, "kernel_times: %.3f s in kernels\n", all);
  for (size_t i = 0; i < rows.size() && i < 40; ++i)
    std::fprintf(stderr, "%9.3f ms %7ld  %s\n", rows[i].second.seconds * 1e3, rows[i].second.count,
                 readable(rows[i].first).c_str());
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  if (cuptiActivityRegisterCallbacks(request, complete) != CUPTI_SUCCESS) return 0;
  if (cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) return 0;
  std::atexit(print);
  return 1;
}
