#include "coordinator/open_requests.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace baton::coordinator {

using engine::SamplingParams;
using engine::TokenId;
using Json = nlohmann::json;

namespace {

constexpr absl::Duration kWriteEvery = absl::Milliseconds(50);
constexpr size_t kMaxTokens = 1u << 24;  // of a request, in a journal of unknown origin

std::string SystemError() { return std::generic_category().message(errno); }

// Names of the members in the journal. Floats pass through JSON's doubles unchanged.
template <typename T>
struct Member {
  const char* name;
  T SamplingParams::*member;
};
constexpr Member<float> kFloats[] = {
    {"temperature", &SamplingParams::temperature},
    {"top_p", &SamplingParams::top_p},
    {"min_p", &SamplingParams::min_p},
    {"repetition_penalty", &SamplingParams::repetition_penalty},
    {"presence_penalty", &SamplingParams::presence_penalty},
    {"frequency_penalty", &SamplingParams::frequency_penalty},
};
constexpr Member<int32_t> kIntegers[] = {
    {"top_k", &SamplingParams::top_k},
    {"top_logprobs", &SamplingParams::top_logprobs},
};

Json ToJson(const OpenRequest& request) {
  Json json;
  json["prompt"] = request.prompt;
  json["answer"] = request.answer;
  json["stop"] = request.stop;
  json["ignore_eos"] = request.ignore_eos;
  json["max_tokens"] = request.max_tokens;
  json["priority"] = request.priority;
  json["speculation"] = request.speculation;
  json["grammar_json_schema"] = request.grammar_json_schema;
  json["seed"] = request.sampling.seed;
  for (const auto& [name, member] : kFloats) json[name] = request.sampling.*member;
  for (const auto& [name, member] : kIntegers) json[name] = request.sampling.*member;
  json["logit_bias"] = request.sampling.logit_bias;
  return json;
}

// nullopt: not what ToJson writes.
std::optional<OpenRequest> FromJson(const Json& json) {
  try {
    OpenRequest request;
    json.at("prompt").get_to(request.prompt);
    json.at("answer").get_to(request.answer);
    json.at("stop").get_to(request.stop);
    json.at("ignore_eos").get_to(request.ignore_eos);
    json.at("max_tokens").get_to(request.max_tokens);
    json.at("priority").get_to(request.priority);
    json.at("speculation").get_to(request.speculation);
    json.at("grammar_json_schema").get_to(request.grammar_json_schema);
    json.at("seed").get_to(request.sampling.seed);
    for (const auto& [name, member] : kFloats) json.at(name).get_to(request.sampling.*member);
    for (const auto& [name, member] : kIntegers) json.at(name).get_to(request.sampling.*member);
    json.at("logit_bias").get_to(request.sampling.logit_bias);
    return request;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string ToLine(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string OpenRequestToJson(std::string_view id, const OpenRequest& request) {
  Json json = ToJson(request);
  json["open"] = id;
  return ToLine(json);
}

absl::StatusOr<std::unique_ptr<OpenRequests>> OpenRequests::Open(const Options& options) {
  std::unique_ptr<OpenRequests> requests(new OpenRequests(options));
  if (options.folder.empty()) return requests;
  RETURN_IF_ERROR(requests->LockFolder());
  std::ifstream stream(requests->JournalPath(), std::ios::binary);
  requests->ReadLines({std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()});
  RETURN_IF_ERROR(requests->Rewrite());
  requests->writer_ = std::thread([p = requests.get()] { p->Write(); });
  return requests;
}

OpenRequests::~OpenRequests() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (writer_.joinable()) writer_.join();
  if (file_ >= 0) close(file_);
  if (lock_ < 0) return;
  if (file_ >= 0 && entries_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(options_.folder, ignored);
  }
  close(lock_);
}

absl::Status OpenRequests::LockFolder() {
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  const std::string path = options_.folder + "/lock";
  lock_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return Unknown("{}: cannot be opened: {}", path, SystemError());
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  return AlreadyExists("{}: another coordinator keeps its journal here", options_.folder);
}

void OpenRequests::ReadLines(const std::string& journal) {
  std::string_view text = journal;
  bool known_model = false;
  while (true) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // the rest was cut off
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (!known_model) {
      const Json first = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!first.is_object() || first.value("model", Json()) != Json(options_.fingerprint)) return;
      known_model = true;
    } else {
      ReadLine(line);
    }
  }
  for (auto& [id, entry] : entries_) {
    entry.abandoned = true;
    abandoned_.push_back(id);
  }
}

void OpenRequests::ReadLine(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  if (const auto open = json.find("open"); open != json.end() && open->is_string()) {
    std::optional<OpenRequest> request = FromJson(json);
    if (request && request->prompt.size() + request->answer.size() <= kMaxTokens) {
      entries_[open->get<std::string>()] = {*std::move(request)};
    }
  } else if (const auto of = json.find("of"); of != json.end() && of->is_string()) {
    const auto entry = entries_.find(of->get<std::string>());
    const auto token = json.find("token");
    if (entry != entries_.end() && token != json.end() && token->is_number_integer()) {
      entry->second.request.answer.push_back(token->get<TokenId>());
    }
  } else if (const auto ended = json.find("end"); ended != json.end() && ended->is_string()) {
    entries_.erase(ended->get<std::string>());
  }
}

void OpenRequests::Append(std::string line) {
  if (lock_ >= 0) unwritten_ += line;
}

void OpenRequests::Opened(const std::string& id, const OpenRequest& request) {
  const std::lock_guard lock(mutex_);
  entries_[id] = {request};
  Append(OpenRequestToJson(id, request));
}

void OpenRequests::Answered(const std::string& id, TokenId token) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) return;
  entry->second.request.answer.push_back(token);
  Append(fmt::format("{{\"of\":\"{}\",\"token\":{}}}\n", id, token));
}

