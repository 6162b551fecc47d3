// Which block of C does a linear block id compute?
//
// Blocks that run at the same time should share rows of A and columns of B in L2. Ids walk down a group of GROUP_ROWS
// rows of blocks before they step to the next column, so a wave of blocks covers a rectangle and not one long row. Pure
// constexpr, host and device: a test counts on the host that every block is visited once. The trap: the last group may
// be lower than the others.
#pragma once
#include "layout.cuh"

namespace raster {

constexpr int GROUP_ROWS = 8;

// rows, cols: blocks of C in M and in N. id in [0, rows * cols).
LAYOUT_FN layout::Coord block_of(int id, int rows, int cols) {
  const int group = id / (GROUP_ROWS * cols);
  const int first_row = group * GROUP_ROWS;
  const int height = rows - first_row < GROUP_ROWS ? rows - first_row : GROUP_ROWS;
  const int within = id - first_row * cols;
  return {first_row + within % height, within / height};
}

}  // namespace raster
