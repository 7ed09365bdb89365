// Every backend, however it divides the work, gives the bits of the scalar CPU on one thread.
#include "engine/backend/backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/cuda_backend.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/half.h"
#include "tests/support/cuda_emulation.h"
#include "tests/support/emulated_cuda.h"
#include "tests/support/random_blocks.h"

namespace baton::engine {
namespace {

using kernels::QuantType;

struct Matrix {
  int32_t rows = 0, cols = 0;
  std::vector<float> values;
  Matrix(int32_t r, int32_t c) : rows(r), cols(c), values(static_cast<size_t>(r) * c) {}
  Activations View() { return {values.data(), rows, cols, cols}; }
  float* Row(int32_t r) { return values.data() + int64_t{r} * cols; }
};
Matrix RandomMatrix(int32_t rows, int32_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix m(rows, cols);
  for (float& v : m.values) v = normal(random);
  return m;
}

// Every instruction set of this machine, with one, two and three threads; CUDA, emulated, with its
// threads in three orders. Device memory is the host's there, so that tests may look into it.
struct BackendRow {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;
};
std::unique_ptr<Backend> MakeScalar() {
  return std::make_unique<CpuBackend>(kernels::FindKernelSet("scalar"), 1);
}
std::vector<BackendRow> AllBackends() {
  std::vector<BackendRow> rows;
  for (const kernels::Isa& isa : kernels::KnownIsas()) {
    if (!isa.supported) continue;
    for (int threads : {1, 2, 3}) {
      rows.push_back({fmt::format("{}_{}", isa.name, threads), [isa, threads] {
                        return std::make_unique<CpuBackend>(kernels::FindKernelSet(isa.name),
                                                            threads);
                      }});
    }
  }
  using cuda_emulation::ThreadOrder;
  for (const auto& [name, order] :
       {std::pair("cuda", ThreadOrder::kForward), std::pair("cuda_reverse", ThreadOrder::kReverse),
        std::pair("cuda_shuffled", ThreadOrder::kShuffled)}) {
    rows.push_back({name, [order] {
                      cuda_emulation::SetThreadOrder(order);
                      return *CudaBackend::Open(baton::testing::EmulatedCuda(), 0);
                    }});
  }
  return rows;
}

class BackendTest : public ::testing::TestWithParam<BackendRow> {
 protected:
  ~BackendTest() override { cuda_emulation::SetThreadOrder(cuda_emulation::ThreadOrder::kForward); }
  std::unique_ptr<Backend> backend_ = GetParam().make();
  std::unique_ptr<Backend> scalar_ = MakeScalar();
};
INSTANTIATE_TEST_SUITE_P(All, BackendTest, ::testing::ValuesIn(AllBackends()),
                         [](const auto& test) { return test.param.name; });

void ExpectSameBits(const Matrix& got, const Matrix& want, std::string_view what) {
  ASSERT_EQ(got.values.size(), want.values.size());
  EXPECT_EQ(std::memcmp(got.values.data(), want.values.data(), got.values.size() * sizeof(float)),
            0)
      << what;
}

Weight FloatsAsWeight(const float* values) {
  Weight weight;
  weight.data = values;
  return weight;
}
struct TestWeight {
  std::vector<uint8_t> bytes;
  Weight weight;
};
TestWeight RandomWeight(Backend& backend, QuantType type, int64_t in, int64_t out, int64_t slices,
                        uint32_t seed) {
  std::mt19937 random(seed);
  TestWeight w{baton::testing::RandomBlocks(type, in * out * slices, random), {}};
  const TensorView view{.name = "w",
                        .type = type,
                        .ne = {in, out, slices, 1},
                        .data = reinterpret_cast<const std::byte*>(w.bytes.data()),
                        .bytes = w.bytes.size()};
  w.weight = *backend.Prepare(view);
  return w;
}
// Slice `index` of a weight of several, as one of its own.
Weight SliceOf(Backend& backend, const TestWeight& w, int64_t index) {
  const int64_t bytes = kernels::RowBytes(w.weight.type, w.weight.ne[0]) * w.weight.ne[1];
  return *backend.Prepare(
      {.name = "slice",
       .type = w.weight.type,
       .ne = {w.weight.ne[0], w.weight.ne[1], 1, 1},
       .data = reinterpret_cast<const std::byte*>(w.bytes.data()) + index * bytes,
       .bytes = static_cast<uint64_t>(bytes)});
}

// ---- attention ----------------------------------------------------------------------------------

struct AttentionCase {
  std::string name;
  KvType type = KvType::kF16;
  int32_t num_heads = 4, num_kv_heads = 2, key_dim = 16, value_dim = 16;
  bool value_in_key = false;
  float softcap = 0;
  int32_t window = 0;
  bool sinks = false;
  bool alibi = false;
  int32_t context = 70;
  int32_t last_rows = 5;  // computed in one batch
};

std::vector<AttentionCase> AttentionCases() {
  return {
      {.name = "plain"},
      {.name = "float32 cache", .type = KvType::kF32},
      {.name = "rounded cache", .type = KvType::kQ8_0, .key_dim = 48, .value_dim = 32},
      {.name = "rounded keys as values",
       .type = KvType::kQ8_0,
       .num_kv_heads = 1,
       .key_dim = 40,
       .value_dim = 33,
       .value_in_key = true},
      {.name = "soft cap", .softcap = 3},
      {.name = "window", .window = 20},
      {.name = "sinks", .sinks = true},
      {.name = "alibi", .alibi = true},
      {.name = "one kv head", .num_heads = 6, .num_kv_heads = 1, .key_dim = 24, .value_dim = 20},
      {.name = "value in key",
       .num_heads = 40,
       .num_kv_heads = 1,
       .key_dim = 40,
       .value_dim = 32,
       .value_in_key = true},
      {.name = "three chunks", .num_kv_heads = 1, .context = 1200, .last_rows = 9},
      {.name = "window over chunks",
       .window = 600,
       .sinks = true,
       .context = 1300,
       .last_rows = 40},
      {.name = "wide heads",
       .num_heads = 2,
       .num_kv_heads = 1,
       .key_dim = 128,
       .value_dim = 136,
       .context = 33},
  };
}

// Rows of one sequence at the last positions of a context whose keys and values were stored in two
// pieces.
class AttentionRun {
 public:
  explicit AttentionRun(const AttentionCase& c)
      : case_(c),
        k_(RandomMatrix(c.context, c.num_kv_heads * c.key_dim, 1)),
        v_(RandomMatrix(c.context, c.num_kv_heads * c.value_dim, 2)),
        q_(RandomMatrix(c.last_rows, c.num_heads * c.key_dim, 3)),
        sinks_(RandomMatrix(1, c.num_heads, 4)),
        slopes_(c.num_heads) {
    for (int h = 0; h < c.num_heads; ++h)
      slopes_[h] = c.alibi ? 0.01f * static_cast<float>(h + 1) : 0;
    const int32_t blocks = (c.context + 31) / 32;
    for (int32_t b = 0; b < blocks; ++b)
      table_.push_back((b * 7 + 3) % 64);  // scattered over the pool
  }

