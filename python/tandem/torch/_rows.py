"""Which op of Tandem an ATen op is. A row is the text of the call, with the ATen op's
arguments by name: "add({self}, {other}, {alpha})". `{reduction:reduction}` is an argument
written by Emitter.write, and a Python function in place of the text writes several calls.
An op without a row here has the one that follows from its schema (_derive.py), if any.

Ops that return new tensors are in ROWS; those that write their first argument are in
INPLACE, by the text of the op without the underscore."""

# The same name, one tensor: exp(x).
UNARY = """neg abs sign sgn exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin
cos tan asin acos atan sinh cosh tanh sigmoid erf erfc square floor ceil trunc frac isnan
isinf isfinite logical_not bitwise_not relu silu mish hardswish hardsigmoid relu6 selu
log_sigmoid nonzero detach alias t zero""".split()

# The same name, a tensor and a tensor or number; two tensors.
BINARY = """mul remainder fmod copysign eq ne lt le gt ge bitwise_and bitwise_or
bitwise_xor""".split()
TENSORS = """floor_divide maximum minimum atan2 hypot logical_and logical_or
logical_xor""".split()

ROWS = {
    # pointwise
    "add.Tensor": "add({self}, {other}, {alpha})",
    "add.Scalar": "add({self}, {other}, {alpha})",
    "sub.Tensor": "sub({self}, {other}, {alpha})",
    "sub.Scalar": "sub({self}, {other}, {alpha})",
    "rsub.Scalar": "rsub({self}, {other}, {alpha})",
    "rsub.Tensor": "rsub({self}, {other}, {alpha})",
    "div.Tensor": "div({self}, {other})",
    "div.Scalar": "div({self}, {other})",
    "div.Tensor_mode": "div({self}, {other}, {rounding_mode:mode})",
    "div.Scalar_mode": "div({self}, {other}, {rounding_mode:mode})",
    "true_divide.Tensor": "div({self}, {other})",
    "pow.Tensor_Scalar": "pow({self}, {exponent})",
    "pow.Tensor_Tensor": "pow({self}, {exponent})",
    "pow.Scalar": "pow({self}, {exponent})",
    "xlogy.Tensor": "xlogy({self}, {other})",
    "floor_divide.Scalar": "floor_divide({self}, {other})",
    "bitwise_left_shift.Tensor": "bitwise_left_shift({self}, {other})",
    "bitwise_left_shift.Tensor_Scalar": "bitwise_left_shift({self}, {other})",
    "bitwise_right_shift.Tensor": "bitwise_right_shift({self}, {other})",
    "bitwise_right_shift.Tensor_Scalar": "bitwise_right_shift({self}, {other})",
    "where.self": "where({condition}, {self}, {other})",
    "where.ScalarOther": "where({condition}, {self}, {other})",
    "where.ScalarSelf": "where({condition}, {self}, {other})",
    "where.Scalar": "where({condition}, {self}, {other})",
    "masked_fill.Scalar": "masked_fill({self}, {mask}, {value})",
    "masked_fill.Tensor": "masked_fill({self}, {mask}, {value})",
    "lerp.Scalar": "lerp({self}, {end}, {weight})",
    "lerp.Tensor": "lerp({self}, {end}, {weight})",
    "addcmul.default": "addcmul({self}, {tensor1}, {tensor2}, {value})",
    "addcdiv.default": "addcdiv({self}, {tensor1}, {tensor2}, {value})",
    "clamp.default": "clamp({self}, {min}, {max})",
    "clip.default": "clamp({self}, {min}, {max})",
    "clamp.Tensor": "clamp_tensor({self}, {min}, {max})",
    "clamp_min.default": "clamp_min({self}, {min})",
    "clamp_min.Tensor": "clamp_min({self}, {min})",
    "clamp_max.default": "clamp_max({self}, {max})",
    "clamp_max.Tensor": "clamp_max({self}, {max})",
    "round.default": "round({self})",
    "round.decimals": "round({self}, {decimals})",
    "logit.default": "logit({self}, {eps})",
    "nan_to_num.default": "nan_to_num({self}, {nan}, {posinf}, {neginf})",
    "threshold.default": "threshold({self}, {threshold}, {value})",
    "threshold_backward.default": "threshold_backward({grad_output}, {self}, {threshold})",
    "leaky_relu.default": "leaky_relu({self}, {negative_slope})",
    "leaky_relu_backward.default":
        "leaky_relu_backward({grad_output}, {self}, {negative_slope}, {self_is_result})",
    "elu.default": "elu({self}, {alpha}, {scale}, {input_scale})",
    "elu_backward.default":
        "elu_backward({grad_output}, {alpha}, {scale}, {input_scale}, {is_result}, {self_or_result})",
    "celu.default": "celu({self}, {alpha})",
    "gelu.default": "gelu({self}, {approximate})",
    "gelu_backward.default": "gelu_backward({grad_output}, {self}, {approximate})",
    "silu_backward.default": "silu_backward({grad_output}, {self})",
    "mish_backward.default": "mish_backward({grad_output}, {self})",
    "softplus.default": "softplus({self}, {beta}, {threshold})",
    "softplus_backward.default":
        "softplus_backward({grad_output}, {self}, {beta}, {threshold})",
    "hardtanh.default": "hardtanh({self}, {min_val}, {max_val})",
    "hardtanh_backward.default":
        "hardtanh_backward({grad_output}, {self}, {min_val}, {max_val})",
    "hardswish_backward.default": "hardswish_backward({grad_output}, {self})",
    "hardsigmoid_backward.default": "hardsigmoid_backward({grad_output}, {self})",
    "hardshrink.default": "hardshrink({self}, {lambd})",
    "softshrink.default": "softshrink({self}, {lambd})",
    "tanh_backward.default": "tanh_backward({grad_output}, {output})",
    "sigmoid_backward.default": "sigmoid_backward({grad_output}, {output})",
    "logit_backward.default": "logit_backward({grad_output}, {self}, {eps})",
    # reductions
    "sum.default": "sum({self}, none, false, {dtype})",
    "sum.dim_IntList": "sum({self}, {dim:dims}, {keepdim}, {dtype})",
    "mean.default": "mean({self}, none, false, {dtype})",
    "mean.dim": "mean({self}, {dim:dims}, {keepdim}, {dtype})",
    "prod.default": "prod({self}, {dtype})",
    "prod.dim_int": "prod_dim({self}, {dim}, {keepdim}, {dtype})",
    "all.default": "all({self})",
    "all.dim": "all({self}, [{dim}], {keepdim})",
    "all.dims": "all({self}, {dim}, {keepdim})",
    "any.default": "any({self})",
    "any.dim": "any({self}, [{dim}], {keepdim})",
    "any.dims": "any({self}, {dim}, {keepdim})",
    "amax.default": "amax({self}, {dim}, {keepdim})",
    "amin.default": "amin({self}, {dim}, {keepdim})",
    "max.default": "max({self})",
    "min.default": "min({self})",
    "max.other": "maximum({self}, {other})",
    "min.other": "minimum({self}, {other})",
    "max.dim": "max_dim({self}, {dim}, {keepdim})",
    "min.dim": "min_dim({self}, {dim}, {keepdim})",
    "argmax.default": "argmax({self}, {dim}, {keepdim})",
    "argmin.default": "argmin({self}, {dim}, {keepdim})",
    "var.correction": "var({self}, {dim:dims}, {correction}, {keepdim})",
    "std.correction": "std({self}, {dim:dims}, {correction}, {keepdim})",
    "var_mean.correction": "var_mean({self}, {dim:dims}, {correction}, {keepdim})",
    "std_mean.correction": "std_mean({self}, {dim:dims}, {correction}, {keepdim})",
    "linalg_vector_norm.default":
        "linalg_vector_norm({self}, {ord}, {dim}, {keepdim}, {dtype})",
    "logsumexp.default": "logsumexp({self}, {dim}, {keepdim})",
    "cumsum.default": "cumsum({self}, {dim}, {dtype})",
    "cumprod.default": "cumprod({self}, {dim}, {dtype})",
    "logcumsumexp.default": "logcumsumexp({self}, {dim})",
    "sort.default": "sort({self}, {dim}, {descending})",
    "sort.stable": "sort({self}, {dim}, {descending}, {stable:flag})",
    "argsort.default": "argsort({self}, {dim}, {descending})",
    "topk.default": "topk({self}, {k}, {dim}, {largest}, {sorted})",
    "softmax.int": "softmax({self}, {dim}, {dtype})",
    "log_softmax.int": "log_softmax({self}, {dim}, {dtype})",
    "_softmax.default": "_softmax({self}, {dim}, {half_to_float})",
    "_log_softmax.default": "_log_softmax({self}, {dim}, {half_to_float})",
    "_softmax_backward_data.default":
        "_softmax_backward_data({grad_output}, {output}, {dim}, {input_dtype})",
    "_log_softmax_backward_data.default":
        "_log_softmax_backward_data({grad_output}, {output}, {dim}, {input_dtype})",
    "_safe_softmax.default": "_safe_softmax({self}, {dim})",
    # products
    "mm.default": "mm({self}, {mat2})",
    "bmm.default": "bmm({self}, {mat2})",
    "mv.default": "mv({self}, {vec})",
    "dot.default": "dot({self}, {tensor})",
    "addmm.default": "addmm({self}, {mat1}, {mat2}, {beta}, {alpha})",
    "baddbmm.default": "baddbmm({self}, {batch1}, {batch2}, {beta}, {alpha})",
    "addmv.default": "addmv({self}, {mat}, {vec}, {beta}, {alpha})",
    "outer.default": "outer({self}, {vec2})",
    "matmul.default": "matmul({self}, {other})",
    "linear.default": "linear({input}, {weight}, {bias})",
    "einsum.default": "einsum({equation}, {tensors})",
    # views
    "view.default": "view({self}, {size})",
    "_unsafe_view.default": "_unsafe_view({self}, {size})",
    "reshape.default": "reshape({self}, {shape})",
    "view.dtype": "view_dtype({self}, {dtype})",
    "flatten.using_ints": "flatten({self}, {start_dim}, {end_dim})",
    "unflatten.int": "unflatten({self}, {dim}, {sizes})",
    "expand.default": "expand({self}, {size})",
    "expand_as.default": "expand_as({self}, {other})",
    "view_as.default": "view_as({self}, {other})",
    "squeeze.default": "squeeze({self})",
    "squeeze.dim": "squeeze_dim({self}, {dim})",
    "squeeze.dims": "squeeze_dims({self}, {dim})",
    "unsqueeze.default": "unsqueeze({self}, {dim})",
    "transpose.int": "transpose({self}, {dim0}, {dim1})",
    "swapaxes.default": "transpose({self}, {axis0}, {axis1})",
    "permute.default": "permute({self}, {dims})",
    "movedim.intlist": "movedim({self}, {source}, {destination})",
    "movedim.int": "movedim({self}, [{source}], [{destination}])",
    "select.int": "select({self}, {dim}, {index})",
    "slice.Tensor": "slice({self}, {dim}, {start}, {end}, {step})",
    "narrow.default": "narrow({self}, {dim}, {start}, {length})",
    "split.Tensor": "split({self}, {split_size}, {dim})",
    "split.sizes": "split_with_sizes({self}, {split_size}, {dim})",
    "split_with_sizes.default": "split_with_sizes({self}, {split_sizes}, {dim})",
    "chunk.default": "chunk({self}, {chunks}, {dim})",
    "unbind.int": "unbind({self}, {dim})",
    "diagonal.default": "diagonal({self}, {offset}, {dim1}, {dim2})",
    "unfold.default": "unfold({self}, {dimension}, {size}, {step})",
    # copies and joins
    "clone.default": "clone({self}{memory_format:contiguous})",
    "contiguous.default": "contiguous({self})",
    "_to_copy.default": "_to_copy({self}, {dtype})",
    "to.dtype": "to({self}, {dtype}, {copy})",
    "type_as.default": "to({self}, {other:dtype_of})",
    "to.dtype_layout": "to({self}, {dtype:own_dtype}, {copy})",
    "to.device": "to({self}, {dtype}, {copy})",
    "__and__.Tensor": "bitwise_and({self}, {other})",
    "__or__.Tensor": "bitwise_or({self}, {other})",
    "__xor__.Tensor": "bitwise_xor({self}, {other})",
    "__and__.Scalar": "bitwise_and({self}, {other})",
    "__or__.Scalar": "bitwise_or({self}, {other})",
    "__xor__.Scalar": "bitwise_xor({self}, {other})",
    "copy.default": "copy({self}, {src})",
    "fill.Scalar": "fill({self}, {value})",
    "fill.Tensor": "fill({self}, {value})",
    "cat.default": "cat({tensors}, {dim})",
    "stack.default": "stack({tensors}, {dim})",
    "repeat.default": "repeat({self}, {repeats})",
    "flip.default": "flip({self}, {dims})",
    "roll.default": "roll({self}, {shifts}, {dims})",
    "constant_pad_nd.default": "constant_pad_nd({self}, {pad}, {value})",
    "tril.default": "tril({self}, {diagonal})",
    "triu.default": "triu({self}, {diagonal})",
    "select_scatter.default": "select_scatter({self}, {src}, {dim}, {index})",
    "slice_scatter.default": "slice_scatter({self}, {src}, {dim}, {start}, {end}, {step})",
    "diagonal_scatter.default":
        "diagonal_scatter({self}, {src}, {offset}, {dim1}, {dim2})",
    "select_backward.default":
        "select_backward({grad_output}, {input_sizes}, {dim}, {index})",
    "slice_backward.default":
        "slice_backward({grad_output}, {input_sizes}, {dim}, {start}, {end}, {step})",
    "diagonal_backward.default":
        "diagonal_backward({grad_output}, {input_sizes}, {offset}, {dim1}, {dim2})",
    "unfold_backward.default":
        "unfold_backward({grad_in}, {input_sizes}, {dim}, {size}, {step})",
    # indexing
    "gather.default": "gather({self}, {dim}, {index})",
    "scatter.src": "scatter({self}, {dim}, {index}, {src})",
    "scatter.value": "scatter_value({self}, {dim}, {index}, {value})",
    "scatter_add.default": "scatter_add({self}, {dim}, {index}, {src})",
    "index_select.default": "index_select({self}, {dim}, {index})",
    "index_add.default": "index_add({self}, {dim}, {index}, {source}, {alpha})",
    "index_copy.default": "index_copy({self}, {dim}, {index}, {source})",
    "index.Tensor": "index({self}, {indices})",
    "_unsafe_index.Tensor": "index({self}, {indices})",
    "index_put.default": "index_put({self}, {indices}, {values}, {accumulate})",
    "embedding.default":
        "embedding({weight}, {indices}, {padding_idx}, {scale_grad_by_freq})",
    "embedding_dense_backward.default":
        "embedding_dense_backward({grad_output}, {indices}, {num_weights}, {padding_idx}, {scale_grad_by_freq})",
    "one_hot.default": "one_hot({self}, {num_classes})",
    # makers
    "full.default": "full({size}, {fill_value}, {dtype})",
    "full_like.default": "full_like({self}, {fill_value}, {dtype})",
    "zeros.default": "zeros({size}, {dtype})",
    "ones.default": "ones({size}, {dtype})",
    "empty.memory_format": "zeros({size}, {dtype})",
    "zeros_like.default": "zeros_like({self}, {dtype})",
    "ones_like.default": "ones_like({self}, {dtype})",
    "empty_like.default": "zeros_like({self}, {dtype})",
    "new_zeros.default": "new_zeros({self}, {size}, {dtype})",
    "new_ones.default": "new_ones({self}, {size}, {dtype})",
    "new_full.default": "new_full({self}, {size}, {fill_value}, {dtype})",
    "new_empty.default": "new_zeros({self}, {size}, {dtype})",
    "scalar_tensor.default": "scalar_tensor({s}, {dtype})",
    "_fft_c2c.default": "_fft_c2c({self}, {dim}, {normalization}, {forward})",
    "_fft_r2c.default": "_fft_r2c({self}, {dim}, {normalization}, {onesided})",
    "_fft_c2r.default": "_fft_c2r({self}, {dim}, {normalization}, {last_dim_size})",
    "stft.center": "stft({self}, {n_fft}, {hop_length}, {win_length}, {window}, {center}, "
                   "{pad_mode}, {normalized}, {onesided}, {return_complex:flag})",
    "stft.default": "stft({self}, {n_fft}, {hop_length}, {win_length}, {window}, false, "
                    "\"reflect\", {normalized}, {onesided}, {return_complex:flag})",
    "arange.default": "arange(0, {end}, 1, {dtype})",
    "arange.start": "arange({start}, {end}, 1, {dtype})",
    "arange.start_step": "arange({start}, {end}, {step}, {dtype})",
    "linspace.default": "linspace({start}, {end}, {steps}, {dtype})",
    "eye.default": "eye({n}, none, {dtype})",
    "eye.m": "eye({n}, {m}, {dtype})",
    "tril_indices.default": "tril_indices({row}, {col}, {offset}, {dtype:integers})",
    "triu_indices.default": "triu_indices({row}, {col}, {offset}, {dtype:integers})",
    "lift_fresh_copy.default": "clone({self})",
    # norms
    "layer_norm.default": "layer_norm({input}, {normalized_shape}, {weight}, {bias}, {eps})",
    "native_layer_norm.default":
        "native_layer_norm({input}, {normalized_shape}, {weight}, {bias}, {eps})",
    "native_layer_norm_backward.default":
        "native_layer_norm_backward({grad_out}, {input}, {normalized_shape}, {mean}, {rstd}, {weight}, {output_mask:ints}{bias:nothing})",
    "rms_norm.default": "rms_norm({input}, {normalized_shape}, {weight}, {eps})",
    "group_norm.default": "group_norm({input}, {num_groups}, {weight}, {bias}, {eps})",
    "native_group_norm.default":
        "native_group_norm({input}, {weight}, {bias}, {N}, {C}, {HxW}, {group}, {eps})",
    "native_group_norm_backward.default":
        "native_group_norm_backward({grad_out}, {input}, {mean}, {rstd}, {weight}, {N}, {C}, {HxW}, {group}, {output_mask:ints})",
    "batch_norm.default":
        "batch_norm({input}, {weight}, {bias}, {running_mean}, {running_var}, {training}, {momentum}, {eps})",
    "instance_norm.default":
        "instance_norm({input}, {weight}, {bias}, {running_mean}, {running_var}, {use_input_stats}, {momentum}, {eps})",
    # convolutions and pools
    "convolution_backward.default":
        "convolution_backward({grad_output}, {input}, {weight}, {bias_sizes}, {stride}, {padding}, {dilation}, {transposed}, {output_padding}, {groups}, {output_mask:ints})",
    "conv1d.padding":
        "conv1d_padding({input}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})",
    "conv2d.padding":
        "conv2d_padding({input}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})",
    "conv3d.padding":
        "conv3d_padding({input}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})",
    "conv2d.default":
        "conv2d({input}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})",
    "conv1d.default":
        "conv1d({input}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})",
    "max_pool2d.default":
        "max_pool2d({self}, {kernel_size}, {stride}, {padding}, {dilation}, {ceil_mode})",
    "max_pool2d_with_indices.default":
        "max_pool2d_with_indices({self}, {kernel_size}, {stride}, {padding}, {dilation}, {ceil_mode})",
    "max_pool2d_with_indices_backward.default":
        "max_pool2d_with_indices_backward({grad_output}, {self}, {kernel_size}, {stride}, {padding}, {dilation}, {ceil_mode}, {indices})",
    "avg_pool2d.default":
        "avg_pool2d({self}, {kernel_size}, {stride}, {padding}, {ceil_mode}, {count_include_pad}, {divisor_override})",
    "avg_pool2d_backward.default":
        "avg_pool2d_backward({grad_output}, {self}, {kernel_size}, {stride}, {padding}, {ceil_mode}, {count_include_pad}, {divisor_override})",
    "adaptive_avg_pool2d.default": "adaptive_avg_pool2d({self}, {output_size})",
    "adaptive_avg_pool1d.default": "adaptive_avg_pool1d({self}, {output_size})",
    "_adaptive_avg_pool2d.default": "_adaptive_avg_pool2d({self}, {output_size})",
    "_adaptive_avg_pool2d_backward.default":
        "_adaptive_avg_pool2d_backward({grad_output}, {self})",
    "upsample_nearest2d.default":
        "upsample_nearest2d({self}, {output_size}, {scales_h}, {scales_w})",
    "upsample_nearest2d_backward.default":
        "upsample_nearest2d_backward({grad_output}, {output_size}, {input_size}, {scales_h}, {scales_w})",
    # losses
    "mse_loss.default": "mse_loss({self}, {target}, {reduction:reduction})",
    "l1_loss.default": "l1_loss({self}, {target}, {reduction:reduction})",
    "smooth_l1_loss.default":
        "smooth_l1_loss({self}, {target}, {reduction:reduction}, {beta})",
    "huber_loss.default": "huber_loss({self}, {target}, {reduction:reduction}, {delta})",
    "kl_div.default": "kl_div({self}, {target}, {reduction:reduction}, {log_target})",
    "binary_cross_entropy_with_logits.default":
        "bce_with_logits({self}, {target}, {weight}, {pos_weight}, {reduction:reduction})",
    "nll_loss_forward.default":
        "nll_loss_forward({self}, {target}, {weight}, {reduction:reduction}, {ignore_index})",
    "nll_loss_backward.default":
        "nll_loss_backward({grad_output}, {target}, {weight}, {total_weight}, {self:sizes_of}, {reduction:reduction}, {ignore_index})",
    "nll_loss_nd.default":
        "nll_loss({self}, {target}, {weight}, {reduction:reduction}, {ignore_index})",
    "cross_entropy_loss.default":
        "cross_entropy({self}, {target}, {weight}, {reduction:reduction}, {ignore_index}, {label_smoothing})",
    # random
    "dropout.default": "dropout({input}, {p}, {train})",
    "native_dropout.default": "native_dropout({input}, {p}, {train:flag})",
    "native_dropout_backward.default":
        "native_dropout_backward({grad_output}, {mask}, {scale})",
    "rand.default": "rand({size}, {dtype})",
    "randn.default": "randn({size}, {dtype})",
    "rand_like.default": "rand_like({self}, {dtype})",
    "randn_like.default": "randn_like({self}, {dtype})",
    "bernoulli.default": "bernoulli({self})",
    "bernoulli.p": "bernoulli_p({self}, {p})",
}
ROWS.update({f"{name}.default": f"{name}({{self}})" for name in UNARY})
for _name, _shape in {"bartlett": "", "blackman": "", "hann": "", "hamming": "0.54, 0.46, ",
                      "kaiser": "12.0, "}.items():
    for _overload, _periodic in (("default", "true"), ("periodic", "{periodic}")):
        ROWS[f"{_name}_window.{_overload}"] = (
            f"{_name}_window({{window_length}}, {_periodic}, {_shape}{{dtype}})")
