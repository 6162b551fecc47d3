// The C face of the library: the table of kernels, what a kernel uses, and its launch.
//
// No torch: data pointers and a stream come in, an error code goes out. Whoever calls has checked shapes and pointers.
// The trap: a kernel with more than 48 KB of dynamic shared memory launches only after gemm_resources has opted in.
#include <vector>

#include "error.cuh"
#include "kernels.cuh"
#include "resources.cuh"

namespace {

std::vector<GemmKernel>& table() {
  static std::vector<GemmKernel> kernels;
  return kernels;
}

}  // namespace

void add_to_table(const GemmKernel& kernel) { table().push_back(kernel); }

extern "C" {

int gemm_kernel_count() { return static_cast<int>(table().size()); }
const GemmKernel* gemm_kernel_row(int index) { return &table()[index]; }
const char* gemm_error_string(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

void gemm_tile(int* m, int* n, int* k) {
  *m = layout::BM;
  *n = layout::BN;
  *k = layout::BK;
}

// Asks for as much of the SM's memory as can be shared memory, so that the residency reported is the one that runs.
int gemm_resources(int index, KernelResources* out) {
  const GemmKernel& row = table()[index];
  const cudaError_t error =
      cudaFuncSetAttribute(row.kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  return answer(error == cudaSuccess ? prepare_kernel(row.kernel, layout::THREADS, row.shared_bytes, out) : error);
}

// a: [m][k]; b: [k][n], or [n][k] where the row's b_layout is transposed; c: [m][n].
int gemm_launch(int index, const void* a, const void* b, void* c, int m, int n, int k, void* stream) {
  const GemmKernel& row = table()[index];
  void* arguments[] = {&a, &b, &c, &m, &n, &k};
  const dim3 grid((m / layout::BM) * (n / layout::BN));
  return answer(cudaLaunchKernel(row.kernel, grid, dim3(layout::THREADS), arguments, row.shared_bytes,
                                 static_cast<cudaStream_t>(stream)));
}

}  // extern "C"
