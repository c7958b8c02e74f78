// Observer: rotated queries of every compressed layer, and where in the text they stood. A compression scores the cache
// by them. Either the last ones, or a sample that lies evenly over the text: the last of every 2^n positions, with the
// smallest n that keeps it inside its number, so that it does not depend on how the text was cut.
//
// Rows are copied by the stream while a chunk is read, into rings of twice the number that counts: a chunk that fails
// has only overwritten rows that no longer counted, so nothing is lost with it.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "base/bytes.h"
#include "base/result.h"
#include "tensor/buffer.h"
#include "tensor/matrix.h"

namespace ei::kv {

struct ObserverShape {
  std::vector<uint8_t> observed;  // [layers]
  int64_t window = 0;             // queries that count, at most
  int64_t width = 0;              // heads * head_dim
  bool sampled = false;           // over the whole text; otherwise the last ones
};

class Observer {
 public:
  static Result<Observer> create(const Backend& backend, ObserverShape shape);

  // Enqueues copies of the queries of a chunk that begins at position `first`, q [tokens, width]. Call for every layer,
  // then either advance(), or nothing when the chunk failed.
  void record(Stream& stream, int layer, Matrix q, int32_t first) const;
  // The recorded chunk held positions [first, first + tokens).
  void advance(int32_t first, int64_t tokens);
  // Takes over the queries of another observer of the same model: the last ones as far as both windows hold them, or
  // the same sample. None when the other has not watched what counts here. Its memory must stay until the stream has
  // run.
  void take(Stream& stream, const Observer& from);
  // All that is held, as bytes; between chunks.
  Status save(Stream& stream, ByteWriter& to) const;
  // Instead of what is held. What an observer of another shape has saved is read over: nothing is held then. kUsage:
  // the bytes are damaged.
  Status restore(Stream& stream, ByteReader& from);
  // Forgets the queries at `position` and behind.
  void truncate(int32_t position);

  int64_t size() const;                             // queries that count now, at most the window
  std::vector<int32_t> positions() const;           // [size], ascending
  Matrix queries(Stream& stream, int layer) const;  // [size, width], gathered by the stream, valid until the next call
  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()); }

 private:
  struct Row {
    int32_t position = 0;
    int64_t at = 0;  // row of the ring
  };

  explicit Observer(ObserverShape shape) : shape_(std::move(shape)) {}

  int64_t capacity() const { return 2 * shape_.window; }
  Matrix ring(int layer) const;
  // Every how many positions is sampled when the text ends at `end`.
  int32_t step_at(int64_t end) const;
  // The rows of a chunk that are recorded, and where they go.
  std::vector<Row> taken(int32_t first, int64_t tokens) const;

  ObserverShape shape_;
  Buffer memory_;                 // rings [observed layers, capacity, width], then one window to gather into
  std::vector<int64_t> ring_of_;  // [layers]: index of the layer's ring, -1 without one
  std::vector<Row> held_;         // oldest first, at most capacity
  int32_t step_ = 1;
};

}  // namespace ei::kv
