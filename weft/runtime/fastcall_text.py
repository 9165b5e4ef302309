"""The machine code of `fastcall`: one generic function, driven by the records of each specialization.

Arguments are looked at once (`view_of`), then compared with one plan after the other
(`matches`); the first that fits runs (`run_plan`). Whatever is unusual returns MISS, and the
caller's ordinary path says what is wrong or does it the slow way.

numpy arrays are read through the layout that numpy's own headers fix (fields are macros
over it); torch tensors through the function table their type exports for DLPack.
"""

from __future__ import annotations

from string import Template

#: 8-byte fields of the structures that Python fills in.
TABLE = ("nargs", "nouts", "count", "plans")
PLAN = ("address", "nslots", "release", "allocates", "on_error", "args", "outs")
RECORD = (
    "kind", "slot", "ndim", "type", "other_type", "dlpack", "mask", "low", "high",
    "dims", "strides", "elements", "keep", "least", "most", "descr", "prototype",
)  # fmt: skip
VIEW = ("framework", "data", "ndim", "dims", "strides", "type", "writable", "unused")

TENSOR, INTEGER, FLOAT32, FLOAT64, BOOL = range(5)
MAX_ARGUMENTS = 24
MAX_OUTPUTS = 8

#: Functions and objects of CPython the code refers to.
PYTHON_NAMES = (
    "PyCapsule_GetPointer", "PyErr_Clear", "PyEval_RestoreThread", "PyEval_SaveThread", "PyFloat_AsDouble",
    "PyFloat_Type", "PyLong_AsLongLongAndOverflow", "PyLong_FromLongLong", "PyLong_Type",
    "PyObject_CallFunctionObjArgs", "PyObject_GetAttr", "PyObject_Vectorcall", "PyTuple_GetItem", "PyTuple_New",
    "PyTuple_SetItem", "PyTuple_Size", "PyTuple_Type", "Py_DecRef", "Py_IncRef", "PyErr_Occurred",
)  # fmt: skip

_DECLARATIONS = """
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyTuple_Type = external global i8
@ndarray_type = external global i8
@numpy_float32 = external global i8
@numpy_float64 = external global i8
@numpy_int32 = external global i8
@numpy_int64 = external global i8
@object_none = external global i8
@object_true = external global i8
@object_false = external global i8
@object_miss = external global i8
@name_requires_grad = external global i8

@torch_tensor = global ptr null
@torch_parameter = global ptr null
@torch_export = global ptr null
@torch_empty_like = global ptr null
@torch_is_grad_enabled = global ptr null
@torch_is_neg = global ptr null
"""

