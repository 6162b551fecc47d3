// raster.cuh for the host compiler: which block of C does each linear id compute?
#include "raster.cuh"

// out: int [rows * cols][2], block row and column of every id.
extern "C" void raster_blocks(int rows, int cols, int* out) {
  for (int id = 0; id < rows * cols; ++id) {
    const layout::Coord block = raster::block_of(id, rows, cols);
    out[2 * id] = block.row;
    out[2 * id + 1] = block.col;
  }
}
