#include "golden/generator.h"

#include <cmath>
#include <cstring>

#include "base/result.h"

namespace ei::golden {
namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

uint64_t step(uint64_t x, int64_t value) { return mix(x + 0x9E3779B97F4A7C15ull * (static_cast<uint64_t>(value) + 1)); }

enum Kind : int64_t { kQuery = 0, kKey = 1, kValue = 2, kSign = 3, kTopic = 4 };
constexpr int32_t kSink = 8;  // topics are 0..7

// What one kv_head's keys and queries are made of.
struct Head {
  std::vector<int32_t> table_k;
  std::vector<int32_t> query_topics;
  std::vector<int32_t> gq;
  std::vector<int32_t> gqs;
  int32_t gk = 0;
  int32_t gks = 0;
  int32_t amp_q = 0;
  int32_t amp_k = 0;
  bool dup = false;
  int32_t qshift = 0;
};

Head read_head(const Json& json) {
  Head head;
  json.at("table_k").get_to(head.table_k);
  json.at("query_topics").get_to(head.query_topics);
  json.at("gq").get_to(head.gq);
  json.at("gqs").get_to(head.gqs);
  json.at("gk").get_to(head.gk);
  json.at("gks").get_to(head.gks);
  json.at("amp_q").get_to(head.amp_q);
  json.at("amp_k").get_to(head.amp_k);
  head.dup = json.at("dup").get<int>() != 0;
  json.at("qshift").get_to(head.qshift);
  return head;
}

class Layer {
 public:
  Layer(const Json& json, int32_t layer)
      : seed_(std::stoull(json.at("seed").get<std::string>())),
        layer_(layer),
        content_block_(json.at("content_block").get<int64_t>()),
        content_segment_(json.at("content_segment").get<int64_t>()) {
    for (const Json& head : json.at("kv_heads")) heads_.push_back(read_head(head));
  }

  void key_row(int32_t kv_head, int64_t token, std::vector<int32_t>& row) const {
    const Head& head = heads_.at(static_cast<size_t>(kv_head));
    const int64_t block = token / content_block_;
    const int32_t topic = head.table_k.at(step(base(kTopic, kv_head), block) >> 60);
    const int64_t source = head.dup ? topic * content_block_ + token % content_block_ : token;
    for (size_t d = 0; d < row.size(); ++d) {
      row[d] = head.gk * sign(kv_head, topic, d) + noise(kKey, kv_head, source, d, head.amp_k);
      if (block == 0) row[d] += head.gks * sign(kv_head, kSink, d);
    }
  }

  void query_row(int32_t q_head, int32_t group, int64_t token, std::vector<int32_t>& row) const {
    const int32_t kv_head = q_head / group;
    const Head& head = heads_.at(static_cast<size_t>(kv_head));
    const int64_t turn = token / content_segment_ + int64_t{q_head % group} * head.qshift;
    const int32_t topic = head.query_topics.at(static_cast<size_t>(turn) % head.query_topics.size());
    const int32_t gain = head.gq.at(static_cast<size_t>(topic));
    const int32_t sink = head.gqs.at(static_cast<size_t>(topic));
    for (size_t d = 0; d < row.size(); ++d) {
      row[d] = gain * sign(kv_head, topic, d) + sink * sign(kv_head, kSink, d);
      row[d] += noise(kQuery, q_head, token, d, head.amp_q);
    }
  }

  void value_row(int32_t kv_head, int64_t token, std::vector<int32_t>& row) const {
    for (size_t d = 0; d < row.size(); ++d) row[d] = noise(kValue, kv_head, token, d, 128);
  }

 private:
  uint64_t base(Kind kind, int32_t head) const { return step(step(step(seed_, kind), layer_), head); }

  int32_t noise(Kind kind, int32_t head, int64_t token, size_t d, int32_t amplitude) const {
    const uint64_t hash = step(step(base(kind, head), token), static_cast<int64_t>(d));
    return ((static_cast<int32_t>(hash >> 56) - 128) * amplitude) >> 7;
  }

  int32_t sign(int32_t kv_head, int32_t topic, size_t d) const {
    return step(step(base(kSign, kv_head), topic), static_cast<int64_t>(d)) >> 63 != 0 ? -1 : 1;
  }

