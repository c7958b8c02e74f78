#include "engine/wanted_logits.h"

#include <algorithm>

#include "engine/session_state.h"

namespace ei {

const ScratchSlot kLogitsSlot;

namespace {
const ScratchSlot kGathered;
constexpr int64_t kLogitsBytes = int64_t{64} << 20;
}  // namespace

WantedRows wanted_rows(int64_t count, const std::function<bool(int64_t row)>& wanted) {
  WantedRows found;
  for (int64_t row = 0; row < count; ++row) {
    if (!wanted(row)) continue;
    if (found.rows.empty()) found.tail = count - row;
    found.rows.push_back(row - (count - found.tail));
  }
  return found;
}

int64_t leading_run(std::span<const int64_t> rows, int64_t most) {
  most = std::min(most, static_cast<int64_t>(rows.size()));
  int64_t count = 0;
  while (count < most && rows[static_cast<size_t>(count)] == count) ++count;
  return count;
}

int64_t logits_together(int64_t vocab) {
  constexpr int64_t kWhole = 32;  // ggml's kernels take rows by fours and more, and may round the rest otherwise
  const int64_t rows = kLogitsBytes / (vocab * static_cast<int64_t>(sizeof(float)));
  return rows > kWhole ? rows / kWhole * kWhole : std::max<int64_t>(1, rows);
}

Result<Matrix> Session::State::more_logits(Matrix normed, std::span<const int64_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  Matrix chosen = normed.row_range(rows.front(), 1);
  if (rows.back() - rows.front() + 1 == count) {
    chosen = normed.row_range(rows.front(), count);
  } else {
    EI_ASSIGN_OR_RETURN(chosen, stream->scratch(kGathered, count, normed.cols));
    for (int64_t i = 0; i < count; ++i)
      stream->copy(normed.row_range(rows[static_cast<size_t>(i)], 1), chosen.row_range(i, 1));
  }
  EI_ASSIGN_OR_RETURN(const Matrix out, stream->scratch(kLogitsSlot, count, model.config().vocab));
  model.logits(*stream, chosen, out);
  EI_RETURN_IF_ERROR(stream->synchronize());
  return out;
}

Status Session::State::each_row(Rows out, std::span<const int64_t> rows, const std::function<void(int64_t)>& on_row) {
  const auto many = static_cast<size_t>(logits_together(model.config().vocab));
  for (size_t done = 0; done < rows.size();) {
    const std::span<const int64_t> next =
        rows.subspan(done, done == 0 ? static_cast<size_t>(out.logits.rows) : std::min(many, rows.size() - done));
    if (done > 0) {
      EI_ASSIGN_OR_RETURN(out.logits, more_logits(out.normed, next));
    }
    for (size_t i = 0; i < next.size(); ++i) {
      EI_RETURN_IF_ERROR(stream->read(out.logits.row_range(static_cast<int64_t>(i), 1), logits.data()));
      on_row(next[i]);
    }
    done += next.size();
  }
  return {};
}

}  // namespace ei
