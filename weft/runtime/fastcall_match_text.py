"""Part of `fastcall_text`: what an argument is, read from numpy's objects and through DLPack's function tables;
comparing arguments with a plan; keeping outputs apart from inputs.

CuPy's arrays have no such table: two functions do what those of a table would. One describes an array by its
attributes, in the words that follow the structure it fills in; the other asks CuPy for its stream.
"""

from __future__ import annotations

VIEWS = '''
def view_of(obj: Object, view: View):
    """Fills ``view``; 0 where the object is an array that needs the slow path."""
    kind = obj.type
    if kind == ndarray_type:
        return view_numpy(obj, view)
    count = exchange_count[0]
    for i in range(count):
        entry: Exchange = exchanges + i * exchange_size
        if kind == entry.cls:
            return view_exchange(entry, obj, view)
    view.framework = 0
    return 1


def view_numpy(obj: Array, view: View):
    descr: Descr = obj.descr
    view.framework = numpy
    view.place = on_cpu
    view.data = obj.data
    view.ndim = obj.ndim
    view.dims = obj.dims
    view.strides = obj.strides
    view.type = descr.number
    view.writable = obj.flags & array_writable
    return obj.flags & array_aligned and (descr.order == native_order or descr.order == any_order)


def view_exchange(entry: Exchange, obj, view: View):
    """A tensor of torch that would track gradients or is a negated view goes the slow way."""
    dl: Tensor = view + view_export
    export = entry.export
    if export(obj, dl) != 0:
        PyErr_Clear()
        return 0
    framework = entry.framework
    if framework == torch and not is_plain(obj):
        return 0
    view.framework = framework
    view.place = dl.place
    view.data = dl.data + dl.offset
    view.ndim = dl.ndim
    view.type = dl.type
    view.dims = dl.dims
    view.strides = dl.strides
    view.writable = 1
    return dl.strides != 0 or dl.ndim == 0


def is_plain(obj):
    """No negated view, and no gradients to track: read from the structure of the tensor where its layout is known."""
    if torch_structure[0] != 0:
        structure = (obj + torch_structure[0])[0]
        if (structure + torch_keys[0])[0] & torch_negative[0] != 0:
            return 0
        if (structure + torch_autograd[0])[0] == 0:
            return 1
    elif not is_false(PyObject_CallFunctionObjArgs(torch_is_neg[0], obj, 0)):
        return 0
    if is_false(PyObject_GetAttr(obj, name_requires_grad)):
        return 1
    return is_false(PyObject_CallFunctionObjArgs(torch_is_grad_enabled[0], 0))


def is_false(obj):
    """Takes the reference; an error counts as not false."""
    if obj == 0:
        PyErr_Clear()
        return 0
    Py_DecRef(obj)
    return obj == object_false
'''

CUPY = '''
def integer_of(value: Object, ok):
    """A whole number; ``ok`` tells whether it is one."""
    overflow = room(1)
    overflow[0] = 0
    if value.type == PyLong_Type:
        number = PyLong_AsLongLongAndOverflow(value, overflow)
        if overflow[0] == 0:
            return number
    ok[0] = 0
    return 0


def integer_attribute(obj, name, ok):
    value = PyObject_GetAttr(obj, name)
    if value == 0:
        PyErr_Clear()
        ok[0] = 0
        return 0
    number = integer_of(value, ok)
    Py_DecRef(value)
    return number


def integers_attribute(obj, name, unit, into, ok):
    """A tuple of at most max_rank whole numbers that is an attribute, each divided by ``unit``; gives how many."""
    items: Object = PyObject_GetAttr(obj, name)
    if items == 0:
        PyErr_Clear()
        ok[0] = 0
        return 0
    count = PyTuple_Size(items) if items.type == PyTuple_Type else max_rank + 1
    if count > max_rank:
        ok[0] = 0
        count = 0
    for i in range(count):
        number = integer_of(PyTuple_GetItem(items, i), ok)
        into[i] = number // unit
        if into[i] * unit != number:
            ok[0] = 0
    Py_DecRef(items)
    return count


def element_type(obj):
    """What DLPack calls the type of the elements; 0 where it is not one of numpy's own."""
    descr: Descr = PyObject_GetAttr(obj, name_dtype)
    if descr == 0:
        PyErr_Clear()
        return 0
    number = descr.number
    Py_DecRef(descr)
    return cupy_types[number] if 0 <= number < numpy_types else 0


def export_memory(obj, dl: Tensor, ok):
    memory = PyObject_GetAttr(obj, name_data)
    if memory == 0:
        PyErr_Clear()
        ok[0] = 0
        return
    dl.data = integer_attribute(memory, name_ptr, ok)
    dl.place = integer_attribute(memory, name_device_id, ok) << 32 | on_cuda
    Py_DecRef(memory)


def weft_export_cupy(obj, dl: Tensor):
    """dltensor_from_py_object_no_sync; there is room for sizes and strides behind the six words of ``dl``."""
    ok = room(1)
    ok[0] = 1
    type = element_type(obj)
    if type == 0:
        return -1
    export_memory(obj, dl, ok)
    dl.dims = dl + 48
    dl.strides = dl.dims + 8 * max_rank
    dl.ndim = integers_attribute(obj, name_shape, 1, dl.dims, ok)
    steps = integers_attribute(obj, name_strides, (type >> 8 & 255) >> 3, dl.strides, ok)
    dl.type = type
    dl.offset = 0
    return 0 if steps == dl.ndim and ok[0] != 0 else -1


def weft_stream_cupy(kind, device, stream):
    """current_work_stream, of the device that is CuPy's current one."""
    ok = room(1)
    ok[0] = 1
    object = PyObject_CallFunctionObjArgs(cupy_stream[0], 0)
    if object == 0:
        PyErr_Clear()
        return -1
    stream[0] = integer_attribute(object, name_ptr, ok)
    Py_DecRef(object)
    return ok[0] - 1
'''

