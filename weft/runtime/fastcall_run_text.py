"""Part of `fastcall_text`: the functions that Python calls, and the search for the plan that fits; making outputs,
running the kernel or launching it on a GPU, giving back results and errors.

numpy gets memory from malloc, which begins at any multiple of 16 bytes. The memory of results comes from `memory`
instead, where cache lines and pages begin, in a block that numpy owns and gives back by our functions
(`numpy_memory`). Where the program has chosen another allocator for numpy, that is used.

Nothing here waits for a GPU. What only the slow way can do gives the status MISSED, before anything is launched: an
assert of an earlier call has failed, the thread is in the context of another device, the first launch is refused.
The GIL is kept, as torch keeps it for its launches: to give it up would cost a call 5 milliseconds wherever another
thread computes in Python. A launch takes long only when a thousand others are waiting before it.
"""

from __future__ import annotations

#: Bytes from which on results lie in memory of ours; numpy keeps smaller ones at hand itself.
ALIGNED_FROM = 1024

ARRAYS = '''
def weft_new_array(descr, ndim, dims, bytes):
    """A dense array of ``bytes`` bytes that owns its memory; null, with an error set, where that failed."""
    Py_IncRef(descr)
    memory = 0
    if not below(bytes, aligned_from):
        chosen = PyDataMem_GetHandler()
        Py_DecRef(chosen)
        if chosen == numpy_allocator[0]:
            memory = weft_alloc(bytes)
    if memory == 0:
        return PyArray_NewFromDescr(ndarray_type, descr, ndim, dims, 0, 0, 0, 0)
    array: Array = PyArray_NewFromDescr(ndarray_type, descr, ndim, dims, 0, memory, carray, 0)
    if array == 0:
        weft_free(memory)
        return 0
    array.flags = array.flags | owns_data
    Py_IncRef(own_allocator[0])
    array.allocator = own_allocator[0]
    return array
'''

LAUNCHING = '''
def has_failed(records: Records):
    """Whether any assert of the device has left a record."""
    count = records.count
    for i in range(count):
        if atomic_load(records.address + i * 64) != 0:
            return 1
    return 0


def is_current(start: Start):
    """Whether launches of this thread go to the device; not asked where there is no other one."""
    found = room(1)
    ask = start.current
    if ask == 0:
        return 1
    return ask(found) == 0 and found[0] == start.context


def place_temporaries(start: Start, slots):
    """Where the temporaries of the call are in the memory that begins at the first one's address."""
    rec: Record = start.scratch
    first = slots + 8 * rec.slot
    base = first[0]
    offsets = start.offsets
    for i in range(start.noffsets):
        first[i] = base + offsets[i]


def remember_owner(start: Start):
    """The owner's number into the ring of those that launched last: its position, then its places."""
    ring = start.recent
    ring[1 + (ring[0] & recent_mask)] = start.owner
    ring[0] = ring[0] + 1


def move_maps(move, launch: Launch, slots):
    """Tensor maps get the addresses of their arrays in this call."""
    maps = launch.maps
    for i in range(launch.nmaps):
        status = move(maps[2 * i], slots[maps[2 * i + 1]])
        if status != 0:
            return status
    return 0


def launch_one(fn, launch: Launch, slots, stream):
    config = room(7)
    pointers = room(pointers_length)
    params = launch.params
    for i in range(launch.nparams):
        pointers[i] = slots + 8 * params[i] if params[i] < slots_length else params[i]
    for k in range(7):
        config[k] = (launch + launch_config)[k]
    config[config_stream] = stream
    return fn(config, launch.function, pointers, 0)


def launch_all(start: Start, slots, stream):
    """The launches in order; the status of the one that was refused, MISSED where it was the first."""
    for i in range(start.nlaunches):
        launch = start.launches + i * launch_size
        status = move_maps(start.move, launch, slots)
        if status == 0:
            status = launch_one(start.launch, launch, slots, stream)
        if status != 0:
            return missed if i == 0 else status
    return 0


def start_on_gpu(start: Start, slots, framework):
    stream = room(1)
    if has_failed(start.records) or not is_current(start):
        return missed
    ask = start.stream
    if ask(on_cuda, start.device, stream) != 0:
        PyErr_Clear()
        return missed
    remember_owner(start)
    if start.scratch == 0:
        return launch_all(start, slots, stream[0])
    object = allocate(start.scratch, framework, slots)
    if object == 0:
        return missed
    place_temporaries(start, slots)
    status = launch_all(start, slots, stream[0])
    Py_DecRef(object)  # given back at once: its allocator uses it again only for work that comes after
    return status
'''

