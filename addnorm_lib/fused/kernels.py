"""The Triton kernels of the fused core. Import this module only where Triton is installed.

Shared by all: a tensor is M rows of D elements, e bytes each; a program works on tiles of BM rows and BN columns. Loads
are widened to ACC, float32 (float64 where the sum is), at once. D and the tile are compile-time constants, M never is.
Rows are counted in int64, so that offsets may pass 2**31. A pointer given as None drops its work from the kernel; a row
stride given as None means D, which lets the compiler prove that rows are aligned.
"""

import triton
import triton.language as tl


@triton.jit
def _mix(h):
    h ^= h >> 16
    h *= 0x7FEB352D
    h ^= h >> 15
    h *= 0x846CA68B
    return h ^ (h >> 16)


@triton.jit
def _tile(p, stride, rows, cols, D: tl.constexpr):
    """Pointers to a tile of rows `stride` elements (None: D) apart."""
    return (p + rows * (D if stride is None else stride))[:, None] + cols[None, :]


@triton.jit
def _kept(seed, rows, cols, drop_below):
    """Dropout's mask for a tile: `eager.keep_mask` in 32-bit arithmetic."""
    a = _mix(rows.to(tl.uint32) ^ tl.load(seed).to(tl.uint32))
    b = _mix(a ^ tl.load(seed + 1).to(tl.uint32)) | 1
    u = _mix(a[:, None] + cols.to(tl.uint32)[None, :] * b[:, None])
    return (u >> 8).to(tl.int32) >= drop_below


