"""Part of `fastcall_text`: comparing arguments with a plan, keeping outputs apart from inputs."""

from __future__ import annotations

MATCHING = """
define internal i1 @matches_tensor(ptr %rec, ptr %view, ptr %slots) {
entry:
  %framework = load i64, ptr %view
  br i64 %framework ne 0, label %ranks, label %no
ranks:
  %v.ndim = load i64, %view + $view_ndim
  %ndim = load i64, %rec + $rec_ndim
  br i64 %v.ndim eq %ndim, label %types, label %no
types:
  %v.type = load i64, %view + $view_type
  %numpy = icmp eq i64 %framework, $numpy
  %r.type = load i64, %rec + $rec_type
  %r.other = load i64, %rec + $rec_other_type
  %r.dlpack = load i64, %rec + $rec_dlpack
  %first = select i1 %numpy, i64 %r.type, i64 %r.dlpack
  %second = select i1 %numpy, i64 %r.other, i64 %r.dlpack
  %is.first = icmp eq i64 %v.type, %first
  %is.second = icmp eq i64 %v.type, %second
  %same.type = or i1 %is.first, %is.second
  br i1 %same.type, label %memory, label %no
memory:
  %v.place = load i64, %view + $view_place
  %r.place = load i64, %rec + $rec_place
  %same.place = icmp eq i64 %v.place, %r.place
  %r.framework = load i64, %rec + $rec_framework
  %same.framework = icmp eq i64 %framework, %r.framework
  %any.framework = icmp eq i64 %r.framework, 0
  %known = icmp sle i64 %framework, $torch
  %one.of.ours = and i1 %any.framework, %known
  %framework.fits = or i1 %same.framework, %one.of.ours
  %there = and i1 %same.place, %framework.fits
  %data = load i64, %view + $view_data
  %mask = load i64, %rec + $rec_mask
  %offset = load i64, %rec + $rec_offset
  %off = and i64 %data, %mask
  %aligned = icmp eq i64 %off, %offset
  %fits = and i1 %there, %aligned
  br i1 %fits, label %shapes, label %no
shapes:
  %v.dims = load ptr, %view + $view_dims
  %v.strides = load ptr, %view + $view_strides
  %r.dims = load ptr, %rec + $rec_dims
  %r.bytes = load ptr, %rec + $rec_strides
  %r.elements = load ptr, %rec + $rec_elements
  %r.strides = select i1 %numpy, ptr %r.bytes, ptr %r.elements
  %r.keep = load ptr, %rec + $rec_keep
  br label %axis
axis:
  %d = phi i64 [ 0, %shapes ], [ %d.next, %next ]
  br i64 %d slt %ndim, label %compare, label %yes
compare:
  %a = load i64, %v.dims[%d]
  %b = load i64, %r.dims[%d]
  %size.differs = xor i64 %a, %b
  %s = load i64, %v.strides[%d]
  %t = load i64, %r.strides[%d]
  %k = load i64, %r.keep[%d]
  %stride.differs = xor i64 %s, %t
  %stride.counts = and i64 %stride.differs, %k
  %differs = or i64 %size.differs, %stride.counts
  br i64 %differs eq 0, label %next, label %no
next:
  %d.next = add i64 %d, 1
  br label %axis
yes:
  call void @set_slot(ptr %rec, ptr %slots, i64 %data)
  ret i1 true
no:
  ret i1 false
}

define internal void @set_slot(ptr %rec, ptr %slots, i64 %bits) {
  %slot = load i64, %rec + $rec_slot
  br i64 %slot sge 0, label %put, label %done
put:
  store i64 %bits, %slots[%slot]
  br label %done
done:
  ret void
}

define internal i1 @matches_integer(ptr %rec, ptr %obj, ptr %slots) {
  %overflow = alloca i32, align 4
  %type = load ptr, %obj + 8
  %a = icmp eq ptr %type, @PyLong_Type
  %b = icmp eq ptr %type, @numpy_int64
  %c = icmp eq ptr %type, @numpy_int32
  %ab = or i1 %a, %b
  %abc = or i1 %ab, %c
  br i1 %abc, label %read, label %no
read:
  %value = call i64 @PyLong_AsLongLongAndOverflow(ptr %obj, ptr %overflow)
  %over = load i32, ptr %overflow
  br i32 %over eq 0, label %range, label %no
range:
  %least = load i64, %rec + $rec_least
  %most = load i64, %rec + $rec_most
  %low = icmp sge i64 %value, %least
  %high = icmp sle i64 %value, %most
  %inside = and i1 %low, %high
  br i1 %inside, label %yes, label %no
yes:
  call void @set_slot(ptr %rec, ptr %slots, i64 %value)
  ret i1 true
no:
  ret i1 false
}

define internal i1 @matches_float(ptr %rec, ptr %obj, ptr %slots, i1 %narrow) {
  %type = load ptr, %obj + 8
  %a = icmp eq ptr %type, @PyFloat_Type
  %b = icmp eq ptr %type, @PyLong_Type
  %c = icmp eq ptr %type, @numpy_float64
  %d = icmp eq ptr %type, @numpy_float32
  %ab = or i1 %a, %b
  %cd = or i1 %c, %d
  %abcd = or i1 %ab, %cd
  br i1 %abcd, label %read, label %no
read:
  %value = call double @PyFloat_AsDouble(ptr %obj)
  %suspect = fcmp oeq double %value, -1.0
  br i1 %suspect, label %check, label %store
check:
  %raised = call ptr @PyErr_Occurred()
  br ptr %raised eq null, label %store, label %error
error:
  call void @PyErr_Clear()
  br label %no
store:
  %wide = bitcast double %value to i64
  %single = fptrunc double %value to float
  %single.bits = bitcast float %single to i32
  %single.wide = zext i32 %single.bits to i64
  %bits = select i1 %narrow, i64 %single.wide, i64 %wide
  call void @set_slot(ptr %rec, ptr %slots, i64 %bits)
  ret i1 true
no:
  ret i1 false
}

define internal i1 @matches_bool(ptr %rec, ptr %obj, ptr %slots) {
  %true = icmp eq ptr %obj, @object_true
  %false = icmp eq ptr %obj, @object_false
  %either = or i1 %true, %false
  %bits = zext i1 %true to i64
  call void @set_slot(ptr %rec, ptr %slots, i64 %bits)
  ret i1 %either
}

define internal i1 @matches_one(ptr %rec, ptr %obj, ptr %view, ptr %slots) {
  %kind = load i64, ptr %rec
  switch i64 %kind, label %no [ i64 $tensor, label %tensor  i64 $integer, label %integer
    i64 $float32, label %float32  i64 $float64, label %float64  i64 $bool, label %bool ]
tensor:
  %t = call i1 @matches_tensor(ptr %rec, ptr %view, ptr %slots)
  ret i1 %t
integer:
  %i = call i1 @matches_integer(ptr %rec, ptr %obj, ptr %slots)
  ret i1 %i
float32:
  %f = call i1 @matches_float(ptr %rec, ptr %obj, ptr %slots, i1 true)
  ret i1 %f
float64:
  %g = call i1 @matches_float(ptr %rec, ptr %obj, ptr %slots, i1 false)
  ret i1 %g
bool:
  %b = call i1 @matches_bool(ptr %rec, ptr %obj, ptr %slots)
  ret i1 %b
no:
  ret i1 false
}

define internal i1 @matches_all(ptr %recs, ptr %objs, ptr %views, i64 %count, ptr %slots) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  br i64 %i slt %count, label %test, label %yes
test:
  %rec.offset = mul i64 %i, $record_size
  %rec = getelementptr i8, ptr %recs, i64 %rec.offset
  %obj = load ptr, %objs[%i]
  %view.offset = mul i64 %i, $view_size
  %view = getelementptr i8, ptr %views, i64 %view.offset
  %ok = call i1 @matches_one(ptr %rec, ptr %obj, ptr %view, ptr %slots)
  br i1 %ok, label %good, label %no
good:
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}
"""

