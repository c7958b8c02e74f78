#include "text/jinja_guard.h"

#include <memory>
#include <utility>

#include "text/jinja_nodes.h"

namespace ei::text {
namespace {

constexpr int kMaxTreeDepth = 200;

template <typename T>
T* as(const statement_ptr& node) {
  return dynamic_cast<T*>(node.get());
}

class Rewriter {
 public:
  explicit Rewriter(JinjaBudget& budget) : budget_(budget) {}

  void body(statements& nodes) {
    for (statement_ptr& node : nodes) {
      rewrite(node);
      auto guarded = make<GuardedStatement>(*node);
      guarded->inner = std::move(node);
      node = std::move(guarded);
    }
  }

 private:
  template <typename Node>
  std::unique_ptr<Node> make(const jinja::statement& origin) {
    auto node = std::make_unique<Node>(budget_);
    node->pos = origin.pos;
    return node;
  }

  void all(statements& nodes) {
    for (statement_ptr& node : nodes) rewrite(node);
  }

  void rewrite(statement_ptr& node) {
    if (!node) return;
    if (++depth_ > kMaxTreeDepth) throw TemplateRefused{"it is nested too deeply"};
    if (!statement(node)) expression(node);
    --depth_;
  }

  bool statement(statement_ptr& node) {
    if (auto* branch = as<jinja::if_statement>(node)) {
      rewrite(branch->test);
      body(branch->body);
      body(branch->alternate);
    } else if (auto* loop = as<jinja::for_statement>(node)) {
      for_loop(*loop);
    } else if (auto* macro = as<jinja::macro_statement>(node)) {
      ++budget_.num_variables;
      parameters(macro->args);
      body(macro->body);
    } else if (auto* call = as<jinja::call_statement>(node)) {
      parameters(call->caller_args);
      body(call->body);
      if (auto* target = as<jinja::call_expression>(call->call)) {
        all(target->args);
        auto guarded = make<GuardedCallee>(*node);
        guarded->inner = std::move(target->callee);
        target->callee = std::move(guarded);
      }
    } else if (auto* block = as<jinja::filter_statement>(node)) {
      body(block->body);
      auto guarded = make<GuardedFilter>(*node);
      name_and_args(block->filter, guarded->name, guarded->args);
      guarded->body = std::move(block->body);
      node = std::move(guarded);
    } else if (auto* set = as<jinja::set_statement>(node)) {
      assignment(node, *set);
    } else {
      return false;
    }
    return true;
  }

  void for_loop(jinja::for_statement& loop) {
    budget_.num_variables += 2;
    if (const auto* names = as<jinja::tuple_literal>(loop.loopvar)) budget_.num_variables += names->val.size();
    auto* select = as<jinja::select_expression>(loop.iterable);
    statement_ptr& items = select != nullptr ? select->lhs : loop.iterable;
    if (select != nullptr) rewrite(select->test);
    rewrite(items);
    auto guarded = make<GuardedIterable>(*items);
    guarded->inner = std::move(items);
    items = std::move(guarded);
    body(loop.body);
    body(loop.default_block);
  }

  void parameters(statements& nodes) {
    budget_.num_variables += nodes.size();
    for (statement_ptr& node : nodes) {
      if (auto* keyword = as<jinja::keyword_argument_expression>(node)) rewrite(keyword->val);
    }
  }

  void assignment(statement_ptr& node, jinja::set_statement& set) {
    budget_.num_variables += 1;
    if (const auto* names = as<jinja::tuple_literal>(set.assignee)) budget_.num_variables += names->val.size();
    rewrite(set.val);
    body(set.body);
    auto* member = as<jinja::member_expression>(set.assignee);
    if (member == nullptr) return;
    const auto* name = as<jinja::identifier>(member->property);
    if (member->computed || name == nullptr) throw TemplateRefused{"it assigns to something that has no name"};
    rewrite(member->object);
    auto guarded = make<GuardedMemberSet>(*node);
    guarded->object = std::move(member->object);
    guarded->name = name->val;
    guarded->right = std::move(set.val);
    guarded->body = std::move(set.body);
    node = std::move(guarded);
  }

