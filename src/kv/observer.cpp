#include "kv/observer.h"

#include <algorithm>

#include "base/check.h"

namespace ei::kv {
namespace {

const ScratchSlot kRestoredRows;

// Calls copy(first, count) for every stretch of rows in which each follows the one before.
template <typename Follows, typename Copy>
void for_each_stretch(size_t rows, Follows follows, Copy copy) {
  for (size_t begin = 0; begin < rows;) {
    size_t end = begin + 1;
    while (end < rows && follows(end)) ++end;
    copy(begin, static_cast<int64_t>(end - begin));
    begin = end;
  }
}

}  // namespace

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

int32_t Observer::step_at(int64_t end) const {
  int32_t step = step_;
  while (end / step > shape_.window) step *= 2;
  return step;
}

std::vector<Observer::Row> Observer::taken(int32_t first, int64_t tokens) const {
  std::vector<Row> rows;
  if (!shape_.sampled) {
    int64_t at = held_.empty() ? 0 : held_.back().at + 1;
    for (int64_t row = std::max<int64_t>(0, tokens - shape_.window); row < tokens; ++row, ++at)
      rows.push_back({first + static_cast<int32_t>(row), at % capacity()});
    return rows;
  }
  std::vector<bool> used(static_cast<size_t>(capacity()), false);
  for (const Row& row : held_) used[static_cast<size_t>(row.at)] = true;
  int64_t at = 0;
  const int32_t step = step_at(first + tokens);
  for (int64_t position = (first / step + 1) * int64_t{step} - 1; position < first + tokens; position += step) {
    while (used[static_cast<size_t>(at)]) ++at;
    rows.push_back({static_cast<int32_t>(position), at++});
  }
  return rows;
}

void Observer::record(Stream& stream, int layer, Matrix q, int32_t first) const {
  if (ring_of_[static_cast<size_t>(layer)] < 0) return;
  const std::vector<Row> rows = taken(first, q.rows);
  const Matrix all = ring(layer);
  const auto follows = [&](size_t i) {
    return rows[i].at == rows[i - 1].at + 1 && rows[i].position == rows[i - 1].position + 1;
  };
  for_each_stretch(rows.size(), follows, [&](size_t i, int64_t count) {
    stream.copy(q.row_range(rows[i].position - first, count), all.row_range(rows[i].at, count));
  });
}

void Observer::advance(int32_t first, int64_t tokens) {
  const std::vector<Row> rows = taken(first, tokens);
  if (shape_.sampled) {
    step_ = step_at(first + tokens);
    std::erase_if(held_, [&](const Row& row) { return (row.position + 1) % step_ != 0; });
  }
  held_.insert(held_.end(), rows.begin(), rows.end());
  if (static_cast<int64_t>(held_.size()) > capacity()) held_.erase(held_.begin(), held_.end() - capacity());
}

void Observer::take(Stream& stream, const Observer& from) {
  truncate(0);
  if (shape_.sampled != from.shape_.sampled || (shape_.sampled && shape_.window != from.shape_.window)) return;
  for (size_t layer = 0; layer < ring_of_.size(); ++layer)
    if (ring_of_[layer] >= 0 && from.ring_of_[layer] < 0) return;
  const std::vector<int32_t> positions = from.positions();
  const int64_t rows = std::min(shape_.window, from.size());
  for (size_t layer = 0; layer < ring_of_.size(); ++layer) {
    if (ring_of_[layer] < 0) continue;
    const Matrix queries = from.queries(stream, static_cast<int>(layer));
    stream.copy(queries.row_range(queries.rows - rows, rows), ring(static_cast<int>(layer)).row_range(0, rows));
  }
  for (int64_t row = 0; row < rows; ++row) held_.push_back({*(positions.end() - rows + row), row});
  step_ = from.step_;
}

Status Observer::save(Stream& stream, ByteWriter& to) const {
  to.put(shape_.window);
  to.put(shape_.width);
  to.put(static_cast<uint8_t>(shape_.sampled));
  to.put_all(shape_.observed);
  to.put(step_);
  std::vector<int32_t> positions;
  for (const Row& row : held_) positions.push_back(row.position);
  to.put_all(positions);
  if (held_.empty()) return {};
  std::vector<float> all(static_cast<size_t>(capacity() * shape_.width));
  for (size_t layer = 0; layer < ring_of_.size(); ++layer) {
    if (ring_of_[layer] < 0) continue;
    EI_RETURN_IF_ERROR(stream.read(ring(static_cast<int>(layer)), all.data()));
    std::vector<float> rows;
    for (const Row& row : held_)
      rows.insert(rows.end(), all.begin() + row.at * shape_.width, all.begin() + (row.at + 1) * shape_.width);
    to.put_all(rows);
  }
  return {};
}

Status Observer::restore(Stream& stream, ByteReader& from) {
  truncate(0);
  const Error damaged{ErrorKind::kUsage, "what the cache was saved with is damaged (recorded queries)"};
  ObserverShape shape;
  uint8_t sampled = 0;
  int32_t step = 0;
  std::vector<int32_t> positions;
  const bool read = from.get(shape.window) && from.get(shape.width) && from.get(sampled) &&
                    from.get_all(shape.observed) && from.get(step) && from.get_all(positions);
  if (!read || step < 1) return damaged;
  const bool ours = shape.window == shape_.window && shape.width == shape_.width && (sampled != 0) == shape_.sampled &&
                    shape.observed == shape_.observed;
  const auto count = static_cast<int64_t>(positions.size());
  if (ours && (count > capacity() || !std::is_sorted(positions.begin(), positions.end()))) return damaged;
  std::vector<float> rows;
  for (size_t layer = 0; layer < shape.observed.size() && count > 0; ++layer) {
    if (shape.observed[layer] == 0) continue;
    if (!from.get_all(rows)) return damaged;
    if (!ours) continue;
    if (static_cast<int64_t>(rows.size()) != count * shape_.width) return damaged;
    EI_ASSIGN_OR_RETURN(float* const staged, stream.shared(kRestoredRows, count * shape_.width));
    std::copy(rows.begin(), rows.end(), staged);
    stream.copy({staged, count, shape_.width, shape_.width}, ring(static_cast<int>(layer)).row_range(0, count));
    EI_RETURN_IF_ERROR(stream.synchronize());
  }
  if (!ours) return {};
  for (int64_t row = 0; row < count; ++row) held_.push_back({positions[static_cast<size_t>(row)], row});
  step_ = step;
  return {};
}

void Observer::truncate(int32_t position) {
  while (!held_.empty() && held_.back().position >= position) held_.pop_back();
  if (held_.empty()) step_ = 1;
}

int64_t Observer::size() const { return std::min(static_cast<int64_t>(held_.size()), shape_.window); }

std::vector<int32_t> Observer::positions() const {
  std::vector<int32_t> positions;
  for (auto row = held_.end() - size(); row != held_.end(); ++row) positions.push_back(row->position);
  return positions;
}

Matrix Observer::queries(Stream& stream, int layer) const {
  const auto rings = std::count_if(ring_of_.begin(), ring_of_.end(), [](int64_t ring) { return ring >= 0; });
  const Matrix window{static_cast<float*>(memory_.data()) + rings * capacity() * shape_.width, size(), shape_.width,
                      shape_.width};
  const Matrix all = ring(layer);
  const Row* rows = held_.data() + held_.size() - size();
  const auto follows = [&](size_t i) { return rows[i].at == rows[i - 1].at + 1; };
  for_each_stretch(static_cast<size_t>(size()), follows, [&](size_t i, int64_t count) {
    stream.copy(all.row_range(rows[i].at, count), window.row_range(static_cast<int64_t>(i), count));
  });
  return window;
}

}  // namespace ei::kv
