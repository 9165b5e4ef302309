"""Part of `fastcall_text`: CuPy's arrays, which have no function table for DLPack.

Two functions do what those of such a table would: one describes an array by its attributes, in the words that follow
the structure it fills in; the other asks CuPy for its stream. A class that says anything unusual is not read.
"""

from __future__ import annotations

CUPY = """
; A whole number that is an attribute; %ok tells whether it is one.
define internal i64 @integer_attribute(ptr %obj, ptr %name, ptr %ok) {
  %value = call ptr @PyObject_GetAttr(ptr %obj, ptr %name)
  br ptr %value eq null, label %no, label %read
read:
  %number = call i64 @integer_of(ptr %value, ptr %ok)
  call void @Py_DecRef(ptr %value)
  ret i64 %number
no:
  call void @PyErr_Clear()
  store i8 0, ptr %ok
  ret i64 0
}

define internal i64 @integer_of(ptr %value, ptr %ok) {
  %overflow = alloca i32, align 4
  %type = load ptr, %value + 8
  br ptr %type eq @PyLong_Type, label %read, label %no
read:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %value, ptr %overflow)
  %over = load i32, ptr %overflow
  br i32 %over eq 0, label %yes, label %no
yes:
  ret i64 %number
no:
  store i8 0, ptr %ok
  ret i64 0
}

; A tuple of at most max_rank whole numbers that is an attribute, each divided by %unit; gives how many.
define internal i64 @integers_attribute(ptr %obj, ptr %name, i64 %unit, ptr %into, ptr %ok) {
  %tuple = call ptr @PyObject_GetAttr(ptr %obj, ptr %name)
  br ptr %tuple eq null, label %no, label %look
look:
  %type = load ptr, %tuple + 8
  br ptr %type eq @PyTuple_Type, label %measure, label %drop
measure:
  %count = call i64 @PyTuple_Size(ptr %tuple)
  br i64 %count sle $max_rank, label %loop, label %drop
loop:
  %i = phi i64 [ 0, %measure ], [ %next, %put ]
  br i64 %i slt %count, label %put, label %done
put:
  %item = call ptr @PyTuple_GetItem(ptr %tuple, i64 %i)
  %number = call i64 @integer_of(ptr %item, ptr %ok)
  %quotient = sdiv i64 %number, %unit
  %back = mul i64 %quotient, %unit
  %exact = icmp eq i64 %back, %number
  %exact.byte = zext i1 %exact to i8
  %so.far = load i8, ptr %ok
  %still = and i8 %so.far, %exact.byte
  store i8 %still, ptr %ok
  store i64 %quotient, %into[%i]
  %next = add i64 %i, 1
  br label %loop
done:
  call void @Py_DecRef(ptr %tuple)
  ret i64 %count
drop:
  call void @Py_DecRef(ptr %tuple)
  br label %no
no:
  call void @PyErr_Clear()
  store i8 0, ptr %ok
  ret i64 0
}

; What DLPack calls the type of the elements; 0 where it is not one of numpy's own.
define internal i64 @element_type(ptr %obj) {
  %descr = call ptr @PyObject_GetAttr(ptr %obj, ptr @name_dtype)
  br ptr %descr eq null, label %no, label %read
read:
  %number = load i32, %descr + 28
  call void @Py_DecRef(ptr %descr)
  br i32 %number ult $numpy_types, label %find, label %no
find:
  %place = zext i32 %number to i64
  %type = load i64, @cupy_types[%place]
  ret i64 %type
no:
  call void @PyErr_Clear()
  ret i64 0
}

; The address and the device into a DLTensor.
define internal void @export_memory(ptr %obj, ptr %dl, ptr %ok) {
  %memory = call ptr @PyObject_GetAttr(ptr %obj, ptr @name_data)
  br ptr %memory eq null, label %no, label %read
read:
  %address = call i64 @integer_attribute(ptr %memory, ptr @name_ptr, ptr %ok)
  store i64 %address, ptr %dl
  %device = call i64 @integer_attribute(ptr %memory, ptr @name_device_id, ptr %ok)
  call void @Py_DecRef(ptr %memory)
  %high = shl i64 %device, 32
  %place = or i64 %high, $on_cuda
  store i64 %place, %dl[1]
  ret void
no:
  call void @PyErr_Clear()
  store i8 0, ptr %ok
  ret void
}

; dltensor_from_py_object_no_sync; there is room for sizes and strides behind the six words of %dl.
define i32 @weft_export_cupy(ptr %obj, ptr %dl) {
  %ok = alloca i8, align 1
  store i8 1, ptr %ok
  %type = call i64 @element_type(ptr %obj)
  br i64 %type ne 0, label %read, label %fail
read:
  call void @export_memory(ptr %obj, ptr %dl, ptr %ok)
  %bits.high = lshr i64 %type, 8
  %bits = and i64 %bits.high, 255
  %size = lshr i64 %bits, 3
  %dims = getelementptr i64, ptr %dl, i64 6
  %strides = getelementptr i64, ptr %dims, i64 $max_rank
  %rank = call i64 @integers_attribute(ptr %obj, ptr @name_shape, i64 1, ptr %dims, ptr %ok)
  %steps = call i64 @integers_attribute(ptr %obj, ptr @name_strides, i64 %size, ptr %strides, ptr %ok)
  %type.high = shl i64 %type, 32
  %rank.and.type = or i64 %type.high, %rank
  store i64 %rank.and.type, %dl[2]
  %dims.at = getelementptr i64, ptr %dl, i64 3
  store ptr %dims, ptr %dims.at
  %strides.at = getelementptr i64, ptr %dl, i64 4
  store ptr %strides, ptr %strides.at
  store i64 0, %dl[5]
  %same = icmp eq i64 %rank, %steps
  %fine.byte = load i8, ptr %ok
  %fine = icmp ne i8 %fine.byte, 0
  %good = and i1 %same, %fine
  br i1 %good, label %yes, label %fail
yes:
  ret i32 0
fail:
  ret i32 -1
}

; current_work_stream, of the device that is CuPy's current one.
define i32 @weft_stream_cupy(i32 %kind, i32 %device, ptr %stream) {
  %ok = alloca i8, align 1
  store i8 1, ptr %ok
  %ask = load ptr, ptr @cupy_stream
  %object = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %ask, ptr null)
  br ptr %object eq null, label %fail, label %read
read:
  %address = call i64 @integer_attribute(ptr %object, ptr @name_ptr, ptr %ok)
  call void @Py_DecRef(ptr %object)
  store i64 %address, ptr %stream
  %fine = load i8, ptr %ok
  %status.byte = sub i8 %fine, 1
  %status = sext i8 %status.byte to i32
  ret i32 %status
fail:
  call void @PyErr_Clear()
  ret i32 -1
}
"""