@triton.jit
def _sum_tile(
    x, residual, seed, x_stride, residual_stride, rows, cols, mask, alpha, drop_below, keep_scale,
    ACC: tl.constexpr, D: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    """One tile of s = alpha * residual + dropout(x), rounded to residual's dtype; zero where masked."""
    update = tl.load(_tile(x, x_stride, rows, cols, D), mask, other=0, eviction_policy=EVICT).to(ACC)
    shortcut = tl.load(_tile(residual, residual_stride, rows, cols, D), mask, other=0, eviction_policy=EVICT).to(ACC)
    if seed is not None:
        update = tl.where(_kept(seed, rows, cols, drop_below), update * tl.full([1, 1], keep_scale, ACC), 0)
    return (shortcut * tl.full([1, 1], alpha, ACC) + update).to(residual.dtype.element_ty)


@triton.jit
def _parameter(p, cols, absent: tl.constexpr, BM: tl.constexpr, ACC: tl.constexpr, D: tl.constexpr):
    """Weight's or bias's elements, repeated for each row, or the number `absent` for a parameter that is None.

    Loaded in the tile's own shape, the parameter gets the tile's layout, whatever its dtype: else it would pass through
    shared memory on its way to the other tensors.
    """
    if p is None:
        row = tl.full([BM, cols.shape[0]], absent, ACC)
    else:
        at = tl.broadcast_to(cols[None, :], [BM, cols.shape[0]])
        row = tl.load(p + at, at < D, other=0, eviction_policy="evict_last").to(ACC)
    return row


@triton.jit(do_not_specialize=["M", "drop_below"])
def forward(
    x, residual, weight, bias, seed, y, s, mean, rstd, x_stride, residual_stride, M,
    eps: tl.float64, alpha: tl.float64, drop_below, keep_scale: tl.float64,
    RMS: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Whole rows in registers (BN >= D): y = (s - mean) * rstd * weight + bias, s = alpha * residual + dropout(x).

    Bytes an element: 3e (read x and residual, write y), 4e where s is kept; mean and rstd add 8 a row.
    """
    ACC: tl.constexpr = tl.float64 if residual.dtype.element_ty == tl.float64 else tl.float32
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM).to(tl.int64)
    cols = tl.arange(0, BN)
    mask = (rows < M)[:, None] & (cols < D)[None, :]
    total = _sum_tile(
        x, residual, seed, x_stride, residual_stride, rows, cols, mask, alpha, drop_below, keep_scale, ACC, D,
        "evict_first",
    )  # fmt: skip
    if s is not None:
        tl.store(_tile(s, None, rows, cols, D), total, mask)
    centred = total.to(ACC)
    if not RMS:
        # The first mean is off by the rounding of a long sum. The mean of what remains corrects it, so that a constant
        # row has no variance at all. Masked again: padding would add mean**2 to the variance.
        row_mean = tl.sum(centred, 1) / D
        row_mean += tl.sum(tl.where(mask, centred - row_mean[:, None], 0), 1) / D
        centred = tl.where(mask, centred - row_mean[:, None], 0)
        if mean is not None:
            tl.store(mean + rows, row_mean, rows < M)
    row_rstd = tl.rsqrt(tl.sum(centred * centred, 1) / D + tl.full([1], eps, ACC))
    if rstd is not None:
        tl.store(rstd + rows, row_rstd, rows < M)
    out = centred * row_rstd[:, None] * _parameter(weight, cols, 1, BM, ACC, D) + _parameter(bias, cols, 0, BM, ACC, D)
    tl.store(_tile(y, None, rows, cols, D), out.to(y.dtype.element_ty), mask)


@triton.jit(do_not_specialize=["M", "drop_below"])
def forward_wide(
    x, residual, weight, bias, seed, y, s, mean, rstd, x_stride, residual_stride, M,
    eps: tl.float64, alpha: tl.float64, drop_below, keep_scale: tl.float64,
    RMS: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """`forward` for rows that no register file holds: chunks of BN columns, twice.

    The first pass merges each chunk's own two-pass mean and sum of squares into the row's (Chan et al. 1983); the
    second reads the row again, from the L2 cache where it fits. Bytes an element: those of `forward`, and 2e of L2.
    """
    ACC: tl.constexpr = tl.float64 if residual.dtype.element_ty == tl.float64 else tl.float32
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM).to(tl.int64)
    row_mean = tl.zeros([BM], ACC)
    squares = tl.zeros([BM], ACC)
    for start in range(0, D, BN):
        cols = start + tl.arange(0, BN)
        mask = (rows < M)[:, None] & (cols < D)[None, :]
        total = _sum_tile(
            x, residual, seed, x_stride, residual_stride, rows, cols, mask, alpha, drop_below, keep_scale, ACC, D,
            "evict_last",
        )  # fmt: skip
        if s is not None:
            tl.store(_tile(s, None, rows, cols, D), total, mask)
        chunk = total.to(ACC)
        if not RMS:
            count = tl.minimum(D - start, BN).to(ACC)
            chunk_mean = tl.sum(chunk, 1) / count
            chunk_mean += tl.sum(tl.where(mask, chunk - chunk_mean[:, None], 0), 1) / count
            chunk = tl.where(mask, chunk - chunk_mean[:, None], 0)
            delta = chunk_mean - row_mean
            row_mean += delta * (count / (start + count))
            squares += delta * delta * (count * (start / (start + count)))
        squares += tl.sum(chunk * chunk, 1)
    row_rstd = tl.rsqrt(squares / D + tl.full([1], eps, ACC))
    if mean is not None:
        tl.store(mean + rows, row_mean, rows < M)
    if rstd is not None:
        tl.store(rstd + rows, row_rstd, rows < M)
    for start in range(0, D, BN):
        cols = start + tl.arange(0, BN)
        mask = (rows < M)[:, None] & (cols < D)[None, :]
        total = _sum_tile(
            x, residual, seed, x_stride, residual_stride, rows, cols, mask, alpha, drop_below, keep_scale, ACC, D,
            "evict_first",
        )  # fmt: skip
        xhat = (total.to(ACC) - row_mean[:, None]) * row_rstd[:, None]
        out = xhat * _parameter(weight, cols, 1, BM, ACC, D) + _parameter(bias, cols, 0, BM, ACC, D)
        tl.store(_tile(y, None, rows, cols, D), out.to(y.dtype.element_ty), mask)


@triton.jit
def _gradient_tile(
    dy, s, mean, rstd, dy_stride, rows, cols, mask, M, ACC: tl.constexpr, RMS: tl.constexpr, D: tl.constexpr,
    EVICT: tl.constexpr,
):  # fmt: skip
    """One tile of dy and of xhat, and rstd of its rows; dy is zero where masked."""
    grad = tl.load(_tile(dy, dy_stride, rows, cols, D), mask, other=0, eviction_policy=EVICT).to(ACC)
    xhat = tl.load(_tile(s, None, rows, cols, D), mask, other=0, eviction_policy=EVICT).to(ACC)
    row_rstd = tl.load(rstd + rows, rows < M, other=0)[:, None]
    if not RMS:
        xhat -= tl.load(mean + rows, rows < M, other=0)[:, None]
    return grad, xhat * row_rstd, row_rstd


@triton.jit
def _store_dx(
    dsum, ds, seed, dx, dresidual, ds_stride, rows, cols, mask, alpha, drop_below, keep_scale,
    ACC: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Add the gradient that reaches s directly, then write the gradients of x and of residual."""
    if ds is not None:
        dsum += tl.load(_tile(ds, ds_stride, rows, cols, D), mask, other=0, eviction_policy="evict_first").to(ACC)
    if dresidual is not None:
        scaled = dsum * tl.full([1, 1], alpha, ACC)
        tl.store(_tile(dresidual, None, rows, cols, D), scaled.to(dresidual.dtype.element_ty), mask)
    if dx is not None:
        if seed is not None:
            dsum = tl.where(_kept(seed, rows, cols, drop_below), dsum * tl.full([1, 1], keep_scale, ACC), 0)
        tl.store(_tile(dx, None, rows, cols, D), dsum.to(dx.dtype.element_ty), mask)


@triton.jit(do_not_specialize=["M", "drop_below"])
def backward(
    dy, ds, s, weight, mean, rstd, seed, dx, dresidual, dweight, dbias, dy_stride, ds_stride, M,
    alpha: tl.float64, drop_below, keep_scale: tl.float64,
    RMS: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Whole rows in registers: dx = (wdy - (xhat * c1 + c2)) * rstd + ds; c1 = mean(xhat * wdy), c2 = mean(wdy).

    Program p takes tiles p, p + G, ... and writes its sums of dy * xhat and of dy to row p of dweight and dbias (G, D):
    always in the same order, without atomics. Bytes an element: 3e (read dy and s, write dx), 4e with ds.
    """
    ACC: tl.constexpr = tl.float64 if s.dtype.element_ty == tl.float64 else tl.float32
    cols = tl.arange(0, BN)
    gamma = _parameter(weight, cols, 1, BM, ACC, D)
    dweight_sum = tl.zeros([BM, BN], ACC)
    dbias_sum = tl.zeros([BM, BN], ACC)
    first = tl.program_id(0).to(tl.int64) * BM
    for start in tl.range(first, M, tl.num_programs(0) * BM, num_stages=STAGES):
        rows = start + tl.arange(0, BM).to(tl.int64)
        mask = (rows < M)[:, None] & (cols < D)[None, :]
        grad, xhat, row_rstd = _gradient_tile(
            dy, s, mean, rstd, dy_stride, rows, cols, mask, M, ACC, RMS, D, "evict_first"
        )
        if dweight is not None:
            dweight_sum += grad * xhat
        if dbias is not None:
            dbias_sum += grad
        wdy = grad * gamma
        if dx is not None or dresidual is not None:
            dsum = wdy - xhat * (tl.sum(xhat * wdy, 1) / D)[:, None]
            if not RMS:
                dsum -= (tl.sum(wdy, 1) / D)[:, None]
            dsum *= row_rstd
            _store_dx(dsum, ds, seed, dx, dresidual, ds_stride, rows, cols, mask, alpha, drop_below, keep_scale, ACC, D)
    if dweight is not None:
        tl.store(dweight + tl.program_id(0) * D + cols, tl.sum(dweight_sum, 0), cols < D)
    if dbias is not None:
        tl.store(dbias + tl.program_id(0) * D + cols, tl.sum(dbias_sum, 0), cols < D)


@triton.jit(do_not_specialize=["M", "drop_below"])
def backward_wide(
    dy, ds, s, weight, mean, rstd, seed, dx, dresidual, dweight, dbias, dy_stride, ds_stride, M,
    alpha: tl.float64, drop_below, keep_scale: tl.float64,
    RMS: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """`backward` for rows that no register file holds: BM rows at a time, in chunks of BN columns, twice.

    The first pass finds c1 and c2; the second reads dy and s again, from the L2 cache where they fit, writes dx and
    adds the tile's sums to the program's own row of dweight and dbias. Bytes an element: those of `backward`, and
    2e + 16/BM of L2.
    """
    ACC: tl.constexpr = tl.float64 if s.dtype.element_ty == tl.float64 else tl.float32
    first = tl.program_id(0).to(tl.int64) * BM
    for tile in range(first, M, tl.num_programs(0) * BM):
        rows = tile + tl.arange(0, BM).to(tl.int64)
        c1 = tl.zeros([BM, BN], ACC)
        c2 = tl.zeros([BM, BN], ACC)
        for start in tl.range(0, D, BN, num_stages=STAGES):
            cols = start + tl.arange(0, BN)
            mask = (rows < M)[:, None] & (cols < D)[None, :]
            grad, xhat, _ = _gradient_tile(dy, s, mean, rstd, dy_stride, rows, cols, mask, M, ACC, RMS, D, "evict_last")
            wdy = grad * _parameter(weight, cols, 1, BM, ACC, D)
            c1 += xhat * wdy
            c2 += wdy
        row_c1 = (tl.sum(c1, 1) / D)[:, None]
        row_c2 = (tl.sum(c2, 1) / D)[:, None]
        for start in tl.range(0, D, BN, num_stages=STAGES):
            cols = start + tl.arange(0, BN)
            mask = (rows < M)[:, None] & (cols < D)[None, :]
            grad, xhat, row_rstd = _gradient_tile(
                dy, s, mean, rstd, dy_stride, rows, cols, mask, M, ACC, RMS, D, "evict_first"
            )
            own = tl.program_id(0) * D + cols
            so_far = cols < tl.minimum(tile - first, 1) * D  # before the first tile nothing is there to add to
            if dweight is not None:
                before = tl.load(dweight + own, so_far, other=0, eviction_policy="evict_last")
                tl.store(dweight + own, before + tl.sum(grad * xhat, 0), cols < D)
            if dbias is not None:
                before = tl.load(dbias + own, so_far, other=0, eviction_policy="evict_last")
                tl.store(dbias + own, before + tl.sum(grad, 0), cols < D)
            wdy = grad * _parameter(weight, cols, 1, BM, ACC, D)
            dsum = wdy - xhat * row_c1
            if not RMS:
                dsum -= row_c2
            _store_dx(
                dsum * row_rstd,
                ds,
                seed,
                dx,
                dresidual,
                ds_stride,
                rows,
                cols,
                mask,
                alpha,
                drop_below,
                keep_scale,
                ACC,
                D,
            )
        # The next tile reads the sums that this one wrote, perhaps in another thread.
        tl.debug_barrier()


@triton.jit(do_not_specialize=["G"])
def finalize(dweight, dbias, weight_grad, bias_grad, G, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Sum the G programs' rows of dweight and dbias (G, D) and cast: one program a chunk of BN columns.

    Bytes: 8 G D read (4 a number), 2 e D written: part of the gradients' own, not counted an element.
    """
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    if weight_grad is not None:
        total = tl.zeros([BM, BN], dweight.dtype.element_ty)
        for start in range(0, G, BM):
            rows = start + tl.arange(0, BM)
            mask = (rows < G)[:, None] & (cols < D)[None, :]
            total += tl.load(dweight + rows[:, None] * D + cols[None, :], mask, other=0)
        tl.store(weight_grad + cols, tl.sum(total, 0).to(weight_grad.dtype.element_ty), cols < D)
    if bias_grad is not None:
        total = tl.zeros([BM, BN], dbias.dtype.element_ty)
        for start in range(0, G, BM):
            rows = start + tl.arange(0, BM)
            mask = (rows < G)[:, None] & (cols < D)[None, :]
            total += tl.load(dbias + rows[:, None] * D + cols[None, :], mask, other=0)
        tl.store(bias_grad + cols, tl.sum(total, 0).to(bias_grad.dtype.element_ty), cols < D)