void OpenRequests::Forget(const std::string& id) {
  if (entries_.erase(id) > 0) Append(fmt::format("{{\"end\":\"{}\"}}\n", id));
}

void OpenRequests::Ended(const std::string& id) {
  const std::lock_guard lock(mutex_);
  Forget(id);
}

void OpenRequests::Abandoned(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.abandoned) return;
  entry->second.abandoned = true;
  abandoned_.push_back(id);
  if (abandoned_.size() <= options_.max_abandoned) return;
  Forget(abandoned_.front());
  abandoned_.pop_front();
}

std::optional<OpenRequest> OpenRequests::Take(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || !entry->second.abandoned) return std::nullopt;
  entry->second.abandoned = false;
  abandoned_.remove(id);
  return entry->second.request;
}

std::string OpenRequests::AllLines() const {
  std::string lines = ToLine(Json{{"model", options_.fingerprint}});
  for (const auto& [id, entry] : entries_) lines += OpenRequestToJson(id, entry.request);
  return lines;
}

// The file anew, with what is open only; the old one stays until the new one is whole.
absl::Status OpenRequests::Rewrite() {
  std::string lines;
  {
    const std::lock_guard lock(mutex_);
    lines = AllLines();
    unwritten_.clear();
    file_bytes_ = lines.size();
    rewrite_at_ = std::max<uint64_t>(options_.max_file_bytes, 2 * lines.size());
  }
  const std::string path = JournalPath(), fresh = path + ".new";
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  const bool written =
      file >= 0 && write(file, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()) &&
      fdatasync(file) == 0 && rename(fresh.c_str(), path.c_str()) == 0;
  if (!written) {
    const std::string why = SystemError();
    if (file >= 0) close(file);
    return Unknown("{}: cannot be written: {}", fresh, why);
  }
  if (file_ >= 0) close(file_);
  file_ = file;
  return absl::OkStatus();
}

void OpenRequests::Write() {
  bool stopping = false;
  while (!stopping) {
    std::string lines;
    bool rewrite = false;
    {
      std::unique_lock lock(mutex_);
      stop_.wait_for(lock, absl::ToChronoNanoseconds(kWriteEvery), [this] { return stopping_; });
      stopping = stopping_;
      lines.swap(unwritten_);
      file_bytes_ += lines.size();
      rewrite = file_bytes_ > rewrite_at_;
    }
    // A full disk costs the journal, not the answers.
    if (rewrite) {
      (void)Rewrite();
    } else if (!lines.empty() && write(file_, lines.data(), lines.size()) > 0) {
      fdatasync(file_);
    }
  }
}

}  // namespace baton::coordinator
