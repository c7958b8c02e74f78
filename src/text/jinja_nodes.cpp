#include "text/jinja_nodes.h"

namespace ei::text {
namespace {

template <typename Node>
std::unique_ptr<Node> at(size_t position, std::unique_ptr<Node> node) {
  node->pos = position;
  return node;
}

statement_ptr constant(const jinja::statement& origin, value v) {
  return at(origin.pos, std::make_unique<ConstantNode>(std::move(v)));
}

statement_ptr name_node(const jinja::statement& origin, const std::string& name) {
  return at(origin.pos, std::make_unique<jinja::identifier>(name));
}

std::vector<value> evaluate(const statements& nodes, context& ctx) {
  std::vector<value> values;
  values.reserve(nodes.size());
  for (const statement_ptr& node : nodes) values.push_back(node->execute(ctx));
  return values;
}

statements constants(const jinja::statement& origin, std::span<const value> values) {
  statements nodes;
  for (const value& v : values) nodes.push_back(constant(origin, v));
  return nodes;
}

value print_body(const statements& body, context& ctx) {
  auto printed = jinja::mk_val<jinja::value_array>();
  for (const statement_ptr& statement : body) printed->push_back(statement->execute(ctx));
  auto text = jinja::mk_val<jinja::value_string>();
  jinja::gather_string_parts_recursive(printed, text);
  return text;
}

std::vector<value> with_first(const value& first, std::span<const value> rest) {
  std::vector<value> all{first};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

}  // namespace

value GuardedStatement::execute_impl(context& ctx) const {
  budget.tick();
  value result = inner->execute(ctx);
  budget.charge(budget.weigh(result));
  return result;
}

value GuardedIterable::execute_impl(context& ctx) const {
  budget.tick();
  value result = inner->execute(ctx);
  budget.charge_loop(result->val_arr.size() + result->val_obj.size());
  return result;
}

value GuardedBinary::execute_impl(context& ctx) const {
  budget.tick();
  value first = left->execute(ctx);
  if (op.value == "and") return first->as_bool() ? right->execute(ctx) : first;
  if (op.value == "or") return first->as_bool() ? first : right->execute(ctx);
  value second = right->execute(ctx);
  before_operator(budget, op.value, first, second);
  value result = jinja::binary_expression(op, constant(*left, first), constant(*right, second)).execute_impl(ctx);
  budget.keep(result);
  // A container written into a string loses the marks of what it holds.
  const bool lost = (is_container(first) && is_tainted(first)) || (is_container(second) && is_tainted(second));
  if (lost && jinja::is_val<jinja::value_string>(result)) mark_tainted(result);
  return result;
}

value GuardedTest::execute_impl(context& ctx) const {
  const value input = operand->execute(ctx);
  const std::vector<value> extra = evaluate(args, ctx);
  before_operator(budget, name, input, extra.empty() ? input : extra[0]);
  if (name == "divisibleby" && !extra.empty() && (extra[0]->val_int == 0 || extra[0]->val_int == -1)) {
    throw TemplateRefused{"it divides by zero"};
  }
  statement_ptr test = name_node(*this, name);
  if (!extra.empty()) {
    test = at(pos, std::make_unique<jinja::call_expression>(std::move(test), constants(*this, extra)));
  }
  return jinja::test_expression(constant(*operand, input), negate, std::move(test)).execute_impl(ctx);
}

value GuardedFilter::execute_impl(context& ctx) const {
  const value input = operand ? operand->execute(ctx) : print_body(body, ctx);
  const std::vector<value> extra = evaluate(args, ctx);
  const std::vector<value> all = with_first(input, extra);
  const std::string called = name == "trim" ? "strip" : name;  // the engine's alias that matters here
  before_call(budget, called, all);
  statement_ptr filter = name_node(*this, name);
  if (!extra.empty()) {
    filter = at(pos, std::make_unique<jinja::call_expression>(std::move(filter), constants(*this, extra)));
  }
  value result = jinja::filter_expression(constant(*this, input), std::move(filter)).execute_impl(ctx);
  after_call(budget, called, all, result);
  return result;
}

value GuardedCall::execute_impl(context& ctx) const {
  const std::vector<value> extra = evaluate(args, ctx);
  const value function = callee->execute(ctx);
  const auto* known = jinja::cast_val<jinja::value_func>(function);
  const std::string name = known != nullptr ? known->name : std::string();
  const std::vector<value> all = known != nullptr && known->arg0 ? with_first(known->arg0, extra) : extra;
  before_call(budget, name, all);
  value result = jinja::call_expression(constant(*callee, function), constants(*this, extra)).execute_impl(ctx);
  after_call(budget, name, all, result);
  return result;
}

value GuardedCallee::execute_impl(context& ctx) const {
  const value function = inner->execute(ctx);
  const auto* known = jinja::cast_val<jinja::value_func>(function);
  if (known == nullptr) return function;  // the engine reports it
  const auto guarded = [this, function, known](const jinja::func_args& passed) -> value {
    before_call(budget, known->name, passed.get_args());
    value result = known->invoke(passed);
    after_call(budget, known->name, passed.get_args(), result);
    return result;
  };
  return jinja::mk_val<jinja::value_func>(known->name, guarded);
}

value GuardedIndex::execute_impl(context& ctx) const {
  budget.tick();
  const value from = object->execute(ctx);
  statement_ptr where;
  if (is_slice) {
    const auto bound = [&](const statement_ptr& node) -> statement_ptr {
      if (!node) return nullptr;
      value v = node->execute(ctx);
      before_call(budget, "slice", std::vector<value>{from, v});
      return constant(*node, std::move(v));
    };
    where = at(pos, std::make_unique<jinja::slice_expression>(bound(start), bound(stop), bound(step)));
  } else {
    value key = index->execute(ctx);
    if (is_container(key)) budget.weigh(key);  // keys are hashed
    where = constant(*index, std::move(key));
  }
  const bool made = is_slice || jinja::is_val<jinja::value_string>(from);
  value result =
      jinja::member_expression(constant(*object, from), std::move(where), /*computed=*/true).execute_impl(ctx);
  if (made) after_call(budget, "slice", std::vector<value>{from}, result);
  return result;
}

value GuardedLiteral::execute_impl(context& ctx) const {
  budget.tick();
  const std::vector<value> members = evaluate(values, ctx);
  for (const value& member : members) {
    if (jinja::is_val<jinja::value_func>(member)) throw TemplateRefused{"it stores a function"};
    budget.keep(member);
  }
  value result;
  if (kind == Kind::kObject) {
    const std::vector<value> names = evaluate(keys, ctx);
    std::vector<std::pair<statement_ptr, statement_ptr>> pairs;
    for (size_t i = 0; i < names.size(); ++i) {
      if (is_container(names[i])) budget.weigh(names[i]);
      budget.keep(names[i]);
      pairs.emplace_back(constant(*this, names[i]), constant(*this, members[i]));
    }
    result = jinja::object_literal(std::move(pairs)).execute_impl(ctx);
  } else if (kind == Kind::kTuple) {
    result = jinja::tuple_literal(constants(*this, members)).execute_impl(ctx);
  } else {
    result = jinja::array_literal(constants(*this, members)).execute_impl(ctx);
  }
  budget.keep(result);
  budget.charge(JinjaBudget::size_of(result));
  return result;
}

value GuardedMemberSet::execute_impl(context& ctx) const {
  budget.tick();
  const value stored = right ? right->execute(ctx) : print_body(body, ctx);
  const value target = object->execute(ctx);
  if (jinja::is_val<jinja::value_func>(stored)) throw TemplateRefused{"it stores a function"};
  budget.keep(stored);
  budget.keep(target);
  statement_ptr assignee = at(pos, std::make_unique<jinja::member_expression>(
                                       constant(*this, target), name_node(*this, name), /*computed=*/false));
  return jinja::set_statement(std::move(assignee), constant(*this, stored), {}).execute_impl(ctx);
}

}  // namespace ei::text