RUNNING = '''
def allocate(rec: Record, framework, slots):
    """A new array as ``rec`` says, of numpy or by the maker, its address put into the slots; null where that failed."""
    view = room(view_words)
    if framework == numpy:
        object = weft_new_array(rec.descr, rec.ndim, rec.dims, rec.high)
    elif rec.maker == 0:
        return 0
    else:
        object = PyObject_Call(rec.maker, rec.maker_args, 0)
    if object == 0:
        PyErr_Clear()
        return 0
    if view_of(object, view) and matches_tensor(rec, view, slots):
        return object
    Py_DecRef(object)
    return 0


def release_all(objs, count):
    for i in range(count):
        Py_DecRef(objs[i])


def allocate_all(recs, objs, count, framework, slots):
    for i in range(count):
        objs[i] = allocate(recs + i * record_size, framework, slots)
        if objs[i] == 0:
            release_all(objs, i)
            return 0
    return 1


def run_kernel(plan: Plan, slots, framework):
    if plan.start != 0:
        return start_on_gpu(plan.start, slots, framework)
    fn = plan.address
    if plan.release == 0:
        return fn(slots)
    thread = PyEval_SaveThread()
    status = fn(slots)
    PyEval_RestoreThread(thread)
    return status


def report(plan: Plan, status, record):
    """Calls on_error(status, address of the record), which raises."""
    number = PyLong_FromLongLong(status)
    address = PyLong_FromLongLong(record)
    result = PyObject_CallFunctionObjArgs(plan.on_error, number, address, 0)
    Py_DecRef(number)
    Py_DecRef(address)
    return result


def bundle(objs, count):
    """None for no object, one as it is, several as a tuple; takes the references."""
    if count == 0:
        Py_IncRef(object_none)
        return object_none
    if count == 1:
        return objs[0]
    made = PyTuple_New(count)
    if made == 0:
        release_all(objs, count)
        return 0
    for i in range(count):
        PyTuple_SetItem(made, i, objs[i])
    return made


def fill_fixed(plan: Plan, last):
    """The values that the plan itself knows, into the slots that end at ``last``."""
    count = plan.nfixed
    fixed = plan.fixed
    first = last - 8 * count
    for i in range(count):
        first[i] = fixed[i]


def run_plan(plan: Plan, slots, out, outs, nouts, framework):
    """Where ``out`` is null, outputs are allocated; otherwise it is what the call gave and gets back."""
    made = room(max_outputs)
    record = room(8)
    last = slots + 8 * plan.nslots
    llvm.memset.p0.i64(record, 0, 64, 0)
    last[0] = record
    fill_fixed(plan, last)
    if out == 0 and not allocate_all(outs, made, nouts, framework, slots):
        return miss()
    status = run_kernel(plan, slots, framework)
    if status != 0:
        if out == 0:
            release_all(made, nouts)
        return miss() if status == missed else report(plan, status, record)
    if out == 0:
        return bundle(made, nouts)
    Py_IncRef(out)
    return out


def miss():
    Py_IncRef(object_miss)
    return object_miss
'''

