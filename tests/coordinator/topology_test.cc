#include "coordinator/topology.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace baton::coordinator {
namespace {

constexpr std::string_view kWhole = R"(
model: models/m.gguf
context: 2048
sequences: 4
listen: {grpc: "127.0.0.1:0", http: "localhost:8080"}
objective: latency
wire: bf16
kv_type: q8_0
insecure: true
workers:
  - name: left
    address: 127.0.0.1:7071
    layers: 0-14
    memory: 4GiB
    threads: 1
    device: cpu
    gpu_layers: 12
    models: ./parts
    launch: local
  - {name: right, address: "[::1]:7072", layers: 15-29, launch: "ssh://me@host"}
spares:
  - {address: 127.0.0.1:7073}
links:
  - {from: left, to: right, latency: 1ms, bandwidth: 1Gbit/s}
limits: {queue: 5, lease: 4s, recovery: 1m}
)";

TEST(TopologyTest, ReadsEveryKey) {
  const auto topology = ParseTopology(kWhole, "/etc/baton/t.yaml");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->model, "/etc/baton/models/m.gguf");
  EXPECT_EQ(topology->context, 2048);
  EXPECT_EQ(topology->sequences, 4);
  EXPECT_EQ(topology->grpc_address, "127.0.0.1:0");
  EXPECT_EQ(topology->http_address, "localhost:8080");
  EXPECT_EQ(topology->objective, Objective::kLatency);
  EXPECT_EQ(topology->wire, wire::WireType::kBF16);
  EXPECT_EQ(topology->kv_type, engine::KvType::kQ8_0);
  EXPECT_TRUE(topology->insecure);
  EXPECT_TRUE(topology->measure);
  ASSERT_EQ(topology->workers.size(), 2u);
  EXPECT_EQ(topology->workers[0].layers, (engine::LayerRange{0, 15}));
  EXPECT_EQ(topology->workers[0].memory_bytes, uint64_t{4} << 30);
  EXPECT_EQ(topology->workers[0].gpu_layers, 12);
  EXPECT_EQ(topology->workers[0].models, "/etc/baton/parts");
  EXPECT_EQ(topology->workers[0].line, 11);
  EXPECT_EQ(topology->workers[1].launch, "ssh://me@host");
  ASSERT_EQ(topology->spares.size(), 1u);
  EXPECT_EQ(topology->spares[0].name, "spare0");
  EXPECT_EQ(topology->links[0].latency, absl::Milliseconds(1));
  EXPECT_EQ(topology->links[0].bytes_per_s, 125e6);
  EXPECT_EQ(topology->limits.queue, 5);
  EXPECT_EQ(topology->limits.recovery, absl::Minutes(1));
}

TEST(TopologyTest, ModelMayBeANameOrComeFromAHub) {
  for (const std::string_view model : {"smollm2", "hf:org/repo:Q4_0"}) {
    const auto topology =
        ParseTopology(fmt::format("model: {}\nworkers: [{{address: \"h:1\"}}]", model), "a/t.yaml");
    ASSERT_TRUE(topology.ok()) << topology.status();
    EXPECT_EQ(topology->model, model);
  }
}

TEST(TopologyTest, TakesEnvironmentVariables) {
  setenv("BATON_TOPOLOGY_TEST", "7001", 1);
  const auto topology = ParseTopology(
      "model: m.gguf\nworkers: [{address: \"127.0.0.1:${BATON_TOPOLOGY_TEST}\"}]", "t.yaml");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->workers[0].address, "127.0.0.1:7001");
}