  // Computes rows [begin, end) of the last ones as a batch of their own.
  Matrix Run(Backend& backend, int32_t begin, int32_t end) {
    KvLayer layer{.type = case_.type,
                  .num_kv_heads = case_.num_kv_heads,
                  .key_dim = case_.key_dim,
                  .value_dim = case_.value_dim,
                  .value_in_key = case_.value_in_key};
    auto pool = *backend.Allocate(64 * backend.KvBlockBytes(layer));
    std::memset(pool->data(), 0xff, pool->bytes());  // NaN, where nothing was stored
    layer.blocks = pool.get();
    const int32_t cut = case_.context / 3;
    Store(backend, layer, 0, cut);
    Store(backend, layer, cut, case_.context);

    const int32_t first = case_.context - case_.last_rows;
    const Weight sinks = FloatsAsWeight(sinks_.values.data());
    const AttentionParams params{.num_heads = case_.num_heads,
                                 .scale = Scale(),
                                 .softcap = case_.softcap,
                                 .window = case_.window,
                                 .sinks = case_.sinks ? &sinks : nullptr,
                                 .alibi_slopes = case_.alibi ? slopes_.data() : nullptr};
    Matrix out(end - begin, case_.num_heads * case_.value_dim);
    backend.Attention(params, layer, Layout(first + begin, first + end),
                      q_.View().Rows(begin, end - begin), out.View());
    return out;
  }

  // The same in double precision, of the stored values.
  Matrix Reference() {
    Matrix out(case_.last_rows, case_.num_heads * case_.value_dim);
    for (int32_t r = 0; r < case_.last_rows; ++r) {
      const int32_t position = case_.context - case_.last_rows + r;
      for (int32_t h = 0; h < case_.num_heads; ++h) ReferenceHead(r, position, h, out);
    }
    return out;
  }

 private:
  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(case_.key_dim)); }
  // Number d of a key or value vector as the cache keeps it.
  double Stored(const float* vector, int32_t dim, int32_t d) const {
    const auto half = [](float f) { return kernels::HalfToFloat(kernels::FloatToHalf(f)); };
    if (case_.type == KvType::kF32) return vector[d];
    if (case_.type == KvType::kF16) return half(vector[d]);
    float largest = 0;
    for (int32_t i = d / 32 * 32; i < std::min(dim, d / 32 * 32 + 32); ++i) {
      largest = std::max(largest, std::fabs(vector[i]));
    }
    const float scale = half(largest / 127.0f);
    return std::clamp(std::nearbyint(vector[d] / scale), -127.0f, 127.0f) * scale;
  }
  BatchLayout Layout(int32_t begin, int32_t end) {
    BatchLayout layout;
    for (int32_t p = begin; p < end; ++p)
      layout.positions.push_back(p), layout.sequence.push_back(0);
    layout.block_tables.emplace_back(table_);
    return layout;
  }
  void Store(Backend& backend, const KvLayer& layer, int32_t begin, int32_t end) {
    backend.StoreKv(layer, Layout(begin, end), k_.View().Rows(begin, end - begin),
                    v_.View().Rows(begin, end - begin));
  }
  void ReferenceHead(int32_t r, int32_t position, int32_t h, Matrix& out) {
    const int32_t kv = h / (case_.num_heads / case_.num_kv_heads);
    const float* q = q_.Row(r) + h * case_.key_dim;
    const int32_t first = case_.window > 0 ? std::max(0, position - case_.window + 1) : 0;
    std::vector<double> scores;
    double max = case_.sinks ? double{sinks_.values[h]} : -INFINITY;
    for (int32_t p = first; p <= position; ++p) {
      double s = 0;
      for (int32_t d = 0; d < case_.key_dim; ++d)
        s += double{q[d]} * Stored(k_.Row(p) + kv * case_.key_dim, case_.key_dim, d);
      s *= Scale();
      if (case_.softcap > 0) s = case_.softcap * std::tanh(s / case_.softcap);
      s += double{slopes_[h]} * (p - position);
      scores.push_back(s);
      max = std::max(max, s);
    }
    double sum = case_.sinks ? std::exp(sinks_.values[h] - max) : 0;
    for (double& s : scores) sum += s = std::exp(s - max);
    for (int32_t d = 0; d < case_.value_dim; ++d) {
      double o = 0;
      for (int32_t p = first; p <= position; ++p) {
        const bool in_key = case_.value_in_key;
        const int32_t dim = in_key ? case_.key_dim : case_.value_dim;
        const float* vector = (in_key ? k_ : v_).Row(p) + kv * dim;
        o += scores[p - first] * Stored(vector, dim, d);
      }
      out.Row(r)[h * case_.value_dim + d] = static_cast<float>(o / sum);
    }
  }

