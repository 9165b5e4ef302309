"""Part of `fastcall_text`: what an argument is, read from numpy's objects and through DLPack's function tables."""

from __future__ import annotations

VIEWS = """
; Fills %view; false where the object is an array that needs the slow path.
define internal i1 @view_of(ptr %obj, ptr %view) {
  %type = load ptr, %obj + 8
  br ptr %type eq @ndarray_type, label %numpy, label %not.numpy
numpy:
  %n = call i1 @view_numpy(ptr %obj, ptr %view)
  ret i1 %n
not.numpy:
  %count = load i64, ptr @exchange_count
  br label %loop
loop:
  %i = phi i64 [ 0, %not.numpy ], [ %next, %step ]
  br i64 %i slt %count, label %compare, label %other
compare:
  %offset = mul i64 %i, $exchange_size
  %entry = getelementptr i8, ptr @exchanges, i64 %offset
  %class = load ptr, %entry + $exchange_class
  br ptr %type eq %class, label %exchange, label %step
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
  store i64 $on_cpu, %view + $view_place
  %data = load i64, %obj + 16
  store i64 %data, %view + $view_data
  %nd = load i32, %obj + 24
  %nd.wide = sext i32 %nd to i64
  store i64 %nd.wide, %view + $view_ndim
  %dims = load ptr, %obj + 32
  store ptr %dims, %view + $view_dims
  %strides = load ptr, %obj + 40
  store ptr %strides, %view + $view_strides
  %descr = load ptr, %obj + 56
  %num = load i32, %descr + 28
  %num.wide = sext i32 %num to i64
  store i64 %num.wide, %view + $view_type
  %flags = load i32, %obj + 64
  %writable = and i32 %flags, 1024
  %writable.wide = zext i32 %writable to i64
  store i64 %writable.wide, %view + $view_writable
  %aligned.bit = and i32 %flags, 256
  %aligned = icmp ne i32 %aligned.bit, 0
  %order = load i8, %descr + 26
  %native = icmp eq i8 %order, 61
  %whatever = icmp eq i8 %order, 124
  %readable = or i1 %native, %whatever
  %good = and i1 %aligned, %readable
  ret i1 %good
}

; A tensor of torch that would track gradients or is a negated view goes the slow way.
define internal i1 @view_exchange(ptr %entry, ptr %obj, ptr %view) {
  %dl = getelementptr i8, ptr %view, i64 $view_export
  %export = load ptr, %entry + $exchange_export
  %failed = call i32 %export(ptr %obj, ptr %dl)
  br i32 %failed eq 0, label %exported, label %error
error:
  call void @PyErr_Clear()
  ret i1 false
exported:
  %framework = load i64, %entry + $exchange_framework
  br i64 %framework eq $torch, label %torch, label %fill
torch:
  %plain = call i1 @is_plain(ptr %obj)
  br i1 %plain, label %fill, label %no
no:
  ret i1 false
fill:
  store i64 %framework, ptr %view
  %place = load i64, %dl + 8
  store i64 %place, %view + $view_place
  %base = load i64, ptr %dl
  %offset = load i64, %dl + 40
  %data = add i64 %base, %offset
  store i64 %data, %view + $view_data
  %nd = load i32, %dl + 16
  %nd.wide = sext i32 %nd to i64
  store i64 %nd.wide, %view + $view_ndim
  %type = load i32, %dl + 20
  %type.wide = zext i32 %type to i64
  store i64 %type.wide, %view + $view_type
  %dims = load ptr, %dl + 24
  store ptr %dims, %view + $view_dims
  %strides = load ptr, %dl + 32
  store ptr %strides, %view + $view_strides
  store i64 1, %view + $view_writable
  %has.strides = icmp ne ptr %strides, null
  %scalar = icmp eq i32 %nd, 0
  %good = or i1 %has.strides, %scalar
  ret i1 %good
}

; No negated view, and no gradients to track: read from the structure of the tensor where its layout is known.
define internal i1 @is_plain(ptr %obj) {
  %structure.offset = load i64, ptr @torch_structure
  br i64 %structure.offset eq 0, label %ask, label %read
read:
  %structure = load ptr, %obj + %structure.offset
  %keys.offset = load i64, ptr @torch_keys
  %keys = load i64, %structure + %keys.offset
  %negative = load i64, ptr @torch_negative
  %negated = and i64 %keys, %negative
  br i64 %negated ne 0, label %no, label %autograd
autograd:
  %autograd.offset = load i64, ptr @torch_autograd
  %autograd.word = load i64, %structure + %autograd.offset
  br i64 %autograd.word eq 0, label %yes, label %grad
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
  br ptr %obj eq null, label %error, label %test
error:
  call void @PyErr_Clear()
  ret i1 false
test:
  %false = icmp eq ptr %obj, @object_false
  call void @Py_DecRef(ptr %obj)
  ret i1 %false
}
"""