for _name in BINARY:
    for _overload in ("Tensor", "Scalar"):
        ROWS[f"{_name}.{_overload}"] = f"{_name}({{self}}, {{other}})"
for _name in TENSORS:
    ROWS[f"{_name}.default"] = f"{_name}({{self}}, {{other}})"

# Ops that write their first argument: the row without the underscore, for these.
INPLACE = """add.Tensor add.Scalar sub.Tensor sub.Scalar div.Tensor div.Scalar div.Tensor_mode
mul.Tensor mul.Scalar pow.Scalar pow.Tensor masked_fill.Scalar masked_fill.Tensor lerp.Scalar
lerp.Tensor addcmul.default addcdiv.default clamp.default clamp_min.default clamp_max.default
relu.default silu.default sigmoid.default tanh.default exp.default sqrt.default neg.default
abs.default hardtanh.default leaky_relu.default elu.default hardswish.default
hardsigmoid.default relu6.default dropout.default copy.default fill.Scalar fill.Tensor
zero.default index_put.default index_add.default scatter.src scatter.value
scatter_add.default tril.default triu.default addmm.default sin.default cos.default
logical_not.default gelu.default unsqueeze.default squeeze.dim
transpose.int t.default detach.default""".split()
for _name in INPLACE:
    _op, _overload = _name.split(".")
    _row = ROWS.get(_name) or ROWS["pow.Tensor_Scalar"]
    _call, _rest = _row.split("(", 1)
    ROWS[f"{_op}_.{_overload}"] = f"{_call}_({_rest}"