  AttentionCase case_;
  Matrix k_, v_, q_, sinks_;
  std::vector<float> slopes_;
  std::vector<int32_t> table_;
};

TEST_P(BackendTest, AttentionIsRightAndTheSameHoweverItIsDivided) {
  for (const AttentionCase& c : AttentionCases()) {
    AttentionRun run(c);
    const Matrix want = run.Reference();
    const Matrix first = run.Run(*scalar_, 0, c.last_rows);
    for (size_t i = 0; i < want.values.size(); ++i)
      ASSERT_NEAR(first.values[i], want.values[i], 3e-6) << c.name << " " << i;
    ExpectSameBits(run.Run(*backend_, 0, c.last_rows), first, c.name);
    const Matrix last = run.Run(*backend_, c.last_rows - 1, c.last_rows);  // a row alone
    EXPECT_EQ(std::memcmp(last.values.data(), first.values.data() + (c.last_rows - 1) * last.cols,
                          last.cols * 4),
              0)
        << c.name;
  }
}

// ---- products -----------------------------------------------------------------------------------

TEST_P(BackendTest, ProductsThatShareAnInput) {
  const int32_t in = 256;
  Matrix x = RandomMatrix(40, in, 1), bias = RandomMatrix(1, 40, 2);
  const Weight bias_weight = FloatsAsWeight(bias.values.data());
  const std::vector<std::pair<QuantType, int>> shapes = {
      {QuantType::kQ4_0, 48},  {QuantType::kQ4_K, 40},  {QuantType::kF16, 17},
      {QuantType::kQ6_K, 100}, {QuantType::kQ4_0, 130}, {QuantType::kF16, 70},
      {QuantType::kQ4_0, 3},   {QuantType::kQ4_0, 65}};
  for (const bool fine : {false, true}) {
    const auto multiply = [&](Backend& backend, Activations input) {
      std::vector<TestWeight> weights;
      for (const auto& [type, out] : shapes)
        weights.push_back(RandomWeight(backend, type, in, out, 1, out));
      std::vector<Matrix> outs;
      for (const auto& [type, out] : shapes) outs.emplace_back(input.rows, out);
      std::vector<MatMulTarget> targets;
      for (size_t i = 0; i < shapes.size(); ++i) {
        targets.push_back(
            {&weights[i].weight, shapes[i].second == 40 ? &bias_weight : nullptr, outs[i].View()});
      }
      if (fine) {
        backend.FineMatMul(input, targets);
      } else {
        backend.MatMul(input, targets);
      }
      EXPECT_TRUE(backend.Sync().ok());
      return outs;
    };
    const std::vector<Matrix> want = multiply(*scalar_, x.View());
    for (const int32_t rows : {1, 2, 5, 40}) {
      const std::vector<Matrix> got = multiply(*backend_, x.View().Rows(0, rows));
      for (size_t i = 0; i < shapes.size(); ++i) {
        EXPECT_EQ(std::memcmp(got[i].values.data(), want[i].values.data(),
                              got[i].values.size() * sizeof(float)),
                  0)
            << rows << " rows, " << kernels::TraitsOf(shapes[i].first).name;
      }
    }
  }
}

// f(x * gate^T) * (x * up^T) or f(x * up^T), by the operations that it is made of.
Matrix ActivatedByParts(Backend& backend, const ActivationParams& params, Activations x,
                        const Weight* gate, const Weight& up, const Weight& bias) {
  const auto cols = static_cast<int32_t>(up.ne[1]);
  Matrix gated(x.rows, cols), out(x.rows, cols);
  const MatMulTarget up_target{&up, &bias, out.View()};
  backend.MatMul(x, {&up_target, 1});
  if (gate == nullptr) {
    backend.Activate(params, out.View());
  } else {
    const MatMulTarget gate_target{gate, nullptr, gated.View()};
    backend.MatMul(x, {&gate_target, 1});
    backend.GatedActivation(params, gated.View(), out.View(), out.View());
  }
  return out;
}