MATCHING = """
def matches_tensor(rec: Record, view: View, slots):
    framework = view.framework
    ndim = rec.ndim
    if framework == 0 or view.ndim != ndim:
        return 0
    if framework == numpy:
        if view.type != rec.type and view.type != rec.other_type:
            return 0
        strides = rec.strides
    else:
        if view.type != rec.dlpack:
            return 0
        strides = rec.elements
    if view.place != rec.place or view.data & rec.mask != rec.offset:
        return 0
    if framework != rec.framework and (rec.framework != 0 or framework > torch):
        return 0
    dims = rec.dims
    keep = rec.keep
    view_dims = view.dims
    view_strides = view.strides
    for d in range(ndim):
        if view_dims[d] != dims[d] or (view_strides[d] ^ strides[d]) & keep[d] != 0:
            return 0
    set_slot(rec, slots, view.data)
    return 1


def set_slot(rec: Record, slots, bits):
    if rec.slot >= 0:
        slots[rec.slot] = bits


def matches_integer(rec: Record, obj: Object, slots):
    overflow = room(1)
    overflow[0] = 0
    kind = obj.type
    if kind != PyLong_Type and kind != numpy_int64 and kind != numpy_int32:
        return 0
    value = PyLong_AsLongLongAndOverflow(obj, overflow)
    if overflow[0] != 0 or not rec.least <= value <= rec.most:
        return 0
    set_slot(rec, slots, value)
    return 1


def matches_float(rec: Record, obj: Object, slots, narrow):
    kind = obj.type
    if kind != PyFloat_Type and kind != PyLong_Type and kind != numpy_float64 and kind != numpy_float32:
        return 0
    bits = PyFloat_AsDouble(obj)
    if bits == minus_one and PyErr_Occurred() != 0:
        PyErr_Clear()
        return 0
    set_slot(rec, slots, single(bits) if narrow else bits)
    return 1


def matches_bool(rec, obj, slots):
    set_slot(rec, slots, obj == object_true)
    return obj == object_true or obj == object_false


def matches_one(rec: Record, obj, view, slots):
    kind = rec.kind
    if kind == tensor:
        return matches_tensor(rec, view, slots)
    if kind == integer:
        return matches_integer(rec, obj, slots)
    if kind == bool:
        return matches_bool(rec, obj, slots)
    return matches_float(rec, obj, slots, kind == float32)


def matches_all(recs, objs, views, count, slots):
    for i in range(count):
        if not matches_one(recs + i * record_size, objs[i], views + i * view_size, slots):
            return 0
    return 1
"""

ALIASING = '''
def meets_any(rec: Record, view: View, recs, views, count, all):
    """Whether any of the arrays of ``count`` records, written ones or ``all``, shares addresses with the one given."""
    begin = view.data + rec.low
    end = view.data + rec.high
    for i in range(count):
        other: Record = recs + i * record_size
        if other.kind == tensor and other.written | all != 0:
            seen: View = views + i * view_size
            if below(begin, seen.data + other.high) and below(seen.data + other.low, end):
                return 1
    return 0


def arguments_are_apart(recs, views, count):
    """Arguments that are written: writable, and apart from all others."""
    for i in range(count):
        rec: Record = recs + i * record_size
        view: View = views + i * view_size
        if rec.kind == tensor:
            if rec.written and not view.writable or meets_any(rec, view, recs, views, i, rec.written):
                return 0
    return 1


def outputs_are_apart(recs, views, nargs, outs, out_views, nouts):
    """Given outputs: writable, and apart from the inputs and from each other."""
    for i in range(nouts):
        rec = outs + i * record_size
        view: View = out_views + i * view_size
        if not view.writable or meets_any(rec, view, recs, views, nargs, 1):
            return 0
        if meets_any(rec, view, outs, out_views, i, 1):
            return 0
    return 1
'''