ROWS["pow_.Tensor"] = "pow_({self}, {exponent})"
ROWS["dropout_.default"] = "dropout_({self}, {p}, {train})"
ROWS["transpose_.default"] = ROWS.pop("transpose_.int")

RANDOM = """dropout native_dropout rand randn rand_like randn_like bernoulli dropout_
scaled_dot_product_attention""".split()
VIEWS = """view reshape flatten unflatten expand expand_as view_as squeeze unsqueeze transpose
permute movedim select slice narrow split split_with_sizes chunk unbind diagonal as_strided
t alias detach swapaxes _unsafe_view unfold contiguous to lift_fresh_copy""".split()


# ---- ops that are several calls ----------------------------------------------

def batch_norm_functional(e, a):
    if not a["training"]:
        raise e.Unsupported("batch norm in eval mode with new statistics")
    return e.call("_batch_norm_functional", a["input"], a["weight"], a["bias"],
                  a["running_mean"], a["running_var"], a["momentum"], a["eps"], results=5)


def batch_norm_no_stats(e, a):
    if not a["training"]:
        raise e.Unsupported("batch norm in eval mode without statistics")
    return e.call("_batch_norm_functional", a["input"], a["weight"], a["bias"], None, None,
                  a["momentum"], a["eps"], results=5)[:3]