TEST_P(BackendTest, ProductsAreActivated) {
  struct Case {
    QuantType gate, up;
    int32_t in, out;  // so many that they are activated in several parts
    ActivationKind kind;
  };
  for (const Case& c :
       {Case{QuantType::kQ8_0, QuantType::kQ4_0, 32, 1000, ActivationKind::kSilu},
        Case{QuantType::kQ4_K, QuantType::kF16, 256, 77, ActivationKind::kSilu},
        Case{QuantType::kF32, QuantType::kF32, 5, 40, ActivationKind::kGeluTanh},
        Case{QuantType::kQ4_0, QuantType::kQ4_0, 32, 50, ActivationKind::kSwigluClamped}}) {
    const ActivationParams params = {.kind = c.kind, .limit = 0.9f};
    Matrix x = RandomMatrix(40, c.in, 1), bias = RandomMatrix(1, c.out, 2);
    const Weight bias_weight = FloatsAsWeight(bias.values.data());
    const TestWeight gate = RandomWeight(*backend_, c.gate, c.in, c.out, 1, 3);
    const TestWeight up = RandomWeight(*backend_, c.up, c.in, c.out, 1, 4);
    const TestWeight scalar_gate = RandomWeight(*scalar_, c.gate, c.in, c.out, 1, 3);
    const TestWeight scalar_up = RandomWeight(*scalar_, c.up, c.in, c.out, 1, 4);
    for (const bool gated : {true, false}) {
      if (!gated && c.kind == ActivationKind::kSwigluClamped) continue;
      const Matrix want =
          ActivatedByParts(*scalar_, params, x.View(), gated ? &scalar_gate.weight : nullptr,
                           scalar_up.weight, bias_weight);
      for (const int32_t rows : {1, 5, 40}) {
        Matrix between(rows, c.out), got(rows, c.out);
        const MatMulTarget gate_target{&gate.weight, nullptr, between.View()};
        backend_->ActivatedMatMul(params, x.View().Rows(0, rows), gated ? &gate_target : nullptr,
                                  {&up.weight, &bias_weight, got.View()});
        EXPECT_TRUE(backend_->Sync().ok());
        EXPECT_EQ(
            std::memcmp(got.values.data(), want.values.data(), got.values.size() * sizeof(float)),
            0)
            << rows << " rows, " << kernels::TraitsOf(c.up).name << (gated ? ", gated" : "");
      }
    }
  }
}

TEST_P(BackendTest, EachHeadTakesItsSlice) {
  for (QuantType type : {QuantType::kF32, QuantType::kQ8_0}) {
    const int32_t rows = 3, heads = 4, in = 32, out = 24;
    TestWeight w = RandomWeight(*backend_, type, in, out, heads, 5);
    Matrix x = RandomMatrix(rows, heads * in, 6), got(rows, heads * out);
    // Row r * heads + h of both is head h of row r.
    backend_->HeadMatMul({x.values.data(), rows * heads, in, in}, w.weight,
                         {got.values.data(), rows * heads, out, out});
    for (int32_t h = 0; h < heads; ++h) {
      const Weight slice = SliceOf(*scalar_, w, h);
      Matrix want(rows, out);
      const MatMulTarget target{&slice, nullptr, want.View()};
      scalar_->MatMul(x.View().Columns(h * in, in), {&target, 1});
      for (int32_t r = 0; r < rows; ++r)
        EXPECT_EQ(std::memcmp(got.Row(r) + h * out, want.Row(r), out * 4), 0);
    }
  }
}

TEST_P(BackendTest, ExpertsMultiplyTheRowsThatChoseThem) {
  for (const int32_t rows : {6, 40}) {
    const int32_t experts = 5, used = 2, in = 64, out = 20;
    Matrix logits = RandomMatrix(rows, experts, 7), x = RandomMatrix(rows, in, 8),
           bias = RandomMatrix(experts, out, 9);
    const Weight bias_weight = FloatsAsWeight(bias.values.data());
    TestWeight w = RandomWeight(*backend_, QuantType::kQ4_0, in, out, experts, 10);
    const Routing routing = backend_->Route({.score = RouterScore::kSoftmax,
                                             .num_experts = experts,
                                             .num_used = used,
                                             .normalize = true},
                                            logits.View());
    Matrix got(rows * used, out), sum(rows, out), again(rows * used, out);
    backend_->ExpertMatMul(routing, x.View(), w.weight, &bias_weight, got.View());
    backend_->ExpertSum(routing, got.View(), sum.View());
    const auto* chosen = static_cast<const int32_t*>(routing.experts->data());
    const auto* weights = static_cast<const float*>(routing.weights->data());
    Matrix spread(rows * used, in);  // a row of x for each slot
    for (int32_t r = 0; r < rows; ++r) {
      EXPECT_GE(logits.Row(r)[chosen[2 * r]], logits.Row(r)[chosen[2 * r + 1]]);
      EXPECT_NEAR(weights[2 * r] + weights[2 * r + 1], 1, 1e-6);
      for (int32_t slot = 0; slot < used; ++slot) {
        const int32_t e = chosen[r * used + slot];
        const Weight slice = SliceOf(*scalar_, w, e);
        const Weight slice_bias = FloatsAsWeight(bias.Row(e));
        Matrix want(1, out);
        const MatMulTarget target{&slice, &slice_bias, want.View()};
        scalar_->MatMul(x.View().Rows(r, 1), {&target, 1});
        EXPECT_EQ(std::memcmp(got.Row(r * used + slot), want.values.data(), out * 4), 0);
        std::copy_n(x.Row(r), in, spread.Row(r * used + slot));
      }
      const float want =
          std::fma(weights[2 * r + 1], got.Row(2 * r + 1)[3], weights[2 * r] * got.Row(2 * r)[3]);
      EXPECT_EQ(sum.Row(r)[3], want);
    }
    backend_->ExpertMatMul(routing, spread.View(), w.weight, &bias_weight, again.View());
    ExpectSameBits(again, got, "a row of its own for each slot");

    TestWeight gate = RandomWeight(*backend_, QuantType::kQ8_0, in, out, experts, 11);
    Matrix gated(rows * used, out), activated(rows * used, out);
    backend_->ExpertMatMul(routing, x.View(), gate.weight, nullptr, gated.View());
    backend_->GatedActivation({}, gated.View(), got.View(), got.View());
    backend_->ActivatedExpertMatMul({}, routing, x.View(), {&gate.weight, nullptr, gated.View()},
                                    {&w.weight, &bias_weight, activated.View()});
    EXPECT_TRUE(backend_->Sync().ok());
    ExpectSameBits(activated, got, "activated");
  }
}

