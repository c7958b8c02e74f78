#include "server/cache/token_tree.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace ei::server {

int64_t shared_prefix(std::span<const int32_t> first, std::span<const int32_t> second) {
  return std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first - first.begin();
}

TokenTree::Node* TokenTree::root(const std::string& space) {
  if (const auto found = roots_.find(space); found != roots_.end()) return found->second;
  std::list<Node> made(1);
  roots_.emplace(space, &made.front());
  return take(made);
}

const TokenTree::Node* TokenTree::find_root(const std::string& space) const {
  const auto found = roots_.find(space);
  return found == roots_.end() ? nullptr : found->second;
}

TokenTree::Node* TokenTree::take(std::list<Node>& made) {
  Node& node = made.front();
  node.self = made.begin();
  nodes_.splice(nodes_.end(), made);
  return &node;
}

TokenTree::Place TokenTree::walk(const Node* from, std::span<const int32_t> tokens) {
  // Whoever may change the tree walks it to change it.
  Place place{.node = const_cast<Node*>(from)};
  while (place.tokens < static_cast<int64_t>(tokens.size())) {
    const std::span<const int32_t> left = tokens.subspan(static_cast<size_t>(place.tokens));
    const auto child = place.node->children.find(left.front());
    if (child == place.node->children.end()) break;
    place.node = child->second;
    place.in_edge = shared_prefix(place.node->edge, left);
    place.tokens += place.in_edge;
    if (place.in_edge < static_cast<int64_t>(place.node->edge.size())) break;
  }
  return place;
}

TokenTree::Match TokenTree::match_at(const Place& place) {
  if (place.tokens == 0) return {};
  const Node* node = place.node;
  while (node->texts.empty()) {
    const auto newest = std::max_element(node->children.begin(), node->children.end(),
                                         [](const auto& a, const auto& b) { return a.second->used < b.second->used; });
    node = newest->second;
  }
  return {.tokens = place.tokens, .text = node->texts.back()};
}

TokenTree::Match TokenTree::longest(const std::string& space, std::span<const int32_t> prompt) const {
  const Node* from = find_root(space);
  return from == nullptr ? Match{} : match_at(walk(from, prompt));
}

TokenTree::Match TokenTree::use(const std::string& space, std::span<const int32_t> prompt) {
  if (find_root(space) == nullptr) return {};
  const Place place = walk(root(space), prompt);
  const Match match = match_at(place);
  if (match.tokens > 0) touch(split(place));
  return match;
}

// A node that ends where the walk did. What takes memory comes first: without it nothing has changed.
TokenTree::Node* TokenTree::split(const Place& place) {
  Node* below = place.node;
  if (place.in_edge == static_cast<int64_t>(below->edge.size())) return below;
  const auto cut = below->edge.begin() + place.in_edge;
  std::vector<int32_t> rest(cut, below->edge.end());
  std::list<Node> made(1);
  Node& above = made.front();
  above.edge.assign(below->edge.begin(), cut);
  above.children.emplace(rest.front(), below);

  above.parent = below->parent;
  above.depth = above.parent->depth + place.in_edge;
  above.used = below->used;
  above.parent->children.find(above.edge.front())->second = &above;
  below->edge = std::move(rest);
  below->parent = &above;
  return take(made);
}

// The end of a text that goes on behind `parent`; as above.
TokenTree::Node* TokenTree::add_leaf(Node* parent, std::span<const int32_t> edge, Text text) {
  std::list<Node> made(1);
  Node& leaf = made.front();
  leaf.edge.assign(edge.begin(), edge.end());
  leaf.texts.push_back(text);
  parent->children.emplace(edge.front(), &leaf);

  leaf.parent = parent;
  leaf.depth = parent->depth + static_cast<int64_t>(edge.size());
  tokens_ += static_cast<int64_t>(edge.size());
  return take(made);
}

// Everything from the root to `end` is used now. A node between that neither parts anything nor ends a text is of no
// use any more: it had been there because what follows it was older.
void TokenTree::touch(Node* end) {
  ++now_;
  end->used = now_;
  while (end->parent != nullptr) {
    Node* parent = end->parent;
    parent->used = now_;
    const bool idle = parent->parent != nullptr && parent->texts.empty() && parent->children.size() == 1;
    if (!idle || !absorb(end, parent)) end = parent;
  }
}

// False without the memory for it: the node stays, which does no harm.
bool TokenTree::absorb(Node* end, Node* parent) try {
  std::vector<int32_t> edge = parent->edge;
  edge.insert(edge.end(), end->edge.begin(), end->edge.end());
  end->edge = std::move(edge);
  end->parent = parent->parent;
  end->parent->children.find(end->edge.front())->second = end;
  nodes_.erase(parent->self);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void TokenTree::add(Text text, const std::string& space, std::span<const int32_t> tokens) {
  EI_CHECK(!tokens.empty() && !places_.contains(text));
  Node*& end = places_[text];
  try {
    const Place place = walk(root(space), tokens);
    Node* node = split(place);
    if (place.tokens < static_cast<int64_t>(tokens.size())) {
      end = add_leaf(node, tokens.subspan(static_cast<size_t>(place.tokens)), text);
    } else {
      node->texts.push_back(text);
      end = node;
    }
  } catch (const std::bad_alloc&) {
    places_.erase(text);
    throw;
  }
  touch(end);
}

// Takes nodes away that lead to no text.
void TokenTree::prune(Node* node) {
  while (node->parent != nullptr && node->texts.empty() && node->children.empty()) {
    Node* parent = node->parent;
    parent->children.erase(node->edge.front());
    tokens_ -= static_cast<int64_t>(node->edge.size());
    nodes_.erase(node->self);
    node = parent;
  }
  if (node->parent != nullptr || !node->children.empty()) return;
  std::erase_if(roots_, [&](const auto& root) { return root.second == node; });
  nodes_.erase(node->self);
}

void TokenTree::remove(Text text) {
  const auto place = places_.find(text);
  if (place == places_.end()) return;
  Node* node = place->second;
  places_.erase(place);
  std::erase(node->texts, text);
  prune(node);
}

std::vector<TokenTree::Text> TokenTree::beginnings(const std::string& space, std::span<const int32_t> tokens) const {
  const Node* from = find_root(space);
  if (from == nullptr) return {};
  const Place place = walk(from, tokens);
  const bool whole_edge = place.in_edge == static_cast<int64_t>(place.node->edge.size());
  std::vector<Text> found;
  for (const Node* node = whole_edge ? place.node : place.node->parent; node != nullptr; node = node->parent)
    found.insert(found.end(), node->texts.begin(), node->texts.end());
  return found;
}

std::optional<TokenTree::Ending> TokenTree::oldest() const {
  const Node* oldest = nullptr;
  for (const Node& node : nodes_) {
    if (!node.children.empty() || node.texts.empty()) continue;
    if (oldest == nullptr || node.used < oldest->used) oldest = &node;
  }
  if (oldest == nullptr) return std::nullopt;
  const Node* parent = oldest->parent;
  const bool alone = oldest->texts.size() == 1 && parent->texts.empty() && parent->children.size() == 1;
  return Ending{.text = oldest->texts.front(), .keep = alone ? parent->depth : 0};
}

void TokenTree::shorten(Text text) {
  const auto place = places_.find(text);
  EI_CHECK(place != places_.end() && place->second->parent != nullptr);
  Node* node = place->second;
  node->parent->texts.push_back(text);
  std::erase(node->texts, text);
  place->second = node->parent;
  prune(node);
}

}  // namespace ei::server
