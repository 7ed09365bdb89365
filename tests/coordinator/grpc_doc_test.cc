// The grpcurl lines of docs/grpc.md: one for each call, with a body that the call takes.
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "baton/v1/inference.pb.h"
#include "baton/v1/worker.pb.h"

namespace baton::coordinator {
namespace {

namespace pb = ::google::protobuf;

// Calls of a service and their bodies: grpcurl … -d 'BODY' ADDRESS SERVICE/CALL
std::map<std::string, std::string> CallsOfThePage(const std::string& service) {
  constexpr std::string_view kBody = " -d '", kBodyEnd = "' ";
  const std::string prefix = service + "/";
  std::ifstream page(BATON_SOURCE_FOLDER "/docs/grpc.md");
  std::map<std::string, std::string> calls;
  for (std::string line; std::getline(page, line);) {
    const size_t body = line.find(kBody), end = line.rfind(kBodyEnd), call = line.rfind(prefix);
    if (!line.starts_with("grpcurl ") || call == line.npos) continue;
    if (body == line.npos || end == line.npos) {
      ADD_FAILURE() << line;
      continue;
    }
    const size_t begin = body + kBody.size();
    calls[line.substr(call + prefix.size())] = line.substr(begin, end - begin);
  }
  return calls;
}

void ExpectALineForEachCall(const pb::ServiceDescriptor* service) {
  ASSERT_NE(service, nullptr);
  const std::map<std::string, std::string> calls = CallsOfThePage(service->full_name());
  EXPECT_EQ(calls.size(), static_cast<size_t>(service->method_count()));
  for (int i = 0; i < service->method_count(); ++i) {
    const pb::MethodDescriptor* method = service->method(i);
    ASSERT_TRUE(calls.contains(std::string(method->name()))) << method->name();
    const std::unique_ptr<pb::Message> request(
        pb::MessageFactory::generated_factory()->GetPrototype(method->input_type())->New());
    const auto status = pb::util::JsonStringToMessage(calls.at(method->name()), request.get());
    EXPECT_TRUE(status.ok()) << method->name() << ": " << status.ToString();
  }
}

TEST(GrpcPage, HasALineForEachCallThatTheCallTakes) {
  ExpectALineForEachCall(v1::GenerateRequest::descriptor()->file()->FindServiceByName("Inference"));
  ExpectALineForEachCall(v1::LoadStageRequest::descriptor()->file()->FindServiceByName("Worker"));
}

}  // namespace
}  // namespace baton::coordinator