TEST_P(BackendTest, RoutersChooseAsTheyShould) {
  Matrix logits(1, 4);
  logits.values = {1, 3, 3, 2};
  const auto route = [&](const RouterParams& params) {
    const Routing routing = backend_->Route(params, logits.View());
    const auto* ids = static_cast<const int32_t*>(routing.experts->data());
    const auto* weights = static_cast<const float*>(routing.weights->data());
    return std::pair(std::vector<int32_t>(ids, ids + 2), std::vector<float>(weights, weights + 2));
  };
  {  // equal logits: lowest id first
    const auto [ids, weights] =
        route({.score = RouterScore::kSoftmaxOfChosen, .num_experts = 4, .num_used = 2});
    EXPECT_EQ(ids, (std::vector<int32_t>{1, 2}));
    EXPECT_EQ(weights, (std::vector<float>{0.5f, 0.5f}));
  }
  {  // the bias chooses, but does not weigh
    Matrix bias(1, 4);
    bias.values = {9, 0, 0, 0};
    const Weight b = FloatsAsWeight(bias.values.data());
    const auto [ids, weights] = route({.score = RouterScore::kSigmoid,
                                       .num_experts = 4,
                                       .num_used = 2,
                                       .scale = 2,
                                       .selection_bias = &b});
    EXPECT_EQ(ids, (std::vector<int32_t>{0, 1}));
    EXPECT_NEAR(weights[0], 2 / (1 + std::exp(-1.0)), 1e-6);
    EXPECT_NEAR(weights[1], 2 / (1 + std::exp(-3.0)), 1e-6);
  }
  {  // groups {0, 1} and {2, 3}: the second has the larger sum
    const auto [ids, weights] = route({.score = RouterScore::kSoftmax,
                                       .num_experts = 4,
                                       .num_used = 2,
                                       .num_groups = 2,
                                       .num_used_groups = 1});
    EXPECT_EQ(ids, (std::vector<int32_t>{2, 3}));
    EXPECT_GT(weights[0], weights[1]);
  }
}

TEST_P(BackendTest, RoutersAgree) {
  const int32_t rows = 7, experts = 48;
  Matrix logits = RandomMatrix(rows, experts, 12), bias = RandomMatrix(1, experts, 13);
  const Weight bias_weight = FloatsAsWeight(bias.values.data());
  for (const RouterScore score :
       {RouterScore::kSoftmax, RouterScore::kSigmoid, RouterScore::kSoftmaxOfChosen}) {
    for (const int32_t groups : {0, 8}) {
      const RouterParams params = {.score = score,
                                   .num_experts = experts,
                                   .num_used = 6,
                                   .num_groups = groups,
                                   .num_used_groups = 3,
                                   .normalize = groups == 0,
                                   .scale = 2.5f,
                                   .selection_bias = groups > 0 ? &bias_weight : nullptr};
      const Routing got = backend_->Route(params, logits.View());
      const Routing want = scalar_->Route(params, logits.View());
      EXPECT_EQ(std::memcmp(got.experts->data(), want.experts->data(), rows * 6 * 4), 0);
      EXPECT_EQ(std::memcmp(got.weights->data(), want.weights->data(), rows * 6 * 4), 0);
    }
  }
}

// ---- row by row ---------------------------------------------------------------------------------

