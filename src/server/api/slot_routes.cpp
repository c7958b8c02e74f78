// /slots/ID?action=save|restore|erase: what a slot holds, to disk and back.
#include <filesystem>
#include <string_view>

#include "base/clock.h"
#include "base/parse.h"
#include "server/api/api.h"

namespace ei::server {

namespace {
// A name without a path: nothing outside the folder can be meant.
bool is_file_name(const std::string& name) {
  return !name.empty() && name.size() <= 200 && name[0] != '.' && name.find_first_of("/\\") == std::string::npos &&
         one_line(name) == name;
}
}  // namespace

// Also without /slots (--no-slots), as in llama-server: that hides what runs, and here it is --slot-save-path that
// counts.
void route_slot_action(const Call& call) {
  const Api& api = call.api;
  const Result<int64_t> slot =
      parse_whole(call.request.path.substr(std::string("/slots/").size()), 0, api.scheduler.options().slots - 1);
  if (!slot.ok()) return call.refuse(invalid_field("id_slot", "names no slot of this server"));
  const auto id = static_cast<int>(*slot);
  const std::string action = call.request.argument("action");
  const double start = now_s();
  const auto answer = [reply = call.reply, id, start](const char* count, const char* how, const std::string& name) {
    return [=](const Result<int64_t>& tokens) {
      if (!tokens.ok()) {
        ApiError error = from_engine(tokens.error());
        if (error.status == 400) error.param = count == std::string_view("n_restored") ? "filename" : "id_slot";
        return reply->send(error.to_response());
      }
      Json json = {{"id_slot", id}, {count, *tokens}, {"timings", {{how, (now_s() - start) * 1e3}}}};
      if (!name.empty()) json["filename"] = name;
      reply->send({.body = dump(json)});
    };
  };
  const auto ask = [&](SlotWork::Kind kind, const std::string& path, SlotWork::Done done) {
    SlotWork work{.kind = kind, .slot = id, .path = path, .gone = call.gone, .done = std::move(done)};
    if (!api.scheduler.ask_slot(std::move(work))) call.refuse(too_busy(1));
  };
  if (action == "erase") return ask(SlotWork::Kind::kErase, "", answer("n_erased", "erase_ms", ""));
  if (action != "save" && action != "restore")
    return call.refuse(invalid_field("action", "must be save, restore or erase"));
  if (api.options.slot_save_path.empty())
    return call.refuse(not_supported("start the server with --slot-save-path to save and restore slots"));
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  Fields fields(body.json);
  const std::string name = fields.text("filename");
  if (!is_file_name(name)) return call.refuse(invalid_field("filename", "must be a plain file name"));
  const std::string path = (std::filesystem::path(api.options.slot_save_path) / name).string();
  if (action == "save") return ask(SlotWork::Kind::kSave, path, answer("n_saved", "save_ms", name));
  ask(SlotWork::Kind::kRestore, path, answer("n_restored", "restore_ms", name));
}

}  // namespace ei::server
