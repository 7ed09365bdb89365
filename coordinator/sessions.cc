#include "coordinator/sessions.h"

#include <absl/synchronization/notification.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/pending_file.h"
#include "engine/base/quote.h"
#include "engine/base/steady_time.h"
#include "proto/spec_hash.h"

namespace baton::coordinator {

using engine::kKvBlockPositions;
using engine::TokenId;

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMaxSessions = 1024;
constexpr size_t kMaxName = 64;
constexpr std::string_view kSuffix = ".json";

// A name becomes that of a file.
absl::Status CheckName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kMaxName && name[0] != '.' &&
      std::ranges::all_of(name, allowed))
    return absl::OkStatus();
  return InvalidArgument(
      "session: got \"{}\", expected up to {} letters, digits, \"-\", \"_\", \".\"",
      engine::Named(name), kMaxName);
}

absl::Status NoSuch(std::string_view name) {
  return NotFound("session {}: there is none of that name", engine::Named(name));
}

int32_t Size(const std::vector<TokenId>& tokens) { return static_cast<int32_t>(tokens.size()); }

}  // namespace

Sessions::Sessions(Options options, Pipeline* pipeline, WorkerRegistry* registry,
                   Recovery* recovery)
    : options_(std::move(options)), pipeline_(pipeline), registry_(registry), recovery_(recovery) {
  ReadFolder();
}

std::string Sessions::PathOf(const std::string& name) const {
  return (fs::path(options_.folder) / (name + std::string(kSuffix))).string();
}

// What cannot be read is as good as not there.
void Sessions::ReadFolder() {
  std::error_code error;
  for (fs::directory_iterator entry(options_.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().stem().string();
    if (entry->path().extension() != kSuffix || !CheckName(name).ok()) continue;
    std::ifstream file(entry->path());
    std::stringstream text;
    text << file.rdbuf();
    const auto json = engine::ParseJson(text.str(), name);
    if (!json.ok() || !json->is_object()) continue;
    const auto tokens = json->find("tokens");
    if (tokens == json->end() || !tokens->is_array()) continue;
    Saved saved;
    for (const Json& token : *tokens) {
      if (token.is_number_integer()) saved.dialogue.tokens.push_back(token.get<TokenId>());
    }
    const auto text_of = [&](const char* key) {
      const auto value = json->find(key);
      return value != json->end() && value->is_string() ? value->get<std::string>() : std::string();
    };
    saved.dialogue.messages_json = text_of("messages");
    saved.key = text_of("key");
    const auto count = json->find("saved_tokens");
    if (count != json->end() && count->is_number_integer())
      saved.num_tokens = std::clamp(count->get<int32_t>(), 0, Size(saved.dialogue.tokens));
    if (sessions_.size() < kMaxSessions)
      sessions_[name] = {.dialogue = saved.dialogue, .saved = std::move(saved)};
  }
}

absl::Status Sessions::Write(const std::string& name, const Saved& saved) const {
  std::error_code error;
  if (!fs::exists(options_.folder, error)) {
    fs::create_directories(options_.folder, error);
    if (!error) fs::permissions(options_.folder, fs::perms::owner_all, error);
    if (error) return Unknown("{}: cannot be created: {}", options_.folder, error.message());
  }
  ASSIGN_OR_RETURN(const auto file, engine::PendingFile::Create(PathOf(name)));
  const Json json = {{"tokens", saved.dialogue.tokens},
                     {"messages", saved.dialogue.messages_json},
                     {"saved_tokens", saved.num_tokens},
                     {"key", saved.key}};
  file->stream() << engine::JsonText(json) << "\n";
  return file->Commit();
}

absl::StatusOr<Sessions::Session> Sessions::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(name);
  if (found == sessions_.end()) return NoSuch(name);
  return found->second;
}

SessionInfo Sessions::InfoOf(const std::string& name, const Session& session) const {
  return {.name = name,
          .tokens = Size(session.dialogue.tokens),
          .saved_tokens = session.saved ? Size(session.saved->dialogue.tokens) : 0};
}

absl::StatusOr<Dialogue> Sessions::Begin(const std::string& name) {
  RETURN_IF_ERROR(CheckName(name));
  const std::lock_guard lock(mutex_);
  if (!sessions_.contains(name) && sessions_.size() >= kMaxSessions) {
    return ResourceExhausted("session {}: there are {} already; `baton session rm` ends some", name,
                             kMaxSessions);
  }
  Session& session = sessions_[name];
  if (std::exchange(session.busy, true))
    return FailedPrecondition("session {}: a turn of it is not over yet", name);
  return session.dialogue;
}

