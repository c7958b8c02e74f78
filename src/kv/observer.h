// Observer: the last rotated queries of every compressed layer, and where in the text they stood. A compression scores
// the cache by them.
//
// Rows are copied by the stream while a chunk is read, into rings of twice the window: a chunk that fails has only
// overwritten rows that no longer counted, so nothing is lost with it.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "tensor/buffer.h"
#include "tensor/matrix.h"

namespace ei::kv {

struct ObserverShape {
  std::vector<uint8_t> observed;  // [layers]
  int64_t window = 0;             // queries that count
  int64_t width = 0;              // heads * head_dim
};

class Observer {
 public:
  static Result<Observer> create(const Backend& backend, ObserverShape shape);

  // Enqueues copies of the last queries of a chunk, q [tokens, width]. Call for every layer, then either advance(), or
  // nothing when the chunk failed.
  void record(Stream& stream, int layer, Matrix q) const;
  // The recorded chunk held positions [first, first + tokens).
  void advance(int32_t first, int64_t tokens);
  // Forgets the queries at `position` and behind.
  void truncate(int32_t position);

  int64_t size() const;                             // queries that count now, at most the window
  std::vector<int32_t> positions() const;           // [size], ascending
  Matrix queries(Stream& stream, int layer) const;  // [size, width], gathered by the stream, valid until the next call
  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()); }

 private:
  explicit Observer(ObserverShape shape) : shape_(std::move(shape)) {}

  int64_t capacity() const { return 2 * shape_.window; }
  Matrix ring(int layer) const;
  // Copies rows of q to ring rows from `begin` on, or back, around the end of the ring.
  void copy_rows(Stream& stream, int layer, int64_t begin, Matrix rows, bool out) const;

  ObserverShape shape_;
  Buffer memory_;                 // rings [observed layers, capacity, width], then one window to gather into
  std::vector<int64_t> ring_of_;  // [layers]: index of the layer's ring, -1 without one
  std::vector<int32_t> held_;     // positions of the rows in the ring, oldest first, at most capacity
  int64_t next_row_ = 0;          // of the ring
};

}  // namespace ei::kv
