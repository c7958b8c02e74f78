// The C interface of libentropyinfer: all that the shared library exports. The C++ classes (entropyinfer.h) and the
// Python module are made of it.
//
// - Handles are opaque. Of one engine any number of sessions may run at once, each used by one thread at a time.
// - Nothing is thrown. A call that can fail returns an EiStatus, and ei_last_error() says why.
// - Structs begin with their size, which the caller sets to sizeof; all other fields may be zero, which is the default.
//   So fields can be added at the end of a struct and programs that were compiled before still run.
// - Text is UTF-8. A `const char*` that is handed out is valid until the next call with the same handle.
// - Lists are written into the caller's memory: at most `capacity` elements, and `count` says how many there are.
#pragma once

#include <stddef.h>  // NOLINT(modernize-deprecated-headers): read by C compilers too
#include <stdint.h>  // NOLINT(modernize-deprecated-headers)

#if defined(EI_BUILDS_LIBRARY)
#define EI_API __attribute__((visibility("default")))
#else
#define EI_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Raised when something that was there changes its meaning or goes. The library has it in its name
// (libentropyinfer.so.1).
#define EI_API_VERSION 1
EI_API int ei_api_version(void);      // of the library that is loaded
EI_API const char* ei_version(void);  // "0.1.0"

// The exit codes of the program.
typedef enum EiStatus {
  EI_OK = 0,
  EI_RUNTIME = 1,
  EI_USAGE = 2,   // what was asked for makes no sense
  EI_MODEL = 3,   // the model file is invalid or not supported
  EI_MEMORY = 4,  // does not fit
  EI_DEVICE = 5,
  EI_INTERRUPTED = 130
} EiStatus;

// One line about the last call of this thread that failed: the values and the cure.
EI_API const char* ei_last_error(void);

typedef struct EiEngine EiEngine;    // a loaded model
typedef struct EiSession EiSession;  // one text and its KV cache

// ---- the model

typedef struct EiEngineOptions {
  size_t size;
  const char* model;   // path of a GGUF file
  const char* device;  // "cpu" when null; ei_device() names them
  int32_t threads;     // 0: all cores
} EiEngineOptions;
EI_API EiStatus ei_engine_load(const EiEngineOptions* options, EiEngine** engine);
// Sessions that are still there keep what they need. Null is taken.
EI_API void ei_engine_free(EiEngine* engine);

typedef struct EiModelInfo {
  size_t size;
  const char* architecture;  // "llama"
  const char* name;
  int32_t layers, heads, kv_heads, head_dim;
  int32_t vocab;
  int32_t context;  // tokens that it was trained for
  int64_t weight_bytes;
  int32_t has_chat_template;
} EiModelInfo;
EI_API EiStatus ei_engine_info(EiEngine* engine, EiModelInfo* info);

// The names that `device` and `method` take, one by one with a line about each; null behind the last.
EI_API const char* ei_device(size_t index, const char** summary);
EI_API const char* ei_method(size_t index, const char** summary);

// ---- text and tokens

enum {
  EI_ADD_BOS_EOS = 1,   // what the model file asks for at the ends of a prompt
  EI_PARSE_SPECIAL = 2  // text that spells a control token becomes one
};
EI_API EiStatus ei_tokenize(EiEngine* engine, const char* text, size_t bytes, int flags, int32_t* tokens,
                            size_t capacity, size_t* count);
// EI_PARSE_SPECIAL: control tokens have a text, too.
EI_API EiStatus ei_detokenize(EiEngine* engine, const int32_t* tokens, size_t num_tokens, int flags, char* text,
                              size_t capacity, size_t* count);

typedef struct EiMessage {
  const char* role;  // "system", "user", "assistant"
  const char* content;
} EiMessage;
// Messages as a prompt that an answer follows. `chat_template`: Jinja, "chatml", or null for the model's own.
EI_API EiStatus ei_chat_tokens(EiEngine* engine, const EiMessage* messages, size_t num_messages,
                               const char* chat_template, int32_t* tokens, size_t capacity, size_t* count);

// ---- sessions

typedef struct EiSessionOptions {
  size_t size;
  int64_t context;             // most tokens; 0: what the model was trained for
  int64_t batch;               // prompt tokens per chunk; 0: chosen
  const char* method;          // "full" when null; ei_method() names them
  const char* method_options;  // "base-budget=512,kv-budget=1024": changes to the method; null: none
  const char* key_type;        // "f32", "f16", "bf16", on a CPU "q8_0", on a GPU "fp8"; null: the device's choice
  const char* value_type;
  int32_t kv_free;    // a compression gives memory back, and later questions find only what it kept; 0: answers are
                      // written from a compressed view, and the text stays whole behind it
  int32_t keep_plan;  // ei_plan() names the blocks that were chosen
} EiSessionOptions;
EI_API EiStatus ei_session_new(EiEngine* engine, const EiSessionOptions* options, EiSession** session);
EI_API void ei_session_free(EiSession* session);

