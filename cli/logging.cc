#include "cli/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/base/json.h"

namespace baton::cli {
namespace {

// {"time": seconds since 1970, "level": "info", "message": …}, a line each.
class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto since_epoch = std::chrono::duration<double>(message.time.time_since_epoch());
    const auto level = spdlog::level::to_string_view(message.level);
    const nlohmann::ordered_json line = {
        {"time", since_epoch.count()},
        {"level", std::string(level.data(), level.size())},
        {"message", std::string(message.payload.data(), message.payload.size())}};
    const std::string text = engine::JsonText(line) + "\n";
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace

void SetUpLogging(const LoggingFlags& flags) {
  auto sink =
      std::make_shared<spdlog::sinks::stderr_color_sink_mt>();  // colours on a terminal only
  if (flags.format == "json") {
    sink->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    sink->set_pattern("%H:%M:%S.%e %^%l%$ %v");
  }
  auto logger = std::make_shared<spdlog::logger>("baton", std::move(sink));
  logger->set_level(flags.verbosity == 0   ? spdlog::level::info
                    : flags.verbosity == 1 ? spdlog::level::debug
                                           : spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace baton::cli
