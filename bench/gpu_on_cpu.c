/* The kernels of examples/kernels as one would write them for a CPU: plain loops, OpenMP over the outer one.
   Layouts are those of the loop programs. Results agree but for the order of a few additions. */
#include <stdlib.h>

static inline long least(long a, long b) { return a < b ? a : b; }
static inline long most(long a, long b) { return a > b ? a : b; }
static inline int larger(int a, int b) { return a > b ? a : b; }
static inline int smaller(int a, int b) { return a < b ? a : b; }

void backprop(long n, float eta, float momentum, const float *restrict x, const float *restrict delta,
              float *restrict w, float *restrict change, float *restrict partial)
{
#pragma omp parallel for
    for (long b = 0; b < (n + 15) / 16; b++) {
        float sum[16] = {0};
        for (long i = b * 16; i < least(n, b * 16 + 16); i++)
            for (int j = 0; j < 16; j++)
                sum[j] += w[i * 16 + j] * x[i];
        for (int j = 0; j < 16; j++)
            partial[b * 16 + j] = sum[j];
    }
#pragma omp parallel for
    for (long i = 0; i < n; i++)
        for (int j = 0; j < 16; j++) {
            float step = eta * delta[j] * x[i] + momentum * change[i * 16 + j];
            w[i * 16 + j] += step;
            change[i * 16 + j] = step;
        }
}

static inline float heated(float here, float north, float south, float west, float east, float power, float step,
                           float rx, float ry, float rz)
{
    return here + step * (power + (south + north - 2.0f * here) * ry + (east + west - 2.0f * here) * rx
                          + (80.0f - here) * rz);
}

static void heat(long h, long w, float step, float rx, float ry, float rz, const float *restrict T,
                 const float *restrict P, float *restrict R)
{
#pragma omp parallel for
    for (long y = 0; y < h; y++) {
        const float *t = T + y * w, *p = P + y * w, *n = y == 0 ? t : t - w, *s = y == h - 1 ? t : t + w;
        float *r = R + y * w;
        r[0] = heated(t[0], n[0], s[0], t[0], t[w > 1], p[0], step, rx, ry, rz);
        for (long x = 1; x < w - 1; x++)
            r[x] = heated(t[x], n[x], s[x], t[x - 1], t[x + 1], p[x], step, rx, ry, rz);
        if (w > 1)
            r[w - 1] = heated(t[w - 1], n[w - 1], s[w - 1], t[w - 2], t[w - 1], p[w - 1], step, rx, ry, rz);
    }
}

void hotspot(long h, long w, float step, float rx, float ry, float rz, const float *T, const float *P, float *R,
             float *between)
{
    heat(h, w, step, rx, ry, rz, T, P, between);
    heat(h, w, step, rx, ry, rz, between, P, R);
}

void lud(long tiles, float *A)
{
    long n = tiles * 16;
    for (long d = 0; d < n; d += 16) {
        for (long i = d; i < d + 16; i++) {
            for (long j = i; j < d + 16; j++)
                for (long k = d; k < i; k++)
                    A[i * n + j] -= A[i * n + k] * A[k * n + j];
            for (long j = i + 1; j < d + 16; j++) {
                for (long k = d; k < i; k++)
                    A[j * n + i] -= A[j * n + k] * A[k * n + i];
                A[j * n + i] /= A[i * n + i];
            }
        }
#pragma omp parallel for
        for (long b = d + 16; b < n; b += 16) {
            for (long i = d; i < d + 16; i++)
                for (long k = d; k < i; k++)
                    for (long j = b; j < b + 16; j++)
                        A[i * n + j] -= A[i * n + k] * A[k * n + j];
            for (long i = b; i < b + 16; i++)
                for (long j = d; j < d + 16; j++) {
                    float sum = A[i * n + j];
                    for (long k = d; k < j; k++)
                        sum -= A[i * n + k] * A[k * n + j];
                    A[i * n + j] = sum / A[j * n + j];
                }
        }
#pragma omp parallel for
        for (long i = d + 16; i < n; i++)
            for (long b = d + 16; b < n; b += 16) {
                float sum[16] = {0};
                for (long k = d; k < d + 16; k++)
                    for (int j = 0; j < 16; j++)
                        sum[j] += A[i * n + k] * A[k * n + b + j];
                for (int j = 0; j < 16; j++)
                    A[i * n + b + j] -= sum[j];
            }
    }
}