_VIEWS = """
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
  %tensor = load ptr, ptr @torch_tensor
  %is.tensor = icmp eq ptr %type, %tensor
  br i1 %is.tensor, label %torch, label %maybe.parameter
maybe.parameter:
  %parameter = load ptr, ptr @torch_parameter
  %is.parameter = icmp eq ptr %type, %parameter
  br i1 %is.parameter, label %torch, label %other
torch:
  %t = call i1 @view_torch(ptr %obj, ptr %view)
  ret i1 %t
other:
  store i64 0, ptr %view
  ret i1 true
}

define internal i1 @view_numpy(ptr %obj, ptr %view) {
  store i64 1, ptr %view
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

; A tensor that would track gradients, is a negated view, or is elsewhere goes the slow way.
define internal i1 @view_torch(ptr %obj, ptr %view) {
  %dl = alloca [6 x i64], align 8
  %export = load ptr, ptr @torch_export
  %failed = call i32 %export(ptr %obj, ptr %dl)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %exported, label %error
error:
  call void @PyErr_Clear()
  ret i1 false
exported:
  %device.at = getelementptr i8, ptr %dl, i64 8
  %device = load i32, ptr %device.at
  %on.cpu = icmp eq i32 %device, 1
  br i1 %on.cpu, label %cpu, label %no
no:
  ret i1 false
cpu:
  %plain = call i1 @is_plain(ptr %obj)
  br i1 %plain, label %fill, label %no
fill:
  store i64 2, ptr %view
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

define internal i1 @is_plain(ptr %obj) {
  %arg = alloca ptr, align 8
  store ptr %obj, ptr %arg
  %neg.fn = load ptr, ptr @torch_is_neg
  %neg = call ptr @PyObject_Vectorcall(ptr %neg.fn, ptr %arg, i64 1, ptr null)
  %not.neg = call i1 @is_false(ptr %neg)
  br i1 %not.neg, label %grad, label %no
grad:
  %requires = call ptr @PyObject_GetAttr(ptr %obj, ptr @name_requires_grad)
  %free = call i1 @is_false(ptr %requires)
  br i1 %free, label %yes, label %mode
mode:
  %mode.fn = load ptr, ptr @torch_is_grad_enabled
  %enabled = call ptr @PyObject_Vectorcall(ptr %mode.fn, ptr null, i64 0, ptr null)
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

_MATCHING = """
define internal i1 @matches_tensor(ptr %rec, ptr %view, ptr %slots) {
entry:
  %framework = load i64, ptr %view
  %is.array = icmp ne i64 %framework, 0
  br i1 %is.array, label %ranks, label %no
ranks:
  %v.ndim.at = getelementptr i8, ptr %view, i64 $view_ndim
  %v.ndim = load i64, ptr %v.ndim.at
  %r.ndim.at = getelementptr i8, ptr %rec, i64 $rec_ndim
  %ndim = load i64, ptr %r.ndim.at
  %same.rank = icmp eq i64 %v.ndim, %ndim
  br i1 %same.rank, label %types, label %no
types:
  %v.type.at = getelementptr i8, ptr %view, i64 $view_type
  %v.type = load i64, ptr %v.type.at
  %numpy = icmp eq i64 %framework, 1
  %r.type.at = getelementptr i8, ptr %rec, i64 $rec_type
  %r.type = load i64, ptr %r.type.at
  %r.other.at = getelementptr i8, ptr %rec, i64 $rec_other_type
  %r.other = load i64, ptr %r.other.at
  %r.dlpack.at = getelementptr i8, ptr %rec, i64 $rec_dlpack
  %r.dlpack = load i64, ptr %r.dlpack.at
  %first = select i1 %numpy, i64 %r.type, i64 %r.dlpack
  %second = select i1 %numpy, i64 %r.other, i64 %r.dlpack
  %is.first = icmp eq i64 %v.type, %first
  %is.second = icmp eq i64 %v.type, %second
  %same.type = or i1 %is.first, %is.second
  br i1 %same.type, label %memory, label %no
memory:
  %v.data.at = getelementptr i8, ptr %view, i64 $view_data
  %data = load i64, ptr %v.data.at
  %mask.at = getelementptr i8, ptr %rec, i64 $rec_mask
  %mask = load i64, ptr %mask.at
  %off = and i64 %data, %mask
  %aligned = icmp eq i64 %off, 0
  br i1 %aligned, label %shapes, label %no
shapes:
  %v.dims.at = getelementptr i8, ptr %view, i64 $view_dims
  %v.dims = load ptr, ptr %v.dims.at
  %v.strides.at = getelementptr i8, ptr %view, i64 $view_strides
  %v.strides = load ptr, ptr %v.strides.at
  %r.dims.at = getelementptr i8, ptr %rec, i64 $rec_dims
  %r.dims = load ptr, ptr %r.dims.at
  %r.bytes.at = getelementptr i8, ptr %rec, i64 $rec_strides
  %r.bytes = load ptr, ptr %r.bytes.at
  %r.elements.at = getelementptr i8, ptr %rec, i64 $rec_elements
  %r.elements = load ptr, ptr %r.elements.at
  %r.strides = select i1 %numpy, ptr %r.bytes, ptr %r.elements
  %r.keep.at = getelementptr i8, ptr %rec, i64 $rec_keep
  %r.keep = load ptr, ptr %r.keep.at
  br label %axis
axis:
  %d = phi i64 [ 0, %shapes ], [ %d.next, %next ]
  %more = icmp slt i64 %d, %ndim
  br i1 %more, label %compare, label %yes
compare:
  %a.at = getelementptr i64, ptr %v.dims, i64 %d
  %a = load i64, ptr %a.at
  %b.at = getelementptr i64, ptr %r.dims, i64 %d
  %b = load i64, ptr %b.at
  %size.differs = xor i64 %a, %b
  %s.at = getelementptr i64, ptr %v.strides, i64 %d
  %s = load i64, ptr %s.at
  %t.at = getelementptr i64, ptr %r.strides, i64 %d
  %t = load i64, ptr %t.at
  %k.at = getelementptr i64, ptr %r.keep, i64 %d
  %k = load i64, ptr %k.at
  %stride.differs = xor i64 %s, %t
  %stride.counts = and i64 %stride.differs, %k
  %differs = or i64 %size.differs, %stride.counts
  %same = icmp eq i64 %differs, 0
  br i1 %same, label %next, label %no
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
  %slot.at = getelementptr i8, ptr %rec, i64 $rec_slot
  %slot = load i64, ptr %slot.at
  %used = icmp sge i64 %slot, 0
  br i1 %used, label %put, label %done
put:
  %at = getelementptr i64, ptr %slots, i64 %slot
  store i64 %bits, ptr %at
  br label %done
done:
  ret void
}

