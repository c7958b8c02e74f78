// Store::save and Store::load. The file, little-endian, without padding:
//
//   magic "EIKVSTOR", u32 version, u64 model hash
//   i32 layers, kv_heads, head_dim, key type, value type, page_slots     (types as DType, of a host's rows)
//   i32 next position, i64 evicted, i64 compactions
//   i64 bytes of the note, the note
//   per layer and kv_head: i64 length, i64 listed, i32 positions[listed]
//   u64 checksum of everything so far, so that nothing is allocated for a damaged description
//   per layer and kv_head: keys [length, head_dim], values [length, head_dim]
//   u64 checksum of everything so far
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kv/file_stream.h"
#include "kv/store.h"

namespace ei::kv {
namespace {

static_assert(std::endian::native == std::endian::little, "the file format is that of a little-endian machine");

constexpr char kMagic[8] = {'E', 'I', 'K', 'V', 'S', 'T', 'O', 'R'};
constexpr uint32_t kVersion = 2;

// Far beyond every model; they keep products small and a page of a lying file modest.
constexpr int32_t kMaxLayers = 4096;
constexpr int32_t kMaxKvHeads = 4096;
constexpr int32_t kMaxHeadDim = 4096;
constexpr int32_t kMaxPageSlots = 1024;

bool raised(const CancelToken* cancel) { return cancel != nullptr && cancel->cancelled(); }

struct Description {
  StoreConfig config;
  int32_t next = 0;
  int64_t evicted = 0;
  int64_t compactions = 0;
  std::string note{};
};

bool has_q8(const StoreConfig& config) { return config.key_type == DType::kQ8_0 || config.value_type == DType::kQ8_0; }

struct HeadDescription {
  int64_t length = 0;
  std::vector<int32_t> listed;
};

Status write_description(FileWriter& file, const Description& store, uint64_t model_hash) {
  EI_RETURN_IF_ERROR(file.put(kMagic, sizeof(kMagic)));
  EI_RETURN_IF_ERROR(file.put(kVersion));
  EI_RETURN_IF_ERROR(file.put(model_hash));
  const StoreConfig& config = store.config;
  for (const int32_t field :
       {config.layers, config.kv_heads, config.head_dim, static_cast<int>(host_type(config.key_type)),
        static_cast<int>(host_type(config.value_type)), config.page_slots, store.next}) {
    EI_RETURN_IF_ERROR(file.put(field));
  }
  EI_RETURN_IF_ERROR(file.put(store.evicted));
  EI_RETURN_IF_ERROR(file.put(store.compactions));
  EI_RETURN_IF_ERROR(file.put(static_cast<int64_t>(store.note.size())));
  return file.put(store.note.data(), store.note.size());
}

Result<Description> read_description(FileReader& file, uint64_t model_hash) {
  char magic[sizeof(kMagic)] = {};
  EI_RETURN_IF_ERROR(file.get(magic, sizeof(magic)));
  if (std::memcmp(magic, kMagic, sizeof(kMagic)) != 0) return file.failure("it is not a saved KV cache");
  uint32_t version = 0;
  EI_RETURN_IF_ERROR(file.get(version));
  if (version != kVersion) {
    return file.failure(str_format("its version is %u, this program reads version %u", version, kVersion));
  }
  uint64_t hash = 0;
  EI_RETURN_IF_ERROR(file.get(hash));
  if (hash != model_hash) return file.failure("it was saved with another model; load that model or start afresh");
  int32_t fields[7] = {};
  EI_RETURN_IF_ERROR(file.get(fields, sizeof(fields)));
  constexpr auto kMaxType = static_cast<int32_t>(std::size(kDTypes)) - 1;
  const int32_t limits[6] = {kMaxLayers, kMaxKvHeads, kMaxHeadDim, kMaxType, kMaxType, kMaxPageSlots};
  for (int i = 0; i < 6; ++i) {
    const bool is_type = i == 3 || i == 4;
    if (fields[i] < (is_type ? 0 : 1) || fields[i] > limits[i]) {
      return file.failure(str_format("its header is damaged (field %d is %d)", i, fields[i]));
    }
  }
  Description store{.config = {.layers = fields[0],
                               .kv_heads = fields[1],
                               .head_dim = fields[2],
                               .key_type = static_cast<DType>(fields[3]),
                               .value_type = static_cast<DType>(fields[4]),
                               .page_slots = fields[5]},
                    .next = fields[6],
                    .note = {}};
  if (has_q8(store.config) && store.config.head_dim % kQ8Elements != 0)
    return file.failure(str_format("its header is damaged (rows of %d elements in q8_0)", fields[2]));
  EI_RETURN_IF_ERROR(file.get(store.evicted));
  EI_RETURN_IF_ERROR(file.get(store.compactions));
  if (store.next < 0 || store.evicted < 0 || store.compactions < 0) {
    return file.failure("its header is damaged (a negative count)");
  }
  int64_t note_bytes = 0;
  EI_RETURN_IF_ERROR(file.get(note_bytes));
  if (note_bytes < 0 || static_cast<uint64_t>(note_bytes) > file.remaining())
    return file.failure("its header is damaged (a note longer than the file)");
  store.note.resize(static_cast<size_t>(note_bytes));
  EI_RETURN_IF_ERROR(file.get(store.note.data(), store.note.size()));
  return store;
}

Result<HeadDescription> read_head(FileReader& file, int32_t next) {
  HeadDescription head;
  int64_t listed = 0;
  EI_RETURN_IF_ERROR(file.get(head.length));
  EI_RETURN_IF_ERROR(file.get(listed));
  if (head.length < 0 || head.length > next || listed < 0 || listed > head.length ||
      static_cast<uint64_t>(listed) > file.remaining() / sizeof(int32_t)) {
    return file.failure(str_format("it is damaged (a head of %lld slots, %lld listed, at position %d)",
                                   static_cast<long long>(head.length), static_cast<long long>(listed),
                                   static_cast<int>(next)));
  }
  head.listed.resize(static_cast<size_t>(listed));
  EI_RETURN_IF_ERROR(file.get(head.listed.data(), head.listed.size() * sizeof(int32_t)));
  int64_t previous = -1;
  const int64_t tail_position = next - (head.length - listed);
  for (const int32_t position : head.listed) {
    if (position <= previous || position >= tail_position)
      return file.failure("it is damaged (positions out of order)");
    previous = position;
  }
  return head;
}

// Of all layers, and the checksum behind them.
Result<std::vector<HeadDescription>> read_heads(FileReader& file, const Description& described) {
  const int64_t num_heads = int64_t{described.config.layers} * described.config.kv_heads;
  if (static_cast<uint64_t>(num_heads) > file.remaining() / (2 * sizeof(int64_t))) {
    return file.failure("the file is cut short");
  }
  std::vector<HeadDescription> heads;
  heads.reserve(static_cast<size_t>(num_heads));
  for (int64_t i = 0; i < num_heads; ++i) {
    EI_ASSIGN_OR_RETURN(HeadDescription head, read_head(file, described.next));
    heads.push_back(std::move(head));
  }
  EI_RETURN_IF_ERROR(file.check_checksum());
  return heads;
}

}  // namespace

Status Store::save(const std::string& path, uint64_t model_hash, const CancelToken* cancel,
                   std::string_view note) const {
  const int32_t next = next_position();
  for (const Layer& layer : layers_) {
    if (layer.next != next) {
      return make_error(ErrorKind::kRuntime, "cannot save '%s': the KV cache is in the middle of a chunk",
                        path.c_str());
    }
  }
  FileWriter file(path, FileWriter::kOwnerOnly);
  EI_RETURN_IF_ERROR(file.open());
  const Description store{
      .config = config_, .next = next, .evicted = evicted_, .compactions = compactions_, .note = std::string(note)};
  EI_RETURN_IF_ERROR(write_description(file, store, model_hash));
  for (const Layer& layer : layers_) {
    for (const HeadSlots& head : layer.heads) {
      EI_RETURN_IF_ERROR(file.put(head.length()));
      EI_RETURN_IF_ERROR(file.put(static_cast<int64_t>(head.listed().size())));
      EI_RETURN_IF_ERROR(file.put(head.listed().data(), head.listed().size() * sizeof(int32_t)));
    }
  }
  EI_RETURN_IF_ERROR(file.put_checksum());

  const size_t row_bytes[2] = {layout_.shape.key_row(), layout_.shape.value_row()};
  std::vector<std::byte> rows(static_cast<size_t>(layout_.slots) * std::max(row_bytes[0], row_bytes[1]));
  const auto put_rows = [&](const HeadSlots& head, bool values) -> Status {
    for (int64_t slot = 0; slot < head.length(); slot += layout_.slots) {
      if (raised(cancel)) return Error{ErrorKind::kInterrupted, "interrupted"};
      const int64_t count = std::min(layout_.slots, head.length() - slot);
      EI_RETURN_IF_ERROR(backend_->read_slots(layout_.shape, head.page(slot / layout_.slots).data(), count,
                                              values ? nullptr : rows.data(), values ? rows.data() : nullptr));
      EI_RETURN_IF_ERROR(file.put(rows.data(), static_cast<size_t>(count) * row_bytes[values ? 1 : 0]));
    }
    return {};
  };
  for (const Layer& layer : layers_) {
    for (const HeadSlots& head : layer.heads) {
      for (const bool values : {false, true}) EI_RETURN_IF_ERROR(put_rows(head, values));
    }
  }
  EI_RETURN_IF_ERROR(file.put_checksum());
  return file.commit();
}

Result<std::string> Store::note(const std::string& path, uint64_t model_hash) {
  FileReader file(path);
  EI_RETURN_IF_ERROR(file.open());
  EI_ASSIGN_OR_RETURN(Description described, read_description(file, model_hash));
  if (const auto heads = read_heads(file, described); !heads.ok()) return heads.error();
  return std::move(described.note);
}

Result<Store> Store::load(const std::string& path, uint64_t model_hash, const Backend& backend,
                          const CancelToken* cancel, std::string* note, const StoreConfig* wanted, int32_t most) {
  FileReader file(path);
  EI_RETURN_IF_ERROR(file.open());
  EI_ASSIGN_OR_RETURN(const Description described, read_description(file, model_hash));
  EI_ASSIGN_OR_RETURN(std::vector<HeadDescription> heads, read_heads(file, described));
  int64_t total_slots = 0;  // at most 2^24 heads of 2^31 slots
  for (const HeadDescription& head : heads) total_slots += head.length;
  const bool whole = std::all_of(heads.begin(), heads.end(),
                                 [&](const HeadDescription& head) { return head.length == described.next; });
  const int32_t next = whole ? std::clamp(most, 0, described.next) : described.next;

  if (has_q8(described.config) && !backend.holds_q8())
    return file.failure("its rows are q8_0, which the " + std::string(backend.name()) + " backend does not hold");
  StoreConfig config = described.config;
  if (wanted != nullptr && host_type(wanted->key_type) == config.key_type &&
      host_type(wanted->value_type) == config.value_type) {
    config.key_type = wanted->key_type;
    config.value_type = wanted->value_type;
  }
  Store store(backend, config);
  const PageLayout& layout = store.layout_;
  const size_t of_slot[2] = {layout.shape.key_row(), layout.shape.value_row()};
  const auto row_bytes = static_cast<int64_t>(of_slot[0] + of_slot[1]);
  const auto left = static_cast<int64_t>(file.remaining()) - static_cast<int64_t>(sizeof(uint64_t));
  if (left < 0 || left % row_bytes != 0 || left / row_bytes != total_slots) {
    return file.failure(str_format("it holds %lld bytes of rows where %lld rows of %lld bytes should be",
                                   static_cast<long long>(left), static_cast<long long>(total_slots),
                                   static_cast<long long>(row_bytes)));
  }

  std::vector<std::byte> rows(static_cast<size_t>(layout.slots) * std::max(of_slot[0], of_slot[1]));
  const auto get_rows = [&](const HeadSlots& head, int64_t length, bool values) -> Status {
    for (int64_t slot = 0; slot < length; slot += layout.slots) {
      if (raised(cancel)) return Error{ErrorKind::kInterrupted, "interrupted"};
      const int64_t count = std::min(layout.slots, length - slot);
      EI_RETURN_IF_ERROR(file.get(rows.data(), static_cast<size_t>(count) * of_slot[values ? 1 : 0]));
      const int64_t kept = std::min(count, head.length() - slot);
      if (kept <= 0) continue;  // read for the checksum alone
      EI_RETURN_IF_ERROR(backend.write_slots(layout.shape, head.page(slot / layout.slots).data(), kept,
                                             values ? nullptr : rows.data(), values ? rows.data() : nullptr));
    }
    return {};
  };
  auto description = heads.begin();
  for (Layer& layer : store.layers_) {
    layer.next = next;
    for (HeadSlots& head : layer.heads) {
      const int64_t length = description->length;
      const int64_t kept = whole ? next : length;
      EI_ASSIGN_OR_RETURN(std::vector<Page> pages, store.pool_->take(layout.pages_for(kept)));
      for (Page& page : pages) head.add_page(layout, std::move(page));
      if (whole) description->listed.clear();  // in order, as those that are not listed
      head.restore(kept, std::move(description->listed));
      ++description;
      for (const bool values : {false, true}) EI_RETURN_IF_ERROR(get_rows(head, length, values));
    }
    refresh(layer);
  }
  EI_RETURN_IF_ERROR(file.check_checksum());
  store.evicted_ = described.evicted;
  store.compactions_ = described.compactions;
  if (note != nullptr) *note = described.note;
  return store;
}

}  // namespace ei::kv