TEST(TopologyTest, ErrorsNameFileLineAndKey) {
  struct Case {
    std::string yaml, error;
  };
  const std::string workers = "workers: [{address: \"127.0.0.1:7071\"}]\n";
  const Case cases[] = {
      {"modle: m.gguf\n", "t.yaml:1: modle: unknown key; did you mean model?"},
      {"model: m.gguf\nwrokers: []\n", "t.yaml:2: wrokers: unknown key; did you mean workers?"},
      {"model: m.gguf\ncontext: many\n",
       "t.yaml:2: context: got many, expected a whole number from 1"},
      {"model: m.gguf\ncontext: 0\n", "t.yaml:2: context: got 0"},
      {"model: m.gguf\ncontext: 99999999999999999999\n", "t.yaml:2: context"},
      {"model: m.gguf\nmodel: n.gguf\n", "t.yaml:2: model: the key stands here a second time"},
      {"model: m.gguf\nworkers:\n  - address: 127.0.0.1:7071\n    memroy: 4GiB\n",
       "t.yaml:4: workers[0].memroy: unknown key; did you mean memory?"},
      {"model: m.gguf\nworkers:\n  - address: 127.0.0.1:7071\n    memory: 4 gigs\n",
       "t.yaml:4: workers[0].memory: got 4 gigs, expected a size like 4GiB"},
      {"model: m.gguf\nworkers:\n  - address: 127.0.0.1:99999\n", "t.yaml:3: workers[0].address"},
      {"model: m.gguf\nworkers:\n  - name: a\n", "t.yaml:3: workers[0]: address: missing"},
      {"model: m.gguf\nworkers:\n  - {address: \"h:1\", layers: 5-2}\n",
       "workers[0].layers: got 5-2, expected auto"},
      {"model: m.gguf\nworkers:\n  - {address: \"h:1\", launch: magic}\n",
       "workers[0].launch: got magic"},
      {"model: m.gguf\nworkers:\n  - {address: \"h:1\", name: x}\n  - {address: \"h:2\", name: "
       "x}\n",
       "t.yaml:4: name: x is taken"},
      {"model: m.gguf\nworkers:\n  - {address: \"h:1\"}\n  - {address: \"h:1\"}\n",
       "t.yaml:4: address: h:1 is that of another"},
      {"model: m.gguf\nworkers: 5\n", "t.yaml:2: workers: got 5, expected a list"},
      {"model: [1, 2]\n", "t.yaml:1: model: got a list, expected a text"},
      {workers, "t.yaml: model: missing"},
      {"model: m.gguf\n", "t.yaml: workers: missing"},
      {"model: m.gguf\nobjective: fast\n" + workers,
       "t.yaml:2: objective: got fast, expected throughput, latency"},
      {"model: m.gguf\nlimits: {lease: 0s}\n" + workers,
       "t.yaml:2: limits.lease: got 0, expected at least 1s"},
      {"model: m.gguf\nlimits: {message: 1KiB}\n" + workers,
       "t.yaml:2: limits.message: got 1KiB, expected 64KiB to 1GiB"},
      {"model: m.gguf\ntls: {ca: x}\n" + workers, "t.yaml:2: tls: expected three files"},
      {"model: ${NO_SUCH_VARIABLE}\n",
       "t.yaml:1: model: environment variable NO_SUCH_VARIABLE is not set"},
      {"model: ${NO_SUCH\n", "expected } after ${"},
      {"model: m.gguf\n  bad indent: [\n", "t.yaml:"},
      {"", "expected a mapping"},
      {"just text", "expected a mapping"},
      {"? [a]\n: b\n", "a key is no text"},
      {std::string(2 << 20, 'a'), "t.yaml: 2097152 bytes, expected at most"},
      {"model: " + std::string(10000, '['), "nested deeper than"},
      {std::string(10000, '-') + " a", "t.yaml"},
      {"a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nc: [*b, *b, *b, *b]\n",
       "t.yaml:1: a: unknown key"},
  };
  for (const Case& test : cases) {
    const auto topology = ParseTopology(test.yaml, "t.yaml");
    ASSERT_FALSE(topology.ok()) << test.yaml;
    EXPECT_NE(Message(topology.status()).find(test.error), std::string_view::npos)
        << topology.status() << "\nwanted: " << test.error;
  }
}

TEST(TopologyTest, FileThatIsNotThere) {
  EXPECT_TRUE(absl::IsNotFound(LoadTopology("/nowhere/t.yaml").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(LoadTopology("/tmp").status()));
}

}  // namespace
}  // namespace baton::coordinator
