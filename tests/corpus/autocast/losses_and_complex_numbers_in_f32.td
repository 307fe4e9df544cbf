# Under autocast losses, polar, view_as_complex and stft compute in f32, prelu in the low dtype.

func @f(%x, %y) {
  autocast_f16 {
    %a = binary_cross_entropy(%x, %y)
    %b = hinge_embedding_loss(%x, %y)
    %c = margin_ranking_loss(%x, %y, %y)
    %d = poisson_nll_loss(%x, %y)
    %e = soft_margin_loss(%x, %y)
    %i = tensor([0, 1, 2], i64)
    %j = tensor([0], i64)
    %f = multi_margin_loss(%x, %j)
    %g = multilabel_margin_loss(%x, %i)
    %h = polar(%x, %y)
    %w = full([1], 0.5, f32)
    %k = prelu(%x, %w)
    %l = full([3,2], 0.5, f16)
    %m = view_as_complex(%l)
    %n = stft(%x, 2, 1)
  }
  return %a, %b, %c, %d, %e, %f, %g, %h, %k, %m, %n
}
case "f16" {
  %x = full([3], 0.5, f16, requires_grad=true)
  %y = full([3], 0.25, f16)
  call @f(%x, %y)
  backward
}
case "bf16 in f16" {
  %x = full([3], 0.5, bf16, requires_grad=true)
  %y = full([3], 0.25, bf16)
  call @f(%x, %y)
  backward
}
