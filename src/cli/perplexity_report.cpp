#include "cli/perplexity_report.h"

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/units.h"
#include "cli/method_options.h"

namespace ei::cli {

namespace {
nlohmann::ordered_json bucket_json(const eval::PositionBucket& bucket) {
  const eval::Divergence& divergence = bucket.divergence;
  return {{"first", bucket.first},
          {"end", bucket.end},
          {"tokens", divergence.kl().count()},
          {"compressed", bucket.compressed},
          {"mean_kld", divergence.kl().mean()},
          {"mean_kld_error", divergence.kl().standard_error()},
          {"same_top", divergence.same_top().mean()},
          {"same_top_error", divergence.same_top().standard_error()}};
}

// Behind a prompt tokens are counted from its end.
std::string bucket_rows(const Settings& settings, const PerplexityScores& scores) {
  std::string rows = str_format("%-19s %8s %10s  %-22s %s\n", settings.decode ? "behind the prompt" : "position",
                                "tokens", "compressed", "mean KLD", "same top token");
  const int64_t from = settings.decode ? unscored_tokens(settings) : 0;
  for (const eval::PositionBucket& bucket : scores.by_position.all()) {
    const eval::Divergence& divergence = bucket.divergence;
    if (divergence.kl().count() == 0) continue;
    const std::string range = str_format("%lld..%lld", static_cast<long long>(bucket.first - from),
                                         static_cast<long long>(bucket.end - 1 - from));
    rows += str_format("%-19s %8lld %10lld  %.6f +/- %.6f  %.3f +/- %.3f %%\n", range.c_str(),
                       static_cast<long long>(divergence.kl().count()), static_cast<long long>(bucket.compressed),
                       divergence.kl().mean(), divergence.kl().standard_error(), 100 * divergence.same_top().mean(),
                       100 * divergence.same_top().standard_error());
  }
  return rows;
}
}  // namespace

std::string reference_settings(const Settings& settings) {
  return settings.vs.empty() ? "method=full,kv-policy=full" : settings.vs;
}

int64_t unscored_tokens(const Settings& settings) {
  return settings.decode_tokens > 0 ? settings.ppl_ctx_size - settings.decode_tokens : settings.ppl_ctx_size / 2 + 1;
}

std::string perplexity_json(const Settings& settings, const Engine& engine, const PerplexityScores& scores) {
  nlohmann::ordered_json object;
  object["model"] = engine.file().path();
  object["backend"] = engine.backend().name();
  object["method"] = settings.method;
  object["method_options"] = method_options_text(settings);
  object["acted"] = scores.acted.any();
  object["idle"] = scores.acted.idle();
  object["ctx_size"] = settings.ppl_ctx_size;
  object["decode"] = settings.decode;
  object["unscored"] = unscored_tokens(settings);
  object["stride"] = settings.ppl_stride;
  object["chunks"] = scores.chunks;
  object["chunks_wanted"] = scores.chunks_wanted;
  object["interrupted"] = scores.interrupted();
  object["tokens"] = scores.base.count();
  object["ppl"] = scores.base.value();
  object["ppl_error"] = scores.base.error();
  if (settings.kl_divergence) {
    object["vs"] = reference_settings(settings);
    object["ppl_vs"] = scores.other.value();
    object["ppl_vs_error"] = scores.other.error();
    object["mean_kld"] = scores.divergence.kl().mean();
    object["mean_kld_error"] = scores.divergence.kl().standard_error();
    object["same_top"] = scores.divergence.same_top().mean();
    object["same_top_error"] = scores.divergence.same_top().standard_error();
    object["by_position"] = nlohmann::ordered_json::array();
    for (const eval::PositionBucket& bucket : scores.by_position.all())
      if (bucket.divergence.kl().count() > 0) object["by_position"].push_back(bucket_json(bucket));
  }
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string perplexity_text(const Settings& settings, const PerplexityScores& scores) {
  const std::string interrupted = scores.interrupted() ? str_format("; interrupted, %lld chunks were wanted",
                                                                    static_cast<long long>(scores.chunks_wanted))
                                                       : "";
  std::string text =
      str_format("PPL = %.4f +/- %.4f (%lld tokens in %s of %lld%s)\n", scores.base.value(), scores.base.error(),
                 static_cast<long long>(scores.base.count()), counted(scores.chunks, "chunk").c_str(),
                 static_cast<long long>(settings.ppl_ctx_size), interrupted.c_str());
  if (!settings.kl_divergence) return text;
  const eval::Divergence& divergence = scores.divergence;
  text += str_format("PPL(%s) = %.4f +/- %.4f\n", reference_settings(settings).c_str(), scores.other.value(),
                     scores.other.error());
  text += str_format("mean KLD = %.6f +/- %.6f\n", divergence.kl().mean(), divergence.kl().standard_error());
  text += str_format("same top token = %.3f +/- %.3f %%\n", 100 * divergence.same_top().mean(),
                     100 * divergence.same_top().standard_error());
  return text + "\n" + bucket_rows(settings, scores);
}

}  // namespace ei::cli
