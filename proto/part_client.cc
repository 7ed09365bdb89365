#include "proto/part_client.h"

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <xxhash.h>

#include <utility>

#include "baton/v1/worker.grpc.pb.h"
#include "engine/base/quote.h"
#include "proto/channel_options.h"
#include "proto/status_convert.h"

namespace baton::wire {
namespace {

// Slower than this is given up: a link of 1 Mbit/s, and a minute for the source's disk.
constexpr double kSlowestBytesPerSecond = 128 << 10;
constexpr absl::Duration kStartTime = absl::Minutes(1);

}  // namespace

struct PartClient::Impl {
  std::string address;
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel;
  std::unique_ptr<v1::Worker::Stub> stub;
};

PartClient::PartClient(std::string address, const Security& security)
    : impl_(new Impl{address, MakeChannel(address, security), nullptr}) {
  if (impl_->channel.ok()) impl_->stub = v1::Worker::NewStub(*impl_->channel);
}
PartClient::~PartClient() = default;

absl::Status PartClient::Read(
    const PartRange& range,
    const std::function<absl::Status(uint64_t offset, std::string_view)>& sink) {
  RETURN_IF_ERROR(impl_->channel.status());
  grpc::ClientContext context;
  context.set_deadline(
      absl::ToChronoTime(absl::Now() + kStartTime +
                         absl::Seconds(static_cast<double>(range.bytes) / kSlowestBytesPerSecond)));
  v1::ReadPartRequest request;
  request.set_file_name(range.file_name);
  request.set_offset(range.offset);
  request.set_bytes(range.bytes);
  const auto reader = impl_->stub->ReadPart(&context, request);

  uint64_t next = range.offset;
  const uint64_t end = range.offset + range.bytes;
  absl::Status wrong;
  v1::FileChunk chunk;
  while (wrong.ok() && reader->Read(&chunk)) {
    const std::string& data = chunk.data();
    if (chunk.file_bytes() != range.file_bytes) {
      wrong =
          FailedPrecondition("{} bytes there, expected {}", chunk.file_bytes(), range.file_bytes);
    } else if (chunk.offset() != next || data.size() > end - next ||
               chunk.hash() != XXH3_64bits(data.data(), data.size())) {
      wrong = DataLoss("a piece at byte {} is wrong", next);
    } else {
      wrong = sink(next, data);
      next += data.size();
    }
  }
  if (!wrong.ok()) context.TryCancel();
  absl::Status status = FromGrpc(reader->Finish());
  if (!wrong.ok()) status = wrong;
  if (status.ok() && next != end) status = DataLoss("ends at byte {}, expected {}", next, end);
  return Prefixed(status,
                  fmt::format("worker {}: {}", impl_->address, engine::Named(range.file_name)));
}

}  // namespace baton::wire
