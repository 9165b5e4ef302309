// Included after PyTorch's own headers in extensions: tensors of the CPU are what device code works on, and how far
// memory reaches is noted when PyTorch allocates it, so that kernels know which arguments share memory.
#pragma once
#include <c10/core/CPUAllocator.h>
#include "c10/cuda/CUDAStream.h"

#define is_cuda() is_cpu()
#define kCUDA kCPU

extern "C" void weft_note_memory(void *at, size_t bytes);
namespace {
struct weft_noting_allocator final : c10::Allocator {
  c10::Allocator *base = c10::GetCPUAllocator();
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr made = base->allocate(bytes);
    weft_note_memory(made.get(), bytes);
    return made;
  }
  c10::DeleterFnPtr raw_deleter() const override { return base->raw_deleter(); }
  bool is_simple_data_ptr(const c10::DataPtr &at) const override { return base->is_simple_data_ptr(at); }
  void copy_data(void *to, const void *from, size_t bytes) const override { base->copy_data(to, from, bytes); }
};
}  // namespace
// Called around a function of the extension.
extern "C" inline __attribute__((used)) void weft_note_allocations(bool on) {
  static weft_noting_allocator *ours = new weft_noting_allocator;
  c10::SetCPUAllocator(on ? (c10::Allocator *)ours : ours->base, 255);
}