def batch_norm_eval(e, a):
    """Outside of training PyTorch returns two empty tensors."""
    if a.get("training", False):
        raise e.Unsupported("batch norm that writes its statistics")
    out = e.call("_batch_norm_eval", a["input"], a["weight"], a["bias"], a["running_mean"],
                 a["running_var"], a["eps"])
    empty = e.call("zeros", [0])
    return [out, empty, empty]


def batch_norm_backward(e, a):
    grad, x, w, mask = a["grad_out"], a["input"], a["weight"], a["output_mask"]
    if a["train"]:
        return e.call("_batch_norm_backward", grad, x, a["save_mean"], a["save_invstd"], w,
                      [int(m) for m in mask], results=3)
    n = len(e.sizes(x))
    shape = [1, -1] + [1] * (n - 2)
    others = [0, *range(2, n)]
    rstd = e.call("rsqrt", e.call("add", a["running_var"], a["eps"]))
    scale = e.call("mul", rstd, w) if w is not None else rstd
    mean = e.call("reshape", a["running_mean"], shape)
    x_hat = e.call("mul", e.call("sub", x, mean), e.call("reshape", rstd, shape))
    return [e.call("mul", grad, e.call("reshape", scale, shape)) if mask[0] else None,
            e.call("sum", e.call("mul", grad, x_hat), others) if mask[1] else None,
            e.call("sum", grad, others) if mask[2] else None]


