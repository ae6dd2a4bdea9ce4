#include "device/cpu/product/packed_engine.h"

#include <algorithm>

#include "device/cpu/parallel.h"
#include "device/cpu/product/kept_panels.h"
#include "device/cpu/product/product_plan.h"

namespace trireme {
namespace {

OperandType TypeOf(const Tensor& tensor) {
  switch (tensor.dtype) {
    case DType::kBFloat16:
      return OperandType::kBFloat16;
    case DType::kFloat16:
      return OperandType::kFloat16;
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
    case DType::kUInt16:
      return OperandType::kFloat32;
  }
  return OperandType::kFloat32;
}

const void* Advance(const Tensor& tensor, std::int64_t elements) {
  return static_cast<const char*>(tensor.data) + elements * SizeOf(tensor.dtype);
}

// The part of an operand that is packed: lines [first, first + lines) in panels of `width`, depths from `depth_begin`
// on.
struct PackedOperand {
  const Tensor* tensor;
  bool depth_contiguous;
  void (*pack)(const PackArgs& args);
  std::int64_t width;
  std::int64_t first;
  std::int64_t lines;
  std::int64_t depth_begin;
  char* memory;
  std::int64_t element;  // bytes of a packed one
  // Panels of a whole operand that lies packed in memory, of which `first` begins one. 0: only this part does.
  std::int64_t kept_panels;

  std::int64_t panels() const { return CeilDiv(lines, width); }
  bool kept() const { return kept_panels > 0; }
  // Panels of one depth block lie next to each other.
  char* Panel(const ProductPlan& plan, std::int64_t panel, std::int64_t block) const {
    const DepthBlock depth = plan.Depth(block);
    if (kept()) {
      return memory + element * width * (kept_panels * depth.first + (first / width + panel) * depth.padded);
    }
    return memory + element * width * (panels() * (depth.first - depth_begin) + panel * depth.padded);
  }
  // What threads take when they pack together: some panels in some of `depth_blocks`.
  std::int64_t Chunks(const ProductPlan& plan, const Span& depth_blocks) const {
    return CeilDiv(panels(), PanelsOfChunk()) * CutsOfDepth(plan, depth_blocks);
  }
  void PackChunks(const ProductPlan& plan, const Span& depth_blocks, SharedItems& chunks) const {
    const std::int64_t cuts = CutsOfDepth(plan, depth_blocks);
    for (std::int64_t i = 0; chunks.Take(i);) {
      const std::int64_t panel = i / cuts * PanelsOfChunk();
      Pack(plan, CutSpan(depth_blocks, i % cuts, cuts), {panel, std::min(panels(), panel + PanelsOfChunk())});
    }
  }
  void Pack(const ProductPlan& plan, const Span& depth_blocks, const Span& of_panels) const {
    for (std::int64_t block = depth_blocks.begin; block < depth_blocks.end; ++block) {
      const DepthBlock depth = plan.Depth(block);
      // Lines that are neighbours in memory are read some depths at a time across the panels, in long runs.
      const std::int64_t step = depth_contiguous ? depth.depth : kPackStep;
      for (std::int64_t done = 0; done < depth.depth; done += step) {
        for (std::int64_t panel = of_panels.begin; panel < of_panels.end; ++panel) {
          PackPart(depth.first + done, std::min(step, depth.depth - done), first + panel * width,
                   Panel(plan, panel, block) + element * width * done);
        }
      }
    }
  }

 private:
  // A multiple of every kernel's unit.
  static constexpr std::int64_t kPackStep = 32;
  // The size of a chunk. In bf16 two cache lines, where lines are neighbours in memory.
  static constexpr std::int64_t kChunkLines = 64;
  static constexpr std::int64_t kChunkDepths = 1024;

  std::int64_t PanelsOfChunk() const { return CeilDiv(kChunkLines, width); }
  std::int64_t CutsOfDepth(const ProductPlan& plan, const Span& depth_blocks) const {
    const std::int64_t blocks = depth_blocks.end - depth_blocks.begin;
    return std::min(blocks, CeilDiv(blocks * plan.depth_block, kChunkDepths));
  }

