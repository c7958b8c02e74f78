// serve: the engine behind HTTP until a signal comes; then the answers that are under way are finished.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "cli/answer.h"
#include "cli/command.h"
#include "cli/hangups.h"
#include "cli/kv_options.h"
#include "cli/log_file.h"
#include "cli/method_options.h"
#include "cli/setup.h"
#include "cli/version.h"
#include "engine/cache_types.h"
#include "server/http/cors.h"
#include "server/server.h"

namespace ei::cli {

namespace {
constexpr auto kLook = std::chrono::milliseconds(50);

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> list = split(text, ',');
  std::erase_if(list, [](const std::string& item) { return item.empty(); });
  return list;
}

Result<std::vector<std::string>> api_keys(const Settings& settings) {
  std::vector<std::string> keys = list_of(settings.api_key);
  if (settings.api_key_file.empty()) return keys;
  std::ifstream file(settings.api_key_file);
  if (!file) return make_error(ErrorKind::kUsage, "cannot read --api-key-file %s", settings.api_key_file.c_str());
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) keys.push_back(line);
  }
  // An empty file would open the server to everybody.
  if (keys.empty())
    return make_error(ErrorKind::kUsage, "--api-key-file %s holds no key", settings.api_key_file.c_str());
  return keys;
}

using AccessLog = std::function<void(const std::string& line)>;

// To a file of its own, or with -v to the terminal.
Result<AccessLog> access_log(const Settings& settings, const Console& console, LogFile& file) {
  if (settings.access_log.empty()) {
    if (!settings.verbose) return AccessLog();
    return AccessLog([&console](const std::string& line) { console.detail(line); });
  }
  EI_RETURN_IF_ERROR(file.open());
  return AccessLog([&file](const std::string& line) { file.append(line); });
}

std::vector<std::string> model_names(const Settings& settings, const Engine& engine) {
  const std::vector<std::string> given = list_of(settings.alias);
  const std::set<std::string> sorted(given.begin(), given.end());
  if (!sorted.empty()) return {sorted.begin(), sorted.end()};
  return {std::filesystem::path(engine.tokenizer().path()).stem().string()};
}

Status add_limits(const Settings& settings, server::HttpOptions& http) {
  constexpr int64_t kLeastRoom = int64_t{256} << 20;
  http.body_bytes = settings.max_body << 20;
  http.all_body_bytes = std::max(kLeastRoom, 4 * http.body_bytes);
  http.read_s = static_cast<double>(settings.timeout);
  http.write_s = 2 * http.read_s;
  http.origins = list_of(settings.cors_origin);
  for (const std::string& origin : http.origins) {
    if (const Status good = server::check_origin(origin); !good.ok())
      return make_error(ErrorKind::kUsage, "--cors-origin: %s", good.error().message.c_str());
  }
  return {};
}

// What it takes to listen: nothing of the model.
Result<server::ServerOptions> front_options(const CommandContext& context, LogFile& log) {
  const Settings& settings = context.settings;
  server::ServerOptions options;
  options.http.hosts = list_of(settings.host);
  options.http.port = static_cast<uint16_t>(settings.port);
  options.http.certificate_file = settings.ssl_cert_file;
  options.http.key_file = settings.ssl_key_file;
  EI_RETURN_IF_ERROR(add_limits(settings, options.http));
  EI_RETURN_IF_ERROR(prefill_options(settings));
  EI_RETURN_IF_ERROR(kv_options(settings));
  EI_ASSIGN_OR_RETURN(options.keys, api_keys(settings));
  EI_ASSIGN_OR_RETURN(options.chat_template, template_source(settings));
  options.tags = list_of(settings.tags);
  options.slot_save_path = settings.slot_save_path;
  options.slots = !settings.no_slots;
  options.metrics = settings.metrics;
  options.kv_events = settings.kv_events;
  options.page = !settings.no_ui;
  options.reasoning = settings.reasoning;
  options.parts_thoughts = settings.reasoning_format != "none";
  options.version = version();
  options.commit = build_commit();
  EI_ASSIGN_OR_RETURN(options.access_log, access_log(settings, context.console, log));
  return options;
}

