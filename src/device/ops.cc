#include "device/ops.h"

#include "base/error.h"
#include "ops/checks.h"

namespace trireme {
namespace {

void CheckDropout(const char* operation, const Dropout& dropout, const Tensor& on) {
  Require(dropout.probability >= 0 && dropout.probability < 1, "{}: dropout probability {} is not in [0, 1)", operation,
          dropout.probability);
  if (dropout.tokens.given()) {
    RequireMatrix({operation, "dropped tensor", on});
    RequireVector({operation, "tokens", dropout.tokens}, on.shape[0], DType::kInt32);
  }
}

void CheckHeadNorm(const char* operation, const HeadNormArgs& args) {
  RequireMatrix({operation, "x", args.x});
  RequireWorkingType({operation, "x", args.x});
  RequireShape({operation, "x", args.x}, {args.x.shape[0], args.width()});
  Require(args.parts == 1 || args.together, "{}: heads that are normed one by one have 1 part, not {}", operation,
          args.parts);
  RequireVector({operation, "query gain", args.query_gain}, args.group_width(0), args.x.dtype);
  RequireVector({operation, "key gain", args.key_gain}, args.group_width(args.groups() - 1), args.x.dtype);
  RequireVector({operation, "sums", args.sums}, args.x.shape[0] * args.groups(), DType::kFloat32);
}

void CheckHeadNormProducts(const char* operation, const HeadNormArgs& args) {
  CheckHeadNorm(operation, args);
  RequireLike({operation, "grad_out", args.grad_out}, args.x.shape, args.x.dtype);
  RequireVector({operation, "products", args.products}, args.sums.count(), DType::kFloat32);
}

void CheckLogits(const char* operation, const CrossEntropyArgs& args) {
  RequireMatrix({operation, "logits", args.logits});
  RequireWorkingType({operation, "logits", args.logits});
  Require(args.valid_columns >= 0 && args.valid_columns <= args.logits.shape[1],
          "{}: {} valid columns of logits with {} columns", operation, args.valid_columns, args.logits.shape[1]);
  RequireVector({operation, "targets", args.targets}, args.logits.shape[0], DType::kInt32);
}

void CheckParts(const char* operation, const CrossEntropyArgs& args, std::int64_t n) {
  RequireType({operation, "statistics", args.statistics}, DType::kFloat32);
  Require(n > 0 && args.statistics.count() > 0 && args.statistics.count() % (3 * n) == 0,
          "{}: {} statistics are not a whole number of parts of 3 x {} tokens", operation, args.statistics.count(), n);
}

void CheckGradientOfLoss(const char* operation, const CrossEntropyArgs& args) {
  CheckLogits(operation, args);
  const std::int64_t n = args.logits.shape[0];
  RequireVector({operation, "weights", args.weights}, n, DType::kFloat32);
  RequireVector({operation, "losses", args.losses}, n, DType::kFloat32);
  if (n != 0) {
    CheckParts(operation, args, n);
  }
}

}  // namespace

void Ops::Count(std::int64_t matmul, std::int64_t attention) {
  if (updating_) {
    flops_.update += matmul + attention;
  } else if (recomputing_) {
    flops_.recomputed += matmul + attention;
  } else {
    flops_.matmul += matmul;
    flops_.attention += attention;
  }
}

void Ops::Fill(const Tensor& t, float value) {
  Require(value == 0 || t.dtype == DType::kFloat32 || t.dtype == DType::kInt32,
          "Fill: {} tensors can be filled with 0 only, not {}", Name(t.dtype), value);
  if (t.count() != 0) {
    DoFill(t, value);
  }
}

void Ops::Copy(const Tensor& to, const Tensor& from) {
  RequireCount({"Copy", "from", from}, to.shape.count());
  if (to.dtype != from.dtype) {
    RequireWorkingType({"Copy", "to", to});
    RequireWorkingType({"Copy", "from", from});
  }
  if (to.count() != 0) {
    DoCopy(to, from);
  }
}

void Ops::CopyBlocks(const BlockCopy& copy) {
  RequireType({"CopyBlocks", "from", copy.from}, copy.to.dtype);
  const auto fits = [&](const Tensor& tensor, std::int64_t stride) {
    return stride >= copy.columns && tensor.count() >= (copy.rows - 1) * stride + copy.columns;
  };
  Require(copy.rows == 0 || (fits(copy.to, copy.to_stride) && fits(copy.from, copy.from_stride)),
          "CopyBlocks: {} rows of {} elements, {} and {} apart, do not fit tensors of {} and {} elements", copy.rows,
          copy.columns, copy.to_stride, copy.from_stride, copy.to.count(), copy.from.count());
  if (copy.rows != 0 && copy.columns != 0) {
    DoCopyBlocks(copy);
  }
}

void Ops::Add(const Tensor& to, const Tensor& from, float factor) {
  RequireWorkingType({"Add", "to", to});
  RequireCount({"Add", "from", from}, to.shape.count());
  if (to.dtype == DType::kFloat32) {
    RequireWorkingType({"Add", "from", from});
  } else {
    RequireType({"Add", "from", from}, to.dtype);
  }
  if (to.count() != 0) {
    DoAdd(to, from, factor);
  }
}

void Ops::Scale(const Tensor& t, float factor) {
  RequireWorkingType({"Scale", "t", t});
  if (t.count() != 0) {
    DoScale(t, factor);
  }
}

void Ops::DrawNormal(const Tensor& to, const NormalDraw& draw) {
  RequireMatrix({"DrawNormal", "to", to});
  RequireType({"DrawNormal", "to", to}, DType::kFloat32);
  if (to.count() != 0) {
    DoDrawNormal(to, draw);
  }
}

void Ops::ResidualNormForward(const ResidualNormArgs& args) {
  constexpr auto kName = "ResidualNormForward";
  RequireMatrix({kName, "x", args.x});
  RequireWorkingType({kName, "x", args.x});
  const std::int64_t columns = args.x.shape[1];
  Require(args.branch.given() || args.gamma.given() || args.x.count() == 0, "{}: neither a branch nor gamma", kName);
  CheckDropout(kName, args.dropout, args.x);
  if (args.branch.given()) {
    RequireLike({kName, "branch", args.branch}, args.x.shape, args.x.dtype);
    RequireLike({kName, "sum", args.sum}, args.x.shape, args.x.dtype);
    if (args.bias.given()) {
      RequireVector({kName, "bias", args.bias}, columns, args.x.dtype);
    }
  }
  if (args.gamma.given()) {
    RequireVector({kName, "gamma", args.gamma}, columns, args.x.dtype);
    RequireLike({kName, "normed", args.normed}, args.x.shape, args.x.dtype);
    RequireVector({kName, "statistics", args.statistics}, 2 * args.x.shape[0], DType::kFloat32);
    if (args.beta.given()) {
      RequireVector({kName, "beta", args.beta}, columns, args.x.dtype);
    }
  }
  RequireLargest(kName, args.largest);
  if (args.x.count() != 0) {
    DoResidualNormForward(args);
  }
}

void Ops::NormBackward(const NormBackwardArgs& args) {
  constexpr auto kName = "NormBackward";
  RequireMatrix({kName, "x", args.x});
  RequireWorkingType({kName, "x", args.x});
  const std::int64_t columns = args.x.shape[1];
  RequireLike({kName, "grad_normed", args.grad_normed}, args.x.shape, args.x.dtype);
  RequireLike({kName, "grad_x", args.grad_x}, args.x.shape, args.x.dtype);
  RequireVector({kName, "statistics", args.statistics}, 2 * args.x.shape[0], DType::kFloat32);
  RequireVector({kName, "gamma", args.gamma}, columns, args.x.dtype);
  RequireVector({kName, "grad_gamma", args.grad_gamma}, columns, DType::kFloat32);
  if (args.grad_beta.given()) {
    RequireVector({kName, "grad_beta", args.grad_beta}, columns, DType::kFloat32);
  }
  if (args.grad_residual.given()) {
    RequireLike({kName, "grad_residual", args.grad_residual}, args.x.shape, args.x.dtype);
  }
  if (args.normed.given()) {
    RequireLike({kName, "normed", args.normed}, args.x.shape, args.x.dtype);
    Require(args.normed.data != args.grad_x.data, "{}: normed and grad_x are one tensor", kName);
  }
  if (args.beta.given()) {
    RequireVector({kName, "beta", args.beta}, columns, args.x.dtype);
  }
  RequireLargest(kName, args.largest);
  if (args.x.count() != 0) {
    DoNormBackward(args);
  }
}

void Ops::HeadNormSums(const HeadNormArgs& args) {
  CheckHeadNorm("HeadNormSums", args);
  if (args.x.count() != 0) {
    DoHeadNormSums(args);
  }
}

void Ops::HeadNormForward(const HeadNormArgs& args) {
  CheckHeadNorm("HeadNormForward", args);
  RequireLike({"HeadNormForward", "out", args.out}, args.x.shape, args.x.dtype);
  if (args.x.count() != 0) {
    DoHeadNormForward(args);
  }
}

void Ops::HeadNormProducts(const HeadNormArgs& args) {
  CheckHeadNormProducts("HeadNormProducts", args);
  if (args.x.count() != 0) {
    DoHeadNormProducts(args);
  }
}

void Ops::HeadNormBackward(const HeadNormArgs& args) {
  constexpr auto kName = "HeadNormBackward";
  CheckHeadNormProducts(kName, args);
  RequireLike({kName, "grad_x", args.grad_x}, args.x.shape, args.x.dtype);
  RequireVector({kName, "grad_query_gain", args.grad_query_gain}, args.query_gain.count(), DType::kFloat32);
  RequireVector({kName, "grad_key_gain", args.grad_key_gain}, args.key_gain.count(), DType::kFloat32);
  if (args.x.count() != 0) {
    DoHeadNormBackward(args);
  }
}

void Ops::ApplyDropout(const Tensor& out, const Tensor& in, const Dropout& dropout) {
  RequireWorkingType({"ApplyDropout", "in", in});
  RequireVector({"ApplyDropout", "out", out}, in.shape.count(), in.dtype);
  CheckDropout("ApplyDropout", dropout, in);
  if (in.count() != 0) {
    DoApplyDropout(out, in, dropout);
  }
}

void Ops::EmbeddingForward(const EmbeddingArgs& args) {
  RequireMatrix({"EmbeddingForward", "table", args.table});
  RequireWorkingType({"EmbeddingForward", "table", args.table});
  const std::int64_t tokens = args.tokens.shape.count();
  RequireVector({"EmbeddingForward", "tokens", args.tokens}, tokens, DType::kInt32);
  RequireLike({"EmbeddingForward", "out", args.out}, {tokens, args.table.shape[1]}, args.table.dtype);
  if (args.out.count() != 0) {
    DoEmbeddingForward(args);
  }
}

void Ops::EmbeddingBackward(const EmbeddingArgs& args) {
  RequireMatrix({"EmbeddingBackward", "grad_table", args.grad_table});
  RequireType({"EmbeddingBackward", "grad_table", args.grad_table}, DType::kFloat32);
  RequireWorkingType({"EmbeddingBackward", "grad_out", args.grad_out});
  const std::int64_t tokens = args.tokens.shape.count();
  RequireVector({"EmbeddingBackward", "tokens", args.tokens}, tokens, DType::kInt32);
  RequireShape({"EmbeddingBackward", "grad_out", args.grad_out}, {tokens, args.grad_table.shape[1]});
  if (args.grad_out.count() != 0) {
    DoEmbeddingBackward(args);
  }
}

void Ops::CrossEntropyStatistics(const CrossEntropyArgs& args, const Tensor& own) {
  CheckLogits("CrossEntropyStatistics", args);
  RequireVector({"CrossEntropyStatistics", "own statistics", own}, 3 * args.logits.shape[0], DType::kFloat32);
  if (args.logits.shape[0] != 0) {
    DoCrossEntropyStatistics(args, own);
  }
}

void Ops::CrossEntropyGradient(const CrossEntropyArgs& args) {
  CheckGradientOfLoss("CrossEntropyGradient", args);
  if (args.logits.shape[0] != 0) {
    DoCrossEntropyGradient(args);
  }
}

void Ops::CrossEntropy(const CrossEntropyArgs& args) {
  CheckGradientOfLoss("CrossEntropy", args);
  const std::int64_t n = args.logits.shape[0];
  RequireVector({"CrossEntropy", "statistics", args.statistics}, 3 * n, DType::kFloat32);
  if (n != 0) {
    DoCrossEntropy(args);
  }
}

void Ops::DoCrossEntropy(const CrossEntropyArgs& args) {
  DoCrossEntropyStatistics(args, args.statistics);
  DoCrossEntropyGradient(args);
}

void Ops::CrossEntropyEvaluation(const CrossEntropyArgs& args) {
  const std::int64_t n = args.losses.shape.count();
  RequireVector({"CrossEntropyEvaluation", "losses", args.losses}, n, DType::kFloat32);
  if (n != 0) {
    CheckParts("CrossEntropyEvaluation", args, n);
    DoCrossEntropyEvaluation(args);
  }
}

void Ops::LossSum(const Tensor& losses, const Tensor& weights, const Tensor& sums) {
  RequireType({"LossSum", "losses", losses}, DType::kFloat32);
  RequireVector({"LossSum", "weights", weights}, losses.shape.count(), DType::kFloat32);
  RequireVector({"LossSum", "sums", sums}, 2, DType::kFloat32);
  DoLossSum(losses, weights, sums);
}

}  // namespace trireme