  void PackPart(std::int64_t depth, std::int64_t depths, std::int64_t line, char* to) const {
    const std::int64_t stride = tensor->shape[1];
    const std::int64_t offset = depth_contiguous ? line * stride + depth : depth * stride + line;
    pack({.source = Advance(*tensor, offset),
          .type = TypeOf(*tensor),
          .stride = stride,
          .depth_contiguous = depth_contiguous,
          .lines = std::min(width, first + lines - line),
          .depth = depths,
          .panel = to});
  }
};

// One rectangle of c whose operands fit the buffers.
class Rectangle {
 public:
  Rectangle(const MatmulArgs& args, const ProductKernel& kernel, const ProductPlan& plan, const PackedOperand& left,
            const PackedOperand& right)
      : args_(args), kernel_(kernel), plan_(plan), left_(left), right_(right) {}

  // Rows of one block and all columns, in their whole depth. `sums` are of one block.
  void MultiplyRows(float* sums) const {
    for (std::int64_t j = 0; j < right_.panels(); j += plan_.column_panels) {
      MultiplyBlock({0, plan_.depth_blocks}, {0, left_.panels()},
                    {j, std::min(right_.panels(), j + plan_.column_panels)}, sums);
    }
  }

  // Steps of rows of c, counted from one block of columns to the next. `sums` are of one block, or of the whole
  // rectangle where it is multiplied in several pieces of the depth.
  void MultiplySteps(const Span& depth_blocks, const Span& steps, float* sums) const {
    const std::int64_t of_column = plan_.RowSteps(left_.panels());
    const std::int64_t columns = plan_.ColumnBlocks(right_.panels());
    for (std::int64_t step = steps.begin; step < steps.end;) {
      const std::int64_t column = step / of_column;
      const std::int64_t end = std::min(steps.end, (column + 1) * of_column);
      const Span row{(step - column * of_column) * plan_.row_step,
                     std::min(left_.panels(), (end - column * of_column) * plan_.row_step)};
      const std::int64_t strips = plan_.deep() ? column * left_.panels() + row.begin : 0;
      MultiplyBlock(depth_blocks, row, CutSpan({0, right_.panels()}, column, columns), sums + strips * plan_.strip());
      step = end;
    }
  }

 private:
  // Panels `row` of the left operand and `column` of the right one: a block whose sums and operands of one depth block
  // lie in the second-level cache. It is stored after its last depth block; until then `sums` are its own. Rows are
  // stored as wide as the block: c is written in long stretches, and one seldom has the low address bits of what is
  // read beside it.
  void MultiplyBlock(const Span& depth_blocks, const Span& row, const Span& column, float* sums) const {
    const std::int64_t stride = plan_.sums_stride();
    // Sums of a row of tiles are stored at once where the depth is not cut: the next row has the same place.
    const std::int64_t strip = plan_.depth_blocks > 1 ? plan_.strip() : 0;
    for (std::int64_t block = depth_blocks.begin; block < depth_blocks.end; ++block) {
      const std::int64_t depth = plan_.Depth(block).padded;
      Ahead ahead = AheadOf(depth_blocks, block, column, row.end - row.begin);
      for (std::int64_t i = row.begin; i < row.end; ++i) {
        float* const of_row = sums + (i - row.begin) * strip;
        const char* a = left_.Panel(plan_, i, block);
        for (std::int64_t j = column.begin; j < column.end; ++j) {
          kernel_.multiply({.a = a,
                            .b = right_.Panel(plan_, j, block),
                            .depth = depth,
                            .sums = of_row + (j - column.begin) * kernel_.columns,
                            .sums_stride = stride,
                            .accumulate = block > 0,
                            .ahead = ahead.memory,
                            .ahead_lines = ahead.lines});
          ahead.memory += ahead.lines * kLineBytes;
        }
        if (block + 1 == plan_.depth_blocks) {
          Store(i, column, of_row);
        }
      }
    }
  }

  // What a tile may ask for of the panels that come after `column` in a depth block: those of the next depth block, or
  // the columns beside them. They lie in the shared cache, whose answers would hold up each tile.
  struct Ahead {
    const char* memory = nullptr;
    std::int64_t lines = 0;
  };
  static constexpr std::int64_t kLineBytes = 64;

  Ahead AheadOf(const Span& depth_blocks, std::int64_t block, const Span& column, std::int64_t rows) const {
    const bool deeper = block + 1 < depth_blocks.end;
    const std::int64_t next = deeper ? block + 1 : depth_blocks.begin;
    const std::int64_t first = deeper ? column.begin : column.end;
    const std::int64_t columns = column.end - column.begin;
    const std::int64_t panels = std::min(columns, right_.panels() - first);
    if (panels <= 0) {
      return {};
    }
    const std::int64_t bytes = panels * right_.width * plan_.Depth(next).padded * right_.element;
    return {right_.Panel(plan_, first, next), bytes / kLineBytes / (rows * columns)};
  }