TEST_P(BackendTest, RotationFollowsPositions) {
  for (const RopePairs pairs : {RopePairs::kHalves, RopePairs::kInterleaved}) {
    const RopeParams params{.pairs = pairs,
                            .dims = 8,
                            .offset = 2,
                            .inv_freq = {1, 0.1f, 0.01f, 0.001f},
                            .magnitude = 1.5f};
    const BatchLayout layout{
        .positions = {0, 7, 100000}, .sequence = {0, 0, 0}, .block_tables = {}};
    const Matrix x = RandomMatrix(3, 2 * 12, 11), keys = RandomMatrix(3, 12, 12);
    struct Turned {
      Matrix queries, keys, others;
    };
    const auto turn = [&](Backend& backend) {
      Turned turned = {x, keys, keys};
      const RopeTable table = backend.MakeRopeTable(params, layout);
      backend.Rope(table, 12, turned.queries.View());
      backend.Rope(table, 12, turned.keys.View());
      backend.Rope(table, 12, turned.others.View());
      EXPECT_TRUE(backend.Sync().ok());
      return turned;
    };
    Turned got = turn(*backend_);
    const Turned want = turn(*scalar_);
    Matrix& y = got.queries;
    ExpectSameBits(y, want.queries, "queries");
    ExpectSameBits(got.keys, want.keys, "keys");
    ExpectSameBits(got.others, want.others, "others");
    if (pairs != RopePairs::kHalves) continue;
    for (int32_t r = 0; r < 3; ++r) {
      for (int head = 0; head < 2; ++head) {
        const float* before = x.values.data() + r * 24 + head * 12;
        const float* after = y.Row(r) + head * 12;
        EXPECT_EQ(after[0], before[0]);
        EXPECT_EQ(after[11], before[11]);
        for (int i = 0; i < 4; ++i) {
          const double angle = double{params.inv_freq[i]} * layout.positions[r];
          EXPECT_NEAR(after[2 + i],
                      1.5 * (before[2 + i] * std::cos(angle) - before[6 + i] * std::sin(angle)),
                      1e-6);
        }
      }
    }
  }
}

// An operation on x [rows, cols], with b of the same shape, into out.
struct RowOperation {
  std::string name;
  std::function<void(Backend&, Activations x, Activations b, Activations out)> run;
};
std::vector<RowOperation> RowOperations(const Weight& weight, const Weight& bias) {
  std::vector<RowOperation> all;
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    all.push_back({"norm", [&weight, &bias, kind](Backend& b, auto x, auto, auto out) {
                     b.Norm(kind, 1e-5f, x, &weight, &bias, out);
                   }});
    all.push_back({"bare norm in place", [kind](Backend& b, auto x, auto, auto out) {
                     b.Copy(x, out);
                     b.Norm(kind, 1e-5f, out, nullptr, nullptr, out);
                   }});
  }
  all.push_back({"add", [](Backend& b, auto x, auto y, auto out) { b.Add(x, y, 0.3f, out); }});
  const auto in_place = [&all](std::string name, auto f) {
    all.push_back({std::move(name), [f](Backend& b, auto x, auto, auto out) {
                     b.Copy(x, out);
                     f(b, out);
                   }});
  };
  in_place("bias", [&bias](Backend& b, Activations x) { b.AddBias(x, bias); });
  in_place("scale", [](Backend& b, Activations x) { b.Scale(x, 0.7f); });
  in_place("soft cap", [](Backend& b, Activations x) { b.SoftCap(x, 1.5f); });
  in_place("clamp", [](Backend& b, Activations x) { b.Clamp(x, 0.5f); });
  for (const ActivationKind kind :
       {ActivationKind::kSilu, ActivationKind::kGeluTanh, ActivationKind::kGeluErf,
        ActivationKind::kGeluQuick, ActivationKind::kRelu, ActivationKind::kReluSquared,
        ActivationKind::kSwigluClamped}) {
    const ActivationParams params = {.kind = kind, .limit = 0.9f};
    const std::string name = fmt::format("activation {}", static_cast<int>(kind));
    all.push_back({name + ", gated", [params](Backend& b, auto x, auto y, auto out) {
                     b.GatedActivation(params, x, y, out);
                   }});
    if (kind == ActivationKind::kSwigluClamped) continue;
    in_place(name, [params](Backend& b, Activations x) { b.Activate(params, x); });
  }
  return all;
}

// Work that a backend may record: it sees each micro-batch's own positions, blocks and numbers.
TEST_P(BackendTest, RepeatedWorkSeesEachLayout) {
  const int32_t rows = 2, heads = 2, dim = 16, context = 1100;
  const RopeParams rope{.dims = dim,
                        .inv_freq = {1, 0.5f, 0.2f, 0.1f, 0.05f, 0.02f, 0.01f, 0.003f}};
  const Matrix keys = RandomMatrix(context, dim, 1), values = RandomMatrix(context, dim, 2);
  std::vector<int32_t> tables[2];
  for (int32_t b = 0; b < 40; ++b)
    tables[b / 36].push_back((b * 7 + 3) % 64);  // a second sequence, of four blocks
  const auto layout_of = [&](std::vector<int32_t> positions, std::vector<int32_t> sequence) {
    return BatchLayout{.positions = std::move(positions),
                       .sequence = std::move(sequence),
                       .block_tables = {tables[0], tables[1]}};
  };
  struct Run {
    explicit Run(Backend& b) : backend(b) {
      layer.num_kv_heads = 1, layer.key_dim = layer.value_dim = 16;
      pool = *b.Allocate(64 * b.KvBlockBytes(layer));
      layer.blocks = pool.get();
    }
    Backend& backend;
    KvLayer layer;
    std::unique_ptr<DeviceBuffer> pool;
    std::unique_ptr<RepeatedWork> kept;
    Matrix q{2, 32}, k{2, 16}, out{2, 32};
  };
  Run mine(*backend_), theirs(*scalar_);
  const auto step = [&](Run& run, const BatchLayout& layout, uint32_t seed, bool repeat) {
    // Into the memory that it had.
    std::ranges::copy(RandomMatrix(rows, heads * dim, seed).values, run.q.values.begin());
    std::ranges::copy(RandomMatrix(rows, dim, seed + 1).values, run.k.values.begin());
    const auto work = [&] {
      run.backend.Rope(run.backend.MakeRopeTable(rope, layout), dim, run.q.View());
      run.backend.StoreKv(run.layer, layout, run.k.View(), run.k.View());
      run.backend.Attention({.num_heads = heads, .scale = 0.25f}, run.layer, layout, run.q.View(),
                            run.out.View());
    };
    if (repeat) {
      run.backend.Repeat(layout, run.kept, work);
    } else {
      work();
    }
    EXPECT_TRUE(run.backend.Sync().ok());
  };
  for (Run* run : {&mine, &theirs}) {
    for (int32_t sequence : {0, 1}) {
      const int32_t count = sequence == 0 ? context : 120;
      std::vector<int32_t> positions(count);
      for (int32_t p = 0; p < count; ++p) positions[p] = p;
      Matrix k = keys, v = values;
      run->backend.StoreKv(run->layer, layout_of(positions, std::vector(count, sequence)),
                           k.View().Rows(0, count), v.View().Rows(0, count));
    }
  }
  const int replays = cuda_emulation::host.replays;
  uint32_t seed = 10;
  for (const int32_t p : {40, 41, 42, 100, 500, 510, 511, 512, 513, 514, 600, 1022, 1023, 1024}) {
    for (const bool one_sequence : {true, false}) {
      const BatchLayout layout =
          one_sequence ? layout_of({p, p + 1}, {0, 0}) : layout_of({p % 110, p}, {1, 0});
      step(mine, layout, seed, true);
      step(theirs, layout, seed, false);
      ExpectSameBits(mine.out, theirs.out, fmt::format("position {}", p));
      seed += 2;
    }
  }
  if (backend_->device() != "cpu") {
    EXPECT_GE(cuda_emulation::host.replays - replays, 16);
  }
}

