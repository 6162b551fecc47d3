// A stand-in for kernel sources: records made by tests name it, and tests edit copies of it.
__global__ void kernel() {}
