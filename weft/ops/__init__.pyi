"""Made by `weft.operators.typing_stubs`."""

from collections.abc import Callable
from typing import Any

from weft.operators.operator import Operator
from weft.ops.library import aliases as aliases
from weft.ops.library import names as names
from weft.ops.library import program as program
from weft.ops.library import source as source

make_operator: Callable[[str, str], Any] | None

def get(name: str, dtype: str = "float32") -> Operator:
    """The operator ``name`` for elements of ``dtype``."""

add: Operator
argmin_distance: Operator
attention: Operator
avg_pool2d: Operator
batch_norm: Operator
batch_norm_inference: Operator
batched_matmul: Operator
bias_gelu: Operator
bmm: Operator
c3: Operator
cast_bfloat16: Operator
cast_double: Operator
cast_half: Operator
cast_int: Operator
causal_attention: Operator
causal_softmax: Operator
concat: Operator
concat_columns: Operator
concatenate: Operator
conv1d: Operator
conv1d_dilated: Operator
conv1d_strided: Operator
conv2d: Operator
conv2d_bias: Operator
conv2d_depthwise: Operator
conv2d_dilated: Operator
conv2d_grad_input: Operator
conv2d_grad_weight: Operator
conv2d_grouped: Operator
conv2d_padded: Operator
conv2d_strided: Operator
conv2d_strided_grad_input: Operator
conv2d_strided_grad_weight: Operator
copy: Operator
cumsum: Operator
dot: Operator
fc: Operator
fully_connected: Operator
gather: Operator
gather_rows: Operator
gelu: Operator
group_norm: Operator
hadamard3: Operator
indexed_gather: Operator
kronecker1: Operator
kronecker2: Operator
kronecker3: Operator
kru1: Operator
kru2: Operator
kru3: Operator
layer_norm: Operator
log_softmax: Operator
lut1: Operator
lut2: Operator
matmul: Operator
matvec: Operator
max_pool2d: Operator
min_distance: Operator
mlp1: Operator
mlp2: Operator
mlp3: Operator
mlp4: Operator
moments: Operator
mul: Operator
nchw_to_nhwc: Operator
one_hot: Operator
outer: Operator
relu: Operator
rms_norm: Operator
scatter_add: Operator
sgemm: Operator
shifted_lookup: Operator
sigmoid: Operator
silu: Operator
softmax: Operator
softmax_by_log: Operator
softmax_plain: Operator
sum_all: Operator
sum_columns: Operator
sum_planes: Operator
sum_rows: Operator
tanh: Operator
tbmm: Operator
tensordot: Operator
tmm: Operator
transpose: Operator
transposed_batched_matmul: Operator
transposed_matmul: Operator
triple_hadamard: Operator
wavenet: Operator