TEST_P(BackendTest, RowOperations) {
  for (const int32_t cols : {5, 300, 2100}) {
    // Columns of wider matrices: rows are not packed.
    Matrix x = RandomMatrix(3, cols + 7, 1), b = RandomMatrix(3, cols + 3, 2);
    Matrix weights = RandomMatrix(2, cols, 3);
    const Weight weight = FloatsAsWeight(weights.Row(0)), bias = FloatsAsWeight(weights.Row(1));
    for (const RowOperation& op : RowOperations(weight, bias)) {
      Matrix want(3, cols + 1), got(3, cols + 1);
      op.run(*scalar_, x.View().Columns(4, cols), b.View().Columns(0, cols),
             want.View().Columns(1, cols));
      op.run(*backend_, x.View().Columns(4, cols), b.View().Columns(0, cols),
             got.View().Columns(1, cols));
      EXPECT_TRUE(backend_->Sync().ok());
      ExpectSameBits(got, want, fmt::format("{}, {} columns", op.name, cols));
    }
  }
}

// What a product or a norm follows may be done in its kernel: the same bits for all who read it,
// whatever comes between.
TEST_P(BackendTest, OperationsThatMeetAProduct) {
  const int32_t rows = 3, cols = 512;
  Matrix weights = RandomMatrix(2, cols, 3);
  const Weight norm_weight = FloatsAsWeight(weights.Row(0)),
               norm_bias = FloatsAsWeight(weights.Row(1));
  std::vector<RowOperation> operations = RowOperations(norm_weight, norm_bias);
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    operations.push_back({"norm of a sum", [&, kind](Backend& b, auto x, auto y, auto out) {
                            b.Add(x, y, 0.5f, x);  // a residual: into the matrix it adds to
                            b.Norm(kind, 1e-5f, x, &norm_weight, nullptr, out);
                          }});
    operations.push_back({"norm of another", [kind](Backend& b, auto x, auto y, auto out) {
                            b.Add(x, y, 0.5f, y);
                            b.Norm(kind, 1e-5f, x, nullptr, nullptr, out);
                          }});
  }
  struct Product {
    QuantType type;
    bool fine;
  };
  for (const Product& p : {Product{QuantType::kQ8_0, false}, Product{QuantType::kQ4_0, true},
                           Product{QuantType::kQ4_K, false}, Product{QuantType::kQ6_K, true},
                           Product{QuantType::kF32, false}}) {
    TestWeight mine = RandomWeight(*backend_, p.type, cols, 9, 1, 4);
    TestWeight theirs = RandomWeight(*scalar_, p.type, cols, 9, 1, 4);
    for (const RowOperation& op : operations) {
      struct All {
        Matrix x = RandomMatrix(rows, cols, 1), y = RandomMatrix(rows, cols, 2);
        Matrix made{rows, cols}, out{rows, 9};
      };
      const auto run = [&](Backend& backend, const Weight& weight) {
        All all;
        const MatMulTarget target{&weight, nullptr, all.out.View()};
        op.run(backend, all.x.View(), all.y.View(), all.made.View());
        p.fine ? backend.FineMatMul(all.made.View(), {&target, 1})
               : backend.MatMul(all.made.View(), {&target, 1});
        EXPECT_TRUE(backend.Sync().ok());
        return all;
      };
      const All got = run(*backend_, mine.weight), want = run(*scalar_, theirs.weight);
      const std::string what = fmt::format("{}, {}", op.name, kernels::TraitsOf(p.type).name);
      ExpectSameBits(got.out, want.out, what);
      ExpectSameBits(got.made, want.made, what);
      ExpectSameBits(got.x, want.x, what);
      ExpectSameBits(got.y, want.y, what);
    }
  }
}

