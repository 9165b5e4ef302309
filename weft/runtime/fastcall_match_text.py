"""Part of `fastcall_text`: comparing arguments with a plan, keeping outputs apart from inputs."""

from __future__ import annotations

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