  uint64_t seed_;
  int32_t layer_;
  int64_t content_block_;
  int64_t content_segment_;
  std::vector<Head> heads_;
};

template <typename MakeRow>
std::vector<float> fill(int32_t heads, const Shape& shape, int exponent, MakeRow make_row) {
  std::vector<float> out;
  out.reserve(static_cast<size_t>(heads * shape.tokens * shape.head_dim));
  std::vector<int32_t> row(static_cast<size_t>(shape.head_dim));
  for (int32_t head = 0; head < heads; ++head) {
    for (int64_t token = 0; token < shape.tokens; ++token) {
      make_row(head, token, row);
      for (const int32_t value : row) out.push_back(std::ldexp(static_cast<float>(value), -exponent));
    }
  }
  return out;
}

std::vector<std::byte> as_type(const std::vector<float>& values, DType type) {
  std::vector<std::byte> out(values.size() * dtype_bytes(type));
  for (size_t i = 0; i < values.size(); ++i) store_element(out.data(), type, static_cast<int64_t>(i), values[i]);
  return out;
}

}  // namespace

Shape shape_of(const Json& golden_case) {
  const Json& json = golden_case.at("generator");
  Shape shape;
  json.at("n_tokens").get_to(shape.tokens);
  json.at("head_dim").get_to(shape.head_dim);
  json.at("n_head").get_to(shape.num_heads);
  json.at("n_head_kv").get_to(shape.kv_heads);
  return shape;
}

Inputs generate(const Json& golden_case, int32_t layer) {
  const Json& json = golden_case.at("generator");
  const Layer source(json, layer);
  Inputs inputs;
  inputs.shape = shape_of(golden_case);
  using Row = std::vector<int32_t>;
  const Shape& shape = inputs.shape;
  inputs.q = fill(shape.num_heads, shape, json.at("exp_q").get<int>(),
                  [&](int32_t head, int64_t t, Row& row) { source.query_row(head, shape.group(), t, row); });
  inputs.k = fill(shape.kv_heads, shape, json.at("exp_k").get<int>(),
                  [&](int32_t head, int64_t t, Row& row) { source.key_row(head, t, row); });
  inputs.v = fill(shape.kv_heads, shape, json.at("exp_v").get<int>(),
                  [&](int32_t head, int64_t t, Row& row) { source.value_row(head, t, row); });
  return inputs;
}

std::string checksum(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const float value : values) {
    unsigned char bytes[4];
    std::memcpy(bytes, &value, 4);
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3ull;
  }
  return str_format("%016llx", static_cast<unsigned long long>(hash));
}

KernelInputs::KernelInputs(const Inputs& inputs, DType kv_type)
    : shape_(inputs.shape), k_(as_type(inputs.k, kv_type)), v_(as_type(inputs.v, kv_type)) {
  constexpr int32_t kPageSlots = 48;  // so that blocks and segments straddle pages
  const int64_t dim = shape_.head_dim;
  const auto row_bytes = dim * static_cast<int64_t>(dtype_bytes(kv_type));
  q_.resize(inputs.q.size());
  for (int64_t head = 0; head < shape_.num_heads; ++head)
    for (int64_t token = 0; token < shape_.tokens; ++token)
      std::memcpy(q_.data() + token * q_stride() + head * dim, inputs.q.data() + (head * shape_.tokens + token) * dim,
                  static_cast<size_t>(dim) * sizeof(float));
  for (int64_t head = 0; head < shape_.kv_heads; ++head) {
    for (const std::vector<std::byte>* rows : {&k_, &v_}) {
      std::vector<const void*>& pages = pages_.emplace_back();
      for (int64_t slot = 0; slot < shape_.tokens; slot += kPageSlots)
        pages.push_back(rows->data() + (head * shape_.tokens + slot) * row_bytes);
    }
  }
  for (size_t head = 0; head < static_cast<size_t>(shape_.kv_heads); ++head) {
    KvHeadView view;
    view.key_pages = pages_[2 * head].data();
    view.value_pages = pages_[2 * head + 1].data();
    view.length = shape_.tokens;
    heads_.push_back(view);
  }
  view_ = {kv_type, kv_type, shape_.head_dim, kPageSlots, heads_};
}

}  // namespace ei::golden