ALIASING = """
; Whether any of the arrays of %count records, written ones or %all, shares addresses with the one given.
define internal i1 @meets_any(ptr %rec, ptr %view, ptr %recs, ptr %views, i64 %count, i64 %all) {
entry:
  %data = load i64, %view + $view_data
  %low = load i64, %rec + $rec_low
  %high = load i64, %rec + $rec_high
  %begin = add i64 %data, %low
  %end = add i64 %data, %high
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  br i64 %i slt %count, label %test, label %no
test:
  %o.offset = mul i64 %i, $record_size
  %o.rec = getelementptr i8, ptr %recs, i64 %o.offset
  %kind = load i64, ptr %o.rec
  %is.tensor = icmp eq i64 %kind, $tensor
  %o.written = load i64, %o.rec + $rec_written
  %concerns = or i64 %o.written, %all
  %asked = icmp ne i64 %concerns, 0
  %wanted = and i1 %is.tensor, %asked
  br i1 %wanted, label %compare, label %next
compare:
  %v.offset = mul i64 %i, $view_size
  %o.view = getelementptr i8, ptr %views, i64 %v.offset
  %o.data = load i64, %o.view + $view_data
  %o.low = load i64, %o.rec + $rec_low
  %o.high = load i64, %o.rec + $rec_high
  %o.begin = add i64 %o.data, %o.low
  %o.end = add i64 %o.data, %o.high
  %before = icmp ult i64 %begin, %o.end
  %after = icmp ult i64 %o.begin, %end
  %meet = and i1 %before, %after
  br i1 %meet, label %yes, label %next
next:
  %i.next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; Arguments that are written: writable, and apart from all others.
define internal i1 @arguments_are_apart(ptr %recs, ptr %views, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  br i64 %i slt %count, label %test, label %yes
test:
  %r.offset = mul i64 %i, $record_size
  %rec = getelementptr i8, ptr %recs, i64 %r.offset
  %kind = load i64, ptr %rec
  br i64 %kind eq $tensor, label %array, label %good
array:
  %v.offset = mul i64 %i, $view_size
  %view = getelementptr i8, ptr %views, i64 %v.offset
  %writable = load i64, %view + $view_writable
  %written = load i64, %rec + $rec_written
  %read.only = icmp eq i64 %writable, 0
  %is.written = icmp ne i64 %written, 0
  %wrong = and i1 %read.only, %is.written
  br i1 %wrong, label %no, label %others
others:
  %meets = call i1 @meets_any(ptr %rec, ptr %view, ptr %recs, ptr %views, i64 %i, i64 %written)
  br i1 %meets, label %no, label %good
good:
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; Given outputs: writable, and apart from the inputs and from each other.
define internal i1 @outputs_are_apart(ptr %recs, ptr %views, i64 %nargs, ptr %outs, ptr %out.views, i64 %nouts) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  br i64 %i slt %nouts, label %test, label %yes
test:
  %r.offset = mul i64 %i, $record_size
  %rec = getelementptr i8, ptr %outs, i64 %r.offset
  %v.offset = mul i64 %i, $view_size
  %view = getelementptr i8, ptr %out.views, i64 %v.offset
  %writable = load i64, %view + $view_writable
  br i64 %writable ne 0, label %inputs, label %no
inputs:
  %meets = call i1 @meets_any(ptr %rec, ptr %view, ptr %recs, ptr %views, i64 %nargs, i64 1)
  br i1 %meets, label %no, label %others
others:
  %meets.out = call i1 @meets_any(ptr %rec, ptr %view, ptr %outs, ptr %out.views, i64 %i, i64 1)
  br i1 %meets.out, label %no, label %good
good:
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}
"""