define internal i1 @matches_integer(ptr %rec, ptr %obj, ptr %slots) {
  %overflow = alloca i32, align 4
  %type.at = getelementptr i8, ptr %obj, i64 8
  %type = load ptr, ptr %type.at
  %a = icmp eq ptr %type, @PyLong_Type
  %b = icmp eq ptr %type, @numpy_int64
  %c = icmp eq ptr %type, @numpy_int32
  %ab = or i1 %a, %b
  %abc = or i1 %ab, %c
  br i1 %abc, label %read, label %no
read:
  %value = call i64 @PyLong_AsLongLongAndOverflow(ptr %obj, ptr %overflow)
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  br i1 %fits, label %range, label %no
range:
  %least.at = getelementptr i8, ptr %rec, i64 $rec_least
  %least = load i64, ptr %least.at
  %most.at = getelementptr i8, ptr %rec, i64 $rec_most
  %most = load i64, ptr %most.at
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
  %type.at = getelementptr i8, ptr %obj, i64 8
  %type = load ptr, ptr %type.at
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
  %fine = icmp eq ptr %raised, null
  br i1 %fine, label %store, label %error
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
  %more = icmp slt i64 %i, %count
  br i1 %more, label %test, label %yes
test:
  %rec.offset = mul i64 %i, $record_size
  %rec = getelementptr i8, ptr %recs, i64 %rec.offset
  %obj.at = getelementptr ptr, ptr %objs, i64 %i
  %obj = load ptr, ptr %obj.at
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

_ALIASING = """
; Whether any of the arrays of %count records shares addresses with the one given.
define internal i1 @meets_any(ptr %rec, ptr %view, ptr %recs, ptr %views, i64 %count) {
entry:
  %data.at = getelementptr i8, ptr %view, i64 $view_data
  %data = load i64, ptr %data.at
  %low.at = getelementptr i8, ptr %rec, i64 $rec_low
  %low = load i64, ptr %low.at
  %high.at = getelementptr i8, ptr %rec, i64 $rec_high
  %high = load i64, ptr %high.at
  %begin = add i64 %data, %low
  %end = add i64 %data, %high
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %test, label %no
test:
  %o.offset = mul i64 %i, $record_size
  %o.rec = getelementptr i8, ptr %recs, i64 %o.offset
  %kind = load i64, ptr %o.rec
  %is.tensor = icmp eq i64 %kind, $tensor
  br i1 %is.tensor, label %compare, label %next
compare:
  %v.offset = mul i64 %i, $view_size
  %o.view = getelementptr i8, ptr %views, i64 %v.offset
  %o.data.at = getelementptr i8, ptr %o.view, i64 $view_data
  %o.data = load i64, ptr %o.data.at
  %o.low.at = getelementptr i8, ptr %o.rec, i64 $rec_low
  %o.low = load i64, ptr %o.low.at
  %o.high.at = getelementptr i8, ptr %o.rec, i64 $rec_high
  %o.high = load i64, ptr %o.high.at
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

; Given outputs: writable, and apart from the inputs and from each other.
define internal i1 @outputs_are_apart(ptr %recs, ptr %views, i64 %nargs, ptr %outs, ptr %out.views, i64 %nouts) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %more = icmp slt i64 %i, %nouts
  br i1 %more, label %test, label %yes
test:
  %r.offset = mul i64 %i, $record_size
  %rec = getelementptr i8, ptr %outs, i64 %r.offset
  %v.offset = mul i64 %i, $view_size
  %view = getelementptr i8, ptr %out.views, i64 %v.offset
  %writable.at = getelementptr i8, ptr %view, i64 $view_writable
  %writable = load i64, ptr %writable.at
  %can = icmp ne i64 %writable, 0
  br i1 %can, label %inputs, label %no
inputs:
  %meets = call i1 @meets_any(ptr %rec, ptr %view, ptr %recs, ptr %views, i64 %nargs)
  br i1 %meets, label %no, label %others
others:
  %meets.out = call i1 @meets_any(ptr %rec, ptr %view, ptr %outs, ptr %out.views, i64 %i)
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

_RUNNING = """
; A new array like %rec in numpy (1) or torch (2), its address put into the slots; null where that failed.
define internal ptr @allocate(ptr %rec, i64 %framework, ptr %slots) {
  %view = alloca [8 x i64], align 8
  %arg = alloca ptr, align 8
  %numpy = icmp eq i64 %framework, 1
  br i1 %numpy, label %in.numpy, label %in.torch
in.numpy:
  %descr.at = getelementptr i8, ptr %rec, i64 $rec_descr
  %descr = load ptr, ptr %descr.at
  %ndim.at = getelementptr i8, ptr %rec, i64 $rec_ndim
  %ndim = load i64, ptr %ndim.at
  %nd = trunc i64 %ndim to i32
  %dims.at = getelementptr i8, ptr %rec, i64 $rec_dims
  %dims = load ptr, ptr %dims.at
  call void @Py_IncRef(ptr %descr)
  %array = call ptr @PyArray_NewFromDescr(ptr @ndarray_type, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr null, i32 0, ptr null)
  br label %made
in.torch:
  %proto.at = getelementptr i8, ptr %rec, i64 $rec_prototype
  %proto = load ptr, ptr %proto.at
  store ptr %proto, ptr %arg
  %no.proto = icmp eq ptr %proto, null
  br i1 %no.proto, label %fail, label %make
make:
  %like = load ptr, ptr @torch_empty_like
  %tensor = call ptr @PyObject_Vectorcall(ptr %like, ptr %arg, i64 1, ptr null)
  br label %made
made:
  %object = phi ptr [ %array, %in.numpy ], [ %tensor, %make ]
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %error, label %check
error:
  call void @PyErr_Clear()
  br label %fail
check:
  %seen = call i1 @view_of(ptr %object, ptr %view)
  br i1 %seen, label %compare, label %drop
compare:
  %fits = call i1 @matches_tensor(ptr %rec, ptr %view, ptr %slots)
  br i1 %fits, label %good, label %drop
drop:
  call void @Py_DecRef(ptr %object)
  br label %fail
good:
  ret ptr %object
fail:
  ret ptr null
}

; References of all objects that are there given back.
define internal void @release_all(ptr %objs, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %step ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %drop, label %done
drop:
  %at = getelementptr ptr, ptr %objs, i64 %i
  %obj = load ptr, ptr %at
  %there = icmp ne ptr %obj, null
  br i1 %there, label %dec, label %step
dec:
  call void @Py_DecRef(ptr %obj)
  br label %step
step:
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}

define internal i1 @allocate_all(ptr %recs, ptr %objs, i64 %count, i64 %framework, ptr %slots) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %make, label %yes
make:
  %offset = mul i64 %i, $record_size
  %rec = getelementptr i8, ptr %recs, i64 %offset
  %obj = call ptr @allocate(ptr %rec, i64 %framework, ptr %slots)
  %at = getelementptr ptr, ptr %objs, i64 %i
  store ptr %obj, ptr %at
  %made = icmp ne ptr %obj, null
  br i1 %made, label %good, label %no
good:
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  call void @release_all(ptr %objs, i64 %i)
  ret i1 false
}

