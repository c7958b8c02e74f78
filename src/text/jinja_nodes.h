// The guarded nodes. Each evaluates its children, asks the budget, and lets the engine's own node do the work on the
// finished values, so that what a template means stays the engine's business. Internal to the room.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_budget.h"

namespace ei::text {

using jinja::context;
using jinja::statement_ptr;
using jinja::statements;
using jinja::value;

// A value that is already there.
struct ConstantNode : jinja::expression {
  explicit ConstantNode(value v) : held(std::move(v)) {}
  value execute_impl(context&) const override { return held; }
  value held;
};

struct GuardedNode : jinja::expression {
  explicit GuardedNode(JinjaBudget& b) : budget(b) {}
  JinjaBudget& budget;
};

// A statement of a body: its value is printed.
struct GuardedStatement : GuardedNode {
  using GuardedNode::GuardedNode;
  value execute_impl(context& ctx) const override;
  statement_ptr inner;
};

struct GuardedIterable : GuardedNode {
  using GuardedNode::GuardedNode;
  value execute_impl(context& ctx) const override;
  statement_ptr inner;
};

struct GuardedBinary : GuardedNode {
  using GuardedNode::GuardedNode;
  value execute_impl(context& ctx) const override;
  jinja::token op;
  statement_ptr left;
  statement_ptr right;
};

struct GuardedTest : GuardedNode {
  using GuardedNode::GuardedNode;
  value execute_impl(context& ctx) const override;
  statement_ptr operand;
  std::string name;
  statements args;
  bool negate = false;
};

struct GuardedFilter : GuardedNode {
  using GuardedNode::GuardedNode;
  value execute_impl(context& ctx) const override;
  statement_ptr operand;  // null: the printed body
  statements body;
  std::string name;
  statements args;
};

struct GuardedCall : GuardedNode {
  using GuardedNode::GuardedNode;
  value execute_impl(context& ctx) const override;
  statement_ptr callee;
  statements args;
};

// The function a {% call %} block calls: the block itself passes the arguments.
struct GuardedCallee : GuardedNode {
  using GuardedNode::GuardedNode;
  value execute_impl(context& ctx) const override;
  statement_ptr inner;
};

// object[index] or object[start:stop:step].
struct GuardedIndex : GuardedNode {
  using GuardedNode::GuardedNode;
  value execute_impl(context& ctx) const override;
  statement_ptr object;
  statement_ptr index;
  bool is_slice = false;
  statement_ptr start, stop, step;
};

// [a, b], (a, b), {key: a}: lists have no keys.
struct GuardedLiteral : GuardedNode {
  enum class Kind { kList, kTuple, kObject };
  using GuardedNode::GuardedNode;
  value execute_impl(context& ctx) const override;
  Kind kind = Kind::kList;
  statements keys;
  statements values;
};

// {% set object.name = value %}
struct GuardedMemberSet : GuardedNode {
  using GuardedNode::GuardedNode;
  value execute_impl(context& ctx) const override;
  statement_ptr object;
  std::string name;
  statement_ptr right;
  statements body;  // printed, when there is no right side
};

}  // namespace ei::text