def _scale(e, a):
    return a["scale"] if a["scale"] is not None else float(e.sizes(a["query"])[-1]) ** -0.5


def flash_attention(e, a):
    if a["dropout_p"]:
        raise e.Unsupported("attention with dropout")
    return e.call("_flash_attention", a["query"], a["key"], a["value"], a["attn_mask"],
                  a["is_causal"], _scale(e, a), results=2)


def flash_attention_backward(e, a):
    return e.call("_flash_attention_backward", a["grad_out"], a["query"], a["key"],
                  a["value"], a["attn_mask"], a["out"], a["logsumexp"], None, a["is_causal"],
                  _scale(e, a), results=3)


def attention(e, a):
    if a["enable_gqa"]:
        groups = e.sizes(a["query"])[-3] // e.sizes(a["key"])[-3]
        for name in ("key", "value"):
            if groups > 1:
                a[name] = repeat_heads(e, a[name], groups)
    return e.call("scaled_dot_product_attention", a["query"], a["key"], a["value"],
                  a["attn_mask"], a["dropout_p"], a["is_causal"], a["scale"])


def repeat_heads(e, x, groups):
    """repeat_interleave of dim -3."""
    *batch, heads, n, width = e.sizes(x)
    wide = e.call("expand", e.call("unsqueeze", x, len(batch) + 1),
                  [*batch, heads, groups, n, width])
    return e.call("reshape", wide, [*batch, heads * groups, n, width])


