"""Part of `fastcall_text`: the functions that Python calls, and the search for the plan that fits."""

from __future__ import annotations

ENTRY = """
; Views of %count objects; 0 where one needs the slow path, else the greatest number of a framework seen (1 for none).
define internal i64 @view_all(ptr %objs, ptr %views, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %seen = phi i64 [ 1, %entry ], [ %most, %good ]
  br i64 %i slt %count, label %look, label %done
look:
  %obj = load ptr, %objs[%i]
  %offset = mul i64 %i, $view_size
  %view = getelementptr i8, ptr %views, i64 %offset
  %ok = call i1 @view_of(ptr %obj, ptr %view)
  br i1 %ok, label %good, label %bad
good:
  %framework = load i64, ptr %view
  %greater = icmp sgt i64 %framework, %seen
  %most = select i1 %greater, i64 %framework, i64 %seen
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
  switch i64 %count, label %many [ i64 0, label %no  i64 1, label %one ]
one:
  store ptr %out, ptr %objs
  ret i1 true
many:
  %type = load ptr, %out + 8
  br ptr %type eq @PyTuple_Type, label %sized, label %no
sized:
  %size = call i64 @PyTuple_Size(ptr %out)
  br i64 %size eq %count, label %loop, label %no
loop:
  %i = phi i64 [ 0, %sized ], [ %next, %take ]
  br i64 %i slt %count, label %take, label %yes
take:
  %obj = call ptr @PyTuple_GetItem(ptr %out, i64 %i)
  store ptr %obj, %objs[%i]
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; The result of the plan that fits, or MISS; %out is null where the call gave none.
define internal ptr @call_table(ptr %table, ptr %out, ptr %args, i64 %given.args) {
  %views = alloca [$views_length x i64], align 8
  %out.views = alloca [$out_views_length x i64], align 8
  %given = alloca [$max_outputs x ptr], align 8
  %slots = alloca [$slots_length x i64], align 8
  %nargs = load i64, ptr %table
  %nouts = load i64, %table + $table_nouts
  %counted = icmp eq i64 %given.args, %nargs
  %none = icmp eq ptr %out, null
  br i1 %counted, label %begin, label %miss
begin:
  %framework = call i64 @view_all(ptr %args, ptr %views, i64 %nargs)
  br i64 %framework ne 0, label %outputs, label %miss
outputs:
  br i1 %none, label %search, label %unpack
unpack:
  %unpacked = call i1 @unpack_outputs(ptr %out, ptr %given, i64 %nouts)
  br i1 %unpacked, label %look, label %miss
look:
  %out.framework = call i64 @view_all(ptr %given, ptr %out.views, i64 %nouts)
  br i64 %out.framework ne 0, label %search, label %miss
search:
  %count = load i64, %table + $table_count
  %plans = load ptr, %table + $table_plans
  br label %loop
loop:
  %i = phi i64 [ 0, %search ], [ %next, %other ]
  br i64 %i slt %count, label %test, label %miss
test:
  %plan.at = getelementptr ptr, ptr %plans, i64 %i
  %plan = load ptr, ptr %plan.at
  %recs = load ptr, %plan + $plan_args
  %outs = load ptr, %plan + $plan_outs
  %fits = call i1 @matches_all(ptr %recs, ptr %args, ptr %views, i64 %nargs, ptr %slots)
  br i1 %fits, label %test.outputs, label %other
test.outputs:
  br i1 %none, label %may.allocate, label %match.outputs
may.allocate:
  %allocates = load i64, %plan + $plan_allocates
  br i64 %allocates ne 0, label %ready, label %other
ready:
  br i64 %nouts eq 0, label %apart.within, label %found
apart.within:
  %separate = call i1 @arguments_are_apart(ptr %recs, ptr %views, i64 %nargs)
  br i1 %separate, label %found, label %miss
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

; METH_FASTCALL: (out or None, *arguments) -> result or MISS.
define ptr @weft_call(ptr %self, ptr %all, i64 %nall) {
  br i64 %nall sgt 0, label %go, label %miss
go:
  %table = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %first = load ptr, ptr %all
  %none = icmp eq ptr %first, @object_none
  %out = select i1 %none, ptr null, ptr %first
  %args = getelementptr ptr, ptr %all, i64 1
  %nargs = add i64 %nall, -1
  %result = call ptr @call_table(ptr %table, ptr %out, ptr %args, i64 %nargs)
  ret ptr %result
miss:
  call void @Py_IncRef(ptr @object_miss)
  ret ptr @object_miss
}

; METH_FASTCALL | METH_KEYWORDS, as the __call__ of a class whose instances have `_fast_table` and `_call_slowly`.
define ptr @weft_method(ptr %self, ptr %args, i64 %nargs, ptr %names) {
  br ptr %names eq null, label %find, label %named
named:
  ; One name, and that is `out`: names in calls are interned, so the object tells.
  %count = call i64 @PyTuple_Size(ptr %names)
  br i64 %count eq 1, label %which, label %slow
which:
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 0)
  br ptr %name eq @name_out, label %take, label %slow
take:
  %value = load ptr, %args[%nargs]
  %none = icmp eq ptr %value, @object_none
  %given = select i1 %none, ptr null, ptr %value
  br label %find
find:
  %out = phi ptr [ null, %0 ], [ %given, %take ]
  %capsule = call ptr @PyObject_GetAttr(ptr %self, ptr @name_table)
  br ptr %capsule eq null, label %forget, label %check
forget:
  call void @PyErr_Clear()
  br label %slow
check:
  br ptr %capsule eq @object_none, label %release, label %call
release:
  call void @Py_DecRef(ptr %capsule)
  br label %slow
call:
  %table = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  %result = call ptr @call_table(ptr %table, ptr %out, ptr %args, i64 %nargs)
  call void @Py_DecRef(ptr %capsule)
  br ptr %result eq @object_miss, label %drop, label %done
done:
  ret ptr %result
drop:
  call void @Py_DecRef(ptr %result)
  br label %slow
slow:
  %answer = call ptr @call_slowly(ptr %self, ptr %args, i64 %nargs, ptr %names)
  ret ptr %answer
}

define internal ptr @call_slowly(ptr %self, ptr %args, i64 %nargs, ptr %names) {
  %method = call ptr @PyObject_GetAttr(ptr %self, ptr @name_slow)
  br ptr %method eq null, label %fail, label %go
fail:
  ret ptr null
go:
  br ptr %names eq null, label %plain, label %named
plain:
  %first = call ptr @PyObject_VectorcallDict(ptr %method, ptr %args, i64 %nargs, ptr null)
  call void @Py_DecRef(ptr %method)
  ret ptr %first
named:
  %dict = call ptr @named_arguments(ptr %args, i64 %nargs, ptr %names)
  br ptr %dict eq null, label %drop, label %call
drop:
  call void @Py_DecRef(ptr %method)
  ret ptr null
call:
  %second = call ptr @PyObject_VectorcallDict(ptr %method, ptr %args, i64 %nargs, ptr %dict)
  call void @Py_DecRef(ptr %dict)
  call void @Py_DecRef(ptr %method)
  ret ptr %second
}

define internal ptr @named_arguments(ptr %args, i64 %nargs, ptr %names) {
entry:
  %dict = call ptr @PyDict_New()
  br ptr %dict eq null, label %fail, label %begin
begin:
  %count = call i64 @PyTuple_Size(ptr %names)
  br label %loop
loop:
  %i = phi i64 [ 0, %begin ], [ %next, %set ]
  br i64 %i slt %count, label %put, label %done
put:
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 %i)
  %place = add i64 %nargs, %i
  %value = load ptr, %args[%place]
  %bad = call i32 @PyDict_SetItem(ptr %dict, ptr %name, ptr %value)
  br i32 %bad eq 0, label %set, label %drop
set:
  %next = add i64 %i, 1
  br label %loop
drop:
  call void @Py_DecRef(ptr %dict)
  br label %fail
fail:
  ret ptr null
done:
  ret ptr %dict
}
"""
