#include "text/jinja_budget.h"

#include <algorithm>

#include "base/clock.h"

namespace ei::text {
namespace {

constexpr size_t kNodeBytes = 256;  // about one engine value
constexpr size_t kPartBytes = 48;
constexpr int kMaxValueDepth = 64;
constexpr size_t kMaxStackBytes = size_t{512} << 10;
constexpr size_t kMaxWork = size_t{2} << 30;
constexpr size_t kLargeBytes = size_t{64} << 10;
constexpr size_t kHuge = size_t{1} << 48;

size_t string_bytes(const jinja::string& text) { return text.length() + kPartBytes * text.parts.size(); }

template <typename Visit>
void for_each_child(const jinja::value& value, Visit visit) {
  if (const auto* kwarg = jinja::cast_val<jinja::value_kwarg>(value)) return visit(kwarg->val);
  for (const jinja::value& child : value->val_arr) visit(child);
  for (const auto& [key, child] : value->val_obj) {
    visit(key);
    visit(child);
  }
}

}  // namespace

JinjaBudget::JinjaBudget(size_t input_bytes, size_t num_messages)
    : stack_base_(static_cast<const char*>(__builtin_frame_address(0))),
      cpu_limit_s_(thread_cpu_s() + 1.0 + 1e-3 * static_cast<double>(num_messages) +
                   1e-7 * static_cast<double>(input_bytes)),
      bytes_left_((size_t{128} << 20) + 64 * input_bytes),
      loop_limit_(2000000 + 256 * num_messages) {}

JinjaBudget::~JinjaBudget() {
  for (const jinja::value& value : containers_) {
    value->val_arr.clear();
    value->val_obj.clear();
    if (auto* object = dynamic_cast<jinja::value_object_t*>(value.get())) object->unordered.clear();
  }
}

void JinjaBudget::tick() {
  const auto* here = static_cast<const char*>(__builtin_frame_address(0));
  const auto used = static_cast<size_t>(here < stack_base_ ? stack_base_ - here : here - stack_base_);
  if (used > kMaxStackBytes) throw TemplateRefused{"it calls itself too deeply"};
  if (++ticks_ % 16 == 0) check_clock();
}

void JinjaBudget::check_clock() const {
  if (thread_cpu_s() > cpu_limit_s_) throw TemplateRefused{"it runs too long"};
}

void JinjaBudget::charge(size_t bytes) {
  if (bytes > bytes_left_) throw TemplateRefused{"it makes too much text"};
  bytes_left_ -= bytes;
  if (bytes > kLargeBytes) check_clock();
}

void JinjaBudget::charge_work(size_t steps, size_t bytes_each) {
  if (bytes_each > 0 && steps > kMaxWork / bytes_each)
    throw TemplateRefused{"one of its text operations takes too long"};
}

void JinjaBudget::charge_loop(size_t items) {
  check_clock();
  if (items > loop_limit_ / (num_variables + 16)) throw TemplateRefused{"it loops over too many items"};
}

void JinjaBudget::keep(const jinja::value& value) {
  if (!is_container(value)) return;
  charge(kNodeBytes);
  containers_.push_back(value);
}

size_t JinjaBudget::size_of(const jinja::value& value) {
  return kNodeBytes + string_bytes(value->val_str) + 16 * value->val_arr.size() + 64 * value->val_obj.size();
}

size_t JinjaBudget::weigh(const jinja::value& value) const {
  std::unordered_map<const void*, Extent> seen;
  const size_t bytes = weigh(value, 0, seen).bytes;
  if (bytes > bytes_left_) throw TemplateRefused{"it makes too much text"};
  return bytes;
}

JinjaBudget::Extent JinjaBudget::weigh(const jinja::value& value, int depth,
                                       std::unordered_map<const void*, Extent>& seen) {
  Extent extent{size_of(value), 0};
  if (is_container(value)) {
    // Shared children are walked once but counted every time: a list that holds one list twice, which holds one list
    // twice, ... is small in memory and endless on paper.
    if (const auto found = seen.find(value.get()); found != seen.end()) {
      extent = found->second;
    } else if (depth < kMaxValueDepth) {
      for_each_child(value, [&](const jinja::value& child) {
        const Extent inner = weigh(child, depth + 1, seen);
        extent.bytes = std::min(kHuge, extent.bytes + inner.bytes);
        extent.height = std::max(extent.height, inner.height + 1);
      });
      seen.emplace(value.get(), extent);
    } else {
      extent.height = 1;
    }
  }
  if (depth + extent.height > kMaxValueDepth) throw TemplateRefused{"its values are nested too deeply"};
  return extent;
}

bool is_container(const jinja::value& value) {
  return !value->val_arr.empty() || !value->val_obj.empty() || jinja::is_val<jinja::value_array>(value) ||
         jinja::is_val<jinja::value_object>(value) || jinja::is_val<jinja::value_kwarg>(value);
}

bool is_tainted(const jinja::value& value) {
  const auto& parts = value->val_str.parts;
  if (std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.is_input; })) return true;
  bool tainted = false;
  for_each_child(value, [&](const jinja::value& child) { tainted = tainted || is_tainted(child); });
  return tainted;
}

void mark_tainted(const jinja::value& value) {
  value->val_str.mark_input();
  for (const jinja::value& child : value->val_arr) child->val_str.mark_input();
}

}  // namespace ei::text