def diff(e, a):
    x = a["self"]
    parts = [t for t in (a["prepend"], x, a["append"]) if t is not None]
    if len(parts) > 1:
        x = e.call("cat", parts, a["dim"])
    return e.call("diff", x, a["n"], a["dim"])


def prelu(e, a):
    x, w = a["self"], a["weight"]
    return e.call("where", e.call("gt", x, 0), x, e.call("mul", w, x))


def glu(e, a):
    half, gate = e.call("chunk", a["self"], 2, a["dim"], results=2)
    return e.call("mul", half, e.call("sigmoid", gate))


def weight_norm(e, a):
    dim = a["dim"]
    others = [d for d in range(len(e.sizes(a["v"]))) if d != dim]
    size = e.call("norm", a["v"], 2, others, True)
    return [e.call("mul", a["v"], e.call("div", a["g"], size)), size]


def norm(e, a):
    p = 2 if a["p"] is None else a["p"]
    return e.call("norm", a["self"], p, a["dim"], a["keepdim"], a.get("dtype"))


def repeat_interleave(e, a):
    if a["dim"] is None:
        raise e.Unsupported("repeat_interleave without dim")
    sizes = e.sizes(a["self"])
    d = a["dim"] % len(sizes)
    wide = e.call("expand", e.call("unsqueeze", a["self"], d + 1),
                  [*sizes[:d + 1], a["repeats"], *sizes[d + 1:]])
    return e.call("reshape", wide, [*sizes[:d], sizes[d] * a["repeats"], *sizes[d + 1:]])


MANY = {
    "_native_batch_norm_legit_functional.default": batch_norm_functional,
    "_native_batch_norm_legit.no_stats": batch_norm_no_stats,
    "_native_batch_norm_legit.default": batch_norm_eval,
    "_native_batch_norm_legit_no_training.default": batch_norm_eval,
    "cudnn_batch_norm.default": batch_norm_eval,
    "native_batch_norm.default": batch_norm_eval,
    "native_batch_norm_backward.default": batch_norm_backward,
    "_scaled_dot_product_flash_attention_for_cpu.default": flash_attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward.default":
        flash_attention_backward,
    "scaled_dot_product_attention.default": attention,
    "repeat_interleave.self_int": repeat_interleave,
    "diff.default": diff,
    "_prelu_kernel.default": prelu,
    "glu.default": glu,
    "_weight_norm_interface.default": weight_norm,
    "norm.ScalarOpt_dim": norm,
    "norm.ScalarOpt_dim_dtype": norm,
}
