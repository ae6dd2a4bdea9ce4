// What the packed product engine asks of an instruction level: three functions on one tile of c. Operands are packed in
// panels first: rows of op(a), `rows` at a time, and columns of op(b), `columns` at a time, each panel padded with
// zeros. This header is read by files that are compiled for one instruction set; it has nothing that a linker could
// share.
#pragma once

#include <cstdint>

namespace trireme {

enum class OperandType : std::uint8_t { kFloat32, kBFloat16, kFloat16 };

// One panel of an operand: `lines` rows of op(a) or columns of op(b), `depth` elements of each.
struct PackArgs {
  const void* source;     // of the first line and depth
  OperandType type;       // of the source
  std::int64_t stride;    // elements from one row of the source's memory to the next
  bool depth_contiguous;  // a line's elements are neighbours in memory; otherwise a depth's lines are
  std::int64_t lines;     // at least 1, at most the panel's
  std::int64_t depth;     // at least 1
  void* panel;            // receives depth, rounded up to the kernel's unit, times the panel's lines
};

// sums [rows, columns] = (or, with accumulate, +=) panel a * panel b.
struct TileArgs {
  const void* a;
  const void* b;
  std::int64_t depth;  // a multiple of the kernel's unit
  float* sums;
  std::int64_t sums_stride;  // floats from one row to the next
  bool accumulate;
  // What later tiles read: a kernel may have these cache lines of 64 bytes come into the second-level cache meanwhile.
  const char* ahead = nullptr;
  std::int64_t ahead_lines = 0;
};

enum class StoreKind : std::uint8_t { kPlain, kAccumulate, kGelu, kGeluGradient, kResidual };

// The end of a product: `rows` x `columns` finished sums to c. Pointers are to the tile's first element.
struct StoreArgs {
  const float* sums;
  std::int64_t sums_stride;  // of the tile
  std::int64_t rows;
  std::int64_t columns;
  StoreKind kind;
  OperandType bias_type;
  OperandType out_type;  // of c and auxiliary
  const void* bias;      // may be missing
  void* c;
  void* auxiliary;          // of the kinds from kGelu on; kResidual reads it
  std::int64_t out_stride;  // of c and auxiliary
};

struct ProductKernel {
  const char* name;    // "float avx2", "bf16 amx"
  OperandType packed;  // elements of panels
  int rows;            // of a tile: lines of a panel of op(a)
  int columns;
  int unit;           // depths are padded to a multiple of it
  int longest_depth;  // at which a panel pair still lies in the first-level cache
  void (*pack_left)(const PackArgs& args);
  void (*pack_right)(const PackArgs& args);
  void (*multiply)(const TileArgs& args);
  void (*store)(const StoreArgs& args);
  // Called by each thread before its first multiply and after its last; may be missing.
  void (*enter)();
  void (*leave)();
};

}  // namespace trireme
