#include "eval/items/item.h"

#include <algorithm>

namespace ei::eval {

std::string Item::id() const {
  return str_format("%s/%lld/%lld", task.c_str(), static_cast<long long>(length), static_cast<long long>(index));
}

std::string Item::scored(const std::string& written) const { return choices.empty() ? written : lead + written; }

int64_t text_room(const ItemRequest& request, int64_t max_new, size_t turns) {
  return request.length - static_cast<int64_t>(turns) * (request.frame_tokens + max_new);
}

Result<size_t> most_units(const ItemRequest& request, int64_t room, const std::function<int64_t(size_t)>& tokens_of) {
  size_t fits = 1;
  int64_t used = tokens_of(fits);
  if (used > room) {
    return make_error(ErrorKind::kUsage, "a '%s' item does not fit in %lld tokens: its least text takes %lld of %lld",
                      request.task.c_str(), static_cast<long long>(request.length), static_cast<long long>(used),
                      static_cast<long long>(std::max<int64_t>(room, 0)));
  }
  size_t over = 0;  // the least that is known not to fit; 0: none yet
  size_t step = 8;
  int64_t over_used = 0;
  while (over == 0 || over - fits > 1) {
    size_t next = fits + step;
    if (over > 0) {
      // Where the straight line between both ends meets the room, not quite at either end.
      const auto span = static_cast<double>(over - fits);
      const double share =
          static_cast<double>(room - used) / static_cast<double>(std::max<int64_t>(over_used - used, 1));
      next = fits + static_cast<size_t>(std::clamp(span * share, 1.0, span - 1.0));
    }
    const int64_t tokens = tokens_of(next);
    if (tokens <= room) {
      // How many more the room would take at this pace, a little over, so that the end is soon between two.
      const double pace = static_cast<double>(std::max<int64_t>(tokens - used, 1)) / static_cast<double>(next - fits);
      step = static_cast<size_t>(static_cast<double>(room - tokens) / pace * 1.02) + 2;
      fits = next;
      used = tokens;
      // The last few units are not worth a count of the whole text each.
      if (over == 0 && room - tokens < room / 1000) break;
      if (over > 0 && room - tokens < room / 200) break;
    } else {
      over = next;
      over_used = tokens;
    }
  }
  return fits;
}

}  // namespace ei::eval