TEST(CudaBackendTest, OperationsShareKernels) {
  const auto backend = *CudaBackend::Open(baton::testing::EmulatedCuda(), 0);
  Matrix x = RandomMatrix(1, 256, 1), branch = RandomMatrix(1, 256, 2), normed(1, 256);
  Matrix out(1, 8), out2(1, 8);
  const TestWeight w = RandomWeight(*backend, QuantType::kQ4_K, 256, 8, 1, 3);
  const TestWeight floats = RandomWeight(*backend, QuantType::kF32, 256, 8, 1, 4);
  const MatMulTarget targets[] = {{&w.weight, nullptr, out.View()},
                                  {&w.weight, nullptr, out2.View()}};
  const MatMulTarget float_target = {&floats.weight, nullptr, out.View()};
  const RopeParams rope = {.dims = 2, .inv_freq = {1}};
  const BatchLayout layout = {.positions = {3}, .sequence = {0}, .block_tables = {}};
  const auto norm = [&] {
    backend->Norm(NormKind::kRms, 1e-5f, x.View(), nullptr, nullptr, normed.View());
  };
  const struct {
    const char* name;
    int kernels;
    std::function<void()> run;
  } cases[] = {
      {"residual, norm and rounding; two products", 2,
       [&] {
         backend->Add(x.View(), branch.View(), 1, x.View());
         norm();
         backend->FineMatMul(normed.View(), targets);
       }},
      {"activation and rounding; a product", 2,
       [&] {
         backend->GatedActivation({}, x.View(), branch.View(), branch.View());
         backend->MatMul(branch.View(), {targets, 1});
       }},
      {"products of two types", 3,
       [&] {
         const MatMulTarget three[] = {targets[0], float_target, targets[1]};
         backend->MatMul(x.View(), three);
       }},
      {"queries and keys turned", 2,  // and the table
       [&] {
         const RopeTable table = backend->MakeRopeTable(rope, layout);
         backend->Rope(table, 32, x.View());
         backend->Rope(table, 32, branch.View());
       }},
      {"norm; a product of floats", 2,
       [&] {
         norm();
         backend->MatMul(normed.View(), {&float_target, 1});
       }},
      {"norm; rounding of another matrix; a product", 3,
       [&] {
         norm();
         backend->MatMul(x.View(), {targets, 1});
       }},
  };
  for (const auto& c : cases) {
    const int before = cuda_emulation::launches;
    c.run();
    EXPECT_TRUE(backend->Sync().ok());
    EXPECT_EQ(cuda_emulation::launches - before, c.kernels) << c.name;
  }
}

TEST_P(BackendTest, EmbedsRowsOfEveryType) {
  const std::vector<TokenId> ids = {3, 0, 3};
  for (uint32_t id = 0; id < kernels::kNumQuantTypes; ++id) {
    const auto type = static_cast<QuantType>(id);
    if (kernels::TraitsOf(type).activation == kernels::ActivationFormat::kNone) continue;
    const int32_t cols = 512;
    const TestWeight mine = RandomWeight(*backend_, type, cols, 4, 1, id);
    const TestWeight theirs = RandomWeight(*scalar_, type, cols, 4, 1, id);
    Matrix got(3, cols), want(3, cols);
    backend_->Embed(mine.weight, ids, got.View());
    scalar_->Embed(theirs.weight, ids, want.View());
    ExpectSameBits(got, want, kernels::TraitsOf(type).name);
  }
}

TEST_P(BackendTest, HostCopiesAndErrors) {
  Matrix x = RandomMatrix(3, 20, 1), inside(3, 24);
  std::vector<float> packed(60), back(60);
  backend_->ToHost({x.values.data(), 3, 20, 20}, packed.data());
  backend_->FromHost(packed.data(), inside.View().Columns(2, 20));
  backend_->ToHost(inside.View().Columns(2, 20), back.data());
  EXPECT_EQ(back, x.values);
  EXPECT_TRUE(backend_->Sync().ok());
  EXPECT_TRUE(backend_->Plan({.weights_bytes = 1000}).ok());
}

TEST_P(BackendTest, RefusesTypesWithoutKernels) {
  const TensorView view{.name = "blk.0.x", .type = QuantType::kI32};
  const auto weight = backend_->Prepare(view);
  EXPECT_EQ(weight.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(Message(weight.status())).find("blk.0.x: weights of type I32"),
            std::string::npos);
}

TEST(MakeBackendTest, NamesUnknownDevicesAndInstructionSets) {
  EXPECT_EQ(MakeBackend({.device = "tpu"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeBackend({.threads = -1}).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(setenv("BATON_ISA", "mmx", 1), 0);
  const auto backend = MakeBackend({});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(Message(backend.status())).find("BATON_ISA: got 'mmx'"), std::string::npos);
  ASSERT_EQ(setenv("BATON_ISA", "scalar", 1), 0);
  const auto scalar = MakeBackend({.threads = 2});
  ASSERT_TRUE(scalar.ok());
  EXPECT_EQ((*scalar)->name(), "cpu (scalar, 2 threads)");
  unsetenv("BATON_ISA");
}

}  // namespace
}  // namespace baton::engine
