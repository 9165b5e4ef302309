"""Part of `fastcall_text`: what an argument is, read from numpy's objects and through DLPack's function tables.

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
