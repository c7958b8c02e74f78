// What a Session holds, and the forward pass over one chunk. Private to the engine room.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"
#include "kv/compressor.h"
#include "model/model.h"
#include "sparse/page_reader.h"
#include "sparse/planner.h"
#include "tensor/rope.h"

namespace ei {

struct Session::State {
  const Engine& engine;
  const model::Model& model;
  const CancelToken* cancel = nullptr;
  std::unique_ptr<Stream> stream;
  kv::Store store;
  int64_t context = 0;
  int64_t batch = 0;
  std::optional<sparse::Planner> planner;    // none: every segment reads everything
  std::optional<kv::Compressor> compressor;  // none: the whole cache stays
  std::optional<sparse::PageReader> pages;   // none: generated tokens read all of it
  std::vector<int32_t> windows;              // [layers], of the model: sliding windows
  bool keep_whole = false;                   // compress a view, not the store
  bool compression_due = false;              // also after an interruption
  bool reads_pages = false;                  // the token that is being fed
  std::optional<kv::Store> view{};           // a compressed fork of the store, which generation reads in its place
  std::vector<int32_t> held{};               // the tokens in the store, and behind them those that only the view has
  SessionStats stats{};
  std::vector<float> logits{};                  // [vocab] of the last token fed
  int64_t tokens_ahead = 0;                     // of the prompt's next chunk
  std::function<void(int layers)> on_layers{};  // while a chunk of a prompt runs: how many layers it has behind it
  std::vector<RopeAngles> angles{};             // one per rope of the model, for the current chunk

  // A prompt that is being read.
  struct Reading {
    std::vector<int32_t> tokens;
    int64_t done = 0;   // of them
    int64_t first = 0;  // position of the first
    int64_t shown = 0;  // from this position on logits are somebody's business: in front of it a view is read again
    bool sparse = false;
    double start_s = 0;
    double attention_before_s = 0;  // of the session's own figures, when it began
    double pairs_before = 0;
    int64_t left() const { return static_cast<int64_t>(tokens.size()) - done; }
  };
  std::optional<Reading> prompt{};
  Status begin_prompt(std::span<const int32_t> tokens, int64_t wanted);

  // How much of a chunk is wanted: its last `tail` rows to their end (0: only the cache is filled), and the logits of
  // the first `logits` of these (wanted_logits.h).
  struct Wanted {
    int64_t tail = 0;
    int64_t logits = 0;
  };
  // What a chunk leaves behind, in stream memory until the next one.
  struct Rows {
    Matrix normed;  // [tail, width], behind the output norm
    Matrix logits;  // [logits, vocab]
  };
  // Runs `chunk` through all layers behind what the store holds. On an error everything is as before. `plan`: the
  // planner decides what it reads.
  Result<Rows> forward(std::span<const int32_t> chunk, Wanted wanted, bool plan);
  // The same for a chunk of a prompt, with the statistics.
  Result<Rows> forward_prompt(std::span<const int32_t> chunk, Wanted wanted);
  // Logits of these rows of Rows::normed, at most logits_together().
  Result<Matrix> more_logits(Matrix normed, std::span<const int64_t> rows);
  // What the next token reads, and is appended to.
  kv::Store& reading() { return view ? *view : store; }
  const kv::Store& reading() const { return view ? *view : store; }
  Status check_token(int32_t token) const;
  // Behind a generated token whose logits are there: statistics, and a compression where it is due.
  Status token_fed(double fed_s, bool paged);
  // Does a generated token read all slots? Pages are chosen only where slots are positions.
  bool reads_all() const { return !pages || !reading().exact(); }
  bool same_pages(const State& other) const {
    const kv::StoreConfig& own = store.config();
    const kv::StoreConfig& theirs = other.store.config();
    return own.key_type == theirs.key_type && own.value_type == theirs.value_type &&
           own.page_slots == theirs.page_slots;
  }
  // Does the planner decide what this chunk reads? Only where slots are positions.
  bool sparse() const { return planner.has_value() && store.exact(); }
  // Reads at most `most` tokens of `prompt` and hands over the logits that are wanted.
  Status read_chunk(int64_t most, const LogitsFn& on_logits, const ProgressFn& progress, const RowFilter& wanted);
  Status end_prompt();
  // Compresses when it is due; the time and what was dropped go to the statistics.
  Status compress_if_due();
  Result<int64_t> compress();
  // Goes on with what Session::memory() gave (memory_note.cpp).
  Status recall(std::string_view memory);
  Status check_room(std::span<const int32_t> tokens, int64_t wanted) const;
  PromptNeed need_of(int64_t added, int64_t wanted) const;
  // Reads the logits of `rows` (rows of `out.normed`, ascending) one by one into `logits` and calls `on_row` for each.
  Status each_row(Rows out, std::span<const int64_t> rows, const std::function<void(int64_t row)>& on_row);

  kernels::AttentionParams attention_of(int layer, const model::Activations& act, int32_t first_position,
                                        const BlockPlan* blocks) const;

  // Why the method left nothing out: acted.cpp.
  std::string why_all_was_read() const;
  std::string why_all_was_kept() const;
  double text_density() const;

 private:
  // Records the forward pass: prefill.cpp.
  Result<Rows> record(std::span<const int32_t> chunk, Wanted wanted, bool plan);
  std::vector<RopeTable> stage_angles(int32_t first_position, int64_t tokens);
};

}  // namespace ei