void Sessions::End(const std::string& name, std::optional<Dialogue> dialogue) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(name);
  if (found == sessions_.end()) return;  // removed meanwhile
  found->second.busy = false;
  if (dialogue) {
    found->second.dialogue = *std::move(dialogue);
    pipeline_->Keep(name, found->second.dialogue.tokens);
  } else if (found->second.dialogue.tokens.empty()) {
    sessions_.erase(found);
  }
}

std::vector<SessionInfo> Sessions::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<SessionInfo> all;
  for (const auto& [name, session] : sessions_) all.push_back(InfoOf(name, session));
  return all;
}

absl::StatusOr<SessionInfo> Sessions::Fork(const std::string& name, const std::string& to) {
  RETURN_IF_ERROR(CheckName(to));
  const std::lock_guard lock(mutex_);
  const auto from = sessions_.find(name);
  if (from == sessions_.end()) return NoSuch(name);
  if (sessions_.contains(to)) return AlreadyExists("session {}: there is one of that name", to);
  if (sessions_.size() >= kMaxSessions)
    return ResourceExhausted("session {}: there are {} already", to, kMaxSessions);
  Session& session = sessions_[to];
  session.dialogue = from->second.dialogue;
  pipeline_->Keep(to, session.dialogue.tokens);
  return InfoOf(to, session);
}

absl::StatusOr<Pipeline::Borrowed> Sessions::Wait(
    const std::function<void(Pipeline::BorrowDone)>& borrow) {
  absl::Notification arrived;
  absl::StatusOr<Pipeline::Borrowed> result = Internal("nothing was borrowed");
  borrow([&](absl::StatusOr<Pipeline::Borrowed> borrowed) {
    result = std::move(borrowed);
    arrived.Notify();
  });
  arrived.WaitForNotification();  // the pipeline answers always: also when it stops
  return result;
}

absl::Status Sessions::OnAllWorkers(const wire::KvFileRequest& request, absl::Time deadline) {
  const std::vector<Placement> placement = recovery_->snapshot().placement;
  std::vector<absl::Status> status(placement.size());
  InParallel(placement.size(), [&](size_t i) {
    status[i] = registry_->KvFile(placement[i].worker, request, deadline - SteadyNow()).status();
  });
  for (const absl::Status& one : status) RETURN_IF_ERROR(one);
  return absl::OkStatus();
}

bool Sessions::IsUsed(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(sessions_, [&](const auto& entry) {
    return entry.second.saved && entry.second.saved->key == key;
  });
}

absl::StatusOr<SessionInfo> Sessions::Save(const std::string& name, absl::Time deadline) {
  const std::lock_guard files(files_mutex_);
  ASSIGN_OR_RETURN(const Session session, Find(name));
  if (options_.folder.empty()) {
    return FailedPrecondition("session {}: there is no folder to save it in: set XDG_STATE_HOME",
                              name);
  }
  Saved saved;
  saved.dialogue = session.dialogue;
  const std::vector<TokenId>& tokens = saved.dialogue.tokens;
  ASSIGN_OR_RETURN(const Pipeline::Borrowed borrowed, Wait([&](Pipeline::BorrowDone done) {
                     pipeline_->BorrowKnown(tokens, std::move(done));
                   }));
  absl::Status status;
  if (!borrowed.blocks.empty()) {
    saved.num_tokens = static_cast<int32_t>(borrowed.blocks.size()) * kKvBlockPositions;
    saved.key = wire::TokensHash(options_.fingerprint, options_.context_length,
                                 std::span(tokens).first(saved.num_tokens));
    status = OnAllWorkers({.action = wire::KvAction::kSave,
                           .key = saved.key,
                           .epoch = borrowed.epoch,
                           .blocks = borrowed.blocks},
                          deadline);
  }
  pipeline_->GiveBack(borrowed, {});
  RETURN_IF_ERROR(Prefixed(status, "session " + name));
  RETURN_IF_ERROR(Write(name, saved));
  const std::string before = session.saved ? session.saved->key : "";
  SessionInfo info;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(name);
    if (found == sessions_.end()) return NoSuch(name);
    found->second.saved = std::move(saved);
    info = InfoOf(name, found->second);
    info.blocks_tokens = found->second.saved->num_tokens;
  }
  // What is left over costs room only.
  if (!before.empty() && !IsUsed(before))
    OnAllWorkers({.action = wire::KvAction::kRemove, .key = before}, deadline).IgnoreError();
  return info;
}