define internal i32 @run_kernel(ptr %plan, ptr %slots) {
  %fn = load ptr, ptr %plan
  %release.at = getelementptr i8, ptr %plan, i64 $plan_release
  %release = load i64, ptr %release.at
  %let.go = icmp ne i64 %release, 0
  br i1 %let.go, label %free, label %held
free:
  %thread = call ptr @PyEval_SaveThread()
  %a = call i32 %fn(ptr %slots)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 %a
held:
  %b = call i32 %fn(ptr %slots)
  ret i32 %b
}

; Calls on_error(status, address of the record), which raises.
define internal ptr @report(ptr %plan, i32 %status, ptr %record) {
  %handler.at = getelementptr i8, ptr %plan, i64 $plan_on_error
  %handler = load ptr, ptr %handler.at
  %wide = sext i32 %status to i64
  %number = call ptr @PyLong_FromLongLong(i64 %wide)
  %address = ptrtoint ptr %record to i64
  %where = call ptr @PyLong_FromLongLong(i64 %address)
  %result = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %handler, ptr %number, ptr %where, ptr null)
  call void @Py_DecRef(ptr %number)
  call void @Py_DecRef(ptr %where)
  ret ptr %result
}

; One object as it is, several as a tuple; takes the references.
define internal ptr @bundle(ptr %objs, i64 %count) {
entry:
  %single = icmp eq i64 %count, 1
  br i1 %single, label %one, label %many
one:
  %only = load ptr, ptr %objs
  ret ptr %only
many:
  %tuple = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %tuple, null
  br i1 %failed, label %drop, label %loop
drop:
  call void @release_all(ptr %objs, i64 %count)
  ret ptr null
loop:
  %i = phi i64 [ 0, %many ], [ %next, %put ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %put, label %done
put:
  %at = getelementptr ptr, ptr %objs, i64 %i
  %obj = load ptr, ptr %at
  %r = call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %obj)
  %next = add i64 %i, 1
  br label %loop
done:
  ret ptr %tuple
}

