// HeadSlots: the bookkeeping of one kv_head: which pages it holds, how many slots are used, which positions they have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "kv/page_pool.h"
#include "plan/block_plan.h"
#include "plan/kv_view.h"
#include "tensor/dtype.h"

namespace ei::kv {

// What a page holds, and as much of the backend's layout as the store must know.
struct PageLayout {
  PageLayout(const Backend& backend, const KvPageShape& page_shape);

  KvPageShape shape;
  int64_t slots = 0;
  size_t values_at = 0;  // offset of the values
  size_t bytes = 0;      // rounded up as the backend wants it
  int64_t together = 1;  // pages that one call of the backend gathers, where there is memory for them

  int64_t pages_for(int64_t length) const { return (length + slots - 1) / slots; }
};

// `next` below is always the position the layer's next token will have. The slots that are not listed end right before
// it, so the tail needs no state of its own: tail_position = next - (length - listed). The list is kept as short as
// possible: it ends at the last gap in the positions.
class HeadSlots {
 public:
  int64_t length() const { return length_; }
  int64_t reserved() const { return reserved_; }
  int64_t num_pages() const { return static_cast<int64_t>(pages_.size()); }
  const std::vector<int32_t>& listed() const { return listed_; }
  const Page& page(int64_t index) const { return pages_[static_cast<size_t>(index)]; }
  KvHeadView view(int32_t next) const;

  // Appending. A reservation promises pages for `count` tokens, whose free rows nobody else writes.
  int64_t pages_missing(const PageLayout& layout, int64_t count) const;
  bool tail_partial(const PageLayout& layout) const { return length_ % layout.slots != 0; }
  const Page& tail_page(const PageLayout& layout) const { return page(length_ / layout.slots); }
  void add_page(const PageLayout& layout, Page page);
  void replace_tail_page(const PageLayout& layout, Page page) {
    set_page(layout, length_ / layout.slots, std::move(page));
  }
  void set_reserved(int64_t count) { reserved_ = count; }
  void append(const PageLayout& layout, int32_t kv_head, int64_t count, std::vector<KvAppend::Run>& runs);

  // Dropping. Both end the reservation and give whole pages back at once.
  Status compact(const Backend& backend, const PageLayout& layout, PagePool& pool, const KeepList& keep, int32_t next);
  void truncate(const PageLayout& layout, int32_t position, int32_t next);

  // A copy that shares the used pages and has no reservation.
  HeadSlots share(const PageLayout& layout) const;
  // Fills an empty head whose pages were added already.
  void restore(int64_t length, std::vector<int32_t> listed);

 private:
  void set_page(const PageLayout& layout, int64_t index, Page page);
  void trim(const PageLayout& layout);
  int64_t spares_for(int64_t first, int64_t end, int64_t together) const;
  void gather(const PageLayout& layout, const KeepList& keep, int64_t first, const Page& to,
              std::vector<KvMove>& moves) const;
  void shorten_list(int32_t tail_position);

  std::vector<Page> pages_;               // [>= pages_for(length)]
  std::vector<const void*> key_pages_;    // [pages]
  std::vector<const void*> value_pages_;  // [pages]
  std::vector<int32_t> listed_;
  int64_t length_ = 0;
  int64_t reserved_ = 0;  // tokens that can be appended without asking the pool
};

// Copies the keys and values of the first `rows` slots of a page.
Status copy_rows(const Backend& backend, const PageLayout& layout, const Page& from, int64_t rows, const Page& to);

}  // namespace ei::kv