ENTRY = '''
def view_all(objs, views, count):
    """Views of ``count`` objects; 0 where one needs the slow path, else the greatest number of a framework seen (1 for
    none)."""
    most = 1
    for i in range(count):
        view: View = views + i * view_size
        if not view_of(objs[i], view):
            return 0
        if view.framework > most:
            most = view.framework
    return most


def unpack_outputs(out: Object, objs, count):
    """The objects in out=: itself where there is one output, the items of a tuple otherwise."""
    if count == 1:
        objs[0] = out
        return 1
    if count == 0 or out.type != PyTuple_Type or PyTuple_Size(out) != count:
        return 0
    for i in range(count):
        objs[i] = PyTuple_GetItem(out, i)
    return 1


def fits(plan: Plan, nargs, nouts, args, views, out, given, out_views, slots):
    """Whether a call is one that ``plan`` is for; -1 where it is, but with arrays that overlap."""
    recs = plan.args
    if not matches_all(recs, args, views, nargs, slots):
        return 0
    if out == 0:
        if plan.allocates == 0:
            return 0
        return 1 if nouts != 0 or arguments_are_apart(recs, views, nargs) else -1
    if not matches_all(plan.outs, given, out_views, nouts, slots):
        return 0
    return 1 if outputs_are_apart(recs, views, nargs, plan.outs, out_views, nouts) else -1


def call_table(table: Table, out, args, given_args):
    """The result of the plan that fits, or MISS; ``out`` is null where the call gave none."""
    views = room(views_length)
    out_views = room(out_views_length)
    given = room(max_outputs)
    slots = room(slots_length)
    nargs = table.nargs
    nouts = table.nouts
    if given_args != nargs:
        return miss()
    framework = view_all(args, views, nargs)
    if framework == 0:
        return miss()
    if out != 0:
        if not unpack_outputs(out, given, nouts) or not view_all(given, out_views, nouts):
            return miss()
    count = table.count
    plans = table.plans
    for i in range(count):
        plan: Plan = plans[i]
        found = fits(plan, nargs, nouts, args, views, out, given, out_views, slots)
        if found == -1:
            break
        if found == 1:
            plans[i] = plans[0]  # the plan that fits is likely to fit again
            plans[0] = plan
            return run_plan(plan, slots, out, plan.outs, nouts, framework)
    return miss()


def weft_call(self, all, nall):
    """METH_FASTCALL: (out or None, *arguments) -> result or MISS."""
    if nall <= 0:
        return miss()
    out = all[0]
    return call_table(PyCapsule_GetPointer(self, 0), 0 if out == object_none else out, all + 8, nall - 1)


def weft_method(self, args, nargs, names):
    """METH_FASTCALL | METH_KEYWORDS, as the __call__ of a class whose instances have `_fast_table` and
    `_call_slowly`."""
    out = 0
    if names != 0:
        # One name, and that is `out`: names in calls are interned, so the object tells.
        if PyTuple_Size(names) != 1 or PyTuple_GetItem(names, 0) != name_out:
            return call_slowly(self, args, nargs, names)
        if args[nargs] != object_none:
            out = args[nargs]
    capsule = PyObject_GetAttr(self, name_table)
    if capsule == 0:
        PyErr_Clear()
        return call_slowly(self, args, nargs, names)
    result = object_miss
    if capsule != object_none:
        result = call_table(PyCapsule_GetPointer(capsule, 0), out, args, nargs)
        if result == object_miss:
            Py_DecRef(result)
    Py_DecRef(capsule)
    return call_slowly(self, args, nargs, names) if result == object_miss else result


def call_slowly(self, args, nargs, names):
    method = PyObject_GetAttr(self, name_slow)
    if method == 0:
        return 0
    named = 0
    if names != 0:
        named = named_arguments(args, nargs, names)
    answer = 0
    if names == 0 or named != 0:
        answer = PyObject_VectorcallDict(method, args, nargs, named)
    if named != 0:
        Py_DecRef(named)
    Py_DecRef(method)
    return answer


def named_arguments(args, nargs, names):
    named = PyDict_New()
    if named == 0:
        return 0
    for i in range(PyTuple_Size(names)):
        if PyDict_SetItem(named, PyTuple_GetItem(names, i), args[nargs + i]) != 0:
            Py_DecRef(named)
            return 0
    return named
'''
