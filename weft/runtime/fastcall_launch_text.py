"""Part of `fastcall_text`: a program launched on a GPU, from the slots of a call.

Nothing here waits for the GPU. What only the slow way can do gives the status MISSED, before anything is launched: an
assert of an earlier call has failed, the thread is in the context of another device, the first launch is refused.
The GIL is kept, as torch keeps it for its launches: to give it up would cost a call 5 milliseconds wherever another
thread computes in Python. A launch takes long only when a thousand others are waiting before it.
"""

from __future__ import annotations

LAUNCHING = """
; Whether any assert of the device has left a record.
define internal i1 @has_failed(ptr %records) {
entry:
  %first = load ptr, %records + $records_address
  %count = load i64, %records + $records_count
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  br i64 %i slt %count, label %look, label %no
look:
  %offset = mul i64 %i, 64
  %at = getelementptr i8, ptr %first, i64 %offset
  %status = load volatile i64, ptr %at
  br i64 %status eq 0, label %good, label %yes
good:
  %next = add i64 %i, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether launches of this thread go to the device; not asked where there is no other one.
define internal i1 @is_current(ptr %start) {
  %found = alloca ptr, align 8
  %ask = load ptr, %start + $start_current
  br ptr %ask eq null, label %yes, label %several
several:
  %status = call i32 %ask(ptr %found)
  br i32 %status eq 0, label %compare, label %no
compare:
  %context = load ptr, %start + $start_context
  %current = load ptr, ptr %found
  %same = icmp eq ptr %context, %current
  ret i1 %same
yes:
  ret i1 true
no:
  ret i1 false
}

; Where the temporaries of the call are in the memory that begins at the first one's address.
define internal void @place_temporaries(ptr %start, ptr %slots) {
entry:
  %count = load i64, %start + $start_noffsets
  %offsets = load ptr, %start + $start_offsets
  %rec = load ptr, %start + $start_scratch
  %slot = load i64, %rec + $rec_slot
  %first = getelementptr i64, ptr %slots, i64 %slot
  %base = load i64, ptr %first
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %put ]
  br i64 %i slt %count, label %put, label %done
put:
  %offset = load i64, %offsets[%i]
  %address = add i64 %base, %offset
  store i64 %address, %first[%i]
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}

; The owner's number into the ring of those that launched last: its position, then its places.
define internal void @remember_owner(ptr %start) {
  %owner = load i64, %start + $start_owner
  %ring = load ptr, %start + $start_recent
  %position = load i64, ptr %ring
  %place = and i64 %position, $recent_mask
  %places = getelementptr i64, ptr %ring, i64 1
  store i64 %owner, %places[%place]
  %after = add i64 %position, 1
  store i64 %after, ptr %ring
  ret void
}

; Pointers to the slots that are the parameters of a launch.
define internal void @point_at_slots(ptr %launch, ptr %slots, ptr %pointers) {
entry:
  %count = load i64, %launch + $launch_nparams
  %params = load ptr, %launch + $launch_params
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %put ]
  br i64 %i slt %count, label %put, label %done
put:
  %which = load i64, %params[%i]
  %slot = getelementptr i64, ptr %slots, i64 %which
  store ptr %slot, %pointers[%i]
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}

define internal i32 @launch_one(ptr %fn, ptr %launch, ptr %slots, ptr %stream) {
  %config = alloca [7 x i64], align 8
  %pointers = alloca [$slots_length x ptr], align 8
  call void @point_at_slots(ptr %launch, ptr %slots, ptr %pointers)
  %template = getelementptr i8, ptr %launch, i64 $launch_config
  call void @llvm.memcpy.p0.p0.i64(ptr %config, ptr %template, i64 56, i1 false)
  store ptr %stream, %config + $config_stream
  %function = load ptr, ptr %launch
  %status = call i32 %fn(ptr %config, ptr %function, ptr %pointers, ptr null)
  ret i32 %status
}

; The launches in order; the status of the one that was refused, MISSED where it was the first.
define internal i32 @launch_all(ptr %start, ptr %slots, ptr %stream) {
entry:
  %fn = load ptr, ptr %start
  %count = load i64, %start + $start_nlaunches
  %launches = load ptr, %start + $start_launches
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  br i64 %i slt %count, label %do, label %done
do:
  %offset = mul i64 %i, $launch_size
  %launch = getelementptr i8, ptr %launches, i64 %offset
  %status = call i32 @launch_one(ptr %fn, ptr %launch, ptr %slots, ptr %stream)
  br i32 %status eq 0, label %good, label %refused
good:
  %next = add i64 %i, 1
  br label %loop
refused:
  %first = icmp eq i64 %i, 0
  %answer = select i1 %first, i32 $missed, i32 %status
  ret i32 %answer
done:
  ret i32 0
}

; The stream that the framework's work goes to, in %stream; false where it does not say.
define internal i1 @current_stream(ptr %start, ptr %stream) {
  %ask = load ptr, %start + $start_stream
  %device = load i64, %start + $start_device
  %index = trunc i64 %device to i32
  %failed = call i32 %ask(i32 $on_cuda, i32 %index, ptr %stream)
  br i32 %failed eq 0, label %yes, label %error
yes:
  ret i1 true
error:
  call void @PyErr_Clear()
  ret i1 false
}

define internal i32 @start_on_gpu(ptr %start, ptr %slots, i64 %framework) {
  %stream.at = alloca ptr, align 8
  %records = load ptr, %start + $start_records
  %failed = call i1 @has_failed(ptr %records)
  br i1 %failed, label %miss, label %contexts
contexts:
  %current = call i1 @is_current(ptr %start)
  br i1 %current, label %streams, label %miss
streams:
  %streamed = call i1 @current_stream(ptr %start, ptr %stream.at)
  br i1 %streamed, label %memory, label %miss
memory:
  %stream = load ptr, ptr %stream.at
  call void @remember_owner(ptr %start)
  %scratch = load ptr, %start + $start_scratch
  br ptr %scratch eq null, label %plain, label %allocate
plain:
  %a = call i32 @launch_all(ptr %start, ptr %slots, ptr %stream)
  ret i32 %a
allocate:
  %object = call ptr @allocate(ptr %scratch, i64 %framework, ptr %slots)
  br ptr %object eq null, label %miss, label %launch
launch:
  call void @place_temporaries(ptr %start, ptr %slots)
  %b = call i32 @launch_all(ptr %start, ptr %slots, ptr %stream)
  ; Given back at once: its allocator uses it again only for work that comes after.
  call void @Py_DecRef(ptr %object)
  ret i32 %b
miss:
  ret i32 $missed
}
"""