Status add_engine_options(const CommandContext& context, const Engine& engine, server::ServerOptions& options) {
  const Settings& settings = context.settings;
  // Asked for in front of the first request: one that is refused should say so at once.
  const CacheTypes types = cache_types(engine.backend(), key_type(settings), value_type(settings));
  EI_RETURN_IF_ERROR(check_cache_types(engine.backend(), engine.config(), types));
  options.scheduler.slots = static_cast<int>(settings.parallel);
  options.scheduler.queue = static_cast<int>(settings.queue);
  options.scheduler.cache_bytes = settings.cache_ram << 20;
  options.scheduler.disk = {.folder = settings.cache_path,
                            .most_bytes = settings.cache_disk << 20,
                            .build = std::string(version()) + " " + std::string(build_commit()) + " " +
                                     dtype_name(types.keys) + "/" + dtype_name(types.values),
                            .log = [&console = context.console](const std::string& line) { console.warn(line); }};
  options.scheduler.session.context = settings.ctx_size;
  options.scheduler.session.batch = chunk_tokens(settings);
  options.scheduler.session.key_type = types.keys;
  options.scheduler.session.value_type = types.values;
  server::Params& defaults = options.limits.defaults;
  defaults.generate = generate_options(settings, context.interrupts);
  defaults.generate.stop_soon = nullptr;
  defaults.method = method_choice(settings);
  defaults.verbose = settings.verbose;
  options.limits.request_methods = !settings.fixed_method;
  options.limits.most_s = static_cast<double>(settings.max_seconds);
  options.names = model_names(settings, engine);
  return {};
}

// Each connection is a descriptor, and many a shell gives its programs 1 024 unless they ask for more.
void take_all_descriptors() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return;
  descriptors.rlim_cur = descriptors.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
}

std::string address(const Settings& settings, const std::string& host, int port) {
  const bool bare = host.find(':') == std::string::npos;
  return str_format("%s://%s:%d", settings.ssl_cert_file.empty() ? "http" : "https",
                    bare ? host.c_str() : ("[" + host + "]").c_str(), port);
}
}  // namespace

Result<int> command_serve(const CommandContext& context) {
  const Settings& settings = context.settings;
  take_all_descriptors();
  Hangups hangups;
  LogFile log(settings.access_log);
  EI_ASSIGN_OR_RETURN(server::ServerOptions options, front_options(context, log));
  const std::string host = options.http.hosts.empty() ? "" : options.http.hosts.front();
  const bool open = options.keys.empty() && host != "127.0.0.1" && host != "localhost" && host != "::1";
  std::unique_ptr<Engine> engine;  // outlives the server
  // Listens before the model is loaded: who asks meanwhile is told so, and a port that is taken is known at once.
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<server::Server> running, server::Server::listen(options));
  EI_ASSIGN_OR_RETURN(engine, load_engine(settings, context.console));
  introduce_model(*engine, settings, context.console);
  if (open) context.console.warn("others can reach this server, and it asks for no key: give --api-key-file");
  if (const auto& origins = options.http.origins;
      options.keys.empty() && std::find(origins.begin(), origins.end(), "*") != origins.end())
    context.console.warn("any web page can use this server, and it asks for no key: give --api-key-file");
  EI_RETURN_IF_ERROR(add_engine_options(context, *engine, options));
  EI_RETURN_IF_ERROR(running->serve(*engine, std::move(options)));
  context.interrupts.enter(Interrupts::Phase::kAnswer);  // a signal that follows the line below ends it in order
  context.console.note("listening on " + address(settings, host, static_cast<int>(running->port())));
  if (const std::string events = running->kv_events_address(); !events.empty())
    context.console.note("KV events on " + events);
  while (!context.interrupts.stop_soon().cancelled()) {
    std::this_thread::sleep_for(kLook);
    if (!hangups.come() || settings.access_log.empty()) continue;
    if (const Status opened = log.open(); !opened.ok()) context.console.warn(opened.error().message);
  }
  context.console.note("stopping: no new requests, answers under way are finished; once more stops at once");
  running->drain(static_cast<double>(settings.drain_seconds));
  return 0;
}

}  // namespace ei::cli
