"""Part of `fastcall_text`: making outputs, running the kernel, giving back results and errors."""

from __future__ import annotations

RUNNING = """
; A new array as %rec says, of numpy or by the maker, its address put into the slots; null where that failed.
define internal ptr @allocate(ptr %rec, i64 %framework, ptr %slots) {
  %view = alloca [$view_words x i64], align 8
  br i64 %framework eq $numpy, label %in.numpy, label %by.maker
in.numpy:
  %descr = load ptr, %rec + $rec_descr
  %ndim = load i64, %rec + $rec_ndim
  %dims = load ptr, %rec + $rec_dims
  %bytes = load i64, %rec + $rec_high
  %array = call ptr @weft_new_array(ptr %descr, i64 %ndim, ptr %dims, i64 %bytes)
  br label %made
by.maker:
  %maker = load ptr, %rec + $rec_maker
  br ptr %maker eq null, label %fail, label %make
make:
  %maker.args = load ptr, %rec + $rec_maker_args
  %other = call ptr @PyObject_Call(ptr %maker, ptr %maker.args, ptr null)
  br label %made
made:
  %object = phi ptr [ %array, %in.numpy ], [ %other, %make ]
  br ptr %object eq null, label %error, label %check
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
  br i64 %i slt %count, label %drop, label %done
drop:
  %obj = load ptr, %objs[%i]
  br ptr %obj ne null, label %dec, label %step
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
  br i64 %i slt %count, label %make, label %yes
make:
  %offset = mul i64 %i, $record_size
  %rec = getelementptr i8, ptr %recs, i64 %offset
  %obj = call ptr @allocate(ptr %rec, i64 %framework, ptr %slots)
  store ptr %obj, %objs[%i]
  br ptr %obj ne null, label %good, label %no
good:
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  call void @release_all(ptr %objs, i64 %i)
  ret i1 false
}

define internal i32 @run_kernel(ptr %plan, ptr %slots, i64 %framework) {
  %start = load ptr, %plan + $plan_start
  br ptr %start eq null, label %cpu, label %gpu
gpu:
  %c = call i32 @start_on_gpu(ptr %start, ptr %slots, i64 %framework)
  ret i32 %c
cpu:
  %fn = load ptr, ptr %plan
  %release = load i64, %plan + $plan_release
  br i64 %release ne 0, label %free, label %held
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
  %handler = load ptr, %plan + $plan_on_error
  %wide = sext i32 %status to i64
  %number = call ptr @PyLong_FromLongLong(i64 %wide)
  %address = ptrtoint ptr %record to i64
  %where = call ptr @PyLong_FromLongLong(i64 %address)
  %result = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %handler, ptr %number, ptr %where, ptr null)
  call void @Py_DecRef(ptr %number)
  call void @Py_DecRef(ptr %where)
  ret ptr %result
}

; None for no object, one as it is, several as a tuple; takes the references.
define internal ptr @bundle(ptr %objs, i64 %count) {
entry:
  switch i64 %count, label %many [ i64 0, label %nothing  i64 1, label %one ]
nothing:
  call void @Py_IncRef(ptr @object_none)
  ret ptr @object_none
one:
  %only = load ptr, ptr %objs
  ret ptr %only
many:
  %tuple = call ptr @PyTuple_New(i64 %count)
  br ptr %tuple eq null, label %drop, label %loop
drop:
  call void @release_all(ptr %objs, i64 %count)
  ret ptr null
loop:
  %i = phi i64 [ 0, %many ], [ %next, %put ]
  br i64 %i slt %count, label %put, label %done
put:
  %obj = load ptr, %objs[%i]
  %r = call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %obj)
  %next = add i64 %i, 1
  br label %loop
done:
  ret ptr %tuple
}

; The values that the plan itself knows, into the slots that end at %last.
define internal void @fill_fixed(ptr %plan, ptr %last) {
entry:
  %count = load i64, %plan + $plan_nfixed
  %fixed = load ptr, %plan + $plan_fixed
  %back = sub i64 0, %count
  %first = getelementptr i64, ptr %last, i64 %back
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %copy ]
  br i64 %i slt %count, label %copy, label %done
copy:
  %value = load i64, %fixed[%i]
  store i64 %value, %first[%i]
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}

; Where %out is null, outputs are allocated; otherwise it is what the call gave and gets back.
define internal ptr @run_plan(ptr %plan, ptr %slots, ptr %out, ptr %outs, i64 %nouts, i64 %framework) {
  %made = alloca [$max_outputs x ptr], align 8
  %record = alloca [8 x i64], align 8
  %nslots = load i64, %plan + $plan_nslots
  %last = getelementptr i64, ptr %slots, i64 %nslots
  call void @llvm.memset.p0.i64(ptr %record, i8 0, i64 64, i1 false)
  store ptr %record, ptr %last
  call void @fill_fixed(ptr %plan, ptr %last)
  %given = icmp ne ptr %out, null
  br i1 %given, label %run, label %make
make:
  %ok = call i1 @allocate_all(ptr %outs, ptr %made, i64 %nouts, i64 %framework, ptr %slots)
  br i1 %ok, label %run, label %miss
miss:
  call void @Py_IncRef(ptr @object_miss)
  ret ptr @object_miss
run:
  %status = call i32 @run_kernel(ptr %plan, ptr %slots, i64 %framework)
  br i32 %status eq 0, label %finish, label %failed
failed:
  br i1 %given, label %which, label %drop
drop:
  call void @release_all(ptr %made, i64 %nouts)
  br label %which
which:
  br i32 %status eq $missed, label %miss, label %tell
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
