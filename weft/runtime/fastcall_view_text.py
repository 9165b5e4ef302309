"""Part of `fastcall_text`: what an argument is, read from numpy's objects and through DLPack's function tables."""

from __future__ import annotations

VIEWS = """
; Fills %view; false where the object is an array that needs the slow path.
define internal i1 @view_of(ptr %obj, ptr %view) {
  %type.at = getelementptr i8, ptr %obj, i64 8
  %type = load ptr, ptr %type.at
  %is.numpy = icmp eq ptr %type, @ndarray_type
  br i1 %is.numpy, label %numpy, label %not.numpy
numpy:
  %n = call i1 @view_numpy(ptr %obj, ptr %view)
  ret i1 %n
not.numpy:
  %count = load i64, ptr @exchange_count
  br label %loop
loop:
  %i = phi i64 [ 0, %not.numpy ], [ %next, %step ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %compare, label %other
compare:
  %offset = mul i64 %i, $exchange_size
  %entry = getelementptr i8, ptr @exchanges, i64 %offset
  %class.at = getelementptr i8, ptr %entry, i64 $exchange_class
  %class = load ptr, ptr %class.at
  %same = icmp eq ptr %type, %class
  br i1 %same, label %exchange, label %step
step:
  %next = add i64 %i, 1
  br label %loop
exchange:
  %t = call i1 @view_exchange(ptr %entry, ptr %obj, ptr %view)
  ret i1 %t
other:
  store i64 0, ptr %view
  ret i1 true
}

define internal i1 @view_numpy(ptr %obj, ptr %view) {
  store i64 $numpy, ptr %view
  %v.place = getelementptr i8, ptr %view, i64 $view_place
  store i64 $on_cpu, ptr %v.place
  %data.at = getelementptr i8, ptr %obj, i64 16
  %data = load i64, ptr %data.at
  %v.data = getelementptr i8, ptr %view, i64 $view_data
  store i64 %data, ptr %v.data
  %nd.at = getelementptr i8, ptr %obj, i64 24
  %nd = load i32, ptr %nd.at
  %nd.wide = sext i32 %nd to i64
  %v.ndim = getelementptr i8, ptr %view, i64 $view_ndim
  store i64 %nd.wide, ptr %v.ndim
  %dims.at = getelementptr i8, ptr %obj, i64 32
  %dims = load ptr, ptr %dims.at
  %v.dims = getelementptr i8, ptr %view, i64 $view_dims
  store ptr %dims, ptr %v.dims
  %strides.at = getelementptr i8, ptr %obj, i64 40
  %strides = load ptr, ptr %strides.at
  %v.strides = getelementptr i8, ptr %view, i64 $view_strides
  store ptr %strides, ptr %v.strides
  %descr.at = getelementptr i8, ptr %obj, i64 56
  %descr = load ptr, ptr %descr.at
  %num.at = getelementptr i8, ptr %descr, i64 28
  %num = load i32, ptr %num.at
  %num.wide = sext i32 %num to i64
  %v.type = getelementptr i8, ptr %view, i64 $view_type
  store i64 %num.wide, ptr %v.type
  %flags.at = getelementptr i8, ptr %obj, i64 64
  %flags = load i32, ptr %flags.at
  %writable = and i32 %flags, 1024
  %writable.wide = zext i32 %writable to i64
  %v.writable = getelementptr i8, ptr %view, i64 $view_writable
  store i64 %writable.wide, ptr %v.writable
  %aligned.bit = and i32 %flags, 256
  %aligned = icmp ne i32 %aligned.bit, 0
  %order.at = getelementptr i8, ptr %descr, i64 26
  %order = load i8, ptr %order.at
  %native = icmp eq i8 %order, 61
  %whatever = icmp eq i8 %order, 124
  %readable = or i1 %native, %whatever
  %good = and i1 %aligned, %readable
  ret i1 %good
}

; A tensor of torch that would track gradients or is a negated view goes the slow way.
define internal i1 @view_exchange(ptr %entry, ptr %obj, ptr %view) {
  %dl = getelementptr i8, ptr %view, i64 $view_export
  %export.at = getelementptr i8, ptr %entry, i64 $exchange_export
  %export = load ptr, ptr %export.at
  %failed = call i32 %export(ptr %obj, ptr %dl)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %exported, label %error
error:
  call void @PyErr_Clear()
  ret i1 false
exported:
  %framework.at = getelementptr i8, ptr %entry, i64 $exchange_framework
  %framework = load i64, ptr %framework.at
  %is.torch = icmp eq i64 %framework, $torch
  br i1 %is.torch, label %torch, label %fill
torch:
  %plain = call i1 @is_plain(ptr %obj)
  br i1 %plain, label %fill, label %no
no:
  ret i1 false
fill:
  store i64 %framework, ptr %view
  %place.at = getelementptr i8, ptr %dl, i64 8
  %place = load i64, ptr %place.at
  %v.place = getelementptr i8, ptr %view, i64 $view_place
  store i64 %place, ptr %v.place
  %base = load i64, ptr %dl
  %offset.at = getelementptr i8, ptr %dl, i64 40
  %offset = load i64, ptr %offset.at
  %data = add i64 %base, %offset
  %v.data = getelementptr i8, ptr %view, i64 $view_data
  store i64 %data, ptr %v.data
  %nd.at = getelementptr i8, ptr %dl, i64 16
  %nd = load i32, ptr %nd.at
  %nd.wide = sext i32 %nd to i64
  %v.ndim = getelementptr i8, ptr %view, i64 $view_ndim
  store i64 %nd.wide, ptr %v.ndim
  %type.at = getelementptr i8, ptr %dl, i64 20
  %type = load i32, ptr %type.at
  %type.wide = zext i32 %type to i64
  %v.type = getelementptr i8, ptr %view, i64 $view_type
  store i64 %type.wide, ptr %v.type
  %dims.at = getelementptr i8, ptr %dl, i64 24
  %dims = load ptr, ptr %dims.at
  %v.dims = getelementptr i8, ptr %view, i64 $view_dims
  store ptr %dims, ptr %v.dims
  %strides.at = getelementptr i8, ptr %dl, i64 32
  %strides = load ptr, ptr %strides.at
  %v.strides = getelementptr i8, ptr %view, i64 $view_strides
  store ptr %strides, ptr %v.strides
  %v.writable = getelementptr i8, ptr %view, i64 $view_writable
  store i64 1, ptr %v.writable
  %has.strides = icmp ne ptr %strides, null
  %scalar = icmp eq i32 %nd, 0
  %good = or i1 %has.strides, %scalar
  ret i1 %good
}

; No negated view, and no gradients to track: read from the structure of the tensor where its layout is known.
define internal i1 @is_plain(ptr %obj) {
  %structure.offset = load i64, ptr @torch_structure
  %unknown = icmp eq i64 %structure.offset, 0
  br i1 %unknown, label %ask, label %read
read:
  %structure.at = getelementptr i8, ptr %obj, i64 %structure.offset
  %structure = load ptr, ptr %structure.at
  %keys.offset = load i64, ptr @torch_keys
  %keys.at = getelementptr i8, ptr %structure, i64 %keys.offset
  %keys = load i64, ptr %keys.at
  %negative = load i64, ptr @torch_negative
  %negated = and i64 %keys, %negative
  %is.negated = icmp ne i64 %negated, 0
  br i1 %is.negated, label %no, label %autograd
autograd:
  %autograd.offset = load i64, ptr @torch_autograd
  %autograd.at = getelementptr i8, ptr %structure, i64 %autograd.offset
  %autograd.word = load i64, ptr %autograd.at
  %none = icmp eq i64 %autograd.word, 0
  br i1 %none, label %yes, label %grad
ask:
  %neg.fn = load ptr, ptr @torch_is_neg
  %neg = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %neg.fn, ptr %obj, ptr null)
  %not.neg = call i1 @is_false(ptr %neg)
  br i1 %not.neg, label %grad, label %no
grad:
  %requires = call ptr @PyObject_GetAttr(ptr %obj, ptr @name_requires_grad)
  %free = call i1 @is_false(ptr %requires)
  br i1 %free, label %yes, label %mode
mode:
  %mode.fn = load ptr, ptr @torch_is_grad_enabled
  %enabled = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %mode.fn, ptr null)
  %off = call i1 @is_false(ptr %enabled)
  br i1 %off, label %yes, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Takes the reference; an error counts as not false.
define internal i1 @is_false(ptr %obj) {
  %missing = icmp eq ptr %obj, null
  br i1 %missing, label %error, label %test
error:
  call void @PyErr_Clear()
  ret i1 false
test:
  %false = icmp eq ptr %obj, @object_false
  call void @Py_DecRef(ptr %obj)
  ret i1 %false
}
"""
