// TokenTree: texts by their tokens, as a radix tree: texts that begin alike share the nodes of their beginning, one
// tree for each way of reading. Which text has most of a prompt is found in one walk along the prompt, however many
// texts there are. Use is counted for every part of a text, so that an ending nobody asks for goes before its
// beginning.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace ei::server {

// Leading tokens that both have.
int64_t shared_prefix(std::span<const int32_t> first, std::span<const int32_t> second);

class TokenTree {
 public:
  using Text = int64_t;  // a name that the owner gives
  static constexpr Text kNone = -1;
  struct Match {
    int64_t tokens = 0;  // leading ones of the prompt
    Text text = kNone;   // the last used of the texts that have them
  };

  // `tokens` must not be empty. The text counts as used. Without memory (std::bad_alloc) it is not there.
  void add(Text text, const std::string& space, std::span<const int32_t> tokens);
  void remove(Text text);
  Match longest(const std::string& space, std::span<const int32_t> prompt) const;
  // The same, and what was matched has been used; the rest of that text has not.
  Match use(const std::string& space, std::span<const int32_t> prompt);
  // The texts that `tokens` begin with.
  std::vector<Text> beginnings(const std::string& space, std::span<const int32_t> tokens) const;

  struct Ending {
    Text text = kNone;
    int64_t keep = 0;  // tokens of the text in front of it that no other text has; 0: none, the text can go
  };
  // The part that has not been used for longest. It is the end of a text.
  std::optional<Ending> oldest() const;
  // Cuts a text that oldest() named to its `keep` tokens.
  void shorten(Text text);

  int64_t tokens() const { return tokens_; }  // shared ones once
  int64_t size() const { return static_cast<int64_t>(places_.size()); }

 private:
  // Nodes lie in a list: a long chain of them goes away without recursion.
  struct Node {
    std::vector<int32_t> edge{};  // the tokens from its parent's end to its own
    Node* parent = nullptr;
    std::map<int32_t, Node*> children{};  // by the first token of their edges
    std::vector<Text> texts{};            // that end here
    int64_t depth = 0;                    // tokens from the root to its end
    uint64_t used = 0;
    std::list<Node>::iterator self{};
  };
  struct Place {
    Node* node = nullptr;  // the last one that has something of the walk
    int64_t in_edge = 0;   // so many of its edge's tokens
    int64_t tokens = 0;    // walked in all
  };

  Node* root(const std::string& space);
  const Node* find_root(const std::string& space) const;
  static Place walk(const Node* from, std::span<const int32_t> tokens);
  static Match match_at(const Place& place);
  Node* take(std::list<Node>& made);  // one node, into the tree's own list
  Node* split(const Place& place);
  Node* add_leaf(Node* parent, std::span<const int32_t> edge, Text text);
  void touch(Node* end);
  bool absorb(Node* end, Node* parent);
  void prune(Node* node);

  std::list<Node> nodes_{};
  std::map<std::string, Node*> roots_{};
  std::unordered_map<Text, Node*> places_{};
  int64_t tokens_ = 0;
  uint64_t now_ = 0;
};

}  // namespace ei::server