void needle(long tiles, int penalty, const int *restrict ref, int *restrict F)
{
    long n = tiles * 16 + 1;
    for (long d = 0; d < 2 * tiles - 1; d++) {
#pragma omp parallel for
        for (long b = most(0, d - tiles + 1); b < least(tiles, d + 1); b++)
            for (long i = b * 16 + 1; i < b * 16 + 17; i++)
                for (long j = (d - b) * 16 + 1; j < (d - b) * 16 + 17; j++)
                    F[i * n + j] = larger(F[(i - 1) * n + j - 1] + ref[i * n + j],
                                          larger(F[i * n + j - 1] - penalty, F[(i - 1) * n + j] - penalty));
    }
}

void pathfinder(long rows, long n, const int *cost, int *best, int *one, int *other)
{
    for (long x = 0; x < n; x++)
        one[x] = best[x];
    for (long r = 0; r < rows * 16; r++) {
        const int *now = cost + (r + 1) * n;
        int *before = r % 2 ? other : one, *after = r % 2 ? one : other;
        if (r % 16 == 15)
            after = best + (r / 16 + 1) * n;
        if (r % 16 == 0)
            before = best + r / 16 * n;
        after[0] = now[0] + smaller(before[0], before[n > 1]);
#pragma omp parallel for
        for (long x = 1; x < n - 1; x++)
            after[x] = now[x] + smaller(before[x - 1], smaller(before[x], before[x + 1]));
        if (n > 1)
            after[n - 1] = now[n - 1] + smaller(before[n - 2], before[n - 1]);
    }
}

static inline float diffusion(float here, float north, float south, float west, float east, float q0)
{
    float g2 = (north * north + south * south + west * west + east * east) / (here * here);
    float l = (north + south + west + east) / here;
    float top = 0.5f * g2 - 0.0625f * (l * l), den = 1.0f + 0.25f * l;
    float q = top / (den * den);
    float k = 1.0f / (1.0f + (q - q0) / (q0 * (1.0f + q0)));
    return k < 0.0f ? 0.0f : k > 1.0f ? 1.0f : k;
}

void srad(long h, long w, float q0, float rate, const float *restrict I, float *restrict J, float *restrict c,
          float *restrict dN, float *restrict dS, float *restrict dW, float *restrict dE)
{
#pragma omp parallel for
    for (long y = 0; y < h; y++) {
        const float *row = I + y * w, *above = y == 0 ? row : row - w, *below = y == h - 1 ? row : row + w;
        float *n = dN + y * w, *s = dS + y * w, *e = dE + y * w, *v = dW + y * w;
        for (long x = 0; x < w; x++) {
            n[x] = above[x] - row[x];
            s[x] = below[x] - row[x];
        }
        v[0] = 0.0f;
        for (long x = 1; x < w; x++)
            v[x] = row[x - 1] - row[x];
        for (long x = 0; x < w - 1; x++)
            e[x] = row[x + 1] - row[x];
        e[w - 1] = 0.0f;
        for (long x = 0; x < w; x++)
            c[y * w + x] = diffusion(row[x], n[x], s[x], v[x], e[x], q0);
    }
#pragma omp parallel for
    for (long y = 0; y < h; y++) {
        const float *row = c + y * w, *below = y == h - 1 ? row : row + w;
        const float *n = dN + y * w, *s = dS + y * w, *e = dE + y * w, *v = dW + y * w, *i = I + y * w;
        float *j = J + y * w;
        for (long x = 0; x < w - 1; x++)
            j[x] = i[x] + 0.25f * rate * (row[x] * n[x] + below[x] * s[x] + row[x] * v[x] + row[x + 1] * e[x]);
        long x = w - 1;
        j[x] = i[x] + 0.25f * rate * (row[x] * n[x] + below[x] * s[x] + row[x] * v[x] + row[x] * e[x]);
    }
}
