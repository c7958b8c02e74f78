#include "kv/observer.h"

#include <algorithm>

#include "base/check.h"

namespace ei::kv {

Result<Observer> Observer::create(const Backend& backend, ObserverShape shape) {
  EI_CHECK(shape.window > 0 && shape.width > 0);
  Observer observer(std::move(shape));
  int64_t rings = 0;
  for (const uint8_t observed : observer.shape_.observed) observer.ring_of_.push_back(observed != 0 ? rings++ : -1);
  const int64_t rows = rings * observer.capacity() + observer.shape_.window;
  EI_ASSIGN_OR_RETURN(observer.memory_,
                      backend.allocate(static_cast<size_t>(rows * observer.shape_.width) * sizeof(float)));
  return observer;
}

Matrix Observer::ring(int layer) const {
  const int64_t index = ring_of_[static_cast<size_t>(layer)];
  EI_CHECK_GE(index, 0);
  return {static_cast<float*>(memory_.data()) + index * capacity() * shape_.width, capacity(), shape_.width,
          shape_.width};
}

void Observer::copy_rows(Stream& stream, int layer, int64_t begin, Matrix rows, bool out) const {
  const Matrix all = ring(layer);
  for (int64_t done = 0; done < rows.rows;) {
    const int64_t at = (begin + done) % capacity();
    const int64_t count = std::min(rows.rows - done, capacity() - at);
    const Matrix inside = all.row_range(at, count);
    const Matrix outside = rows.row_range(done, count);
    stream.copy(out ? inside : outside, out ? outside : inside);
    done += count;
  }
}

void Observer::record(Stream& stream, int layer, Matrix q) const {
  if (ring_of_[static_cast<size_t>(layer)] < 0) return;
  const int64_t rows = std::min(q.rows, shape_.window);
  copy_rows(stream, layer, next_row_, q.row_range(q.rows - rows, rows), /*out=*/false);
}

void Observer::advance(int32_t first, int64_t tokens) {
  const int64_t rows = std::min(tokens, shape_.window);
  for (int64_t row = tokens - rows; row < tokens; ++row) held_.push_back(first + static_cast<int32_t>(row));
  if (static_cast<int64_t>(held_.size()) > capacity()) held_.erase(held_.begin(), held_.end() - capacity());
  next_row_ = (next_row_ + rows) % capacity();
}

void Observer::truncate(int32_t position) {
  while (!held_.empty() && held_.back() >= position) {
    held_.pop_back();
    next_row_ = (next_row_ + capacity() - 1) % capacity();
  }
}

int64_t Observer::size() const { return std::min(static_cast<int64_t>(held_.size()), shape_.window); }

std::vector<int32_t> Observer::positions() const { return {held_.end() - size(), held_.end()}; }

Matrix Observer::queries(Stream& stream, int layer) const {
  const auto rings = std::count_if(ring_of_.begin(), ring_of_.end(), [](int64_t ring) { return ring >= 0; });
  const Matrix window{static_cast<float*>(memory_.data()) + rings * capacity() * shape_.width, size(), shape_.width,
                      shape_.width};
  copy_rows(stream, layer, next_row_ + capacity() - size(), window, /*out=*/true);
  return window;
}

}  // namespace ei::kv