  void Store(std::int64_t i, const Span& columns, const float* sums) const {
    const std::int64_t row = i * kernel_.rows;
    const std::int64_t column = columns.begin * kernel_.columns;
    const std::int64_t first_column = right_.first + column;
    const std::int64_t offset = (left_.first + row) * args_.c.shape[1] + first_column;
    kernel_.store({.sums = sums,
                   .sums_stride = plan_.sums_stride(),
                   .rows = std::min<std::int64_t>(kernel_.rows, left_.lines - row),
                   .columns = std::min(columns.end * kernel_.columns, right_.lines) - column,
                   .kind = StoreKindOf(args_, args_.accumulate),
                   .bias_type = TypeOf(args_.a),
                   .out_type = TypeOf(args_.c),
                   .bias = args_.bias.given() ? Advance(args_.bias, first_column) : nullptr,
                   .c = const_cast<void*>(Advance(args_.c, offset)),
                   .auxiliary = args_.auxiliary.given() ? const_cast<void*>(Advance(args_.auxiliary, offset)) : nullptr,
                   .out_stride = args_.c.shape[1]});
  }

  const MatmulArgs& args_;
  const ProductKernel& kernel_;
  const ProductPlan& plan_;
  const PackedOperand& left_;
  const PackedOperand& right_;
};

// A thread's use of a kernel.
class KernelScope {
 public:
  explicit KernelScope(const ProductKernel& kernel) : kernel_(kernel) {
    if (kernel_.enter != nullptr) {
      kernel_.enter();
    }
  }
  ~KernelScope() {
    if (kernel_.leave != nullptr) {
      kernel_.leave();
    }
  }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  const ProductKernel& kernel_;
};

class PackedEngine final : public MatmulEngine {
 public:
  PackedEngine(std::string name, const ProductKernel& for_float, const ProductKernel& for_bf16, int threads)
      : name_(std::move(name)), for_float_(for_float), for_bf16_(for_bf16), threads_(threads) {}
  std::string name() const override { return name_; }
  bool Multiplies(DType) const override { return true; }
  std::int64_t internal_bytes() const override {
    return left_memory_.bytes() + right_memory_.bytes() + sums_.bytes() + kept_.bytes();
  }
  void set_spare_bytes(std::int64_t bytes) override { kept_.set_limit(bytes); }

  void Run(const MatmulArgs& args) override {
    const ProductKernel& kernel = args.a.dtype == DType::kBFloat16 ? for_bf16_ : for_float_;
    const ProductSizes sizes(args);
    const ProductPlan plan(kernel, sizes, threads_);
    const std::int64_t element = kernel.packed == OperandType::kBFloat16 ? 2 : 4;
    const auto floats = [&](std::int64_t lines) { return CeilDiv(lines * plan.padded_depth() * element, 4); };
    if (plan.packs_own_rows) {
      left_memory_.Reserve(plan.parts, floats(plan.row_panels * kernel.rows));
    } else {
      left_memory_.Reserve(1, floats(plan.rows_at_once));
    }
    if (plan.deep()) {
      const std::int64_t column_blocks = plan.ColumnBlocks(plan.columns_at_once / kernel.columns);
      sums_.Reserve(1, plan.rows_at_once / kernel.rows * column_blocks * plan.strip());
    } else {
      const std::int64_t strips = plan.depth_blocks > 1 ? plan.row_panels : 1;
      sums_.Reserve(plan.parts, strips * plan.strip());
    }
    PackedOperand left{.tensor = &args.a,
                       .depth_contiguous = !args.transpose_a,
                       .pack = kernel.pack_left,
                       .width = kernel.rows,
                       .memory = reinterpret_cast<char*>(left_memory_.of(0)),
                       .element = element};
    PackedOperand right{.tensor = &args.b,
                        .depth_contiguous = args.transpose_b,
                        .pack = kernel.pack_right,
                        .width = kernel.columns,
                        .element = element};
    if (!Keep(args, plan, sizes, right)) {
      right_memory_.Reserve(1, floats(plan.columns_at_once));
      right.memory = reinterpret_cast<char*>(right_memory_.of(0));
    }
    for (right.first = 0; right.first < sizes.n; right.first += plan.columns_at_once) {
      right.lines = std::min(plan.columns_at_once, sizes.n - right.first);
      for (left.first = 0; left.first < sizes.m; left.first += plan.rows_at_once) {
        left.lines = std::min(plan.rows_at_once, sizes.m - left.first);
        if (plan.packs_own_rows) {
          RunRows(args, kernel, plan, left, right);
        } else {
          RunShared(args, kernel, plan, left, right);
        }
      }
    }
  }

