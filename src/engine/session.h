// Session: one conversation. Everything mutable lives here; the Engine it came from is const and shared.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engine/acted.h"
#include "engine/stats.h"
#include "kv/store.h"
#include "policy/registry.h"
#include "sparse/planner.h"
#include "tensor/dtype.h"

namespace ei {

class Engine;

struct SessionOptions {
  int64_t context = 0;            // most tokens this session may hold; 0: the model's trained context
  int64_t batch = 0;              // prompt tokens per chunk; 0: chosen by the engine
  std::optional<DType> key_type;  // default: the backend's
  std::optional<DType> value_type;
  std::string method = "full";                    // a preset of policy/registry.h
  std::optional<policy::PrefillOptions> prefill;  // instead of the preset's
  std::optional<policy::KvOptions> kv;            // instead of the preset's
  // For a session that goes on after an answer: a compression leaves the cache of the text whole, so that later
  // questions about it can be answered, and generation reads a compressed view of it. False: a compression gives the
  // memory back, and what it dropped is forgotten for good.
  bool keep_whole = false;
  const CancelToken* cancel = nullptr;  // may be null; must outlive the session
};

struct PrefillProgress {
  int64_t done = 0;  // prompt tokens processed
  int64_t total = 0;
  double elapsed_s = 0;
  // Of the whole chunks so far: their attention's share of elapsed_s, and how many query-key pairs that was.
  double attention_s = 0;
  double pairs = 0;
};

// Bytes that reading a prompt takes beside what the session holds, by what they are for.
struct PromptNeed {
  int64_t cache = 0;
  int64_t activations = 0;
  int64_t layer = 0;   // Backend::layer_room
  int64_t stream = 0;  // Backend::stream_room
  int64_t planner = 0;
  int64_t compressor = 0;
  int64_t total() const { return cache + activations + layer + stream + planner + compressor; }
};

class Session {
 public:
  using ProgressFn = std::function<void(const PrefillProgress&)>;
  // Receives the logits [vocab] of the token at `position`; valid during the call only.
  using LogitsFn = std::function<void(int64_t position, std::span<const float> logits)>;
  // Are the logits of the token at `position` wanted?
  using RowFilter = std::function<bool(int64_t position)>;

  Session(Session&&) = delete;
  ~Session();

  // Reads `tokens` behind what the session already holds; afterwards logits() predicts the next token.
  // kInterrupted when cancelled (the chunks already read stay), kUsage when the context would overflow, kMemory when
  // the cache does not fit. Tokens that only a compressed view holds are read again first, over the whole cache.
  Status prefill(std::span<const int32_t> tokens, const ProgressFn& progress = nullptr);
  // The same, handing over the logits of every position (perplexity, parity work), or of those that `wanted` names:
  // only these are multiplied by the output matrix.
  Status evaluate(std::span<const int32_t> tokens, const LogitsFn& on_logits, const ProgressFn& progress = nullptr,
                  const RowFilter& wanted = nullptr);
  // prefill() in steps, so that other sessions can compute between the chunks. begin_prompt() checks and reads nothing;
  // read_chunk() reads at most `most` tokens (0: batch()) and says how many are left. Where a prompt is cut changes
  // nothing. After an error, and after any other call that changes the session, begin again with what is left.
  Status begin_prompt(std::vector<int32_t> tokens);
  // What begin_prompt() asks for, where so many tokens follow.
  PromptNeed prompt_need(int64_t tokens) const;
  // `on_logits`: as for evaluate().
  Result<int64_t> read_chunk(int64_t most = 0, const ProgressFn& progress = nullptr,
                             const LogitsFn& on_logits = nullptr);
  // Feeds one generated token, and compresses the cache when the schedule says so. kInterrupted with the token fed when
  // that compression was cancelled: the cache is unchanged then, and the next token tries again.
  Status decode(int32_t token);

  std::span<const float> logits() const;  // [vocab] of the last token fed; empty before the first
  int64_t position() const;               // tokens held
  // [position()]: which; text::kNoToken where an adopted cache came without its text.
  std::span<const int32_t> tokens() const;
  int64_t context() const;
  int64_t batch() const;  // prompt tokens per chunk
  // Forgets everything from `position` on (a rewound chat). kUsage when a compression has dropped what reading on from
  // there needs: then rewind_point() says from where the text must be read again.
  Status truncate(int64_t position);
  // The last position <= `position` that truncate() accepts.
  int64_t rewind_point(int64_t position) const;
  // The most slots per kv_head that a prompt and `generated` tokens behind it will take at any time.
  int64_t most_slots(int64_t prompt, int64_t generated) const;

  // Goes on with another cache of this model: one that was loaded, or a fork. It counts as a prompt that has just been
  // read: what the session knew of its own (recorded queries, the compression's clock, the planner's index and records)
  // is forgotten. kUsage when its shape or types are not this session's, or it is longer than the context.
  // `tokens`: the text it was made from, all of it or nothing. `memory`: what memory() gave where it was saved; then
  // logits, recorded queries, the compression's clock and the planner's records go on as well, as far as they belong to
  // what the cache holds and to this session's methods.
  Status adopt(kv::Store store, std::span<const int32_t> tokens = {}, std::string_view memory = {});
  // What goes on beside the cache, as bytes, for the note of a saved one.
  Result<std::string> memory() const;
  // Has the KV method all it wants to know of the cached text? Not where it adds up attention and the cache came
  // without the sums.
  bool watched() const;

  // A second session behind the same text, whose KV method may be another: so a prompt is read once for many. It shares
  // the pages until one side writes, has the logits, the statistics and the recorded queries (as many as both windows
  // hold), and where its method compresses behind a prompt it has done so. `options` as for a new session, with this
  // one's types. Sparse prompts that follow are decided by what this one has seen, where both read alike. (fork.cpp)
  Result<std::unique_ptr<Session>> fork(const SessionOptions& options) const;

  // The cache of the text. With keep_whole it may end before position(): what follows is in the view.
  const kv::Store& store() const;
  // What generation reads: a compressed view of it once there is one, else the cache itself.
  const kv::Store& reading() const;
  bool has_view() const;
  const SessionStats& stats() const;
  // What the method has done in this session so far, and why it did nothing where it did.
  Acted acted() const;
  // What was decided while prompts were read; null for dense methods.
  const sparse::Planner* planner() const;
  sparse::Planner* planner();
  const Engine& engine() const;

 private:
  friend class Engine;
  friend class DecodeBatch;
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ei