; Where %out is null, outputs are allocated; otherwise it is what the call gave and gets back.
define internal ptr @run_plan(ptr %plan, ptr %slots, ptr %out, ptr %outs, i64 %nouts, i64 %framework) {
  %made = alloca [$max_outputs x ptr], align 8
  %record = alloca [8 x i64], align 8
  %nslots.at = getelementptr i8, ptr %plan, i64 $plan_nslots
  %nslots = load i64, ptr %nslots.at
  %last = getelementptr i64, ptr %slots, i64 %nslots
  call void @llvm.memset.p0.i64(ptr %record, i8 0, i64 64, i1 false)
  store ptr %record, ptr %last
  %given = icmp ne ptr %out, null
  br i1 %given, label %run, label %make
make:
  %ok = call i1 @allocate_all(ptr %outs, ptr %made, i64 %nouts, i64 %framework, ptr %slots)
  br i1 %ok, label %run, label %miss
miss:
  call void @Py_IncRef(ptr @object_miss)
  ret ptr @object_miss
run:
  %status = call i32 @run_kernel(ptr %plan, ptr %slots)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %finish, label %failed
failed:
  br i1 %given, label %tell, label %drop
drop:
  call void @release_all(ptr %made, i64 %nouts)
  br label %tell
tell:
  %error = call ptr @report(ptr %plan, i32 %status, ptr %record)
  ret ptr %error
finish:
  br i1 %given, label %same, label %fresh
same:
  call void @Py_IncRef(ptr %out)
  ret ptr %out
fresh:
  %result = call ptr @bundle(ptr %made, i64 %nouts)
  ret ptr %result
}
"""

_ENTRY = """
; Views of %count objects; 0 where one needs the slow path, else the framework seen (1 numpy or none, 2 torch).
define internal i64 @view_all(ptr %objs, ptr %views, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %seen = phi i64 [ 1, %entry ], [ %most, %good ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %obj.at = getelementptr ptr, ptr %objs, i64 %i
  %obj = load ptr, ptr %obj.at
  %offset = mul i64 %i, $view_size
  %view = getelementptr i8, ptr %views, i64 %offset
  %ok = call i1 @view_of(ptr %obj, ptr %view)
  br i1 %ok, label %good, label %bad
good:
  %framework = load i64, ptr %view
  %torch = icmp sgt i64 %framework, %seen
  %most = select i1 %torch, i64 %framework, i64 %seen
  %next = add i64 %i, 1
  br label %loop
done:
  ret i64 %seen
bad:
  ret i64 0
}

; The objects in out=: itself where there is one output, the items of a tuple otherwise.
define internal i1 @unpack_outputs(ptr %out, ptr %objs, i64 %count) {
entry:
  %single = icmp eq i64 %count, 1
  br i1 %single, label %one, label %many
one:
  store ptr %out, ptr %objs
  ret i1 true
many:
  %type.at = getelementptr i8, ptr %out, i64 8
  %type = load ptr, ptr %type.at
  %is.tuple = icmp eq ptr %type, @PyTuple_Type
  br i1 %is.tuple, label %sized, label %no
sized:
  %size = call i64 @PyTuple_Size(ptr %out)
  %same = icmp eq i64 %size, %count
  br i1 %same, label %loop, label %no
loop:
  %i = phi i64 [ 0, %sized ], [ %next, %take ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %take, label %yes
take:
  %obj = call ptr @PyTuple_GetItem(ptr %out, i64 %i)
  %at = getelementptr ptr, ptr %objs, i64 %i
  store ptr %obj, ptr %at
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; METH_FASTCALL: (out or None, *arguments) -> result or MISS.
define ptr @weft_call(ptr %self, ptr %all, i64 %nall) {
  %views = alloca [$views_length x i64], align 8
  %out.views = alloca [$out_views_length x i64], align 8
  %given = alloca [$max_outputs x ptr], align 8
  %slots = alloca [$slots_length x i64], align 8
  %table = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %nargs = load i64, ptr %table
  %nouts.at = getelementptr i8, ptr %table, i64 $table_nouts
  %nouts = load i64, ptr %nouts.at
  %expected = add i64 %nargs, 1
  %counted = icmp eq i64 %nall, %expected
  br i1 %counted, label %begin, label %miss
begin:
  %first = load ptr, ptr %all
  %args = getelementptr ptr, ptr %all, i64 1
  %none = icmp eq ptr %first, @object_none
  %out = select i1 %none, ptr null, ptr %first
  %framework = call i64 @view_all(ptr %args, ptr %views, i64 %nargs)
  %plain = icmp ne i64 %framework, 0
  br i1 %plain, label %outputs, label %miss
outputs:
  br i1 %none, label %search, label %unpack
unpack:
  %unpacked = call i1 @unpack_outputs(ptr %out, ptr %given, i64 %nouts)
  br i1 %unpacked, label %look, label %miss
look:
  %out.framework = call i64 @view_all(ptr %given, ptr %out.views, i64 %nouts)
  %out.plain = icmp ne i64 %out.framework, 0
  br i1 %out.plain, label %search, label %miss
search:
  %count.at = getelementptr i8, ptr %table, i64 $table_count
  %count = load i64, ptr %count.at
  %plans.at = getelementptr i8, ptr %table, i64 $table_plans
  %plans = load ptr, ptr %plans.at
  br label %loop
loop:
  %i = phi i64 [ 0, %search ], [ %next, %other ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %test, label %miss
test:
  %plan.at = getelementptr ptr, ptr %plans, i64 %i
  %plan = load ptr, ptr %plan.at
  %recs.at = getelementptr i8, ptr %plan, i64 $plan_args
  %recs = load ptr, ptr %recs.at
  %outs.at = getelementptr i8, ptr %plan, i64 $plan_outs
  %outs = load ptr, ptr %outs.at
  %fits = call i1 @matches_all(ptr %recs, ptr %args, ptr %views, i64 %nargs, ptr %slots)
  br i1 %fits, label %test.outputs, label %other
test.outputs:
  br i1 %none, label %may.allocate, label %match.outputs
may.allocate:
  %allocates.at = getelementptr i8, ptr %plan, i64 $plan_allocates
  %allocates = load i64, ptr %allocates.at
  %can = icmp ne i64 %allocates, 0
  br i1 %can, label %found, label %other
match.outputs:
  %outs.fit = call i1 @matches_all(ptr %outs, ptr %given, ptr %out.views, i64 %nouts, ptr %slots)
  br i1 %outs.fit, label %apart, label %other
apart:
  %safe = call i1 @outputs_are_apart(ptr %recs, ptr %views, i64 %nargs, ptr %outs, ptr %out.views, i64 %nouts)
  br i1 %safe, label %found, label %miss
found:
  ; The plan that fits is likely to fit again.
  %front = load ptr, ptr %plans
  store ptr %front, ptr %plan.at
  store ptr %plan, ptr %plans
  %result = call ptr @run_plan(ptr %plan, ptr %slots, ptr %out, ptr %outs, i64 %nouts, i64 %framework)
  ret ptr %result
other:
  %next = add i64 %i, 1
  br label %loop
miss:
  call void @Py_IncRef(ptr @object_miss)
  ret ptr @object_miss
}
"""


def _offsets(prefix: str, fields: tuple[str, ...]) -> dict[str, int]:
    return {f"{prefix}_{name}": 8 * i for i, name in enumerate(fields)}


def fastcall_text() -> str:
    """The whole module as LLVM text."""
    values = {
        **_offsets("table", TABLE),
        **_offsets("plan", PLAN),
        **_offsets("rec", RECORD),
        **_offsets("view", VIEW),
        "record_size": 8 * len(RECORD),
        "view_size": 8 * len(VIEW),
        "views_length": len(VIEW) * MAX_ARGUMENTS,
        "out_views_length": len(VIEW) * MAX_OUTPUTS,
        "max_outputs": MAX_OUTPUTS,
        "slots_length": MAX_ARGUMENTS + MAX_OUTPUTS + 1,
        "tensor": TENSOR, "integer": INTEGER, "float32": FLOAT32, "float64": FLOAT64, "bool": BOOL,
    }  # fmt: skip
    sections = (_DECLARATIONS, _VIEWS, _MATCHING, _ALIASING, _RUNNING, _ENTRY)
    return Template("".join(sections)).substitute({k: str(v) for k, v in values.items()})