 private:
  // Has `right` lie packed as a whole in memory that outlasts this product; false where it is not to be kept.
  bool Keep(const MatmulArgs& args, const ProductPlan& plan, const ProductSizes& sizes, PackedOperand& right) {
    right.lines = sizes.n;
    const std::int64_t depth = RoundUp(plan.depth, plan.unit);
    const KeptPanels::Buffer buffer = kept_.Reserve(args, right.panels() * right.width * depth * right.element);
    if (buffer.memory == nullptr) {
      return false;
    }
    right.memory = buffer.memory;
    right.kept_panels = right.panels();
    if (!buffer.filled) {
      const Span depth_blocks{0, plan.depth_blocks};
      SharedItems chunks(right.Chunks(plan, depth_blocks));
      ParallelParts(threads_, plan.parts, [&](int) { right.PackChunks(plan, depth_blocks, chunks); });
    }
    return true;
  }

  // A thread takes the next block of rows, packs it just before it multiplies it, and finds it in its cache.
  void RunRows(const MatmulArgs& args, const ProductKernel& kernel, const ProductPlan& plan, const PackedOperand& left,
               const PackedOperand& right) {
    const Span depth_blocks{0, plan.depth_blocks};
    if (left.first == 0 && !right.kept()) {
      SharedItems chunks(right.Chunks(plan, depth_blocks));
      ParallelParts(threads_, plan.parts, [&](int) { right.PackChunks(plan, depth_blocks, chunks); });
    }
    SharedItems c_blocks(CeilDiv(left.panels(), plan.row_panels));
    ParallelParts(threads_, plan.parts, [&](int part) {
      const KernelScope scope(kernel);
      for (std::int64_t i = 0; c_blocks.Take(i);) {
        PackedOperand block = left;
        block.memory = reinterpret_cast<char*>(left_memory_.of(part));
        block.first = left.first + i * plan.row_panels * left.width;
        block.lines = std::min(plan.row_panels * left.width, left.first + left.lines - block.first);
        block.Pack(plan, depth_blocks, {0, block.panels()});
        Rectangle(args, kernel, plan, block, right).MultiplyRows(sums_.of(part));
      }
    });
  }

  // Threads share rows: both operands are packed by all of them first. Then a thread takes steps of rows within a block
  // of columns.
  void RunShared(const MatmulArgs& args, const ProductKernel& kernel, const ProductPlan& plan, PackedOperand left,
                 PackedOperand right) {
    const std::int64_t steps = plan.RowSteps(left.panels()) * plan.ColumnBlocks(right.panels());
    for (std::int64_t piece = 0; piece < plan.pieces; ++piece) {
      const Span depth_blocks = plan.Piece(piece);
      left.depth_begin = right.depth_begin = plan.Depth(depth_blocks.begin).first;
      const bool pack_right = !right.kept() && (left.first == 0 || plan.deep());
      SharedItems of_left(left.Chunks(plan, depth_blocks));
      SharedItems of_right(pack_right ? right.Chunks(plan, depth_blocks) : 0);
      ParallelParts(threads_, plan.parts, [&](int) {
        left.PackChunks(plan, depth_blocks, of_left);
        right.PackChunks(plan, depth_blocks, of_right);
      });
      steps_.Reset(steps, plan.parts);
      ParallelParts(threads_, plan.parts, [&](int part) {
        const KernelScope scope(kernel);
        const Rectangle rectangle(args, kernel, plan, left, right);
        for (Span run; steps_.Take(part, plan.row_panels / plan.row_step, run);) {
          rectangle.MultiplySteps(depth_blocks, run, sums_.of(plan.deep() ? 0 : part));
        }
      });
    }
  }

  std::string name_;
  ProductKernel for_float_;
  ProductKernel for_bf16_;
  int threads_;
  Scratch left_memory_;
  Scratch right_memory_;
  Scratch sums_;
  KeptPanels kept_;
  StealingItems steps_;  // of rows
};

}  // namespace

std::unique_ptr<MatmulEngine> MakePackedEngine(std::string name, const ProductKernel& for_float,
                                               const ProductKernel& for_bf16, int threads) {
  return std::make_unique<PackedEngine>(std::move(name), for_float, for_bf16, threads);
}

}  // namespace trireme
