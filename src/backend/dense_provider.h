// Dense maths for prompts in bf16: y[M, N] = x[M, K] · W[N, K]^T, inputs rounded to bf16, sums in f32. A provider keeps
// W in a packed form of its own and multiplies on the caller's workers; it starts no threads. Results do not depend on
// the workers, and those of "bf16" not on how the rows of x are cut into products either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/workers.h"
#include "tensor/matrix.h"

namespace ei {

class DenseProvider {
 public:
  // Writes the f32 rows [begin, end) of W densely to `rows`, [end - begin, K]. At most 16 rows are asked for at once.
  // Called by whoever packs, so it must be safe to call from several threads when repack() is.
  using RowSource = std::function<void(int64_t begin, int64_t end, float* rows)>;

  // A packed W, made by the provider that reads it.
  struct Packed {
    virtual ~Packed() = default;
    int64_t rows = 0;  // N
    int64_t cols = 0;  // K
    size_t bytes = 0;
  };

  struct Product {
    const Packed& weight;
    Matrix x;
    Matrix y;       // must not overlap x
    void* scratch;  // shared by all workers, 64-byte aligned
  };

  virtual ~DenseProvider() = default;
  virtual std::string describe() const = 0;
  virtual std::string_view numbers() const { return "bf16"; }  // what inputs are rounded to
  // From how many tokens of a prompt on unpacking W first and multiplying is quicker than ggml's product on the weights
  // as stored.
  virtual int64_t unpack_tokens() const = 0;
  // How many rows of a W that is not kept packed are unpacked at a time, in multiples of `whole`: about 4 MiB, which
  // stay in the cache until they are multiplied, or a 32nd of a large matrix.
  static int64_t slice_rows(int64_t rows_n, int64_t cols_k, int64_t whole = 64);
  virtual int64_t whole_slice() const { return 64; }

  // Bytes of a packed [rows_n, cols_k] matrix; 0 when it cannot be packed.
  virtual size_t packed_bytes(int64_t rows_n, int64_t cols_k) const = 0;
  virtual Result<std::unique_ptr<Packed>> allocate(int64_t rows_n, int64_t cols_k) const = 0;
  // Fills rows [begin, end), at any time, also again. Workers may repack disjoint ranges of one Packed at the same time
  // when they begin at multiples of 16, but not while a product reads it.
  virtual void repack(Packed& packed, int64_t begin, int64_t end, const RowSource& source) const = 0;
  Result<std::unique_ptr<Packed>> pack(int64_t rows_n, int64_t cols_k, const RowSource& source) const;

  virtual size_t scratch_bytes(const Packed& packed, int64_t m, int workers) const = 0;
  // The two halves of a product, each called by every worker with the same arguments and a queue that starts reset. All
  // workers leave prepare() before one enters multiply(). What prepare() leaves in the scratch depends on the columns
  // of W alone, so that it serves several W of as many columns.
  virtual void prepare(const Product& product, WorkQueue& queue) const;
  virtual void multiply(const Product& product, Worker worker, WorkQueue& queue) const = 0;
};

// The registry: every provider by the name that EI_DENSE gives it. ggml, which needs no second form of the weights, is
// not one of them.
struct DenseEntry {
  std::string_view name;
  // An error (kUsage) when this build or this CPU cannot run it. `isa` is EI_CPU_ISA.
  Result<std::unique_ptr<DenseProvider>> (*create)(std::string_view isa);
  bool (*fast)(std::string_view isa);  // multiplies bf16 natively on this CPU
};
std::span<const DenseEntry> dense_providers();

// The provider for EI_DENSE = `name`; null for "ggml". "" is "bf16" where that is fast, "ggml" elsewhere.
Result<std::unique_ptr<DenseProvider>> create_dense_provider(std::string_view name, std::string_view isa);

}  // namespace ei
