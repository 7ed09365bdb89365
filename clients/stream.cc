// Streams an answer from a coordinator. Build, with the messages generated from proto/baton/v1:
//
//   protoc -I proto --cpp_out=gen --grpc_out=gen --plugin=protoc-gen-grpc=$(which grpc_cpp_plugin) proto/baton/v1/*.proto
//   g++ -std=c++20 -Igen clients/stream.cc gen/baton/v1/*.cc $(pkg-config --cflags --libs grpc++ protobuf) -o stream
//   ./stream 127.0.0.1:7070 "Once upon a time"
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>

#include "baton/v1/inference.grpc.pb.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: stream HOST:PORT PROMPT\n";
    return 64;
  }
  const auto channel = grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials());
  const auto stub = baton::v1::Inference::NewStub(channel);

  baton::v1::GenerateRequest request;
  request.set_text(argv[2]);
  request.mutable_options()->set_max_tokens(64);
  request.mutable_options()->mutable_sampling()->set_temperature(0);

  // The deadline reaches the workers; leaving early cancels there too.
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
  const auto answer = stub->Generate(&context, request);
  baton::v1::GenerateResponse piece;
  while (answer->Read(&piece)) std::cout << piece.text() << std::flush;
  std::cout << '\n';

  const grpc::Status status = answer->Finish();
  if (!status.ok()) std::cerr << status.error_message() << '\n';
  return status.ok() ? 0 : 1;
}
