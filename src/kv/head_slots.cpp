#include "kv/head_slots.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ei::kv {
namespace {

// Pages that one call of the backend gathers. Behind each call a device is waited for.
constexpr int64_t kPagesTogether = 16;
constexpr int64_t kDevicePagesTogether = 256;

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

PageLayout::PageLayout(const Backend& backend, const KvPageShape& page_shape)
    : shape(page_shape), slots(page_shape.slots) {
  const KvPageLayout inside = backend.page_layout(page_shape);
  values_at = inside.values_at;
  bytes = round_up(inside.bytes, inside.multiple);
  together = backend.free_memory() >= 0 ? kDevicePagesTogether : kPagesTogether;
}

Status copy_rows(const Backend& backend, const PageLayout& layout, const Page& from, int64_t rows, const Page& to) {
  const KvMove all{.from = from.data(), .to = to.data(), .count = static_cast<int32_t>(rows)};
  return backend.move_slots(layout.shape, {&all, 1});
}

KvHeadView HeadSlots::view(int32_t next) const {
  const auto listed = static_cast<int64_t>(listed_.size());
  return {.key_pages = key_pages_.data(),
          .value_pages = value_pages_.data(),
          .length = length_,
          .listed_positions = listed_.data(),
          .listed = listed,
          .tail_position = next - static_cast<int32_t>(length_ - listed)};
}

int64_t HeadSlots::pages_missing(const PageLayout& layout, int64_t count) const {
  return std::max<int64_t>(0, layout.pages_for(length_ + count) - num_pages());
}

void HeadSlots::set_page(const PageLayout& layout, int64_t index, Page page) {
  const auto i = static_cast<size_t>(index);
  key_pages_[i] = page.data();
  value_pages_[i] = static_cast<std::byte*>(page.data()) + layout.values_at;
  pages_[i] = std::move(page);
}

void HeadSlots::add_page(const PageLayout& layout, Page page) {
  pages_.emplace_back();
  key_pages_.push_back(nullptr);
  value_pages_.push_back(nullptr);
  set_page(layout, num_pages() - 1, std::move(page));
}

void HeadSlots::append(const PageLayout& layout, int32_t kv_head, int64_t count, std::vector<KvAppend::Run>& runs) {
  EI_CHECK_LE(count, reserved_);
  for (int64_t token = 0; token < count;) {
    const int64_t row = length_ % layout.slots;
    const int64_t rows = std::min(count - token, layout.slots - row);
    const Page& to = tail_page(layout);
    runs.push_back(
        {.kv_head = kv_head, .token = token, .count = rows, .page = to.data(), .slot = static_cast<int32_t>(row)});
    token += rows;
    length_ += rows;
  }
  reserved_ -= count;
}

// Every page from the first changed one on is rebuilt in a spare page, a few at a time: a device is asked once for them
// all. Slot i of the result comes from slot keep[i] >= i, so once result page d is gathered nothing needs the old page
// d any more: it is the next spare, unless a fork still reads it. So few pages beyond the head's own are enough, one
// where memory is short, and no copy ever overlaps itself.
Status HeadSlots::compact(const Backend& backend, const PageLayout& layout, PagePool& pool, const KeepList& keep,
                          int32_t next) {
  const auto kept = static_cast<int64_t>(keep.size());
  int64_t unmoved = 0;
  while (unmoved < kept && keep[static_cast<size_t>(unmoved)] == unmoved) ++unmoved;
  if (unmoved < kept) {
    const int64_t first = unmoved / layout.slots;
    const int64_t end = layout.pages_for(kept);
    int64_t together = std::min(end - first, layout.together);
    Result<std::vector<Page>> taken = pool.take(spares_for(first, end, together));
    if (!taken.ok() && together > 1) {
      together = 1;
      taken = pool.take(spares_for(first, end, together));
    }
    EI_ASSIGN_OR_RETURN(std::vector<Page> spares, std::move(taken));
    for (int64_t begin = first; begin < end; begin += together) {
      const int64_t behind = std::min(end, begin + together);
      std::vector<KvMove> moves;
      for (int64_t d = begin; d < behind; ++d)
        gather(layout, keep, d * layout.slots, spares[spares.size() - 1 - static_cast<size_t>(d - begin)], moves);
      EI_RETURN_IF_ERROR(backend.move_slots(layout.shape, moves));
      std::vector<Page> freed;
      for (int64_t d = begin; d < behind; ++d) {
        Page old = page(d);
        set_page(layout, d, std::move(spares.back()));
        spares.pop_back();
        if (old.exclusive()) freed.push_back(std::move(old));
      }
      for (Page& old : freed) spares.push_back(std::move(old));
    }
  }
  const KvHeadView before = view(next);
  std::vector<int32_t> positions(keep.size());
  for (size_t i = 0; i < keep.size(); ++i) positions[i] = before.position(keep[i]);
  listed_ = std::move(positions);
  length_ = kept;
  shorten_list(next);
  trim(layout);
  return {};
}

// Pages that must be there before result pages [first, end) are gathered, so many at a time.
int64_t HeadSlots::spares_for(int64_t first, int64_t end, int64_t together) const {
  int64_t needed = together;
  for (int64_t d = first; d + together < end; ++d) needed += page(d).exclusive() ? 0 : 1;
  return needed;
}

// What collects the kept rows of result slots [first, first + slots) into `to`, in runs as long as source pages allow.
void HeadSlots::gather(const PageLayout& layout, const KeepList& keep, int64_t first, const Page& to,
                       std::vector<KvMove>& moves) const {
  const int64_t end = std::min(static_cast<int64_t>(keep.size()), first + layout.slots);
  for (int64_t i = first; i < end;) {
    const int64_t slot = keep[static_cast<size_t>(i)];
    const int64_t row = slot % layout.slots;
    int64_t rows = 1;
    while (i + rows < end && row + rows < layout.slots && keep[static_cast<size_t>(i + rows)] == slot + rows) ++rows;
    moves.push_back({.from = page(slot / layout.slots).data(),
                     .to = to.data(),
                     .from_slot = static_cast<int32_t>(row),
                     .to_slot = static_cast<int32_t>(i - first),
                     .count = static_cast<int32_t>(rows)});
    i += rows;
  }
}

void HeadSlots::truncate(const PageLayout& layout, int32_t position, int32_t next) {
  length_ = first_slot_at_or_after(view(next), position);
  listed_.resize(static_cast<size_t>(std::min(length_, static_cast<int64_t>(listed_.size()))));
  shorten_list(position - static_cast<int32_t>(length_ - static_cast<int64_t>(listed_.size())));
  trim(layout);
}

HeadSlots HeadSlots::share(const PageLayout& layout) const {
  HeadSlots copy = *this;
  copy.trim(layout);
  return copy;
}

void HeadSlots::restore(int64_t length, std::vector<int32_t> listed) {
  length_ = length;
  listed_ = std::move(listed);
}

// Moves the end of the list into the tail while no gap lies between them.
void HeadSlots::shorten_list(int32_t tail_position) {
  while (!listed_.empty() && listed_.back() == tail_position - 1) {
    listed_.pop_back();
    --tail_position;
  }
  if (listed_.capacity() > 2 * listed_.size()) listed_.shrink_to_fit();
}

void HeadSlots::trim(const PageLayout& layout) {
  const auto count = static_cast<size_t>(layout.pages_for(length_));
  pages_.resize(count);
  key_pages_.resize(count);
  value_pages_.resize(count);
  reserved_ = 0;
}

}  // namespace ei::kv