  // A filter or test: a name, or a name with arguments.
  void name_and_args(statement_ptr& node, std::string& name, statements& args) {
    if (const auto* plain = as<jinja::identifier>(node)) {
      name = plain->val;
      return;
    }
    auto* call = as<jinja::call_expression>(node);
    const auto* callee = call != nullptr ? as<jinja::identifier>(call->callee) : nullptr;
    if (callee == nullptr) throw TemplateRefused{"a filter or test in it is not a name"};
    name = callee->val;
    all(call->args);
    args = std::move(call->args);
  }

  void expression(statement_ptr& node) {
    if (auto* binary = as<jinja::binary_expression>(node)) {
      auto guarded = make<GuardedBinary>(*node);
      guarded->op = binary->op;
      guarded->left = take(binary->left);
      guarded->right = take(binary->right);
      node = std::move(guarded);
    } else if (auto* test = as<jinja::test_expression>(node)) {
      auto guarded = make<GuardedTest>(*node);
      guarded->operand = take(test->operand);
      guarded->negate = test->negate;
      name_and_args(test->test, guarded->name, guarded->args);
      node = std::move(guarded);
    } else if (auto* filter = as<jinja::filter_expression>(node)) {
      auto guarded = make<GuardedFilter>(*node);
      guarded->operand = take(filter->operand);
      name_and_args(filter->filter, guarded->name, guarded->args);
      node = std::move(guarded);
    } else if (auto* call = as<jinja::call_expression>(node)) {
      auto guarded = make<GuardedCall>(*node);
      guarded->callee = take(call->callee);
      all(call->args);
      guarded->args = std::move(call->args);
      node = std::move(guarded);
    } else if (auto* member = as<jinja::member_expression>(node)) {
      member_access(node, *member);
    } else if (!literal(node)) {
      plain_expression(node);
    }
  }

  void member_access(statement_ptr& node, jinja::member_expression& member) {
    rewrite(member.object);
    if (!member.computed) return;
    auto guarded = make<GuardedIndex>(*node);
    guarded->object = std::move(member.object);
    if (auto* slice = as<jinja::slice_expression>(member.property)) {
      guarded->is_slice = true;
      guarded->start = take(slice->start_expr);
      guarded->stop = take(slice->stop_expr);
      guarded->step = take(slice->step_expr);
    } else {
      guarded->index = take(member.property);
    }
    node = std::move(guarded);
  }

  bool literal(statement_ptr& node) {
    auto guarded = make<GuardedLiteral>(*node);
    if (auto* list = as<jinja::array_literal>(node)) {
      guarded->values = std::move(list->val);
    } else if (auto* tuple = as<jinja::tuple_literal>(node)) {
      guarded->kind = GuardedLiteral::Kind::kTuple;
      guarded->values = std::move(tuple->val);
    } else if (auto* object = as<jinja::object_literal>(node)) {
      guarded->kind = GuardedLiteral::Kind::kObject;
      for (auto& [key, member] : object->val) {
        guarded->keys.push_back(std::move(key));
        guarded->values.push_back(std::move(member));
      }
    } else {
      return false;
    }
    all(guarded->keys);
    all(guarded->values);
    node = std::move(guarded);
    return true;
  }

  void plain_expression(statement_ptr& node) {
    if (auto* ternary = as<jinja::ternary_expression>(node)) {
      rewrite(ternary->condition);
      rewrite(ternary->true_expr);
      rewrite(ternary->false_expr);
    } else if (auto* select = as<jinja::select_expression>(node)) {
      rewrite(select->lhs);
      rewrite(select->test);
    } else if (auto* unary = as<jinja::unary_expression>(node)) {
      rewrite(unary->argument);
    } else if (auto* keyword = as<jinja::keyword_argument_expression>(node)) {
      rewrite(keyword->val);
    } else if (auto* spread = as<jinja::spread_expression>(node)) {
      rewrite(spread->argument);
    }
  }

  statement_ptr take(statement_ptr& node) {
    rewrite(node);
    return std::move(node);
  }

  JinjaBudget& budget_;
  int depth_ = 0;
};

}  // namespace

void guard_program(jinja::program& program, JinjaBudget& budget) { Rewriter(budget).body(program.body); }

}  // namespace ei::text