// From any thread: ends the call that is running with EI_INTERRUPTED, or the next one.
EI_API void ei_session_cancel(EiSession* session);

// Nonzero: stop, as ei_session_cancel() does.
typedef int (*EiProgressFn)(void* user, int64_t done, int64_t total);
// The logits [vocab] of the token at `position`; valid during the call. Nonzero: stop.
typedef int (*EiLogitsFn)(void* user, int64_t position, const float* logits, size_t vocab);

// Reads tokens behind what the session holds. Chunks that were read before an interruption stay.
EI_API EiStatus ei_session_prefill(EiSession* session, const int32_t* tokens, size_t num_tokens,
                                   EiProgressFn on_progress, void* user);
// The same, with the logits of every position.
EI_API EiStatus ei_session_evaluate(EiSession* session, const int32_t* tokens, size_t num_tokens, EiLogitsFn on_logits,
                                    void* user);
// Feeds one generated token.
EI_API EiStatus ei_session_decode(EiSession* session, int32_t token);
// Of the last token; null before the first. Valid until the session reads on.
EI_API const float* ei_session_logits(EiSession* session, size_t* vocab);
EI_API int64_t ei_session_position(EiSession* session);  // tokens held
EI_API int64_t ei_session_context(EiSession* session);
// Forgets everything from `position` on. EI_USAGE where a compression has dropped what that needs.
EI_API EiStatus ei_session_truncate(EiSession* session, int64_t position);

typedef struct EiStats {
  size_t size;
  int64_t prompt_tokens, generated_tokens;
  double prompt_s, decode_s;
  double density;         // share of the query-key pairs of full attention that prompts computed
  int64_t kv_bytes;       // held by the cache
  int64_t kv_bytes_full;  // what it would be, uncompressed
  int64_t compressions;
} EiStats;
EI_API EiStatus ei_session_stats(EiSession* session, EiStats* stats);

// ---- answers

typedef struct EiGenerateOptions {
  size_t size;
  int64_t max_tokens;       // 0: until the end of generation, or the context is full
  uint32_t seed;            // EI_RANDOM_SEED: drawn
  float temp;               // 0: always the most likely token, and the next four say nothing
  int32_t top_k;            // 0: all
  float top_p;              // 0: off
  float min_p;              // 0: off
  float repeat_penalty;     // 0: off
  const char* const* stop;  // ends in front of any of these
  size_t num_stop;
  const char* grammar;      // GBNF
  const char* json_schema;  // instead of it
  int32_t ignore_eos;
  // `prompt` is the text from its beginning: what the session holds of it is not read again, the rest is forgotten.
  int32_t whole_prompt;
  int (*on_text)(void* user, const char* text, size_t bytes);  // pieces of whole characters; nonzero: enough
  EiProgressFn on_progress;                                    // while the prompt is read
  void* user;
} EiGenerateOptions;
#define EI_RANDOM_SEED 0xFFFFFFFFu

typedef struct EiAnswer {
  size_t size;
  const char* text;
  size_t text_bytes;
  const int32_t* tokens;
  size_t num_tokens;
  const char* finish_reason;  // "stop", "length", "interrupted", "memory"
  int64_t cached_tokens;      // of the prompt: were there already
  double ttft_s;              // start of the prompt to the first token
  uint32_t seed;
} EiAnswer;
// EI_INTERRUPTED when it was stopped before the first token; afterwards the answer says so. `answer` may be null.
EI_API EiStatus ei_generate(EiSession* session, const int32_t* prompt, size_t num_tokens,
                            const EiGenerateOptions* options, EiAnswer* answer);

// ---- what a sparse method measured and chose while prompts were read

typedef struct EiHeadPlan {
  size_t size;
  int64_t segment;        // its number in the text
  int32_t dense;          // reads everything in front of it
  double entropy;         // of its attention to distant text, in nats: what the budgets come from; NaN, like the next
                          // three, where the method has measured nothing of it yet
  double row_entropy;     // of single rows, like the next two
  double far;             // share of the attention that goes to distant text
  double sink;            // and to the beginning
  double budget;          // tokens
  int64_t read;           // tokens in front of the segment that were read; like the next one with keep_plan
  const int32_t* blocks;  // which; valid until the session reads on
  size_t num_blocks;
} EiHeadPlan;
// Of one layer: 0 segments where it read everything (a dense method, a sliding window). Tokens of a segment and a
// block.
EI_API EiStatus ei_plan_shape(EiSession* session, int32_t layer, int64_t* segments, int64_t* segment_tokens,
                              int64_t* block_tokens);
EI_API EiStatus ei_plan(EiSession* session, int32_t layer, int64_t index, int32_t kv_head, EiHeadPlan* plan);

#ifdef __cplusplus
}
#endif