// Tokens whose blocks are there afterwards.
absl::StatusOr<int32_t> Sessions::RestoreBlocks(const Saved& saved, absl::Time deadline) {
  const std::span<const TokenId> tokens = std::span(saved.dialogue.tokens).first(saved.num_tokens);
  const auto blocks = static_cast<int32_t>(tokens.size() / kKvBlockPositions);
  if (saved.key.empty() || blocks == 0) return 0;
  ASSIGN_OR_RETURN(const Pipeline::Borrowed known, Wait([&](Pipeline::BorrowDone done) {
                     pipeline_->BorrowKnown({tokens.begin(), tokens.end()}, std::move(done));
                   }));
  pipeline_->GiveBack(known, {});
  if (static_cast<int32_t>(known.blocks.size()) == blocks) return saved.num_tokens;
  // The hash stands for the tokens, so a list that was changed finds no file.
  const std::string key = wire::TokensHash(options_.fingerprint, options_.context_length, tokens);
  ASSIGN_OR_RETURN(const Pipeline::Borrowed borrowed, Wait([&](Pipeline::BorrowDone done) {
                     pipeline_->BorrowFree(blocks, std::move(done));
                   }));
  const absl::Status status = OnAllWorkers({.action = wire::KvAction::kRestore,
                                            .key = key,
                                            .epoch = borrowed.epoch,
                                            .blocks = borrowed.blocks},
                                           deadline);
  std::vector<TokenId> held;
  if (status.ok()) held.assign(tokens.begin(), tokens.end());
  pipeline_->GiveBack(borrowed, std::move(held));
  RETURN_IF_ERROR(status);
  return saved.num_tokens;
}

absl::StatusOr<SessionInfo> Sessions::Restore(const std::string& name, absl::Time deadline) {
  const std::lock_guard files(files_mutex_);
  ASSIGN_OR_RETURN(const Session session, Find(name));
  if (!session.saved) return FailedPrecondition("session {}: it was never saved", name);
  const absl::StatusOr<int32_t> restored = RestoreBlocks(*session.saved, deadline);
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(name);
  if (found == sessions_.end()) return NoSuch(name);
  if (found->second.busy)
    return FailedPrecondition("session {}: a turn of it is not over yet", name);
  found->second.dialogue = session.saved->dialogue;
  pipeline_->Keep(name, found->second.dialogue.tokens);
  SessionInfo info = InfoOf(name, found->second);
  info.blocks_tokens = restored.value_or(0);
  if (!restored.ok()) info.note = std::string(Message(restored.status()));
  return info;
}

absl::Status Sessions::Remove(const std::string& name, absl::Time deadline) {
  const std::lock_guard files(files_mutex_);
  std::string key;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(name);
    if (found == sessions_.end()) return NoSuch(name);
    if (found->second.busy)
      return FailedPrecondition("session {}: a turn of it is not over yet", name);
    if (found->second.saved) key = found->second.saved->key;
    sessions_.erase(found);
    pipeline_->Keep(name, {});
  }
  std::error_code error;
  if (!options_.folder.empty()) fs::remove(PathOf(name), error);
  if (error) return Unknown("{}: {}", PathOf(name), error.message());
  if (key.empty() || IsUsed(key)) return absl::OkStatus();
  return OnAllWorkers({.action = wire::KvAction::kRemove, .key = key}, deadline);
}

absl::StatusOr<GenerationRequest> NextTurn(
    const Dialogue& before, GenerationRequest request,
    const std::function<absl::StatusOr<std::vector<TokenId>>(const TextPrompt&)>& tokenize) {
  request.session.clear();
  if (auto* chat = std::get_if<ChatPrompt>(&request.prompt)) {
    if (before.tokens.empty()) return request;
    if (before.messages_json.empty())
      return InvalidArgument("session: it was made of text, so it cannot go on with messages");
    ASSIGN_OR_RETURN(Json messages, engine::ParseJson(before.messages_json, "session"));
    ASSIGN_OR_RETURN(const Json more, engine::ParseJson(chat->messages_json, "messages"));
    if (!more.is_array()) return InvalidArgument("messages: expected an array");
    messages.insert(messages.end(), more.begin(), more.end());
    chat->messages_json = engine::JsonText(messages);
    return request;
  }
  std::vector<TokenId> next;
  if (const auto* text = std::get_if<TextPrompt>(&request.prompt)) {
    if (before.tokens.empty()) return request;
    ASSIGN_OR_RETURN(next, tokenize(*text));
  } else {
    next = std::get<TokenPrompt>(request.prompt).ids;
  }
  TokenPrompt whole{before.tokens};
  whole.ids.insert(whole.ids.end(), next.begin(), next.end());
  request.prompt = std::move(whole);
  return request;
}

Dialogue AfterTurn(const GenerationRequest& turn, std::vector<TokenId> tokens,
                   const std::string& answer) {
  Dialogue after{.tokens = std::move(tokens), .messages_json = {}};
  const auto* chat = std::get_if<ChatPrompt>(&turn.prompt);
  if (chat == nullptr) return after;
  auto messages = engine::ParseJson(chat->messages_json, "messages");
  if (!messages.ok() || !messages->is_array()) return after;
  messages->push_back({{"role", "assistant"}, {"content", answer}});
  after.messages_json = engine::JsonText(*messages);
  return after;
}

}  // namespace baton::coordinator
