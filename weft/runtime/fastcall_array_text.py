"""Part of `fastcall_text`: new numpy arrays in memory of ours, which begins where cache lines and pages do.

numpy gets memory from malloc, which begins at any multiple of 16 bytes. The memory of results comes from `memory`
instead, in a block that numpy owns and gives back by our functions (`numpy_memory`). Where the program has chosen
another allocator for numpy, that is used.
"""

from __future__ import annotations

#: Bytes from which on results lie in memory of ours; numpy keeps smaller ones at hand itself.
ALIGNED_FROM = 1024

ARRAYS = """
declare ptr @weft_alloc(i64)
declare void @weft_free(ptr)
declare ptr @PyDataMem_GetHandler()

@numpy_allocator = global ptr null
@own_allocator = global ptr null

; A dense array of %bytes bytes that owns its memory; null, with an error set, where that failed.
define ptr @weft_new_array(ptr %descr, i64 %ndim, ptr %dims, i64 %bytes) {
  %nd = trunc i64 %ndim to i32
  call void @Py_IncRef(ptr %descr)
  br i64 %bytes ult $aligned_from, label %plain, label %ask
ask:
  %chosen = call ptr @PyDataMem_GetHandler()
  call void @Py_DecRef(ptr %chosen)
  %usual.one = load ptr, ptr @numpy_allocator
  br ptr %chosen eq %usual.one, label %get, label %plain
get:
  %memory = call ptr @weft_alloc(i64 %bytes)
  br ptr %memory eq null, label %plain, label %wrap
wrap:
  %array = call ptr @PyArray_NewFromDescr(
    ptr @ndarray_type, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr %memory, i32 $carray, ptr null)
  br ptr %array eq null, label %drop, label %own
own:
  %flags.at = getelementptr i8, ptr %array, i64 $array_flags
  %flags = load i32, ptr %flags.at
  %owning = or i32 %flags, $owns_data
  store i32 %owning, ptr %flags.at
  %own.one = load ptr, ptr @own_allocator
  call void @Py_IncRef(ptr %own.one)
  store ptr %own.one, %array + $array_allocator
  ret ptr %array
drop:
  call void @weft_free(ptr %memory)
  ret ptr null
plain:
  %ordinary = call ptr @PyArray_NewFromDescr(
    ptr @ndarray_type, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr null, i32 0, ptr null)
  ret ptr %ordinary
}
"""
